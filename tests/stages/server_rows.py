"""Columns of a real server's tables as the lake would have their values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dts_assets.stages.server_types import Kind, ServerType, server_type
from dts_assets.wire.ddl.table_schemas import SchemaColumn


def typed(text: str) -> ServerType:
    has_charset = text.startswith(("varchar", "char", "tinytext", "longtext", "enum", "set"))
    found = server_type(SchemaColumn("v", text, "utf8mb4" if has_charset else None))
    assert found is not None
    return found


def shown(cursor: Any, table: str, column: str, kind: ServerType) -> tuple[list[Any], list[str | None]]:
    """The values of a column in its lake type, and the texts of those that have none; rows by the first column."""
    as_text = (Kind.TIME, Kind.DATE, Kind.CLOCK, Kind.INSTANT)
    read = f"CAST({column} AS CHAR)" if kind.kind in as_text else column
    read = f"{column} + 0e0" if kind.kind is Kind.REAL else f"{column} + 0" if kind.kind is Kind.BIT else read
    cursor.execute(
        f"SELECT {read} FROM {table} ORDER BY 1" if column != "v" else f"SELECT {read} FROM {table} ORDER BY id"
    )
    values: list[Any] = []
    texts: list[str | None] = []
    for (value,) in cursor.fetchall():
        zero = isinstance(value, str) and kind.kind in (Kind.DATE, Kind.CLOCK, Kind.INSTANT) and "-00" in value[:10]
        texts.append(value if zero else None)
        values.append(None if zero else lake_value(value, kind))
    return values, texts


def lake_value(value: Any, kind: ServerType) -> Any:
    if value is None or kind.kind in (Kind.TEXT, Kind.TIME, Kind.ENUM, Kind.SET, Kind.BYTES):
        return value
    if kind.kind is Kind.DATE:
        return datetime.fromisoformat(value).date()
    if kind.kind in (Kind.CLOCK, Kind.INSTANT):
        return datetime.fromisoformat(value).replace(tzinfo=UTC if kind.kind is Kind.INSTANT else None)
    if kind.lake_type.startswith("decimal"):
        return Decimal(value)
    return float(value) if kind.kind is Kind.REAL else int(value)
