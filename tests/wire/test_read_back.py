"""Values that a column of several types holds as another type, read back to what they were."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import joined_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as, read_back

_MOMENTS = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(),
    "date": st.dates(min_value=date(1, 1, 1)),
    "timestamp": _MOMENTS.map(lambda one: one.replace(tzinfo=UTC)),
    "timestamp_ntz": _MOMENTS,
    "decimal(10,2)": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda one: Decimal(one).scaleb(-2)),
    "decimal(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda one: Decimal(f"{one}e-10")),
    "binary": st.binary(),
}


@given(st.data(), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(VALUES)))
def test_values_in_the_type_of_all_are_read_back_as_they_were(data: st.DataObject, kind: str, other: str) -> None:
    drawn = data.draw(st.lists(st.none() | VALUES[kind], max_size=5))
    values = pa.array(drawn, arrow_type(kind))
    held = held_as(values, arrow_type(joined_type(kind, other)))
    back, bad = read_back(held, kind)
    assert back.equals(values)
    assert bad is None or not bad.any()


@pytest.mark.parametrize(
    ("held", "kind", "expected"),
    [
        (pa.array(["7", "x", None]), "int", [7, None, None]),
        (pa.array([1, 1 << 40]), "int", [1, None]),
        (pa.array(["2026-01-05", "2026-02-30"]), "date", [date(2026, 1, 5), None]),
        (pa.array([b"caf\xc3\xa9", b"\xff"]), "string", ["café", None]),
        (pa.array([datetime(2026, 1, 5)], pa.timestamp("us")), "int", [None]),
    ],
)
def test_a_value_of_another_type_is_named_and_stops_no_other(held: pa.Array, kind: str, expected: list[Any]) -> None:
    back, bad = read_back(held, kind)
    assert back.to_pylist() == expected
    assert bad is not None
    assert bad.tolist() == [
        one is None and was is not None for one, was in zip(expected, held.to_pylist(), strict=True)
    ]
