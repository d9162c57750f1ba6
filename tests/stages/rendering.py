"""Changelog rows made by hand, and their statements in a dialect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.key_periods import ToldColumns
from dts_assets.model.tables import TableId
from dts_assets.stages.mysql_sql import MySql
from dts_assets.stages.postgres_sql import PostgreSql
from dts_assets.stages.sql_dialect import Dialect, SqlColumn
from dts_assets.stages.statements import READ_COLUMNS, StatementTable, statement_rows
from dts_assets.store.columns import changelog_columns
from dts_assets.store.types import arrow_schema, iceberg_schema

ORDERS = TableId("shop", "", "orders")
START = datetime(2026, 1, 5, 10, tzinfo=UTC)
DIALECTS: dict[str, Dialect] = {"mysql": MySql(), "postgresql": PostgreSql()}


def column(name: str, lake_type: str, source_type: str = "", *, key: bool = False) -> SqlColumn:
    """A column as statements name it."""
    return SqlColumn(Column(name, lake_type, key), name, source_type)


def change(
    op: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None, **others: Any
) -> dict[str, Any]:
    """A row of a changelog; ``at`` is its position, ``absent`` and ``invalid`` are as they stand there."""
    position = {"lineage": 0, "file": 5, "position": others.pop("at", 7)}
    made: dict[str, Any] = {
        "op": op, "before": before, "after": after, "absent": [], "invalid": [], "source_position": position, "row_number": 0,
        "kafka_partition": 0, "kafka_offset": 1, "epoch": 0, "window_start": START,
    }  # fmt: skip
    return made | others


def changelog(columns: Sequence[SqlColumn], rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as a changelog's file holds them."""
    schema = arrow_schema(iceberg_schema(changelog_columns([one.column for one in columns])))
    batch = pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([pa.field(one.name, one.type) for one in schema]))
    return batch.select(READ_COLUMNS)


def rendered(
    columns: Sequence[SqlColumn],
    rows: Sequence[dict[str, Any]],
    *,
    dialect: str = "mysql",
    table: TableId = ORDERS,
    told: dict[int, ToldColumns] | None = None,
) -> list[str]:
    """The statements of some rows."""
    shape = StatementTable(table, tuple(columns), DIALECTS[dialect])
    found, _ = statement_rows(changelog(columns, rows), shape, told or {})
    statements: list[str] = found["statement"].to_pylist()
    return statements
