"""The hash of changelog rows: a sum that no split, order or widening changes, and every changed cell does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.stages.row_hash import _mixed, _values, row_hashes, signed, summed
from tests.tiers import examples, times

IMAGE = pa.struct(
    [
        ("id", pa.int32()),
        ("count", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float32()),
        ("weight", pa.float64()),
        ("day", pa.date32()),
        ("wall", pa.timestamp("us")),
        ("instant", pa.timestamp("us", tz="UTC")),
        ("paid", pa.bool_()),
        ("note", pa.string()),
        ("raw", pa.binary()),
    ]
)
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("before", IMAGE),
        ("after", IMAGE),
        ("absent", pa.list_(pa.string())),
        ("invalid", pa.map_(pa.string(), pa.string())),
        ("source_position", pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])),
        ("row_number", pa.int32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
    ]
)

Row = dict[str, Any]

texts = st.text(st.sampled_from("ab=\x1e\x1f\\0 "), max_size=4)
instants = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1))
images = st.none() | st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "price": st.none() | st.decimals(-1000, 1000, places=2),
        "ratio": st.none() | st.floats(width=32, allow_nan=False),
        "weight": st.none() | st.floats(allow_nan=False),
        "day": st.none() | st.dates(),
        "wall": st.none() | instants,
        "instant": st.none() | instants.map(lambda instant: instant.replace(tzinfo=UTC)),
        "paid": st.none() | st.booleans(),
        "note": st.none() | texts,
        "raw": st.none() | texts.map(str.encode),
    }
)
rows_of_any_kind = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["insert", "update", "delete"]),
            "before": images,
            "after": images,
            "absent": st.none() | st.lists(st.sampled_from(["after.note", "after.raw"]), unique=True),
            "invalid": st.none() | st.dictionaries(st.sampled_from(["after.day", "after.count"]), texts),
            "source_position": st.fixed_dictionaries(
                {"lineage": st.just(0), "file": st.integers(0, 9), "position": st.integers(0, 99)}
            ),
            "row_number": st.integers(0, 9),
            "window_start": st.just(datetime(2026, 1, 5, tzinfo=UTC)),
        }
    ),
    max_size=6,
)


def row_hash(rows: pa.RecordBatch) -> int:
    return summed(row_hashes(rows))


def batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    plain = [{**row, "invalid": None if row["invalid"] is None else list(row["invalid"].items())} for row in rows]
    return pa.RecordBatch.from_pylist(plain, schema)


ROW: Row = {
    "op": "update",
    "before": {"id": 1, "count": 2, "price": Decimal("1.50"), "ratio": 0.1, "weight": 0.1, "day": date(2026, 1, 5),
               "wall": datetime(2026, 1, 5, 3), "instant": datetime(2026, 1, 5, tzinfo=UTC), "paid": True,
               "note": "a", "raw": b"\xff\x00"},
    "after": {"id": 1},
    "absent": ["after.note"],
    "invalid": {"after.day": "0000-00-00"},
    "source_position": {"lineage": 0, "file": 1, "position": 4},
    "row_number": 0,
    "window_start": datetime(2026, 1, 5, tzinfo=UTC),
}  # fmt: skip


# A sum


@examples(60)
@given(rows_of_any_kind, st.integers(0, 2**32))
def test_any_split_and_order_add_up_to_the_same(rows: list[Row], seed: int) -> None:
    chance = random.Random(seed)
    whole = row_hash(batch(rows))
    shuffled = chance.sample(rows, len(rows))
    cut = chance.randint(0, len(rows))
    assert signed(row_hash(batch(shuffled[:cut])) + row_hash(batch(shuffled[cut:]))) == whole
    sliced = batch(rows)
    assert signed(row_hash(sliced.slice(0, cut)) + row_hash(sliced.slice(cut))) == whole
    assert signed(sum(row_hash(batch([row])) for row in rows)) == whole


def test_no_rows_are_zero_and_a_row_counts_as_often_as_it_stands_there() -> None:
    one = row_hash(batch([ROW]))
    assert row_hash(batch([])) == 0
    assert row_hash(batch([ROW] * 3)) == signed(3 * one) != one


@given(st.integers(-(2**70), 2**70))
def test_a_sum_stays_in_the_range_of_a_bigint(number: int) -> None:
    assert -(2**63) <= signed(number) < 2**63
    assert (signed(number) - number) % 2**64 == 0


def test_the_hash_is_the_same_in_every_process_and_version() -> None:
    assert row_hash(batch([ROW])) == STORED


STORED = -440092086943283883
"""As it stands in lakes; a change of this number makes every stored window look replaced."""


# What does not count


def retyped(rows: pa.RecordBatch, types: Mapping[str, pa.DataType], added: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The rows as they stand in a table whose columns were widened, reordered, and got others since."""
    fields = [pa.field(field.name, types.get(field.name, field.type)) for field in reversed(list(IMAGE))]
    image = pa.struct([*fields[:3], *(pa.field(name, kind) for name, kind in added.items()), *fields[3:]])
    wider = pa.schema(
        [pa.field(field.name, image if field.name in ("before", "after") else field.type) for field in SCHEMA]
    )
    order = sorted(wider.names)
    return pa.RecordBatch.from_pylist(rows.to_pylist(), wider).select(order)


WIDER = {"id": pa.int64(), "price": pa.decimal128(38, 2), "ratio": pa.float64()}
ADDED = {"added": pa.string(), "added_too": pa.int32(), "added_three": pa.timestamp("us")}


@examples(60)
@given(rows_of_any_kind)
@example([ROW])
def test_widening_column_order_and_added_columns_that_are_null_do_not_count(rows: list[Row]) -> None:
    assert row_hash(retyped(batch(rows), WIDER, ADDED)) == row_hash(batch(rows))


