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
        (pa.array([1, 70000, 20260105], pa.int32()), "date", [None, None, None]),
        (pa.array([1, 20260105, 1 << 62]), "timestamp", [None, None, None]),
        (pa.array([1, 20260105, 1 << 62]), "timestamp_ntz", [None, None, None]),
        (pa.array([date(2026, 1, 5)]), "int", [None]),
        (pa.array([datetime(2026, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")), "bigint", [None]),
        (pa.array([1, 7]), "boolean", [True, None]),
        (pa.array([1.0, 0.1]), "decimal(20,0)", [Decimal(1), None]),
        (pa.array([1.5, 1e300]), "float", [1.5, None]),
        (
            pa.array([datetime(2026, 1, 5), datetime(2026, 1, 5, 12)], pa.timestamp("us")),
            "date",
            [date(2026, 1, 5), None],
        ),
        (pa.array([Decimal("1.00"), Decimal("1.50"), Decimal("0.00")]), "bigint", [1, None, 0]),
    ],
)
def test_a_value_of_another_type_is_named_and_stops_no_other(held: pa.Array, kind: str, expected: list[Any]) -> None:
    back, bad = read_back(held, kind)
    assert back.to_pylist() == expected
    assert bad is not None
    assert bad.tolist() == [
        one is None and was is not None for one, was in zip(expected, held.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([20260105], pa.int32()), pa.date32()),
        (pa.array([20260105]), pa.timestamp("us")),
        (pa.array([20260105]), pa.timestamp("us", "UTC")),
        (pa.array([date(2026, 1, 5)]), pa.int32()),
        (pa.array([datetime(2026, 1, 5)], pa.timestamp("us")), pa.int64()),
    ],
)
def test_no_number_is_held_as_a_moment_nor_a_moment_as_a_number(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="is a"):
        held_as(values, kind)


@given(st.data(), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(VALUES)))
def test_what_a_value_is_in_another_type_depends_on_no_other_value(data: st.DataObject, kind: str, other: str) -> None:
    values = pa.array(data.draw(st.lists(st.none() | VALUES[kind], max_size=5)), arrow_type(kind))
    whole, bad = read_back(values, other)
    alone = [read_back(values.slice(place, 1), other) for place in range(len(values))]
    assert whole.equals(pa.concat_arrays([pa.array([], whole.type), *(one for one, _ in alone)]))
    mine = [False if one is None else bool(one[0]) for _, one in alone]
    assert mine == ([False] * len(values) if bad is None else bad.tolist())
