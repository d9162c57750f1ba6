"""The tables of a subscription: shapes that entries describe go into the registry file.

The graph is drawn from that file. It is a cache of the ledger's ``table_shapes``, and one of another lake counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import Column, ColumnShape, widened
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.entry_facts import merge_shapes
from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry, read_registry_of
from dts_assets.wire.format import TableShape


def register_shapes(pipeline: Pipeline, shapes: Mapping[TableShape, SourcePosition]) -> tuple[TableId, ...]:
    """Add the tables and columns of some shapes to the registry, and return the new tables.

    A column keeps a type that also holds what the newer shape says; where there is none, the first type stays and values that
    do not fit it go to ``invalid``. A registry file that was lost gets all shapes of the ledger first, because a file with some
    tables or columns alone would look whole.
    """
    before = _registered_tables(pipeline)
    if before is None:
        shapes, before = merge_shapes([stored_shapes(pipeline.ledger.table_shapes()), shapes]), {}
    found: dict[TableId, dict[str, RegisteredColumn]] = {}
    for shape in sorted(shapes, key=lambda one: (shapes[one], one.table)):
        if not pipeline.settings.tables.takes(shape.table):
            continue
        known = {column.name: column for column in before[shape.table].columns} if shape.table in before else {}
        columns = found.setdefault(shape.table, {})
        for column in shape.columns:
            seen = columns.get(column.name) or known.get(column.name)
            columns[column.name] = _registered(pipeline, shape.table, column, seen)
    _merge(pipeline, found)
    return tuple(sorted(found.keys() - before.keys()))


def stored_shapes(rows: Iterable[TableShapeRow]) -> dict[TableShape, SourcePosition]:
    """Return the shapes that the ledger knows, each with the first position at which any cell saw it."""
    return merge_shapes(
        {TableShape(row.table, row.columns): row.first_position or SourcePosition(0, 0, 0)} for row in rows
    )


def known_tables(pipeline: Pipeline) -> dict[TableId, tuple[Column, ...]]:
    """Return every table of the subscription with its columns.

    A registry file that was lost, or that is of another lake, is written anew from the ledger. There is no table before the
    lake is made.
    """
    if _registered_tables(pipeline) is None and pipeline.lake.identity(pipeline.name) is not None:
        register_shapes(pipeline, {})
    return {
        table: tuple(column.column for column in entry.columns)
        for table, entry in (_registered_tables(pipeline) or {}).items()
        if pipeline.settings.tables.takes(table)
    }


def widen_unsigned(pipeline: Pipeline, columns: Iterable[tuple[TableId, str]], *, empty: frozenset[TableId]) -> bool:
    """Note that columns hold unsigned values, and return whether any type became another.

    Their type text does not say so. ``empty`` are tables without a stored row, whose columns may still become any type.
    """
    registered = _registered_tables(pipeline) or {}
    changed: dict[TableId, dict[str, RegisteredColumn]] = {}
    wire = pipeline.format
    for table, name in columns:
        column = next(one for one in registered[table].columns if one.name == name)
        wanted = wire.column_type(column.original_type, unsigned=True)
        wide = wanted if table in empty else widened(column.type, wanted)
        if wide is not None and wide != column.type and name not in pipeline.settings.types_of(table):
            changed.setdefault(table, {})[name] = replace(column, type=wide)
    _merge(pipeline, changed)
    return bool(changed)


def _registered_tables(pipeline: Pipeline) -> dict[TableId, RegisteredTable] | None:
    """Return the tables in the registry of this lake; None if there is none of it."""
    lake = pipeline.lake.identity(pipeline.name)
    return None if lake is None else read_registry_of(pipeline.settings.registry_path, lake)


def _merge(pipeline: Pipeline, found: Mapping[TableId, Mapping[str, RegisteredColumn]]) -> None:
    tables = [RegisteredTable(table, tuple(columns.values())) for table, columns in found.items()]
    merge_registry(pipeline.settings.registry_path, tables, lake=pipeline.lake.identity(pipeline.name))


def _registered(
    pipeline: Pipeline, table: TableId, column: ColumnShape, known: RegisteredColumn | None
) -> RegisteredColumn:
    kind = pipeline.settings.types_of(table).get(column.name)
    if kind is None:
        kind = pipeline.format.column_type(column.original_type, unsigned=False)
        if known is not None:
            kind = widened(known.type, kind) or known.type
    return RegisteredColumn(column.name, column.original_type, kind, column.is_key)
