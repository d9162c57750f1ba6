"""Moves of rows by changes that lack columns: how many there are, which row each belongs to, which keys they connect."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.stages.moved_rows import connected, count_partial_moves
from tests.tiers import examples

COLUMNS = (Column("a.b", "int", True), Column("day", "date", True), Column("note", "string", False))
KEYS = [column.name for column in COLUMNS if column.is_key]
IMAGE = pa.struct([("note", pa.string()), ("a.b", pa.int32()), ("day", pa.date32())])
SCHEMA = pa.schema([("op", pa.string()), ("before", IMAGE), ("after", IMAGE), ("absent", pa.list_(pa.string()))])


def change(op: str, before: tuple[Any, Any] | None, after: tuple[Any, Any] | None, *absent: str) -> dict[str, Any]:
    images = [None if one is None else {"a.b": one[0], "day": one[1], "note": None} for one in (before, after)]
    return {"op": op, "before": images[0], "after": images[1], "absent": absent}


PARTIAL: dict[str, tuple[dict[str, Any], int]] = {
    "a move that lacks a column": (change("update", (1, 1), (2, 1), "after.note"), 1),
    "by another part of the key": (change("update", (1, 1), (1, 2), "after.note"), 1),
    "of which the rest of the key was not sent": (change("update", (1, 1), (None, 2), "after.note", "after.a.b"), 1),
    "to a key that does not fit": (change("update", (1, 1), (1, None), "after.note"), 1),
    "between keys that do not fit": (change("update", (1, None), (1, None), "after.note"), 1),
    "a move that sends all": (change("update", (1, 1), (2, 1)), 0),
    "a move whose old image alone lacks columns": (change("update", (1, 1), (2, 1), "before.note"), 0),
    "a row that stays": (change("update", (1, 1), (1, 1), "after.note"), 0),
    "whose key was not sent again": (change("update", (1, 1), (None, None), "after.a.b", "after.day", "after.note"), 0),
    "whose old key was not sent": (change("update", (None, 1), (2, 1), "before.a.b", "after.note"), 0),
    "without its old image": (change("update", None, (2, 1), "after.note"), 0),
    "an insert": (change("insert", None, (2, 1), "after.note"), 0),
    "a delete": (change("delete", (2, 1), None), 0),
}


@pytest.mark.parametrize(("row", "expected"), PARTIAL.values(), ids=PARTIAL)
def test_moves_that_lack_columns_are_counted(row: dict[str, Any], expected: int) -> None:
    assert count_partial_moves(pa.RecordBatch.from_pylist([row], SCHEMA), KEYS) == expected


def test_moves_are_counted_in_a_slice_of_changes() -> None:
    rows = [row for row, _ in PARTIAL.values()] * 3
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    for start in range(0, len(rows), 5):
        counts = [expected for _, expected in [*PARTIAL.values()] * 3][start : start + 17]
        assert count_partial_moves(batch.slice(start, 17), KEYS) == sum(counts)
    assert count_partial_moves(batch.slice(0, 0), KEYS) == 0


@examples(200)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=40))
def test_what_is_connected_has_one_number(pairs: list[tuple[int, int]]) -> None:
    groups = {one: {one} for pair in pairs for one in pair}
    for one, other in pairs:
        joined = groups[one] | groups[other]
        groups |= dict.fromkeys(joined, joined)
    table = pa.table({"one": [a for a, _ in pairs], "other": [b for _, b in pairs]})
    rows = connected(table).to_pylist()
    numbers = {row["member"]: row["linked"] for row in rows}
    assert len(numbers) == len(rows)
    assert numbers.keys() == groups.keys()
    for one in groups:
        assert {other for other in groups if numbers[other] == numbers[one]} == groups[one]


def test_long_rows_of_moves_are_one() -> None:
    count = 50_000
    order = list(range(count))
    random.Random(1).shuffle(order)
    found = connected(pa.table({"one": order[:-1], "other": order[1:]}))
    assert set(found["linked"].to_pylist()) == {0}