def test_the_unit_of_an_instant_does_not_count() -> None:
    columns = [pa.array([datetime(2026, 1, 5)], pa.timestamp(unit, tz="UTC")) for unit in ("s", "ms", "us")]
    assert len({row_hash(pa.RecordBatch.from_arrays([column], names=["at"])) for column in columns}) == 1


def test_no_list_or_map_is_an_empty_one() -> None:
    empty: Row = {**ROW, "absent": [], "invalid": {}}
    none: Row = {**ROW, "absent": None, "invalid": None}
    assert row_hash(batch([empty])) == row_hash(batch([none]))
    assert row_hash(batch([empty, ROW])) == row_hash(batch([none, ROW]))


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_a_bigint_that_became_a_decimal_does_not_count(numbers: list[int | None]) -> None:
    columns = [pa.array(numbers, kind) for kind in (pa.int64(), pa.decimal128(20, 0), pa.decimal128(38, 0))]
    assert len({row_hash(pa.RecordBatch.from_arrays([column], names=["n"])) for column in columns}) == 1


# What counts


def bytes_hash(values: list[bytes]) -> int:
    return row_hash(pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"]))


LENGTHS = (*range(41), 127, 128, 129, *range(1016, 1033), 5000)


def test_values_of_any_length_are_hashed_alike_alone_and_among_others() -> None:
    chance = random.Random(3)
    values = [chance.randbytes(length) for length in LENGTHS for _ in range(3)]
    chance.shuffle(values)
    assert bytes_hash(values) == signed(sum(bytes_hash([value]) for value in values))
    sliced = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"]).slice(50, 60)
    assert row_hash(sliced) == bytes_hash(values[50:110])


@pytest.mark.more
def test_every_byte_of_a_value_counts_and_so_does_its_length() -> None:
    chance = random.Random(4)
    for length in LENGTHS[:: times(4, 1)]:
        value = chance.randbytes(length)
        found = {bytes_hash([value]), bytes_hash([value + b"\0"])}
        places = range(length) if length <= 1100 else (0, 1, length // 2, length - 1)
        found |= {bytes_hash([value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]]) for at in places}
        assert len(found) == 2 + len(places)


@pytest.mark.more
def test_a_million_near_values_have_a_million_hashes() -> None:
    numbers = pa.array(range(1_000_000), pa.int64())
    for column in (numbers, numbers.cast(pa.string()), numbers.cast(pa.float64())):
        assert len(np.unique(_mixed(_values(column)))) == 1_000_000


CHANGES: dict[str, Row] = {
    "op": {"op": "delete"},
    "a number": {"after": {"id": 2}},
    "a number that was null": {"after": {"id": 1, "count": 0}},
    "null in place of an empty text": {"after": {"id": 1, "note": ""}},
    "null in place of empty bytes": {"after": {"id": 1, "raw": b""}},
    "a decimal": {"before": {**ROW["before"], "price": Decimal("1.51")}},
    "the last digit of a double": {"before": {**ROW["before"], "weight": 0.1 + 2**-55}},
    "a float": {"before": {**ROW["before"], "ratio": 0.100001}},
    "a day": {"before": {**ROW["before"], "day": date(2026, 1, 6)}},
    "a microsecond of a wall clock": {"before": {**ROW["before"], "wall": datetime(2026, 1, 5, 3, 0, 0, 1)}},
    "an instant": {"before": {**ROW["before"], "instant": datetime(2026, 1, 5, 0, 0, 1, tzinfo=UTC)}},
    "a truth value": {"before": {**ROW["before"], "paid": False}},
    "a letter": {"before": {**ROW["before"], "note": "A"}},
    "a byte that is no text": {"before": {**ROW["before"], "raw": b"\xfe\x00"}},
    "no image": {"before": None},
    "the images swapped": {"before": ROW["after"], "after": ROW["before"]},
    "what is absent": {"absent": ["after.raw"]},
    "what is invalid": {"invalid": {"after.day": "0000-00-01"}},
    "the column that is invalid": {"invalid": {"after.wall": "0000-00-00"}},
    "the position": {"source_position": {"lineage": 0, "file": 1, "position": 5}},
    "the row number": {"row_number": 1},
    "the window": {"window_start": datetime(2026, 1, 5, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_changed_cell_changes_the_hash(change: Row) -> None:
    assert row_hash(batch([{**ROW, **change}])) != row_hash(batch([ROW]))


@given(st.dictionaries(st.sampled_from("ab"), texts), st.dictionaries(st.sampled_from("ab"), texts))
@example({"a": "x\x1fb=y"}, {"a": "x", "b": "y"})
@example({"a": "\x1f"}, {"a": "\x1e1"})
def test_no_text_can_pass_for_the_border_between_two_columns(one: dict[str, str], other: dict[str, str]) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.int32())])
    hashes = [row_hash(pa.RecordBatch.from_pylist([{"c": 1, **row}], schema)) for row in (one, other)]
    assert (hashes[0] == hashes[1]) == (one == other)


@examples(100)
@given(rows_of_any_kind.filter(bool), rows_of_any_kind.filter(bool))
def test_rows_that_differ_anywhere_have_another_hash(one: list[Row], other: list[Row]) -> None:
    def canonical(row: Row) -> str:
        images = {name: {k: v for k, v in (row[name] or {}).items() if v is not None} for name in ("before", "after")}
        lists = {"absent": sorted(row["absent"] or []), "invalid": sorted((row["invalid"] or {}).items())}
        return repr(sorted({**row, **images, **lists}.items(), key=lambda item: item[0]))

    first, second = one[0], other[0]
    if canonical(first) != canonical(second):
        assert row_hash(batch([first])) != row_hash(batch([second]))
