"""Columns of a real server's tables as the lake would have their values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dts_assets.stages.server_types import Kind, ServerType, server_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn

LITERALS = {
    Kind.WHOLE: ("0", "1", "-1", "100", "255", "70000", "-2147483648", "4294967295", "20260105"),
    Kind.BIT: ("0", "1"),
    Kind.YEAR: ("0", "1999", "2026"),
    Kind.DECIMAL: ("0", "0.5", "-0.5", "1.005", "99.9999", "-12345.678"),
    Kind.REAL: ("0", "0.5", "-2.5", "1234.5", "1e15"),
    Kind.DATE: ("'2026-01-05'", "'1000-01-01'", "'0000-00-00'"),
    Kind.CLOCK: ("'2026-01-05 10:11:12.654321'", "'1999-12-31 23:59:59.999999'", "'0000-00-00 00:00:00'"),
    Kind.INSTANT: ("'2026-01-05 10:11:12.654321'", "'2001-02-03 04:05:06'"),
    Kind.TIME: ("'10:11:12.7654321'", "'-838:59:59'", "'00:00:00'"),
    Kind.TEXT: ("''", "'7'", "'-12.5'", "'abc  '", "'a long text of words'", "'naïve'", "'茶'", "'2026-01-05'", "'x'", "'x,z'"),
    Kind.BYTES: ("''", "'abc'", "x'00ff'", "'12'"),
    Kind.ENUM: ("1", "2"),
    Kind.SET: ("1", "2", "0"),
}  # fmt: skip
"""Literals of values by kind; a server that is not strict makes them fit."""


def typed(text: str) -> ServerType:
    has_charset = text.startswith(("varchar", "char", "tinytext", "longtext", "enum", "set"))
    found = server_type(SchemaColumn("v", text, "utf8mb4" if has_charset else None))
    assert found is not None
    return found


def shown(cursor: Any, table: str, column: str, kind: ServerType) -> tuple[list[Any], list[str | None]]:
    """The values of a column in its lake type, and the texts of those that have none; rows by the first column."""
    read = read_as(column, kind)
    cursor.execute(
        f"SELECT {read} FROM {table} ORDER BY 1" if column != "v" else f"SELECT {read} FROM {table} ORDER BY id"
    )
    cells = [cell(value, kind) for (value,) in cursor.fetchall()]
    return [value for value, _ in cells], [text for _, text in cells]


def read_as(column: str, kind: ServerType) -> str:
    """The expression that reads a column for :func:`cell`."""
    if kind.kind in (Kind.TIME, Kind.DATE, Kind.CLOCK, Kind.INSTANT):
        return f"CAST({column} AS CHAR)"
    return f"{column} + 0e0" if kind.kind is Kind.REAL else f"{column} + 0" if kind.kind is Kind.BIT else column


def cell(value: Any, kind: ServerType) -> tuple[Any, str | None]:
    """A value in its lake type, or None and the text of a value that has none."""
    zero = isinstance(value, str) and kind.kind in (Kind.DATE, Kind.CLOCK, Kind.INSTANT) and "-00" in value[:10]
    return (None, value) if zero else (lake_value(value, kind), None)


def lake_value(value: Any, kind: ServerType) -> Any:
    if kind.kind in (Kind.ENUM, Kind.SET) and isinstance(value, bytes):
        return value.decode()  # the driver hands over the labels of charset binary as bytes
    if value is None or kind.kind in (Kind.TEXT, Kind.TIME, Kind.ENUM, Kind.SET, Kind.BYTES):
        return value
    if kind.kind is Kind.DATE:
        return datetime.fromisoformat(value).date()
    if kind.kind in (Kind.CLOCK, Kind.INSTANT):
        return datetime.fromisoformat(value).replace(tzinfo=UTC if kind.kind is Kind.INSTANT else None)
    if kind.lake_type.startswith("decimal"):
        return Decimal(value)
    if kind.kind is Kind.DECIMAL:  # of more digits than a decimal of the lake has
        return f"{value:f}"
    return float(value) if kind.kind is Kind.REAL else int(value)
