"""Which partition a row change goes to."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from dts_emulator.messages.routing import Routing, partition_of_row, partition_of_table, split_by_partition
from dts_emulator.source.events import Kind, RowChange, SourceColumn, SourceTable, Value

BY_KEY = Routing(8, by_key=True)
BY_TABLE = replace(BY_KEY, by_key=False)


def table(*keys: str) -> SourceTable:
    columns = (
        SourceColumn("id", Kind.INT32, "int(11)", None, False, "id" in keys),
        SourceColumn("note", Kind.TEXT, "text", "utf8mb4", False, "note" in keys),
    )
    return SourceTable("shop", "t", columns)


def row(number: int, note: Value = None) -> tuple[Value, ...]:
    return number, note


def test_the_hash_is_crc32_over_counted_parts() -> None:
    assert partition_of_table("shop", "t", partitions=8) == crc32(b"\0\0\0\x04shop\0\0\0\x01t") % 8
    key = crc32(b"\0\0\0\x04shop\0\0\0\x01t\0\0\0\x0212") % 8
    assert partition_of_row(table("id"), RowChange(None, row(12)), BY_KEY) == key


def test_by_table_all_rows_stay_together() -> None:
    places = {partition_of_row(table("id"), RowChange(None, row(number)), BY_TABLE) for number in range(100)}
    assert places == {partition_of_table("shop", "t", partitions=8)}


def test_by_key_rows_spread_and_a_row_stays_where_it_is() -> None:
    places = [partition_of_row(table("id"), RowChange(None, row(number)), BY_KEY) for number in range(100)]
    assert set(places) == set(range(8))
    updated = [partition_of_row(table("id"), RowChange(row(n, b"x"), row(n, b"y")), BY_KEY) for n in range(100)]
    deleted = [partition_of_row(table("id"), RowChange(row(n, b"y"), None), BY_KEY) for n in range(100)]
    assert places == updated == deleted


def test_a_table_without_a_key_stays_together() -> None:
    places = {partition_of_row(table(), RowChange(None, row(number)), BY_KEY) for number in range(100)}
    assert places == {partition_of_table("shop", "t", partitions=8)}


def test_every_part_of_a_composite_key_counts() -> None:
    places = {partition_of_row(table("id", "note"), RowChange(None, row(1, b"%d" % n)), BY_KEY) for n in range(100)}
    assert places == set(range(8))


def test_a_changed_key_goes_where_the_option_says() -> None:
    moved = RowChange(row(1), row(2))
    old = partition_of_row(table("id"), RowChange(None, row(1)), BY_KEY)
    new = partition_of_row(table("id"), RowChange(None, row(2)), BY_KEY)
    assert old != new
    assert partition_of_row(table("id"), moved, BY_KEY) == old
    assert partition_of_row(table("id"), moved, replace(BY_KEY, by_new_key=True)) == new


def test_pieces_of_an_event_keep_its_order() -> None:
    rows = tuple(RowChange(None, row(number)) for number in range(50))
    pieces = split_by_partition(table("id"), rows, BY_KEY)
    assert list(pieces) == sorted(pieces)
    assert sorted((change for piece in pieces.values() for change in piece), key=rows.index) == list(rows)
    for piece in pieces.values():
        assert [rows.index(change) for change in piece] == sorted(rows.index(change) for change in piece)
