"""Statements of many changes, and their order: steps that no stream reaches."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.key_periods import KeyPeriod, ToldColumns
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.told_columns import told_columns
from dts_assets.stages.event_order import in_possible_order
from dts_assets.stages.sorted_merge import SortedPart, merged, sorted_rows
from dts_assets.stages.sql_dialects import DIALECTS
from dts_assets.stages.statement_script import (
    SCRIPT,
    Script,
    ddl_script_rows,
    statement_script_rows,
    without_truncations,
)
from dts_assets.stages.statements import StatementTable, moved_keys, moved_rows, statement_rows
from dts_assets.wire.ddl.chosen_statements import Choice
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.table_schemas import Catalog
from dts_assets.wire.ddl.written_anew import drop_text
from tests.growth.long_histories import Case
from tests.stages.rendering import START, change, changelog, column

TABLE = TableId("d", "", "t")
COLUMNS = [
    column("id", "bigint", "bigint", key=True), column("f", "float", "float"), column("e", "double", "double"),
    column("n", "decimal(9,2)", "decimal(9,2)"), column("t", "string", "text"), column("x", "binary", "blob"),
    column("d", "date", "date"), column("z", "timestamp", "timestamp"), column("o", "boolean", "boolean"),
]  # fmt: skip


def _changes(count: int) -> pa.RecordBatch:
    """Changes of all kinds, with values that do not fit, texts with line breaks, and values that were not sent."""
    rows = []
    for number in range(count):
        image = {
            "id": number,
            "f": 0.1,
            "e": float("nan") if number % 5 == 0 else 1e300,
            "t": "a\n'\0" * (number % 3),
            "x": b"\0",
        }
        image |= {"z": datetime(2026, 1, 5, tzinfo=UTC), "o": True}
        op = ("insert", "update", "delete", "truncate")[number % 4]
        rows.append(
            change(
                op,
                image if op != "insert" else None,
                {**image, "id": number + 1} if op in ("insert", "update") else None,
                at=number,
                absent=["after.n"] if number % 7 == 0 else [],
                invalid=[("after.d", "0000-00-00"), ("before.t", "0xFF")] if number % 3 == 0 else [],
            )
        )
    return changelog(COLUMNS, rows)


def _periods(count: int) -> ToldColumns:
    """Every event carries another list of columns than the event before, and tells another key."""
    lists = (("id", "t"), ("id", "t", "f"), ("id",))
    keys: tuple[tuple[str, ...], ...] = (("id",), ())

    def period(number: int, columns: tuple[str, ...]) -> KeyPeriod:
        return KeyPeriod(SourcePosition(0, 5, number), SourcePosition(0, 5, number), columns)

    return ToldColumns(
        tuple(period(number, keys[number % 2]) for number in range(count)),
        tuple(period(number, lists[number % 3]) for number in range(count)),
    )


def _script(changes: pa.RecordBatch, told: ToldColumns | None = None) -> list[str]:
    found = []
    for dialect in DIALECTS.values():
        table, all_told = StatementTable(TABLE, tuple(COLUMNS), dialect), {} if told is None else {0: told}
        kept = without_truncations(changes, {(0, 5, number) for number in range(changes.num_rows)})
        made, _ = statement_rows(kept, table, all_told)
        moved = moved_keys(kept, table, all_told)
        rows = statement_script_rows(made, moved, moved_rows(kept, table, all_told, moved))
        parts = [SortedPart(iter([sorted_rows(rows.slice(first, 7))])) for first in range(0, min(70, rows.num_rows), 7)]
        parts.append(SortedPart(iter([sorted_rows(rows.slice(70))])))
        script = Script(dialect)
        found += [script.text(some) for some in in_possible_order(merged(parts, before=SourcePosition(9, 0, 0)))]
    return found


def _ddl(count: int) -> pa.RecordBatch:
    position = {"lineage": 0, "file": 5, "position": 1}
    sql = ["ALTER TABLE t ADD c INT", "CREATE DATABASE d", "not a statement"]
    rows = [
        {
            "source_position": position,
            "kafka_partition": 0,
            "kafka_offset": n,
            "database": f"d{n % 2}",
            "sql": sql[n % 3],
        }
        for n in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows)


def _statements(rows: pa.RecordBatch) -> str:
    script = Script(DIALECTS["mysql"])
    return script.text(ddl_script_rows(rows, Choice(lambda table: table.table == "t", frozenset({"d0", "d1"})))[0])


def _chain(count: int) -> pa.Table:
    """Moves of one event, each to the key that the row after it leaves, dealt out to three pieces."""
    numbers = np.arange(count)
    columns = {
        name: np.zeros(count, np.int64) for name in SCRIPT.names if name not in ("text", "otherwise", "database")
    } | {
        "old_key": numbers + 1,
        "new_key": numbers + 2,
        "kafka_partition": numbers % 3,
        "row_number": numbers // 3,
    }
    texts = dict.fromkeys(("text", "otherwise", "database"), pa.nulls(count, pa.string()))
    return pa.table({name: columns.get(name, texts.get(name)) for name in SCRIPT.names}, schema=SCRIPT)


def _ledger(count: int) -> tuple[list[WindowTable], list[TableShapeRow], dict[TableId, list[Column]]]:
    shape = (ColumnShape("id", "bigint", is_key=True),)
    counts = [
        WindowTable(
            kafka_partition=0, window_start=START, table=TableId("d", "", f"t{n}"), changes=1, kept=1, redelivered=0,
            quarantined=0, row_hash=0, absent_rows=0, invalid_values=0, first_position=None, last_position=None,
        )
        for n in range(count)
    ]  # fmt: skip
    shapes = [TableShapeRow(0, START, row.table, shape, None, "") for row in counts]
    return counts, shapes, {row.table: [Column("id", "bigint", is_key=True)] for row in counts}


def _told(given: tuple[list[WindowTable], list[TableShapeRow], dict[TableId, list[Column]]]) -> object:
    return told_columns(*given)


def life(count: int) -> list[str]:
    """Statements on one table: what one adds the next takes away again."""
    added = ("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('x') NOT NULL)", "CREATE TABLE u LIKE t")
    turns = (
        "ALTER TABLE t ADD c TEXT FIRST, ADD UNIQUE (id)",
        "ALTER TABLE t MODIFY c CHAR(9), CONVERT TO CHARACTER SET gbk",
        "RENAME TABLE t TO s, u TO t, s TO u",
        "ALTER TABLE u DROP c, DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        "nonsense on t",
        "ALTER TABLE u PARTITION BY HASH (id) PARTITIONS 4",
        "ALTER TABLE u ADD n ENUM('a') NOT NULL",
        "ALTER TABLE u DROP n, ALTER e SET DEFAULT 'x'",
        "RENAME TABLE u TO s, t TO u, s TO t",
    )
    return [*added, *(turns[number % len(turns)] for number in range(count))]


def _followed(statements: list[str]) -> Catalog:
    catalog = Catalog({"d": "utf8mb4"})
    for sql in statements:
        catalog = apply(catalog, sql, "d").catalog
    return catalog


STATEMENT_STEPS: dict[str, Case] = {
    "statements of changes": (_changes, _script),
    "statements of events that carry other columns": (
        lambda count: (_changes(count), _periods(count)),
        lambda given: _script(*given),
    ),
    "statements of the source": (_ddl, _statements),
    "statements that schemas follow": (life, _followed),
    "moves of one event": (_chain, lambda rows: list(in_possible_order([rows]))),
    "columns that events told": (_ledger, _told),
    "tables that a proof drops": (lambda count: [TableId("d", "", f"t{number}") for number in range(count)], drop_text),
}
