"""DDL entries to rows of the ddl table and to truncations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.emptied_tables import EmptiedTable, emptied_among
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.named_tables import may_mean_any, tables_named
from dts_assets.stages.changelog_rows import changelog_rows
from dts_assets.stages.ddl_statements import (
    DDL_ENTRY_COLUMNS,
    Statement,
    changed_tables,
    ddl_rows,
    source_statements,
    statements,
    truncations,
)
from dts_assets.stages.routed_changes import ChangeRoutes
from dts_assets.store.columns import DDL, changelog_columns
from dts_assets.wire.ddl.reading import effects_of
from dts_assets.wire.ddl.schema_history import OTHER_DIALECT
from tests.ledger_rows import ingest_row
from tests.tiers import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
ORDERS, ITEMS, OTHER = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items"), TableId("other", "", "orders")
COLUMNS = (Column("id", "int", True), Column("note.1", "decimal(9,2)", False))
TABLES = dict.fromkeys((ORDERS, ITEMS, OTHER), COLUMNS)

ENTRIES = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("epoch", pa.int32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("last_offset", pa.int64()),
        ("message_type", pa.string()),
        ("source_type", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("gtid", pa.string()),
        ("transaction_id", pa.string()),
        ("file_name", pa.string()),
        ("position", pa.int64()),
        ("database", pa.string()),
        ("schema", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("lineage", pa.int32()),
    ]
)


def entry(number: int, message_type: str, database: str | None = "shopdb", **properties: str) -> dict[str, Any]:
    return {
        "kafka_partition": 1, "epoch": 0, "window_start": START, "last_offset": 100 + number, "message_type": message_type,
        "source_type": "MYSQL",
        "event_time": START + timedelta(seconds=number), "gtid": f"u:{number}", "transaction_id": None, "lineage": 2,
        "file_name": "mysql-bin.000009", "position": 4 * number, "database": database, "properties": list(properties.items()),
    }  # fmt: skip


def batch(*entries: dict[str, Any]) -> pa.RecordBatch:
    assert sorted(ENTRIES.names) == sorted([*DDL_ENTRY_COLUMNS, "lineage"])
    return pa.RecordBatch.from_pylist(list(entries), ENTRIES)


MIXED = (
    entry(0, "DML"),
    entry(1, "DDL", sql="TRUNCATE orders", executionTime="3"),
    entry(2, "DDL", sql="REPAIR TABLE orders", executionTime=""),
    entry(3, "INIT_DDL", sql="DROP TABLE orders"),
    entry(4, "DDL", sql="CREATE OR REPLACE TABLE orders (id INT)", type="INIT_DDL"),
    entry(
        5, "DDL", None, sql="DROP TABLE shopdb.items, shopdb.orders, shopdb.unknown, shopdb.items", executionTime="x"
    ),
    entry(6, "DDL"),
    entry(7, "CHECKPOINT"),
)


def test_statements_of_oracle_that_empty_a_table_are_followed_and_no_others() -> None:
    sent = ["TRUNCATE TABLE emp", "DROP TABLE hr.emp PURGE", "TRUNCATE TABLE emp CASCADE", "drop table other"]
    entries = batch(
        *(
            entry(number, "DDL", "", sql=sql) | {"source_type": "ORACLE", "schema": "HR"}
            for number, sql in enumerate(sent)
        )
    )
    found = statements(entries)
    rows = ddl_rows(entries, found).to_pylist()
    assert [(row["parsed"], row["effect"], row["applied"], row["database"]) for row in rows] == [
        (True, "truncate HR.EMP", "yes", "HR"), (True, "drop HR.EMP", "yes", "HR"), (False, None, OTHER_DIALECT, "HR"),
        (True, "drop HR.OTHER", "yes", "HR"),
    ]  # fmt: skip
    table = TableId("", "HR", "EMP")
    (changes,) = truncations(found, ChangeRoutes({table: COLUMNS}))
    assert (changes.table, changes.batch["entry_index"].to_pylist()) == (table, [0, 1])
    assert [one.position.position for one in source_statements(ddl_rows(entries, found))] == [0, 4, 8, 12]
    assert all(
        one.parsed == found[place].parsed for place, one in enumerate(source_statements(ddl_rows(entries, found)))
    )


def test_rows_of_the_ddl_table() -> None:
    entries = batch(*MIXED)
    rows = ddl_rows(entries, statements(entries))
    assert rows.schema.names == [name for name, _ in DDL]
    listed = rows.to_pylist()
    assert listed[0] == {
        "kafka_partition": 1, "window_start": START, "stage": "tables", "kafka_offset": 101,
        "source_position": {"lineage": 2, "file": 9, "position": 4}, "gtid": "u:1",
        "event_time": START + timedelta(seconds=1), "execution_seconds": 3, "database": "shopdb", "sql": "TRUNCATE orders",
        "parsed": True, "effect": "truncate shopdb.orders", "applied": "yes", "source_type": "MYSQL", "source_set": None,
        "foreign_keys": 0,
    }  # fmt: skip
    assert [(row["kafka_offset"], row["parsed"], row["effect"], row["execution_seconds"]) for row in listed[1:]] == [
        (102, False, None, None),
        (103, True, "create", None),
        (104, True, "create", None),
        (105, True, "drop shopdb.items; drop shopdb.orders; drop shopdb.unknown; drop shopdb.items", None),
        (106, False, None, None),
    ]
    assert listed[4]["database"] is None
    assert [row["applied"] for row in listed] == [
        "yes", "not a statement that is known", "yes", "yes", "yes", "not a statement that is known",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [("0", 0), ("9" * 18, 10**18 - 1), ("1" + "0" * 25, None), ("9" * 5_000, None), ("-1", None), ("\u0663", None)],
    ids=["none", "most", "25 digits", "5,000 digits", "below zero", "other digits"],
)
def test_only_seconds_that_fit_are_a_number(sent: str, seconds: int | None) -> None:
    entries = batch(entry(1, "DDL", sql="TRUNCATE orders", executionTime=sent))
    (row,) = ddl_rows(entries, statements(entries)).to_pylist()
    assert (row["execution_seconds"], row["effect"]) == (seconds, "truncate shopdb.orders")


def test_a_batch_without_statements_has_no_rows_of_the_same_columns() -> None:
    entries = batch(MIXED[0], MIXED[7])
    assert statements(entries) == []
    assert ddl_rows(entries, []).schema == ddl_rows(batch(*MIXED), statements(batch(*MIXED))).schema


def test_tables_that_are_emptied_get_one_row_per_statement() -> None:
    entries = batch(*MIXED)
    changes = {one.table: one for one in truncations(statements(entries), ChangeRoutes(TABLES))}
    assert set(changes) == {ORDERS, ITEMS}
    rows = {table: changelog_rows(one, entries) for table, one in changes.items()}
    assert rows[ORDERS].schema.names == [name for name, _ in changelog_columns(COLUMNS)]
    assert [row["source_position"]["position"] for row in rows[ORDERS].to_pylist()] == [4, 20]
    (only,) = rows[ITEMS].to_pylist()
    assert only == {
        "op": "truncate", "before": None, "after": None, "absent": [], "invalid": [],
        "event_time": START + timedelta(seconds=5), "transaction_id": "u:5",
        "source_position": {"lineage": 2, "file": 9, "position": 20}, "row_number": 0, "kafka_partition": 1,
        "kafka_offset": 105, "epoch": 0, "window_start": START,
    }  # fmt: skip


def test_a_database_that_is_dropped_takes_all_its_tables() -> None:
    entries = batch(entry(1, "DDL", "other", sql="DROP DATABASE shopdb"), entry(2, "DDL", sql="TRUNCATE orders"))
    changes = {
        one.table: one.batch["entry_index"].to_pylist()
        for one in truncations(statements(entries), ChangeRoutes(TABLES))
    }
    assert changes == {ORDERS: [0, 1], ITEMS: [0]}


@pytest.mark.parametrize(
    ("sql", "emptied"),
    [
        ("TRUNCATE TABLE orders", {EmptiedTable("shopdb", "", "orders")}),
        ("DROP TABLE a, other.b", {EmptiedTable("shopdb", "", "a"), EmptiedTable("other", "", "b")}),
        ("DROP DATABASE shopdb", {EmptiedTable("shopdb", "", "")}),
        ("DELETE FROM `other`.`mem`", {EmptiedTable("other", "", "mem")}),
        ("CREATE TABLE orders (id int)", set()),
    ],
)
def test_statements_name_the_tables_that_they_empty(sql: str, emptied: set[EmptiedTable]) -> None:
    statement = Statement(0, sql, "shopdb", None, effects_of(sql, "shopdb"), is_first_state=False)
    assert statement.emptied == emptied
    assert statement.may_empty == bool(emptied)
    assert replace(statement, is_first_state=True).emptied == frozenset()


@given(st.lists(st.builds(EmptiedTable, *[st.sampled_from(["a", "b"])] * 2, st.sampled_from(["", "c", "d"]))))
def test_a_known_table_is_emptied_by_its_name_or_with_its_database(emptied: list[EmptiedTable]) -> None:
    tables = [TableId(database, schema, table) for database in "abe" for schema in "ab" for table in "cde"]
    expected = [
        one
        for one in tables
        if any(
            (each.table == "" and each.database == one.database and each.schema == "") or each.id == one
            for each in emptied
        )
    ]
    assert emptied_among(emptied, tables) == expected


@dataclass(frozen=True)
class Told:
    """A statement that is told in a database, and the names of the tables that it may change."""

    sql: str
    database: str
    changed: frozenset[TableId]


NAMES = ("orders", "items", "order lines", "a`b", "t$1", "t")
DATABASES = ("shopdb", "other")
KNOWN = tuple(TableId(database, "", name) for database in DATABASES for name in NAMES if name != "t")
LAKE = {source: TableId("lake", "", "all") if "$" in source.table else source for source in KNOWN}
"""The lake tables of the known source tables; two of them are shards of one."""

CHANGING = (
    "ALTER TABLE {0} ADD COLUMN x int DEFAULT 5", "ALTER TABLE {0} DROP COLUMN x, ADD INDEX (y)",
    "ALTER TABLE {0} DROP PARTITION p", "ALTER TABLE {0} ADD PRIMARY KEY (a)",
    "CREATE TABLE IF NOT EXISTS {0} (id int)", "CREATE TABLE {0} LIKE shopdb.orders",
    "TRUNCATE {0}", "CREATE OR REPLACE TABLE {0} (id int)", "DROP TABLE {0}, {1}", "RENAME TABLE {0} TO {1}",
    "ALTER TABLE {0} RENAME TO {1}", "ALTER TABLE {0} ADD COLUMN x int; TRUNCATE {1}", "RENAME TABLE {0} TO x.y, x.y TO {1}",
)  # fmt: skip
HARMLESS = (
    "CREATE INDEX i ON {0} (a)", "ALTER TABLE {0} ADD INDEX (a)", "ALTER DATABASE shopdb CHARACTER SET utf8mb4",
    "CREATE VIEW {0} AS SELECT 1", "CREATE DATABASE shopdb", "GRANT SELECT ON {0} TO u", "ANALYZE TABLE {0}",
)  # fmt: skip
UNREAD = ("ALTER TABLE {0} FROBNICATE {1}", "FROBNICATE({0})", "ALTER TABLE {0} ADD ({1}")


@st.composite
def told_statements(draw: st.DrawFn) -> Told:
    tables = [draw(st.builds(TableId, st.sampled_from(DATABASES), st.just(""), st.sampled_from(NAMES))) for _ in "ab"]
    form = draw(st.sampled_from((*CHANGING, *HARMLESS, *UNREAD, "DROP DATABASE other")))
    database = draw(st.sampled_from(DATABASES))
    named = tables if "{1}" in form else tables[:1]
    written = [_quoted(one, database if draw(st.booleans()) else None) for one in tables]
    sql = form.format(*written)
    if form in UNREAD:  # by the name alone, in any database; a name with a quote is not found in its quoted form
        found = {one.table for one in named if "`" not in one.table}
        changed = {one for one in KNOWN if one.table in found}
    elif form in CHANGING:
        changed = {*named}
    else:
        changed = {one for one in KNOWN if one.database == "other"} if "DROP" in form else set()
    return Told(sql, database, frozenset(changed))


def _quoted(table: TableId, database: str | None) -> str:
    name = "`" + table.table.replace("`", "``") + "`"
    return name if database == table.database else f"{table.database}.{name}"


@given(st.lists(told_statements(), max_size=8))
@examples(300)
def test_statements_count_for_the_known_tables_that_they_may_change(told: list[Told]) -> None:
    """Once each, whatever they do to a table; and what ingest notes of them names every such table."""
    sent = [entry(number, "DDL", one.database, sql=one.sql) for number, one in enumerate(told)]
    found = statements(batch(*sent))
    expected = Counter((row, LAKE[table]) for row, one in enumerate(told) for table in one.changed & LAKE.keys())
    assert Counter(changed_tables(found, LAKE)) == Counter(dict.fromkeys(expected, 1))
    assert not list(changed_tables([replace(one, is_first_state=True) for one in found], LAKE))
    cell = replace(
        ingest_row(Cell(0, Window(START, START + timedelta(hours=1))), OffsetRange(0, 9)),
        emptying=sum(one.may_empty for one in found), emptied=tuple({table for one in found for table in one.emptied}),
        altering=sum(bool(one.altered) or one.unread is not None for one in found),
        altered=tuple({table for one in found for table in one.altered}),
        unread=tuple(one.unread for one in found if one.unread is not None),
    )  # fmt: skip
    assert not may_mean_any(cell)
    assert {table for one in told for table in one.changed & LAKE.keys()} <= tables_named([cell], KNOWN)
