"""A real MariaDB beside the model: both get the same statements, and the model those that the server wrote to its binlog."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded, SchemaChange
from dts_assets.wire.ddl.schema_model import Applied, apply
from dts_assets.wire.ddl.table_schemas import Catalog, Family, ServerRules
from tests.wire.random_statements import DATABASES, RandomStatements, quoted
from tests.wire.server_catalog import Compared, databases_of_server, of_model, of_server

NOT_FOLLOWED = {
    "labels that may change with their character set": "MariaDB takes the bytes of a label for those of another character set",
    "two character sets in one statement": "MariaDB takes now the one, now the other",
}
"""Statements that the model does not follow on purpose, with the reason."""

_USED = re.compile(r"use `((?:[^`]|``)*)`; (.*)", re.S)
_NO_STATEMENT = ("BEGIN", "COMMIT", "ROLLBACK")


@dataclass
class Beside:
    """A server, and the catalog that the model made of the server's binlog.

    ``lower_case`` says that the server runs with ``lower_case_table_names=1``. ``version`` is told to the model, or None.
    """

    connection: Any
    lower_case: bool = False
    version: int | None = None
    names: tuple[str, ...] = DATABASES
    rules: ServerRules = field(default_factory=lambda: ServerRules(Family.MARIADB))
    catalog: Catalog = field(default_factory=Catalog)
    counts: Counter[str] = field(default_factory=Counter)
    _place: tuple[str, int] = ("", 0)

    def begin(self, *, strict: bool, explicit: bool = True) -> None:
        """Make the databases anew, without tables.

        ``explicit`` is the server's setting for TIMESTAMP columns.
        """
        self.rules = ServerRules(
            Family.MARIADB, self.version, "utf8mb4", lower_case_names=self.lower_case, explicit_timestamps=explicit
        )
        self._run(
            f"SET sql_mode = '{'STRICT_TRANS_TABLES' if strict else ''}', explicit_defaults_for_timestamp = {int(explicit)}"
        )
        for database in self.names:
            self._run(f"CREATE OR REPLACE DATABASE {quoted(database)} CHARSET utf8mb4")
        self.catalog = Catalog(dict.fromkeys(self.databases, "utf8mb4"), {}, self.rules)
        self._place = self._run("SHOW MASTER STATUS")[0][:2]

    def server_version(self) -> int:
        """The server's version: 101119 for 10.11.19."""
        ((text,),) = self._run("SELECT VERSION()")
        major, minor, patch = map(int, re.findall(r"\d+", text)[:3])
        return major * 10_000 + minor * 100 + patch

    @property
    def databases(self) -> tuple[str, ...]:
        """The databases as the server calls them."""
        return tuple(name.lower() for name in self.names) if self.lower_case else self.names

    def refused(self, database: str, sql: str) -> bool:
        """Run a statement; tell whether the server refused it."""
        try:
            self._run(f"USE {quoted(database)}")
            self._run(sql)
        except pymysql.err.MySQLError:
            self.counts["refused"] += 1
            return True
        self.counts["carried out"] += 1
        return False

    def written(self, database: str) -> list[tuple[str, str]]:
        """The statements that the server wrote to its binlog since the last call, with their default databases."""
        found = []
        for event in self._run("SHOW BINLOG EVENTS IN %s FROM %s", self._place):
            self._place = (self._place[0], event[4])
            if event[2] == "Query" and event[5] not in _NO_STATEMENT:
                used = _USED.match(event[5])
                found.append((used[1].replace("``", "`"), used[2]) if used else (database, event[5]))
        return found

    def follow(self, statements: list[tuple[str, str]]) -> list[Applied]:
        """Let the model carry out statements; return the results."""
        results = []
        for database, sql in statements:
            results.append(apply(self.catalog, sql, database))
            self.catalog = results[-1].catalog
            self.counts["followed"] += 1
        return results

    def on_server(self) -> Compared:
        return of_server(self.connection, self.databases, explicit=self.rules.explicit_timestamps)

    def by_model(self) -> Compared:
        return of_model(self.catalog)

    def assert_equal(self, sql: str) -> None:
        assert self.by_model() == self.on_server(), sql
        assert dict(self.catalog.databases) == databases_of_server(self.connection, self.databases), sql

    def fill(self) -> None:
        """Put a row into each table that has none, where the server lets us."""
        for table in self.catalog.tables:
            name = f"{quoted(table.database)}.{quoted(table.table)}"
            if not self._run(f"SELECT 1 FROM {name} LIMIT 1"):
                try:
                    self._run(f"INSERT IGNORE INTO {name} () VALUES ()")
                except pymysql.err.MySQLError:
                    self.counts["tables without a row"] += 1

    def assert_filled(self, changes: list[SchemaChange], sql: str) -> None:
        """Rows that were there hold in added columns the value that the changes say."""
        for change in changes:
            if isinstance(change, ColumnAdded) and change.fill in (Fill.NULL, Fill.VALUE):
                kind, told = change.column.type, change.fill_value
                if kind.startswith("bit") or change.column.name not in self._present(change.table):
                    continue
                name = f"{quoted(change.table.database)}.{quoted(change.table.table)}"
                column = quoted(change.column.name)
                shown = f"CAST({column} AS CHAR)" if told is not None else f"NULLIF({column} IS NOT NULL, 0)"
                for (held,) in self._run(f"SELECT {shown} FROM {name}"):
                    if told is not None and (kind.startswith(("float", "double", "year")) or kind.endswith("zerofill")):
                        assert float(held) == float(told), (sql, change)
                    else:
                        assert held == told, (sql, change, held)
                    self.counts["values of added columns"] += 1

    def _present(self, table: TableId) -> tuple[str, ...]:
        schema = self.catalog.tables.get(table)
        return schema.names if schema else ()

    def _run(self, sql: str, arguments: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return list(cursor.fetchall())


def run_random(beside: Beside, seed: int, count: int) -> None:
    """Run random statements of a seed on both, and compare after each; ``count`` are tried.

    Half of the seeds are for strict sessions, half have rows in their tables, and a fifth has TIMESTAMP columns of the old kind.
    """

    def begin() -> None:
        beside.begin(strict=seed % 2 == 0, explicit=seed % 5 != 4)

    begin()
    writer = RandomStatements(Random(seed))
    for _ in range(count):
        database, sql = writer.statement(beside.catalog)
        before, refused = beside.catalog, beside.refused(database, sql)
        statements = beside.written(database)
        if refused and statements and sql.startswith("CREATE OR REPLACE TABLE"):
            # MariaDB writes it, with an error number beside it: the old table is gone, and there is no new one.
            name = re.split(r" \(| AS | LIKE ", sql.removeprefix("CREATE OR REPLACE TABLE "))[0]
            statements = [(database, f"DROP TABLE IF EXISTS {name}")]
        results = beside.follow(statements)
        problems = {one.problem for one in results} - {None}
        if problems and problems <= set(NOT_FOLLOWED):
            beside.counts["not followed"] += 1
            begin()
            continue
        context = f"seed {seed}: {database}: {sql}"
        assert not problems, (context, problems)
        if refused and not statements and beside.by_model() != beside.on_server():
            beside.counts["carried out although refused"] += 1  # MariaDB does so with defaults of geometries
            begin()
            continue
        beside.assert_equal(context)
        if seed % 4 < 2:
            beside.assert_filled([change for one in results for change in one.changes], context)
            beside.fill()
            beside.written(database)
        if not refused:
            sent = apply(before, sql, database)
            assert sent.catalog == beside.catalog or sent.problem == "a query makes the columns", context
