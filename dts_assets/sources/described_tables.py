"""The question to ``information_schema`` how tables are declared, and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dts_assets.model.server_tables import ServerColumn, ServerTable
from dts_assets.model.tables import TableId

ONE_TABLE = "t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s"
"""The condition of one table, with places for its database and its name."""

TABLES = (
    "t.TABLE_TYPE = 'BASE TABLE' AND t.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
)
"""The condition of all tables but views and the server's own."""


def columns_statement(condition: str) -> str:
    """Return the statement that gives the columns of tables under a condition, for :func:`described_tables`."""
    return (
        "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, t.ENGINE, c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.NUMERIC_PRECISION, "
        "c.NUMERIC_SCALE, c.DATETIME_PRECISION, c.COLUMN_KEY = 'PRI' FROM information_schema.COLUMNS c "
        "JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME "
        f"WHERE {condition} ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION"
    )


def described_tables(rows: Iterable[Sequence[Any]]) -> Mapping[TableId, ServerTable]:
    """Return the tables that the rows of :func:`columns_statement` describe."""
    found: dict[TableId, tuple[str, list[ServerColumn]]] = {}
    for database, table, engine, name, kind, declared, precision, scale, digits, is_key in rows:
        numbers = precision, scale, digits
        columns = found.setdefault(TableId(_text(database), "", _text(table)), (_text(engine or ""), []))[1]
        columns.append(ServerColumn(_text(name), _text(kind).lower(), _text(declared), *numbers, bool(is_key)))
    return {table: ServerTable(engine, tuple(columns)) for table, (engine, columns) in found.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
