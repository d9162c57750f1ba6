"""Columns that outgrew their types: what the ledger says of them, and what people read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dts_assets.model.columns import Column, ColumnShape, mysql_type
from dts_assets.model.ledger_rows import InvalidColumn, WindowTable
from dts_assets.model.tables import TableId
from dts_assets.planning.outgrown_types import OutgrownColumn, invalid_columns, outgrown, outgrown_columns

ITEMS, ORDERS = TableId("shopdb", "", "items"), TableId("shopdb", "", "orders")
START = datetime(2026, 1, 5, tzinfo=UTC)


def lake_type(original_type: str, *, unsigned: bool) -> str:
    return mysql_type(original_type, unsigned=unsigned) or "string"


def row(*columns: InvalidColumn, table: TableId = ITEMS, partition: int = 0) -> WindowTable:
    return WindowTable(partition, START, table, 9, 9, 0, 0, 7, 0, 0, None, None, invalid_columns=columns)


def test_a_shape_outgrows_the_types_that_do_not_hold_it() -> None:
    types = {"id": "bigint", "n": "int", "note": "string", "price": "decimal(10,2)", "day": "date"}
    columns = [Column(name, kind, False) for name, kind in types.items()]
    shape = [
        ColumnShape(name, kind, False)
        for name, kind in {
            "id": "int(11)", "n": "varchar(20)", "note": "enum('a')", "price": "decimal(10,4)", "day": "datetime", "new": "int",
        }.items()
    ]  # fmt: skip
    assert outgrown(columns, shape, lake_type) == {"n": "varchar(20)", "price": "decimal(10,4)", "day": "datetime"}


def test_the_ledger_tells_values_of_an_outgrown_type_from_others() -> None:
    found = invalid_columns({"day": 3, "n": 2}, {"n": "varchar(20)", "price": "decimal(10,4)"})
    assert found == (
        InvalidColumn("day", 3), InvalidColumn("n", 2, "varchar(20)"), InvalidColumn("price", 0, "decimal(10,4)"),
    )  # fmt: skip


def test_windows_and_kafka_partitions_add_up() -> None:
    rows = [
        row(InvalidColumn("n", 2, "text"), InvalidColumn("day", 7)),
        row(InvalidColumn("n", 5, "varchar(20)"), InvalidColumn("day", 1, "datetime"), partition=1),
        row(InvalidColumn("n", 8)),
        replace(row(InvalidColumn("n", 0, "text")), table=ORDERS),
        row(InvalidColumn("day", 1), table=TableId("a", "", "b")),
    ]
    assert outgrown_columns(rows) == {
        ITEMS: (OutgrownColumn("day", ("datetime",), 1), OutgrownColumn("n", ("text", "varchar(20)"), 7)),
        ORDERS: (OutgrownColumn("n", ("text",), 0),),
    }


def test_people_are_told() -> None:
    became = "n became text at the source, and keeps its first type here"
    assert str(OutgrownColumn("n", ("text",), 0)) == became
    assert str(OutgrownColumn("n", ("text",), 1)) == f"{became}; 1 value of changes did not fit and became NULL"
    assert str(OutgrownColumn("n", ("text",), 2)) == f"{became}; 2 values of changes did not fit and became NULL"
