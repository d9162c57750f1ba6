"""Lives of tables on a real MariaDB: statements at their times, and the server's own columns and rows behind each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql

from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import AlteredRows, Cells
from dts_assets.stages.server_types import Kind, ServerType, server_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl import schema_changes as change
from dts_assets.wire.ddl.table_schemas import Catalog, SchemaColumn, TableSchema
from dts_emulator.errors import UnsupportedSource
from dts_emulator.source.binlog import Place, read_transactions
from dts_emulator.source.events import Transaction
from dts_emulator.source.server import Server, private_server
from dts_emulator.source.source_schema import ReplayedCatalog
from tests.stages.server_rows import cell, read_as
from tests.wire.followed_changes import followed
from tests.wire.random_statements import quoted
from tests.wire.schema_oracle import Beside

FIRST = datetime(2026, 1, 5, tzinfo=UTC)
"""The begin of a life's first window. Windows are hours."""
HOUR = timedelta(hours=1)

ELSEWHERE = "another session"
"""Stands for the database of what another session committed."""

KEY_UNKNOWN = "a key is not known"
"""The doubt about a table of which some row has a key that nobody knows: no change finds it any more."""

Row = tuple[Any, ...]
"""The values of a row in their lake types, in the order of columns; of a value without one the server's text."""
_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Held:
    """A table at a moment.

    ``unknown`` has for each row the columns whose value servers do differently and no event has told since. ``doubt`` says why
    rows cannot be followed although each statement was.
    """

    schema: TableSchema
    rows: tuple[Row, ...] = ()
    unknown: tuple[frozenset[str], ...] = ()
    doubt: str | None = None


@dataclass(frozen=True)
class Moment:
    """The tables behind a statement, and how many of the life's transactions had been committed then."""

    sql: str
    database: str
    at: datetime
    end: int
    tables: Mapping[TableId, Held]


@dataclass
class Life:
    """What was recorded of a life: all transactions, and the moments between them."""

    transactions: list[Transaction] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def until(self, place: int) -> Life:
        """The life as it was behind one of its moments."""
        moments = self.moments[: place + 1]
        return Life(self.transactions[: moments[-1].end], moments)

    def script(self) -> str:
        """The statements with their times, to say what a test is about."""
        return "\n".join(f"{one.at:%H:%M:%S} {one.database}: {one.sql}" for one in self.moments)


@contextmanager
def life_recorder() -> Iterator[LifeRecorder]:
    """A server to live on, and one that replays statements for the reader of the binlog."""
    with (
        private_server() as server,
        private_server(server_id=2) as history,
        server.connect() as connection,
        server.connect() as second,
        server.connect() as looking,
        history.connect() as replaying,
    ):
        yield LifeRecorder(server, connection, second, looking, replaying)


