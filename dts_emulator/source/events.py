"""The binlog's events as the producer sees them, before they are entries. Times are UTC seconds, as the binlog keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dts_emulator.source.mariadb_gtids import Gtid


class Absent:
    """The value of a column that a row image leaves out; not NULL."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()

Value = int | float | bytes | str | Absent | None
"""A value out of a row image. Text is bytes in the column's charset; decimals, dates and times are str as the server writes
them; None is NULL."""


class Kind(StrEnum):
    """The kinds of a column's values, as far as the encoding tells them apart."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BIT = "bit"
    YEAR = "year"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    BLOB = "blob"
    JSON = "json"
    PLAIN = "plain"
    """Dates and times without a zone."""
    INSTANT = "instant"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a row event: its kind, and the server's names for it."""

    name: str
    kind: Kind
    column_type: str
    charset: str | None
    is_unsigned: bool
    is_key: bool


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it was when the event was written."""

    database: str
    table: str
    columns: tuple[SourceColumn, ...]

    @property
    def key_indexes(self) -> tuple[int, ...]:
        """Which columns make up the primary key; empty without one."""
        return tuple(index for index, column in enumerate(self.columns) if column.is_key)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The place of an event in the binlog, its own time, and the transaction it belongs to."""

    file_name: str
    start: int
    end: int
    timestamp: int
    server_id: int
    gtid: Gtid | None


Image = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row of a rows event; INSERT has no ``before``, DELETE no ``after``."""

    before: Image | None
    after: Image | None


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction."""

    at: Coordinates


@dataclass(frozen=True, slots=True)
class Rows:
    """One rows event: one table, one operation, one or more rows."""

    at: Coordinates
    table: SourceTable
    rows: tuple[RowChange, ...]


@dataclass(frozen=True, slots=True)
class Ddl:
    """One DDL statement, as it ran with ``database`` as the default database."""

    at: Coordinates
    database: str
    sql: str
    execution_seconds: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction; the id is the engine's, empty where the engine has none."""

    at: Coordinates
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """The end of a transaction that could not be undone entirely."""

    at: Coordinates


SourceEvent = Begin | Rows | Ddl | Commit | Rollback


@dataclass(frozen=True, slots=True)
class Transaction:
    """Everything between two positions at which the source was consistent: BEGIN to COMMIT, or one DDL statement."""

    events: tuple[SourceEvent, ...]

    @property
    def end(self) -> Coordinates:
        """The coordinates of its last event, with the time of the commit."""
        return self.events[-1].at


def float_of(value: Value) -> float:
    """Return the value as a float.

    Raises:
        TypeError: It is no number.
    """
    if not isinstance(value, int | float):
        raise TypeError(f"a number was expected, not {type(value).__name__}")
    return float(value)


def bytes_of(value: Value) -> bytes:
    """Return the value as bytes.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, bytes):
        raise TypeError(f"bytes were expected, not {type(value).__name__}")
    return value
