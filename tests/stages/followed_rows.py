"""Rows of a real server's tables as the lake would have them, and rows that followed statements beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import AlteredRows, Cells
from dts_assets.stages.server_types import Kind, server_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl.schema_changes import SchemaChange, TableRenamed
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn, TableSchema
from tests.stages.server_rows import shown
from tests.wire.random_statements import quoted


def name_of(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.table)}"


def rows_of(cursor: Any, table: TableId, schema: TableSchema) -> AlteredRows:
    """The rows of a table as the lake would have them; columns whose values no rule converts are not known."""
    cursor.execute(f"SELECT COUNT(*) FROM {name_of(table)}")
    ((count,),) = cursor.fetchall()
    found = {}
    for column in schema.columns:
        kind = server_type(column)
        if kind is None or kind.kind is Kind.OTHER or column.type.startswith("binary(0)"):
            values = pa.nulls(count, pa.string() if kind is None else arrow_type(kind.lake_type))
            found[column.name] = Cells(values, pa.nulls(count, pa.string()), np.ones(count, np.bool_))
            continue
        values, texts = shown(cursor, name_of(table), quoted(column.name), kind)
        found[column.name] = Cells.of(pa.array(values, arrow_type(kind.lake_type)), pa.array(texts, pa.string()))
    return AlteredRows(found, count)


def cells_of(rows: AlteredRows, place: int) -> dict[str, Any]:
    """A row by column; values that are not known are left out."""
    return {
        name: cells.texts[place].as_py() or cells.values[place].as_py()
        for name, cells in rows.columns.items()
        if not cells.unknown[place]
    }


def compare(
    cursor: Any, table: TableId, schema: TableSchema, made: AlteredRows, context: str, counts: Counter[str]
) -> None:
    found = rows_of(cursor, table, schema)
    assert list(made.columns) == list(schema.names), context
    if made.doubts:
        counts["doubted"] += 1
        return
    assert made.count == found.count, context
    for place in range(found.count):
        expected, mine = cells_of(found, place), cells_of(made, place)
        for name in expected:
            kind = server_type(schema.column(name) or SchemaColumn("", "int"))
            assert kind is not None
            assert made.columns[name].values.type == arrow_type(kind.lake_type), (context, name)
            counts["values" if name in mine else "not known"] += 1
            assert name not in mine or mine[name] == expected[name], (context, name)


def follow(rows: dict[TableId, AlteredRows], changes: Sequence[SchemaChange], *, family: Family) -> None:
    """Let the rows of all tables follow changes."""
    for one in changes:
        if isinstance(one, TableRenamed):
            if one.table in rows:
                rows[one.new] = rows.pop(one.table)
        elif hasattr(one, "table"):
            there = rows.get(one.table, AlteredRows({}, 0))
            rows[one.table] = there.behind([one], at=datetime.now(UTC), family=family)
