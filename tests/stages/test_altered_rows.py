"""Rows behind statements, held against a real MariaDB: random DDL on tables with rows, and traps that trackers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
import pytest

from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import AlteredRows, Cells
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl.schema_changes import SchemaChange, TableCreated, TableRenamed
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn, TableSchema
from tests.stages.server_rows import LITERALS, shown
from tests.tiers import times
from tests.wire.random_statements import RandomStatements, quoted
from tests.wire.schema_oracle import NOT_FOLLOWED, Beside


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with private_server() as server, server.connect() as connection:
            found = Beside(connection)
            connection.cursor().execute("SET time_zone = '+00:00'")
            yield found
    except ServerUnavailable as error:
        pytest.skip(str(error))


def name_of(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.table)}"


def rows_of(cursor: Any, table: TableId, schema: TableSchema) -> AlteredRows:
    """The rows of a table as the lake would have them; columns whose values no rule converts are not known."""
    cursor.execute(f"SELECT COUNT(*) FROM {name_of(table)}")
    ((count,),) = cursor.fetchall()
    found = {}
    for column in schema.columns:
        kind = server_type(column)
        if kind is None or kind.kind is Kind.OTHER or column.type.startswith("binary(0)"):
            values = pa.nulls(count, pa.string() if kind is None else arrow_type(kind.lake_type))
            found[column.name] = Cells(values, pa.nulls(count, pa.string()), np.ones(count, np.bool_))
            continue
        values, texts = shown(cursor, name_of(table), quoted(column.name), kind)
        found[column.name] = Cells.of(pa.array(values, arrow_type(kind.lake_type)), pa.array(texts, pa.string()))
    return AlteredRows(found, count)


def cells_of(rows: AlteredRows, place: int) -> dict[str, Any]:
    """A row by column; values that are not known are left out."""
    return {
        name: cells.texts[place].as_py() or cells.values[place].as_py()
        for name, cells in rows.columns.items()
        if not cells.unknown[place]
    }


def compare(
    cursor: Any, table: TableId, schema: TableSchema, made: AlteredRows, context: str, counts: Counter[str]
) -> None:
    found = rows_of(cursor, table, schema)
    assert list(made.columns) == list(schema.names), context
    if made.doubts:
        counts["doubted"] += 1
        return
    assert made.count == found.count, context
    for place in range(found.count):
        expected, mine = cells_of(found, place), cells_of(made, place)
        for name in expected:
            kind = server_type(schema.column(name) or SchemaColumn("", "int"))
            assert kind is not None
            assert made.columns[name].values.type == arrow_type(kind.lake_type), (context, name)
            counts["values" if name in mine else "not known"] += 1
            assert name not in mine or mine[name] == expected[name], (context, name)


def put_row(beside: Beside, cursor: Any, table: TableId, schema: TableSchema, random: Random) -> None:
    """One row of made-up values in place of what is there."""
    names, values = [], []
    for column in schema.columns:
        kind = server_type(column)
        if column.generated or kind is None or kind.kind is Kind.OTHER or random.random() < 0.2:
            continue
        names.append(quoted(column.name))
        values.append("NULL" if column.nullable and random.random() < 0.2 else random.choice(LITERALS[kind.kind]))
    mode = "SET STATEMENT sql_mode = '' FOR"
    try:
        cursor.execute(f"DELETE FROM {name_of(table)}")
        cursor.execute(f"{mode} INSERT IGNORE INTO {name_of(table)} ({', '.join(names)}) VALUES ({', '.join(values)})")
    except pymysql.err.MySQLError:
        beside.counts["tables without a row"] += 1


def run(beside: Beside, seed: int, count: int) -> Counter[str]:
    """Random statements on tables of one row each; behind each the rows of the tables it is about are compared."""
    beside.begin(strict=seed % 2 == 0)
    random, writer, counts = Random(seed), RandomStatements(Random(seed)), Counter[str]()
    cursor = beside.connection.cursor()
    for _ in range(count):
        for table, schema in beside.catalog.tables.items():
            if random.random() < 0.4:
                put_row(beside, cursor, table, schema, random)
        beside.written("shop")
        before = {table: rows_of(cursor, table, schema) for table, schema in beside.catalog.tables.items()}
        database, sql = writer.statement(beside.catalog)
        refused = beside.refused(database, sql)
        results = beside.follow(beside.written(database))
        if refused or {one.problem for one in results} - {None}:
            if beside.by_model() != beside.on_server() or {one.problem for one in results} & set(NOT_FOLLOWED):
                beside.begin(strict=seed % 2 == 0)
            continue
        changes = [one for result in results for one in result.changes]
        follow(before, changes)
        made_now = {one.table for one in changes if isinstance(one, TableCreated)}  # its rows, if any, come by events
        for table in {one.table for one in changes if hasattr(one, "table")} & beside.catalog.tables.keys():
            if table in before and table not in made_now:
                compare(cursor, table, beside.catalog.tables[table], before[table], f"seed {seed}: {sql}", counts)
                counts["tables"] += 1
    return counts


def follow(rows: dict[TableId, AlteredRows], changes: Sequence[SchemaChange]) -> None:
    """Let the rows of all tables follow changes."""
    for one in changes:
        if isinstance(one, TableRenamed):
            if one.table in rows:
                rows[one.new] = rows.pop(one.table)
        elif hasattr(one, "table"):
            there = rows.get(one.table, AlteredRows({}, 0))
            rows[one.table] = there.behind([one], at=datetime.now(UTC), family=Family.MARIADB)


@pytest.mark.more(after=1)
@pytest.mark.database
@pytest.mark.parametrize("seed", range(times(3, 30)))
def test_random_statements_leave_the_rows_of_the_server(beside: Beside, seed: int) -> None:
    counts = run(beside, seed, times(80, 250))
    assert counts["tables"] > 10
    assert counts["values"] > 3 * counts["not known"]
