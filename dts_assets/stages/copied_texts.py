"""Columns of MySQL and MariaDB as texts that name exactly their values, by expressions of SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from dts_assets.model.columns import ColumnShape, mysql_type, quoted
from dts_assets.wire.columns.lake_texts import held_as

_FLOAT = re.compile(r"\s*float\b", re.I)
_BIT = re.compile(r"\s*bit\b", re.I)
_TEXT = re.compile(r"\s*((var)?char|(tiny|medium|long)?text|enum|set|json)\b", re.I)

POSITION = (
    "(SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME) FROM information_schema.SESSION_STATUS "
    "WHERE VARIABLE_NAME IN ('BINLOG_SNAPSHOT_FILE', 'BINLOG_SNAPSHOT_POSITION'))"
)
"""The place in the binlog of a MariaDB's consistent snapshot, which all rows of a transaction show: ``mysql-bin.000004,1187``."""


def stored_kind(column: ColumnShape) -> str:
    """Return the type in which values of a column are copied, ``binary`` or ``string``."""
    return "binary" if mysql_type(column.original_type) == "binary" else "string"


def copied_type(column: ColumnShape) -> pa.DataType:
    """Return the Arrow type of a column's copied values."""
    return pa.binary() if stored_kind(column) == "binary" else pa.string()


def row_fields(row: pa.StructType, columns: Sequence[ColumnShape]) -> tuple[str, ...]:
    """Return the fields in which a copied table stores some columns; ``row`` is the type of its rows.

    A column that was copied as text before, and is copied as bytes now, or the reverse, has a second field, whose name ends with
    a space. No column at a source has such a name.
    """
    kinds = {field.name: "binary" if pa.types.is_binary(field.type) else "string" for field in row}
    return tuple(_field(kinds, one.name, stored_kind(one)) for one in columns)


def _field(kinds: Mapping[str, str], name: str, kind: str) -> str:
    return name if kinds.get(name, kind) == kind else f"{name} "


def text_of(column: ColumnShape) -> str:
    """Return the expression for a column's text; bytes stay as they are.

    The text of a FLOAT is that of its double, since the server rounds a FLOAT's own text to six digits.
    """
    name, kind = quoted(column.name), column.original_type
    if stored_kind(column) == "binary":
        return name
    if _FLOAT.match(kind):
        return f"CONVERT({name} + 0e0 USING utf8mb4)"
    if _BIT.match(kind):
        return f"CONVERT(CAST({name} AS UNSIGNED) USING utf8mb4)"
    return f"CONVERT({name} USING utf8mb4)"


def declared_type(kind: pa.DataType) -> str:
    """Return a type of MySQL for an Arrow type, whose texts are its values: ``decimal(10,2)`` or ``longtext``."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "datetime(6)" if kind.tz is None else "timestamp(6)"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_integer(kind):
        return "bigint unsigned" if kind == pa.uint64() else "bigint"
    if pa.types.is_boolean(kind):
        return "tinyint(1)"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "longblob"
    return "longtext"


def as_copied(values: pa.Array, kind: str) -> pa.Array:
    """Return typed values as texts that name exactly their value, or as bytes where ``kind`` is ``binary``.

    Bytes that come as a text are its hexadecimal digits behind ``0x``, else the text itself in UTF-8.

    Raises:
        pa.ArrowInvalid: Bytes are no text.
        pa.ArrowNotImplementedError: Values of the type, such as lists, have no text.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kind == "binary":
        return _from_digits(values) if pa.types.is_string(values.type) else values.cast(pa.binary())
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    return held_as(values, pa.string())


def _from_digits(texts: pa.Array) -> pa.Array:
    """Return the bytes of texts such as ``0x00FF``, and those of any other text in UTF-8."""
    return pa.array([None if one is None else _bytes_of(one) for one in texts.to_pylist()], pa.binary())


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
    except ValueError:
        return text.encode()


def as_dumped(values: Sequence[bytes | None], column: ColumnShape) -> pa.Array:
    """Return values of a dump as texts, or as bytes of columns with bytes.

    A dump has the bytes of a BIT, and not its number.

    Raises:
        pa.ArrowInvalid: A text is no UTF-8.
    """
    if _BIT.match(column.original_type):
        texts = [None if one is None else str(int.from_bytes(one)) for one in values]
        return pa.array(texts, pa.string())
    found = pa.array(values, pa.binary())
    return found if stored_kind(column) == "binary" else found.cast(pa.string())


def copy_query(
    table: str, columns: Sequence[ColumnShape], *, key: str | None, tells_position: bool
) -> tuple[str, tuple[str, ...]]:
    """Return a query that can stand in FROM, and the names of its columns that hold values.

    Beside these it has ``k0``, the ``key`` column as it is, by which ranges are chosen, and ``p``, the position, where the server
    tells one. ``table`` is quoted.
    """
    names = tuple(f"c{number}" for number in range(len(columns)))
    parts = [f"{text_of(column)} AS {name}" for column, name in zip(columns, names, strict=True)]
    if tells_position:
        parts.append(f"{POSITION} AS p")
    if key is not None:
        parts.append(f"{quoted(key)} AS k0")
    return f"(SELECT {', '.join(parts)} FROM {table}) copied", names
