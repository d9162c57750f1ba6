"""MySQL values as Canal writes them: each is a text (``RowsLogBuffer.java``, ``LogEventConvert.java``).

Bytes are text in ISO-8859-1, ENUM and SET the numbers that the binlog has, and BINARY lacks its last zero bytes. Canal reads all
text in one character set, UTF-8 unless it is told otherwise; here each column is read in its own, as if all were UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo

from dts_emulator.messages.float_texts import java_double_text, java_single_text
from dts_emulator.source.events import ABSENT, Kind, SourceColumn, Value, bytes_of, float_of
from dts_emulator.source.source_schema import labels_of, text_of

ToText = Callable[[Value], str]

_ZERO = "0000-00-00 00:00:00"

# java.sql.Types, as Canal gives them to types of the binlog.
_SQL_TYPES = {
    "bit": -7, "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8, "decimal": 3,
    "char": 1, "varchar": 12, "tinytext": 2005, "text": 2005, "mediumtext": 2005, "longtext": 2005, "date": 91, "time": 92,
    "datetime": 93, "timestamp": 93, "year": 12, "enum": 4, "set": -7,
}  # fmt: skip
_BLOB = 2004


def type_name(column: SourceColumn) -> str:
    """Return the name of a column's type without arguments: ``varchar``."""
    return column.column_type.lower().partition("(")[0].split()[0]


def type_text(column: SourceColumn) -> str:
    """Return a column's type as Canal shows it: ``int(11) unsigned``.

    In labels nothing but quotes is doubled.
    """
    labels = labels_of(column.column_type)
    quoted = ",".join("'" + label.replace("'", "''") + "'" for label in labels)
    return f"{type_name(column)}({quoted})" if labels else column.column_type


def sql_type(column: SourceColumn) -> int:
    """Return the number that Canal gives to a column's type."""
    return _SQL_TYPES.get(type_name(column), _BLOB)


def to_text(column: SourceColumn, zone: tzinfo) -> ToText:
    """Return a function from the values of a column, other than NULL and absent ones, to texts."""
    kind, name = column.kind, type_name(column)
    decode = text_of(column.charset)
    if name in ("enum", "set"):
        numbers = {label: place for place, label in enumerate(labels_of(column.column_type))}
        number = _enum_number if name == "enum" else _set_bits
        return lambda value: str(number(decode(bytes_of(value)), numbers))
    if kind is Kind.FLOAT32:
        return lambda value: java_single_text(float_of(value))
    if kind is Kind.FLOAT64:
        return lambda value: java_double_text(float_of(value))
    if name == "binary":
        return lambda value: bytes_of(value).rstrip(b"\0").decode("iso-8859-1")
    if kind in (Kind.BINARY, Kind.BLOB):
        return lambda value: bytes_of(value).decode("iso-8859-1")
    if kind in (Kind.TEXT, Kind.JSON):
        return lambda value: decode(bytes_of(value))
    if kind is Kind.YEAR:
        return lambda value: f"{value!s:>04}"
    if kind is Kind.INSTANT:
        return lambda value: _clock(str(value), zone)
    return str


def object_of(row: tuple[Value, ...], columns: tuple[tuple[str, ToText], ...]) -> dict[str, str | None]:
    """Return a row image as an object, without the columns that it leaves out."""
    return {
        name: None if value is None else text(value)
        for value, (name, text) in zip(row, columns, strict=True)
        if value is not ABSENT
    }


def _enum_number(label: str, places: dict[str, int]) -> int:
    """Return the number of a label from one on.

    The text of a value that the column could not take is no label, and has 0.
    """
    return places[label] + 1 if label in places else 0


def _set_bits(labels: str, places: dict[str, int]) -> int:
    return sum(1 << places[label] for label in labels.split(",")) if labels else 0


def _clock(seconds: str, zone: tzinfo) -> str:
    """``2021-05-17 15:22:42.500`` from ``1621236162.500``."""
    whole, dot, fraction = seconds.partition(".")
    text = f"{datetime.fromtimestamp(int(whole), zone):%Y-%m-%d %H:%M:%S}" if int(whole) else _ZERO
    return f"{text}{dot}{fraction}"
