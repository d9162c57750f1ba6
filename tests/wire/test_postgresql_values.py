"""Bytes, instants and booleans as PostgreSQL and DRS write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.postgresql_types import postgresql_type
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.postgresql_values import hexadecimal_bytes, postgresql_reading


def test_digits_are_bytes_with_or_without_a_prefix_beside_values_that_are_none() -> None:
    texts = [b"", b"\\x", b"\\x00fF", b"abCD", None, b"abc", b"\\xzz", b"\\x0", b"00"]
    found, bad = hexadecimal_bytes(pa.array(texts, pa.binary()))
    assert found.to_pylist() == [b"", b"", b"\0\xff", b"\xab\xcd", None, None, None, None, b"\0"]
    assert bad is not None
    assert [text for text, wrong in zip(texts, bad, strict=True) if wrong] == [b"abc", b"\\xzz", b"\\x0"]


def test_a_slice_and_nothing_are_read_alike() -> None:
    whole = pa.array([b"zz", b"00ff", None, b"01"], pa.binary())
    assert hexadecimal_bytes(whole.slice(1))[0].to_pylist() == [b"\0\xff", None, b"\x01"]
    assert hexadecimal_bytes(whole.slice(1))[1] is None
    assert hexadecimal_bytes(pa.array([], pa.binary()))[0].to_pylist() == []


_PIECES = st.sampled_from(["\\x", "\\", "x", "0f", "A", "9", "g", "\0", "é"])


@given(st.lists(st.none() | st.lists(_PIECES, max_size=5).map("".join)), st.integers(0, 3))
def test_digits_are_bytes_as_a_regular_expression_says(texts: list[str | None], start: int) -> None:
    whole = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    found, bad = hexadecimal_bytes(whole.slice(start))
    for number, text in enumerate(texts[start:]):
        digits = None if text is None else re.fullmatch(r"(?:\\x)?((?:[0-9A-Fa-f]{2})*)", text)
        assert found[number].as_py() == (None if digits is None else bytes.fromhex(digits[1]))
        assert (bad is not None and bad[number]) == (text is not None and digits is None)


def read(kind: str, *texts: str | None) -> tuple[list[object], list[bool]]:
    values = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    bucket = Bucket(kind, number_field=False, bits=False, of_bytes=False, clocks=False)
    found, bad = postgresql_reading("+08:00", as_digits=True)(values, bucket, None, None)  # type: ignore[arg-type]
    return found.to_pylist(), [False] * len(texts) if bad is None else bad.tolist()


def test_instants_have_offsets_of_hours_minutes_and_seconds() -> None:
    found, bad = read(
        "timestamp", "2010-01-01 14:30:00.125+08", "2010-01-01 14:30:00-03:30", "1900-01-01 00:05:43+08:05:43",
        "2010-01-01 14:30:00", "infinity", "0044-03-15 00:00:00+00 BC", "2010-02-30 00:00:00+00", None,
    )  # fmt: skip
    assert found[:4] == [
        datetime(2010, 1, 1, 6, 30, 0, 125000, tzinfo=UTC), datetime(2010, 1, 1, 18, tzinfo=UTC),
        datetime(1899, 12, 31, 16, tzinfo=UTC), datetime(2010, 1, 1, 6, 30, tzinfo=UTC),
    ]  # fmt: skip
    assert found[4:] == [None] * 4
    assert bad == [False] * 4 + [True] * 3 + [False]


_OFFSETS = st.sampled_from(
    ["+08", "-03", "+23", "+24", "-00", "", "Z", "+05:30", "+08:05:43", " +00", "+0a", "+é", "é"]
)
_CLOCKS = st.sampled_from(
    [
        "2010-01-01 14:30:00", "2010-01-01T14:30:00", "2010-01-01 14:30:00.125", "2010-01-01 14:30:00.1234567", "2010-01-01",
        "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0000-01-01 00:00:00", "2010-01-01 24:00:00", "2010-01-01 14:30",
        "10000-01-01 00:00:00", "2010-01-01 14:30:00Z", "2010-01-01 14:30:00 ", "2010-01-01  4:30:00", "infinity", "",
    ]
)  # fmt: skip
_IMPOSSIBLE = "2010-02-30 00:00:00+00"
"""An instant of the usual form that is none: beside it, all texts are read in the slow way."""


@given(st.lists(st.none() | st.tuples(_CLOCKS, _OFFSETS).map("".join), max_size=6))
def test_an_instant_is_alike_in_the_fast_and_in_the_slow_way(texts: list[str | None]) -> None:
    found, bad = read("timestamp", *texts)
    assert ([*found, None], [*bad, True]) == read("timestamp", *texts, _IMPOSSIBLE)


def test_booleans_are_words_or_letters() -> None:
    assert read("boolean", "true", "f", "t", "false", "yes", None) == (
        [True, False, True, False, None, None], [False, False, False, False, True, False],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("original", "lake"),
    [
        ("integer", "int"), ("INT4", "int"), ("double precision", "double"), ("real", "float"), ("boolean", "boolean"),
        ("timestamp(3) without time zone", "timestamp_ntz"), ("timestamp with time zone", "timestamp"), ("bytea", "binary"),
        ("numeric(10,2)", "decimal(10,2)"), ("numeric(10)", "decimal(10,0)"), ("numeric", None), ("numeric(39,2)", None),
        ("numeric(5,-2)", None), ("numeric(2,5)", None), ("character varying(20)", None), ("integer[]", None), ("mood", None),
        ("", None), ("numeric(1", None), ("timestamp  with   time zone", "timestamp"),
    ],
)  # fmt: skip
def test_types_are_those_of_the_lake(original: str, lake: str | None) -> None:
    assert postgresql_type(original) == lake
