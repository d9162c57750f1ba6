"""Rows behind statements, held against a real MariaDB: random DDL on tables with rows, and traps that trackers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pymysql
import pytest

from dts_assets.model.tables import TableId
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.ddl.schema_changes import TableCreated
from dts_assets.wire.ddl.table_schemas import Family, TableSchema
from tests.stages.followed_rows import compare, follow, name_of, rows_of
from tests.stages.server_rows import LITERALS
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
        follow(before, changes, family=Family.MARIADB)
        made_now = {one.table for one in changes if isinstance(one, TableCreated)}  # its rows, if any, come by events
        for table in {one.table for one in changes if hasattr(one, "table")} & beside.catalog.tables.keys():
            if table in before and table not in made_now:
                compare(cursor, table, beside.catalog.tables[table], before[table], f"seed {seed}: {sql}", counts)
                counts["tables"] += 1
    return counts


@pytest.mark.more(after=1)
@pytest.mark.database
@pytest.mark.parametrize("seed", range(times(3, 30)))
def test_random_statements_leave_the_rows_of_the_server(beside: Beside, seed: int) -> None:
    counts = run(beside, seed, times(80, 250))
    assert counts["tables"] > 10
    assert counts["values"] > 3 * counts["not known"]
