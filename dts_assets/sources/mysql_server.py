"""A running MySQL or MariaDB as a source of copies: tables, ranges of keys, the binlog's position.

Rows are read elsewhere, by JDBC. Here are the small questions, over one connection of the driver PyMySQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dts_assets.errors.databases import CopyError
from dts_assets.errors.sources import DatabaseError
from dts_assets.model.columns import ColumnShape, quoted
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.positions import file_number
from dts_assets.model.tables import TableId
from dts_assets.sources.described_tables import ONE_TABLE, TABLES, columns_statement, described_tables
from dts_assets.sources.live_database import TableAlteredError, binlog_position, connected, explained

if TYPE_CHECKING:
    from pymysql.connections import Connection


@dataclass(frozen=True, slots=True)
class BinlogPlace:
    """A place between two transactions of a binlog: the number of its file, and the position in it."""

    file: int
    position: int

    @classmethod
    def of(cls, file_name: str, position: int | str) -> BinlogPlace:
        """Return the place in a file: ``mysql-bin.000004`` and ``1187``."""
        return cls(file_number(file_name), int(position))


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of a server, and its columns as they are declared.

    ``key`` is the first column of its primary key, by which it is read in ranges; None where it is read as a whole.
    ``engine`` is its storage engine. Without transactions (``has_transactions``) the rows of a snapshot are those of the moment
    at which they are read, whenever it began.
    """

    table: TableId
    columns: tuple[ColumnShape, ...]
    key: str | None
    estimated_rows: int
    engine: str = "InnoDB"
    has_transactions: bool = True

    @property
    def has_key(self) -> bool:
        """True if the table has a primary key."""
        return any(one.is_key for one in self.columns)

    def column(self, name: str) -> ColumnShape:
        """Return a column by its name."""
        return next(one for one in self.columns if one.name == name)


@dataclass(slots=True)
class MySqlServer:
    """A server, and the questions to it, which are asked within :meth:`connected`."""

    place: DatabasePlace
    _connection: Connection | None = field(default=None, init=False, repr=False)

    @contextmanager
    def connected(self) -> Iterator[MySqlServer]:
        """Hold a connection for the length of the block.

        Raises:
            MissingExtraError: The driver is not installed.
            DatabaseError: The server lets nobody in.
        """
        with connected(self.place) as connection:
            self._connection = connection
            self.rows("SET time_zone = '+00:00'")
            try:
                yield self
            finally:
                self._connection = None

    @property
    def connection(self) -> Connection:
        """The connection, within :meth:`connected`."""
        assert self._connection is not None, "questions are asked within connected()"
        return self._connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement.

        Raises:
            DatabaseError: The server refuses the statement, or does not answer.
        """
        try:
            with explained(self.place), self.connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return list(cursor.fetchall())
        except TableAlteredError:
            raise DatabaseError(str(self.place), "a table was altered or dropped meanwhile; copy it again") from None

    @property
    def is_mariadb(self) -> bool:
        """True for a MariaDB, which tells the binlog's position of a consistent snapshot."""
        return "mariadb" in str(self.rows("SELECT VERSION()")[0][0]).lower()

    def place_of_binlog(self) -> BinlogPlace:
        """Return the end of the binlog now.

        Raises:
            DatabaseError: The server writes no binlog, or the account may not see its position.
        """
        with explained(self.place), self.connection.cursor() as cursor:
            file_name, position, _ = binlog_position(cursor, self.place)
        return BinlogPlace.of(file_name, position)

    def tables(self, takes: Callable[[TableId], bool]) -> list[TableId]:
        """Return the tables of the server that a function takes, by name.

        Views and the server's own tables are left out.
        """
        rows = self.rows(f"SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t WHERE {TABLES}")
        tables = (TableId(_text(database), "", _text(name)) for database, name in rows)
        return sorted(filter(takes, tables))

    def table(self, table: TableId) -> SourceTable:
        """Return a table as it is declared now.

        Raises:
            CopyError: There is no such table, or the user may not see it.
        """
        names = (table.database, table.table)
        found = described_tables(self.rows(columns_statement(ONE_TABLE), names)).get(table)
        if found is None:
            what = f"the database at {self.place} shows no such table to {self.place.user}"
            raise CopyError(str(table), what, "look at its name, and grant SELECT on it")
        columns = tuple(one.shape for one in found.columns)
        keys = self.rows(
            "SELECT t.COLUMN_NAME FROM information_schema.STATISTICS t "
            f"WHERE {ONE_TABLE} AND t.INDEX_NAME = 'PRIMARY' AND t.SEQ_IN_INDEX = 1",
            names,
        )
        told = self.rows(
            "SELECT t.TABLE_ROWS, e.TRANSACTIONS FROM information_schema.TABLES t "
            f"LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE {ONE_TABLE}",
            names,
        )
        rows, has_transactions = told[0] if told else (0, None)  # it may be dropped meanwhile
        first = next((one for one in columns if keys and one.name == _text(keys[0][0])), None)
        key = first.name if first is not None and has_ranges(first) else None
        return SourceTable(table, columns, key, int(rows or 0), found.engine, has_transactions == "YES")

    def key_bounds(self, table: SourceTable, *, rows: int) -> Iterator[str]:
        """Yield texts of key values that cut a table into ranges of about so many rows.

        They come in the server's own order.
        The walk is along the primary key, and reads no other column.
        """
        assert table.key is not None, "a table without a key has no ranges"
        key, name = quoted(table.key), sql_table(table.table)
        text = text_of_key(table.column(table.key))
        last: str | None = None
        while True:
            above = "" if last is None else f"WHERE {key} > {sql_value(last, table.column(table.key))}"
            found = self.rows(f"SELECT {text} FROM {name} {above} ORDER BY {key} LIMIT 1 OFFSET {rows - 1}")
            if not found or found[0][0] is None:
                return
            last = _text(found[0][0])
            yield last


def sql_table(table: TableId) -> str:
    """Return a table's name with its database: ```shopdb`.`orders```."""
    return f"{quoted(table.database)}.{quoted(table.table)}"


_BYTES = re.compile(r"\s*(var)?binary\b", re.I)
_NUMBERS = re.compile(r"\s*(tiny|small|medium|big)?int|\s*(decimal|year)\b", re.I)
_TEXTS = re.compile(r"\s*(var)?char\b|\s*(date|datetime|timestamp)\b", re.I)


def has_ranges(column: ColumnShape) -> bool:
    """Return whether a key column can cut its table into ranges.

    Then comparisons and the order agree on the server, and texts are its values.
    Those of ENUM and BIT do not, and FLOAT's texts are rounded.
    """
    return any(one.match(column.original_type) for one in (_BYTES, _NUMBERS, _TEXTS))


def text_of_key(column: ColumnShape) -> str:
    """Return an expression for the text of a key column; :func:`sql_value` makes the value of it again."""
    name = quoted(column.name)
    return f"HEX({name})" if _BYTES.match(column.original_type) else f"CONVERT({name} USING utf8mb4)"


def sql_value(text: str, column: ColumnShape) -> str:
    """Return the text of a key as a value of SQL that every mode of a session reads."""
    if _BYTES.match(column.original_type):
        return f"X'{text}'"
    # A literal with an introducer takes on the collation of the column that it is compared with.
    return text if _NUMBERS.match(column.original_type) else f"_utf8mb4 X'{text.encode().hex()}'"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