class LifeRecorder:
    """Lets lives happen on a server, one after the other, each with a binlog of its own."""

    def __init__(self, server: Server, connection: Any, second: Any, looking: Any, replaying: Any) -> None:
        self._server, self._connection, self._second = server, connection, second
        self._looking, self._replaying = looking.cursor(), replaying
        self.beside = Beside(connection)

    def begin(self, databases: Sequence[str] = ("d",), *, strict: bool = True, image: str = "FULL") -> None:
        """Forget everything, and make the databases."""
        cursor = self._connection.cursor()
        for name in dict.fromkeys(("d", "e", *databases)):
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            self._replaying.cursor().execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute("RESET MASTER")
        self.minimal = image == "MINIMAL"
        for one in (self._connection, self._second):
            one.cursor().execute(
                f"SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, binlog_row_image = '{image}'"
            )
        self.now = FIRST + timedelta(seconds=1)
        self._tell_time()
        self.beside.names = tuple(databases)
        self.beside.begin(strict=strict)
        self._second.select_db(databases[0])
        self._ends: list[tuple[Moment, tuple[str, int]]] = []
        self._tables: dict[TableId, Held] = {}

    def go_to(self, moment: datetime) -> None:
        """Let the clock stand at a moment; it never goes back."""
        self.now = max(self.now, moment)
        self._tell_time()

    def wait(self, seconds: int) -> None:
        """Let time go by."""
        self.now += timedelta(seconds=seconds)
        self._tell_time()

    def _tell_time(self) -> None:
        for one in (self._connection, self._second):
            one.cursor().execute(f"SET TIMESTAMP = {int(self.now.timestamp())}")

    def open_elsewhere(self, sql: str) -> bool:
        """Begin a transaction in another session with a statement; tell whether the server took it."""
        cursor = self._second.cursor()
        cursor.execute("BEGIN")
        try:
            cursor.execute(sql)
        except pymysql.err.MySQLError:
            cursor.execute("ROLLBACK")
            return False
        return True

    def commit_elsewhere(self, sql: str) -> bool:
        """Commit that transaction, which began with ``sql``."""
        self._second.cursor().execute("COMMIT")
        return self._note(sql, ELSEWHERE, self.beside.written("d"))

    def say(self, sql: str, database: str = "d") -> bool:
        """Run a statement and note what is behind it; tell whether life can go on."""
        refused = self.beside.refused(database, sql)
        written = self.beside.written(database)
        if refused:
            return not written and self.beside.by_model() == self.beside.on_server()
        return self._note(sql, database, written)

    @property
    def has_lived(self) -> bool:
        """Whether there was a statement."""
        return bool(self._ends)

    @property
    def tables(self) -> Mapping[TableId, Held]:
        """The tables as they are now."""
        return self._tables

    def _note(self, sql: str, database: str, written: list[tuple[str, str]]) -> bool:
        results = self.beside.follow(written)
        if any(one.problem for one in results) or any(one.doubt for one in self.beside.catalog.tables.values()):
            return False  # a statement that is not followed on purpose
        if self.beside.by_model() != self.beside.on_server():
            return False  # tests/wire/ has such faults of the server
        before = dict(self._tables)
        for one in (one for result in results for one in result.changes):
            follow(before, one, at=self.now)
        self._tables = {
            table: self._held(before.get(table), table, schema, exact=bool(written))
            for table, schema in self.beside.catalog.tables.items()
        }
        cursor = self._connection.cursor()
        cursor.execute("SHOW MASTER STATUS")
        ((file, position, *_),) = cursor.fetchall()
        self._ends.append((Moment(sql, database, self.now, 0, self._tables), (str(file), int(position))))
        return True

    def _held(self, before: Held | None, table: TableId, schema: TableSchema, *, exact: bool) -> Held:
        found = rows_on_server(self._looking, table, schema)
        rows = before or Held(schema)
        if exact and rows.rows:  # no event: each row that is there now was predicted, as far as it can be
            assert before is not None
            return self._doubted(replace(predicted(before, found), schema=schema))
        left: dict[Row, list[frozenset[str]]] = {}
        for row, columns in zip(rows.rows, rows.unknown, strict=True):
            left.setdefault(row, []).append(columns)
        sent = frozenset().union(*rows.unknown) if self.minimal else _EMPTY
        unknown = tuple(left[row].pop() if left.get(row) else sent for row in found)
        gone = any(left.values())
        doubt = rows.doubt
        if gone and not schema.key and any(rows.unknown):
            doubt = "a row that is not known entirely may have gone, and nothing but its values tells it"
        return self._doubted(Held(schema, found, unknown, doubt))

    @staticmethod
    def _doubted(held: Held) -> Held:
        if any(columns & set(held.schema.key) for columns in held.unknown):
            return replace(held, doubt=KEY_UNKNOWN)
        return held

    def end(self) -> Life:
        """The life that has been recorded."""
        catalog = ReplayedCatalog(self._replaying)
        transactions: list[Transaction] = []
        last = self._ends[-1][1]
        with suppress(
            UnsupportedSource
        ):  # a column that MariaDB adds itself where a text is unique: life ends before it
            for one in read_transactions(self._server, catalog, start=Place("mysql-bin.000001", 4)):
                transactions.append(one)
                if (one.end.file_name, one.end.end) >= last:
                    break  # what comes now may be what no statement tells
            else:
                raise AssertionError("the binlog ends before the life")
        ends = [(one.end.file_name, one.end.end) for one in transactions]
        moments = [
            replace(moment, end=sum(one <= place for one in ends)) for moment, place in self._ends if place <= max(ends)
        ]
        return Life(transactions, moments)


