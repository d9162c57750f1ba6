"""MySQL values as DRS writes them in JSON and JSON-C: each is a text.

Binary values are written as Java prints an array of signed bytes. The vendor does not document BIT, YEAR and zero dates: here
they are numbers and texts as the server has them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo

from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.messages.float_texts import java_double_text, java_single_text
from dts_emulator.source.events import ABSENT, Kind, SourceColumn, Value, bytes_of, float_of
from dts_emulator.source.source_schema import text_of

ToText = Callable[[Value], str]

_ZERO_TIMESTAMP = "0000-00-00 00:00:00"

# java.sql.Types, but for datetime, which the vendor numbers 94.
_SQL_TYPES = {
    "bit": -7, "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 6, "double": 8, "decimal": 3,
    "char": 1, "varchar": 12, "tinytext": -1, "text": -1, "mediumtext": -1, "longtext": -1, "date": 91, "time": 92,
    "datetime": 94, "timestamp": 93, "year": 12, "binary": -2, "varbinary": -3, "tinyblob": 2004, "blob": 2004,
    "mediumblob": 2004, "longblob": 2004, "enum": 1, "set": 1, "json": 12,
}  # fmt: skip
_OTHER = 1111


def type_name(column: SourceColumn, options: DrsOptions) -> str:
    """Return the type of a column without length, precision and sign: ``varchar``."""
    if column.kind is Kind.JSON and options.json_as == "json":
        return "json"
    return column.column_type.lower().partition("(")[0].split()[0]


def sql_type(name: str) -> int:
    """Return the number that goes with a type's name."""
    return _SQL_TYPES.get(name, _OTHER)


def to_text(column: SourceColumn, options: DrsOptions) -> ToText:
    """Return a function from the values of a column, other than NULL and absent ones, to texts."""
    kind = column.kind
    if kind is Kind.FLOAT32:
        return lambda value: java_single_text(float_of(value))
    if kind is Kind.FLOAT64:
        return lambda value: java_double_text(float_of(value))
    if kind in (Kind.BINARY, Kind.BLOB):
        return lambda value: str([byte - 256 if byte > 127 else byte for byte in bytes_of(value)])
    if kind in (Kind.TEXT, Kind.JSON):
        decode = text_of(column.charset)
        return lambda value: decode(bytes_of(value))
    if kind is Kind.INSTANT:
        if options.epoch_seconds:
            return _epoch_seconds
        zone = options.source_time_zone
        return lambda value: _clock(str(value), zone)
    return str


def object_of(row: tuple[Value, ...], columns: tuple[tuple[str, ToText], ...]) -> dict[str, str | None]:
    """Return a row image as an object, without the columns that it leaves out."""
    return {
        name: None if value is None else text(value)
        for value, (name, text) in zip(row, columns, strict=True)
        if value is not ABSENT
    }


def _clock(seconds: str, zone: tzinfo) -> str:
    """``2021-05-17 15:22:42.500`` from ``1621236162.500``."""
    whole, dot, fraction = seconds.partition(".")
    if not int(whole) and not fraction.strip("0"):
        return _ZERO_TIMESTAMP
    return f"{datetime.fromtimestamp(int(whole), zone):%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def _epoch_seconds(value: Value) -> str:
    """``1621236162.500``, and ``0`` for the zero timestamp."""
    text = str(value)
    return text if text.strip("0.") else "0"
