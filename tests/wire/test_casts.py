"""Values at and beyond the borders of every type: exact, or null and named, whatever stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import mysql_type
from dts_assets.wire.columns.casts import parse, two_complement
from tests.tiers import examples
from tests.wire import dts_oracle as oracle

UNFIT = object()


def _outcomes(texts: Sequence[str | bytes | None], kind: str, zone: str | None = None) -> list[tuple[str, bool]]:
    """Each value, written out, and whether it was named as one that does not fit. The array is a slice."""
    values = pa.array([b"before", *(one.encode() if isinstance(one, str) else one for one in texts)], pa.binary())
    parsed, bad = parse(values.slice(1), kind, zone=zone)
    parsed.validate(full=True)
    named = [False] * len(texts) if bad is None else bad.tolist()
    return [(repr(value), name) for value, name in zip(parsed.to_pylist(), named, strict=True)]


def _cases(kind: str, *cases: tuple[str, Any]) -> list[tuple[str, str, Any]]:
    return [(kind, text, expected) for text, expected in cases]


_NINES, _WRAPS = "9" * 38, 2**128
BORDERS: list[tuple[str, str, Any]] = [
    *_cases(
        "decimal(38,0)", (str(_WRAPS + 1), UNFIT), (_NINES, Decimal(_NINES)), ("-" + _NINES, Decimal("-" + _NINES)),
        ("9" * 39, UNFIT), ("1" + "0" * 38, UNFIT), (str(_WRAPS), UNFIT), (str(-_WRAPS - 1), UNFIT), (str(2**256 + 7), UNFIT),
        ("9" * 65, UNFIT), ("0" * 50 + "7", 7), ("0" * 50, 0), ("1e5", 100000), ("1e37", 10**37), ("1e38", UNFIT),
        ("1e-1", UNFIT), ("120e-1", 12), ("2e-100", UNFIT), ("0e99", 0), ("0e-99", 0), ("." + "1" * 39, UNFIT),
        ("7." + "0" * 60, 7), ("1e99999999999999999999", UNFIT), ("1e-99999999999999999999", UNFIT), ("-0", 0), ("+5", 5),
    ),
    *_cases(
        "decimal(38,10)", (f"{_WRAPS}.5", UNFIT), ("3402823669209384634633746074317682114.57", UNFIT),
        ("9" * 28, Decimal("9" * 28)),
        ("9" * 29, UNFIT), ("9" * 28 + "." + "9" * 10, Decimal("9" * 28 + "." + "9" * 10)), ("0.00000000001", UNFIT),
        ("0." + "1" * 10 + "0" * 40, Decimal("0.1111111111")), ("0" * 40 + "12.5", Decimal("12.5")),
    ),
    *_cases(
        "decimal(38,38)", ("99", UNFIT), ("1", UNFIT), ("0", 0), ("0." + _NINES, Decimal("0." + _NINES)),
        ("-1e-38", Decimal("-1e-38")),
        ("1e-39", UNFIT), ("." + "0" * 38 + "1", UNFIT),
    ),
    *_cases(
        "decimal(10,2)", ("99999999.99", Decimal("99999999.99")), ("100000000", UNFIT), ("0.001", UNFIT), ("1.1e1", 11),
        (str(_WRAPS + 1), UNFIT), ("", UNFIT), ("-", UNFIT), (".", UNFIT), ("1e", UNFIT), ("e1", UNFIT), ("1_0", UNFIT),
        (" 1", UNFIT), ("NaN", UNFIT), ("Infinity", UNFIT), ("0x1F", UNFIT), ("\u0967", UNFIT), ("1\0", UNFIT),
    ),
    *_cases("decimal(1,0)", ("9", 9), ("-9", -9), ("10", UNFIT), ("00009", 9)),
    *_cases(
        "int", ("2147483647", 2**31 - 1), ("2147483648", UNFIT), ("-2147483648", -(2**31)), ("-2147483649", UNFIT), ("007", 7),
        ("0" * 30 + "5", 5), ("4294967297", UNFIT), ("18446744073709551617", UNFIT), ("0xFFFFFFFF1", UNFIT), ("1.0", UNFIT),
        ("1e3", UNFIT), ("", UNFIT), ("-", UNFIT), ("1 ", UNFIT),
    ),
    *_cases(
        "bigint", (str(2**63 - 1), 2**63 - 1), (str(2**63), UNFIT), (str(-(2**63)), -(2**63)), (str(-(2**63) - 1), UNFIT),
        (str(2**64 + 1), UNFIT), ("0" * 40 + "5", 5), ("0x10000000000000001", UNFIT),
    ),
    *_cases(
        "float", ("3.4028235e38", 3.4028234663852886e38), ("3.5e38", UNFIT), ("1e39", UNFIT), ("1e-45", 1.401298464324817e-45),
        ("1e-46", UNFIT), ("-1e-400", UNFIT), ("0e-400", 0.0), ("-0", -0.0), ("0.000", 0.0), ("inf", inf), ("nan(1)", UNFIT),
    ),
    *_cases(
        "double", ("1.7976931348623157e308", 1.7976931348623157e308), ("1.8e308", UNFIT), ("5e-324", 5e-324), ("1e-324", UNFIT),
        ("1e5000", UNFIT), ("-Infinity", -inf), ("1,5", UNFIT), ("0x1p3", UNFIT), ("", UNFIT), ("nan(char)", UNFIT),
    ),
    *_cases("boolean", ("0", False), ("1", True), ("TRUE", True), ("2", UNFIT), ("-1", UNFIT), ("01", UNFIT), ("", UNFIT)),
    *_cases(
        "date", ("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31)), ("0000-00-00", UNFIT), ("0000-12-31", UNFIT),
        ("10000-01-01", UNFIT), ("2021-00-10", UNFIT), ("2021-01-00", UNFIT),
        ("2021-02-29", UNFIT), ("2020-02-29", date(2020, 2, 29)),
        ("1900-02-29", UNFIT), ("2021-01-01 00:00:00", UNFIT), ("20210101", UNFIT), ("-2021-01-01", UNFIT), ("", UNFIT),
    ),
    *_cases(
        "timestamp_ntz", ("0001-01-01 00:00:00", datetime(1, 1, 1)), ("0000-12-31 23:59:59.999999", UNFIT),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)), ("10000-01-01 00:00:00", UNFIT),
        ("2021-05-17 07:22:42.1234567", UNFIT), ("2021-05-17 24:00:00", UNFIT), ("2016-12-31 23:59:60", UNFIT),
        ("2021-05-17 07:22:42 +00:00", UNFIT), ("2021-00-00 00:00:00", UNFIT), ("-838:59:59", UNFIT),
    ),
    *_cases(
        "timestamp", ("2021-05-17 07:22:42 +00:00", datetime(2021, 5, 17, 7, 22, 42, tzinfo=UTC)),
        ("0001-01-01 00:00:00 +08:00", UNFIT), ("9999-12-31 23:59:59 -08:00", UNFIT), ("0000-00-00 00:00:00 +00:00", UNFIT),
        ("2021-05-17 07:22:42 +14:00", datetime(2021, 5, 16, 17, 22, 42, tzinfo=UTC)), ("2021-05-17 07:22:42 +24:00", UNFIT),
        ("2021-05-17 07:22:42 +08:00 +00:00", UNFIT), ("2021-05-17 +00:00", datetime(2021, 5, 17, tzinfo=UTC)),
        (" +00:00", UNFIT),
        ("2021-05-17 07:22:42.1234567 +00:00", UNFIT), ("2021-05-17 07:22:42Z", datetime(2021, 5, 17, 7, 22, 42, tzinfo=UTC)),
    ),
]  # fmt: skip

_MATES = (b"\xff\xfe", b"junk", b"0x1F", b"1", b"2021-05-17", b"2021-05-17 07:22:42 +08:00", b"9" * 40, b"1e3", b"")


@pytest.mark.parametrize(("kind", "text", "expected"), BORDERS)
def test_a_value_is_exact_or_named_whatever_stands_beside_it(kind: str, text: str, expected: Any) -> None:
    (alone,) = _outcomes([text], kind)
    if expected is UNFIT:
        assert alone == ("None", True)
    else:
        parsed, bad = parse(pa.array([text.encode()]), kind)
        assert (parsed[0].as_py(), bad) == (expected, None)
    for mate in _MATES:
        assert _outcomes([mate, text, None], kind)[1:] == [alone, ("None", False)]


INTEGERS = [
    (original, low, high)
    for name, bits in (
        ("tinyint(4)", 8),
        ("smallint(6)", 16),
        ("mediumint(9)", 24),
        ("int(11)", 32),
        ("bigint(20)", 64),
    )
    for original, low, high in (
        (name, -(1 << bits - 1), (1 << bits - 1) - 1),
        (f"{name} unsigned", 0, (1 << bits) - 1),
        (f"{name} unsigned zerofill", 0, (1 << bits) - 1),
    )
] + [(f"bit({bits})", 0, (1 << bits) - 1) for bits in (1, 8, 63, 64)]


@pytest.mark.parametrize(("original", "low", "high"), INTEGERS)
def test_integers_of_every_width_keep_their_whole_range(original: str, low: int, high: int) -> None:
    kind = mysql_type(original)
    assert kind is not None
    texts = [str(low), str(high), str(high).zfill(60)]
    assert _outcomes(texts, kind) == [
        (repr(Decimal(number) if kind.startswith("decimal") else number), False) for number in (low, high, high)
    ]


def test_bits_of_a_negative_number_are_those_of_two_complement() -> None:
    texts = ["-1", str(-(1 << 63)), str((1 << 64) - 1), "0", None, "-x", "--1"]
    values = two_complement(pa.array([None if one is None else one.encode() for one in texts], pa.binary()))
    parsed, bad = parse(values, "decimal(20,0)")
    assert parsed.to_pylist() == [(1 << 64) - 1, 1 << 63, (1 << 64) - 1, 0, None, None, None]
    assert bad is not None
    assert bad.tolist() == [False] * 5 + [True] * 2


@pytest.mark.parametrize("precision", range(1, 66))
def test_decimals_of_every_precision_and_scale_that_a_server_has(precision: int) -> None:
    for scale in range(min(precision, 30) + 1):
        kind = mysql_type(f"decimal({precision},{scale})")
        if precision > 38:
            assert kind == "string"
            continue
        assert kind == f"decimal({precision},{scale})"
        largest = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
        beyond = "1" + "0" * (precision - scale)
        finer = "0." + "0" * scale + "1"
        texts = [largest, "-" + largest, "000" + largest, beyond, "-" + beyond, finer, str(_WRAPS + 1), f"{_WRAPS}.1"]
        fitting = [(repr(Decimal(text)), False) for text in (largest, "-" + largest, largest)]
        assert _outcomes(texts, kind) == fitting + [("None", True)] * 5


_DIGITS = st.text("0123459", max_size=45)
_EXPONENTS = st.sampled_from(["", "", "", "e0", "E+5", "e-5", "e38", "e-38", "e77", "e-400", "e4000"])
_NUMBERS = st.builds(
    lambda sign, whole, point, fraction, exponent: sign + whole + point + fraction + exponent,
    st.sampled_from(["", "-", "+"]), _DIGITS, st.sampled_from(["", "."]), _DIGITS, _EXPONENTS,
)  # fmt: skip
_MOMENTS = st.builds(
    lambda day, clock, zone: day + clock + zone,
    st.sampled_from(["2021-05-17", "0001-01-01", "9999-12-31", "0000-00-00", "2021-02-30"]),
    st.sampled_from([" 07:22:42", "T23:59:59.999999", " 07:22", " 07", "", " 24:00:00", " 07:22:42.1234567"]),
    st.sampled_from(["", " +00:00", " +00:00", "Z", " +08:00", "+0800", " -12:30", " +99:99"]),
)
_KINDS = ["int", "bigint", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "decimal(20,0)"]


@examples(500)
@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.lists(_NUMBERS, max_size=6))
def test_decimals_are_what_a_naive_reader_finds(size: tuple[int, int], texts: list[str]) -> None:
    kind, expected = f"decimal({size[0]},{size[1]})", []
    for text in texts:
        try:
            number = oracle.value(text.encode(), "", kind, "")
            expected.append((repr(number or abs(number)), False))  # zero has no sign in the lake
        except oracle.Unfit:
            expected.append(("None", True))
    assert _outcomes(texts, kind) == expected


@examples(500)
@given(
    st.sampled_from(_KINDS),
    st.lists(
        _NUMBERS | _MOMENTS | st.text(max_size=4) | st.sampled_from(["inf", "nan(1)", "0x1F", "true"]), max_size=6
    ),
    st.sampled_from([None, "+08:00", "Asia/Shanghai"]),
)
def test_values_do_not_depend_on_their_neighbours(kind: str, texts: list[str], zone: str | None) -> None:
    alone = [_outcomes([text], kind, zone)[0] for text in texts]
    assert _outcomes(texts, kind, zone) == alone
    assert all((value == "None") == named for value, named in alone)
