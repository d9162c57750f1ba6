"""Changelog rows: the decoder's columns with the coordinates of the entry that each row came from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_rows import ENTRY_COLUMNS, changelog_rows, position_bounds
from dts_assets.stages.entry_columns import file_numbers
from dts_assets.store.columns import changelog_columns
from dts_assets.wire.format import TableChanges

START = datetime(2026, 1, 5, tzinfo=UTC)
ORDERS = TableId("shopdb", "", "orders")
COLUMNS = (Column("id", "int", True), Column("note", "string", False))
IMAGE = pa.struct([("id", pa.int32()), ("note", pa.string())])

CHANGES = pa.schema(
    [
        ("entry_index", pa.int32()),
        ("row_number", pa.int32()),
        ("op", pa.string()),
        ("before", IMAGE),
        ("after", IMAGE),
        ("absent", pa.list_(pa.string())),
        ("invalid", pa.map_(pa.string(), pa.string())),
    ]
)
ENTRIES = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("epoch", pa.int32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("last_offset", pa.int64()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("gtid", pa.string()),
        ("transaction_id", pa.string()),
        ("file_name", pa.string()),
        ("position", pa.int64()),
        ("payload", pa.binary()),
        ("lineage", pa.int32()),
    ]
)


def entry(number: int, **facts: Any) -> dict[str, Any]:
    return {
        "kafka_partition": number % 2, "epoch": 1, "window_start": START, "last_offset": 100 + number,
        "event_time": START + timedelta(seconds=number), "gtid": f"u:{number}", "transaction_id": f"t{number}",
        "file_name": "mysql-bin.000009", "position": 4 * number, "payload": b"never in a changelog", "lineage": number % 3,
    } | facts  # fmt: skip


def change(entry_index: int, row_number: int = 0, **facts: Any) -> dict[str, Any]:
    return {
        "entry_index": entry_index, "row_number": row_number, "op": "insert", "before": None,
        "after": {"id": entry_index, "note": None}, "absent": [], "invalid": [],
    } | facts  # fmt: skip


def rows_of(changes: list[dict[str, Any]], entries: list[dict[str, Any]]) -> pa.RecordBatch:
    decoded = TableChanges(ORDERS, pa.RecordBatch.from_pylist(changes, CHANGES))
    return changelog_rows(decoded, pa.RecordBatch.from_pylist(entries, ENTRIES))


def test_a_row_has_the_coordinates_of_its_entry_and_the_columns_of_its_change() -> None:
    moved = change(
        2, 5, op="update", before={"id": 1, "note": "a"}, after={"id": 2, "note": None},
        absent=["after.note"], invalid=[("before.id", "x")],
    )  # fmt: skip
    rows = rows_of([moved, change(0)], [entry(0), entry(1), entry(2)]).to_pylist()
    assert rows[0] == {
        "op": "update",
        "before": {"id": 1, "note": "a"},
        "after": {"id": 2, "note": None},
        "absent": ["after.note"],
        "invalid": [("before.id", "x")],
        "event_time": START + timedelta(seconds=2),
        "transaction_id": "u:2",
        "source_position": {"lineage": 2, "file": 9, "position": 8},
        "row_number": 5,
        "kafka_partition": 0,
        "kafka_offset": 102,
        "epoch": 1,
        "window_start": START,
    }
    assert (rows[1]["before"], rows[1]["kafka_offset"], rows[1]["event_time"]) == (None, 100, START)


def test_columns_are_those_of_the_lake_table_in_its_order() -> None:
    rows = rows_of([change(0)], [entry(0)])
    assert rows.schema.names == [name for name, _ in changelog_columns(COLUMNS)]
    types = {name: str(kind) for name, kind in zip(rows.schema.names, rows.schema.types, strict=True)}
    assert types["source_position"] == "struct<lineage: int32, file: int64, position: int64>"
    assert types["kafka_offset"] == "int64"
    assert types["event_time"] == types["window_start"] == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize(
    ("gtid", "transaction_id", "expected"),
    [("u:1", "t1", "u:1"), (None, "t1", "t1"), ("u:1", None, "u:1"), (None, None, None)],
)
def test_a_transaction_is_named_by_its_gtid_else_by_its_number(
    gtid: str | None, transaction_id: str | None, expected: str | None
) -> None:
    (row,) = rows_of([change(0)], [entry(0, gtid=gtid, transaction_id=transaction_id)]).to_pylist()
    assert row["transaction_id"] == expected


def test_an_entry_without_file_or_position_stands_at_zero() -> None:
    (row,) = rows_of([change(0)], [entry(0, file_name=None, position=None)]).to_pylist()
    assert row["source_position"] == {"lineage": 0, "file": 0, "position": 0}


def test_no_changes_are_no_rows_of_the_same_columns() -> None:
    rows = rows_of([], [entry(0)])
    assert rows.num_rows == 0
    assert rows.schema == rows_of([change(0)], [entry(0)]).schema


def test_of_entries_only_the_columns_are_needed_that_are_named() -> None:
    entries = pa.RecordBatch.from_pylist([entry(0)], ENTRIES).select([*ENTRY_COLUMNS, "lineage"])
    decoded = TableChanges(ORDERS, pa.RecordBatch.from_pylist([change(0)], CHANGES))
    assert changelog_rows(decoded, entries).num_rows == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=12))
def test_rows_stay_in_the_order_of_the_changes(places: list[tuple[int, int]]) -> None:
    rows = rows_of([change(index, number) for index, number in places], [entry(index) for index in range(4)])
    assert list(zip(rows["kafka_offset"].to_pylist(), rows["row_number"].to_pylist(), strict=True)) == [
        (100 + index, number) for index, number in places
    ]


def test_file_numbers_are_numbers_and_zero_where_there_is_none() -> None:
    names = ["mysql-bin.000009", None, "mysql-bin.000010", "", "binlog.1000000", "mysql-bin.000009"]
    assert file_numbers(pa.array(names, pa.string())).to_pylist() == [9, 0, 10, 0, 1_000_000, 9]
    assert file_numbers(pa.array([], pa.string())).to_pylist() == []


@given(st.lists(st.tuples(st.integers(0, 1_000_001), st.integers(0, 2**40)), min_size=1, max_size=12))
def test_bounds_are_the_least_and_the_greatest_position_compared_as_numbers(places: list[tuple[int, int]]) -> None:
    entries = [entry(n, file_name=f"binlog.{file:06d}", position=at) for n, (file, at) in enumerate(places)]
    rows = rows_of([change(number) for number in range(len(places))], entries)
    expected = [SourcePosition(n % 3, file, at) for n, (file, at) in enumerate(places)]
    assert position_bounds(rows) == (min(expected), max(expected))
