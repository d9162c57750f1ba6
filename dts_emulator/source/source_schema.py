"""The server's own words for the columns of a table at the time when a row was logged.

A row event tells the binary types of its columns, but not the server's text of them (``int(11) unsigned``), and the catalog
of the running server tells only how tables look now. So the history is replayed: every DDL statement of the binlog runs, in
order, on a second server of the same kind, whose catalog then is the one that the next row events were written under.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dts_emulator.source.server import is_mariadb

_JSON_CHECK = re.compile(r"^json_valid\(`(?P<name>.*)`\)$", re.S)
_LABELS = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.S)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}

_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "cp1252", "latin2": "iso8859-2",
    "gbk": "gbk", "gb2312": "gb2312", "big5": "big5", "sjis": "shift_jis", "cp932": "cp932", "euckr": "euc_kr",
    "ujis": "euc_jp", "koi8r": "koi8-r", "cp1250": "cp1250", "cp1251": "cp1251", "greek": "iso8859-7", "ucs2": "utf-16-be",
    "utf16": "utf-16-be", "utf32": "utf-32-be",
}  # fmt: skip
"""Python's names of MySQL's charsets.

They are needed for ENUM and SET labels, and where a format has no text but Unicode.
"""


def codec_of(charset: str | None) -> str:
    """Python's name of a MySQL charset; UTF-8 for None."""
    return _CODECS.get(charset or "utf8mb4", "utf-8")


def _itself(error: UnicodeError) -> tuple[str, int]:
    """Return bytes without a character as those of the same numbers, and the next place.

    MySQL's latin1 is cp1252 with its five empty places filled in this way (MySQL manual, "West European Character Sets").
    """
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("iso-8859-1"), error.end


codecs.register_error("bytes-as-they-are", _itself)


def text_of(charset: str | None) -> Callable[[bytes], str]:
    """Return the function that turns bytes of a MySQL charset into text; UTF-8 for None."""
    codec = codec_of(charset)
    errors = "bytes-as-they-are" if codec == "cp1252" else "strict"
    return lambda data: data.decode(codec, errors)


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column as the server's catalog describes it. ``charset`` is MySQL's name, None where the column has none."""

    name: str
    column_type: str
    charset: str | None
    is_key: bool
    is_json: bool

    @property
    def labels(self) -> tuple[bytes, ...]:
        """The labels of an ENUM or SET in the column's charset, in definition order."""
        codec = codec_of(self.charset)
        return tuple(label.encode(codec) for label in labels_of(self.column_type))

    @property
    def is_unsigned(self) -> bool:
        """True if a numeric column has no sign; ``zerofill`` implies it."""
        rest = self.column_type.rpartition(")")[2] or self.column_type
        return "unsigned" in rest or "zerofill" in rest


class Catalog(Protocol):
    """Tables as they stood at the point of the binlog that has been replayed so far."""

    def columns(self, database: str, table: str) -> Mapping[str, CatalogColumn]:
        """Return the columns of a table by name, in the table's order.

        Raises:
            KeyError: The table is not there.
        """
        ...

    def apply(self, database: str, sql: str) -> None:
        """Replay a DDL statement that ran with ``database`` as the default database."""
        ...


def labels_of(column_type: str) -> tuple[str, ...]:
    """Return the labels in ``enum('a','b''c')`` or ``set(...)``; none for other types."""
    if not column_type.lower().startswith(("enum(", "set(")):
        return ()
    return tuple(_unescaped(found.group(1)) for found in _LABELS.finditer(column_type))


def _unescaped(label: str) -> str:
    return re.sub(
        r"''|\\(.)",
        lambda found: "'" if found.group(1) is None else _ESCAPES.get(found.group(1), found.group(1)),
        label,
        flags=re.S,
    )


class ReplayedCatalog:
    """The catalog of a server on which nothing happens but the replay of a binlog's DDL."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[tuple[str, str], dict[str, CatalogColumn]] = {}

    def columns(self, database: str, table: str) -> Mapping[str, CatalogColumn]:
        """Return the columns of a table by name; they are read once between two statements.

        Raises:
            KeyError: The table is not there.
        """
        found = self._tables.get((database, table))
        if found is None:
            found = {column.name: column for column in read_columns(self._connection, database, table)}
            if not found:
                raise KeyError(f"{database}.{table}")
            self._tables[database, table] = found
        return found

    def apply(self, database: str, sql: str) -> None:
        """Run the statement here too. It succeeded once on the source, so a failure here is raised."""
        with self._connection.cursor() as cursor:
            # The session's mode of the source is not replayed: a statement that passed a strict one passes a loose one.
            cursor.execute("SET sql_mode = '', foreign_key_checks = 0")
            if is_mariadb(self._connection):
                cursor.execute("SET check_constraint_checks = 0")
            if database and _exists(cursor, database):
                self._connection.select_db(database)
            cursor.execute(sql)
        self._tables.clear()


def _exists(cursor: Cursor, database: str) -> bool:
    cursor.execute("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (database,))
    return cursor.fetchone() is not None


def read_columns(connection: Connection, database: str, table: str) -> tuple[CatalogColumn, ...]:
    """Return the columns of a table in order, as the server's catalog has them now.

    There are none if there is no such table.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME FROM information_schema.STATISTICS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY'",
            (database, table),
        )
        keys = {str(row[0]) for row in cursor.fetchall()}
        json = _checked_json(cursor, database, table) if is_mariadb(connection) else set()
        cursor.execute(
            "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        return tuple(
            CatalogColumn(
                str(name), str(type_), charset and str(charset), str(name) in keys, str(name) in json or type_ == "json"
            )
            for name, type_, charset in cursor.fetchall()
        )


def _checked_json(cursor: Cursor, database: str, table: str) -> set[str]:
    """Return the names of a table's columns that MariaDB keeps as texts and checks to be JSON."""
    cursor.execute(
        "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    checks = [_JSON_CHECK.match(str(row[0])) for row in cursor.fetchall()]
    return {check.group("name") for check in checks if check}