def rows_on_server(cursor: Any, table: TableId, schema: TableSchema) -> tuple[Row, ...]:
    """The rows of a table as the lake would have them."""
    kinds = kinds_of(schema)
    reads = [read_as(quoted(name), kind) for name, kind in kinds.items()]
    cursor.execute(f"SELECT {', '.join(reads)} FROM {quoted(table.database)}.{quoted(table.table)}")
    return tuple(
        tuple(one_of(*cell(value, kind)) for value, kind in zip(row, kinds.values(), strict=True))
        for row in cursor.fetchall()
    )


def kinds_of(schema: TableSchema) -> dict[str, ServerType]:
    """The types of all columns; lives have none of an unknown type."""
    found = {column.name: server_type(column) for column in schema.columns}
    return {name: kind for name, kind in found.items() if kind is not None and kind.kind is not Kind.OTHER}


def one_of(value: Any, text: str | None) -> Any:
    """A value, or the text of what no lake type holds, as one."""
    return value if text is None else ("no value", text)


def follow(tables: dict[TableId, Held], one: change.SchemaChange, *, at: datetime) -> None:
    """Let tables follow a change by the rules for rows that stand; their schemas are noted from elsewhere."""
    match one:
        case change.DatabaseCreated() | change.DatabaseDropped():
            for table in [table for table in tables if table.database == one.database]:
                del tables[table]
        case change.DatabaseCharsetChanged():
            pass
        case change.TableRenamed():
            if one.table in tables:
                tables[one.new] = tables.pop(one.table)
        case change.TableDropped():
            tables.pop(one.table, None)
        case change.TableCreated():
            tables[one.table] = Held(one.schema)
        case _:
            if one.table in tables:
                tables[one.table] = _behind(tables[one.table], one, at)


def _behind(held: Held, one: change.TableChange, at: datetime) -> Held:
    if isinstance(one, change.KeyChanged | change.TableCharsetChanged | change.DefaultChanged):
        return held
    made = altered(held).behind([one], at=at)
    names = list(made.columns)
    rows = tuple(
        tuple(
            one_of(made.columns[name].values[place].as_py(), made.columns[name].texts[place].as_py()) for name in names
        )
        for place in range(made.count)
    )
    unknown = tuple(
        frozenset(name for name in names if made.columns[name].unknown[place]) for place in range(made.count)
    )
    schema = replace(held.schema, columns=tuple(_columns(held.schema, one)))
    assert list(schema.names) == names, one
    doubt = None if isinstance(one, change.TableTruncated) else held.doubt
    return Held(schema, rows, unknown, doubt or next(iter(made.doubts), None))


def _columns(schema: TableSchema, one: change.TableChange) -> Iterator[SchemaColumn]:
    yield from followed(Catalog(tables={one.table: schema}), (one,)).tables[one.table].columns


def altered(held: Held) -> AlteredRows:
    """The rows as the stage takes them."""
    found = {}
    for place, column in enumerate(held.schema.columns):
        kind = server_type(column)
        assert kind is not None, column
        cells = [row[place] for row in held.rows]
        unknown = np.array([column.name in columns for columns in held.unknown], np.bool_)
        texts = [value[1] if isinstance(value, tuple) else None for value in cells]
        values = [
            None if text is not None or gone else value for value, text, gone in zip(cells, texts, unknown, strict=True)
        ]
        texts = [None if gone else text for text, gone in zip(texts, unknown, strict=True)]
        found[column.name] = Cells(pa.array(values, arrow_type(kind.lake_type)), pa.array(texts, pa.string()), unknown)
    return AlteredRows(found, len(held.rows))


def predicted(before: Held, found: tuple[Row, ...]) -> Held:
    """The rows of a server behind a statement, with what was not known of the rows that they were.

    Raises:
        AssertionError: A row is no row that the rules make of one that was there.
    """
    left = sorted(zip(before.rows, before.unknown, strict=True), key=lambda one: len(one[1]))
    unknown = []
    for row in found:
        place = next((n for n, one in enumerate(left) if agrees(one[0], row, one[1], before.schema.names)), None)
        assert place is not None, f"no row becomes {row} of {left}"
        unknown.append(left.pop(place)[1])
    assert not left, f"rows went: {left}"
    return replace(before, rows=found, unknown=tuple(unknown))


def agrees(one: Row, other: Row, unknown: frozenset[str], names: Sequence[str]) -> bool:
    """Whether two rows are one row as far as it is known."""
    return all(mine == its or name in unknown for mine, its, name in zip(one, other, names, strict=True))
