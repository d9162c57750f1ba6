"""The changes of schemas that windows brought, for the reports of a run.

Statements tell them, and shapes that events told anew.

Only the statements and the shapes of these windows are read, and the shapes of the window before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dts_assets.flows.known_tables import known_sources, source_types
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.wire.ddl.change_words import told_words
from dts_assets.wire.ddl.schema_news import SchemaNews, Tables, statement_news
from dts_assets.wire.ddl.table_schemas import TableSchema
from dts_assets.wire.ddl.told_schemas import told_schema

News = Mapping[TableId, Mapping[datetime, tuple[SchemaNews, ...]]]
"""The news of tables by window start, in source order."""


def schema_news(
    pipeline: Pipeline,
    windows: Sequence[Window],
    shapes: Iterable[TableShapeRow],
    *,
    tables: Mapping[TableId, Sequence[Column]],
) -> News:
    """Return what windows brought for the schemas of known tables, by their names in the lake.

    ``shapes`` are those of source tables in the windows and in the window before.
    """
    sources = known_sources(pipeline)
    lake_names = {source: table for table in tables for source in sources.get(table, (table,))}
    found: dict[TableId, dict[datetime, list[SchemaNews]]] = {}
    statements = sorted(
        stored_statements(pipeline, {window.start for window in windows}), key=lambda one: (one.position, one.place)
    )
    shapes = sorted(shapes, key=_in_order)
    schemas = _schemas_of_sets(pipeline, lake_names, tables, shapes) if statements else {}
    lake_names |= {source.of_all_sets: table for source, table in lake_names.items()}
    for one in statements:
        assert one.window_start is not None, "a stored statement has its window"
        in_set = one.source_set if one.source_set in schemas else ""
        found_here, schemas[in_set] = statement_news(one, schemas[in_set])
        for table, news in found_here:
            if table in lake_names:
                found.setdefault(lake_names[table], {}).setdefault(one.window_start, []).append(news)
    for source, start, news in _of_shapes(shapes, {window.start for window in windows}):
        named = lake_names.get(source)
        # Statements of the window explain what its events told.
        if named is not None and start not in found.get(named, {}):
            found.setdefault(named, {}).setdefault(start, []).append(news)
    return {table: {start: tuple(news) for start, news in mine.items()} for table, mine in found.items()}


def _in_order(row: TableShapeRow) -> tuple[object, ...]:
    """Return the place of a shape: by window, then fewer columns first, since most statements add some."""
    return row.window_start, len(row.columns), repr(row.columns)


def _schemas_of_sets(
    pipeline: Pipeline,
    lake_names: Mapping[TableId, TableId],
    tables: Mapping[TableId, Sequence[Column]],
    shapes: Iterable[TableShapeRow],
) -> dict[str, Tables]:
    """Return the known source tables of each set, as the source calls them.

    Without sets all stand under an empty text.
    """
    found: dict[str, dict[TableId, TableSchema]] = {"": {}}
    for source, schema in _schemas(pipeline, lake_names, tables, shapes).items():
        found.setdefault(source.source_set, {})[source.of_all_sets] = schema
    return {**found}


def _schemas(
    pipeline: Pipeline,
    lake_names: Mapping[TableId, TableId],
    tables: Mapping[TableId, Sequence[Column]],
    shapes: Iterable[TableShapeRow],
) -> dict[TableId, TableSchema]:
    """Return the known source tables as statements are judged by them.

    They have the columns that the first shapes tell; without a shape those that the registry has, with their last types.
    """
    types, told = source_types(pipeline), dict[TableId, tuple[ColumnShape, ...]]()
    for source, table in lake_names.items():
        shard_columns, mine = pipeline.settings.routes.shard_columns(table), types.get(table, {})
        told[source] = tuple(
            ColumnShape(one.source_names[0], mine.get(one.name, ""), one.is_key)
            for one in tables[table]
            if one.name not in shard_columns
        )
    first: dict[TableId, tuple[ColumnShape, ...]] = {}
    for row in shapes:
        first.setdefault(row.source, row.columns)
    told |= {table: shape for table, shape in first.items() if table in lake_names}
    return {table: told_schema(shape, None, tells_keys=True) for table, shape in told.items()}


def _of_shapes(rows: Iterable[TableShapeRow], starts: set[datetime]) -> Iterable[tuple[TableId, datetime, SchemaNews]]:
    """Yield the news that the shapes of a window, which are in order, tell beside those before."""
    known: dict[TableId, dict[str, TableSchema]] = {}
    for row in rows:
        schema = told_schema(row.columns, None, tells_keys=True)
        before = known.setdefault(row.source, {})
        if before and repr(row.columns) not in before and row.window_start in starts:
            yield row.source, row.window_start, SchemaNews(told_words(list(before.values())[-1], schema))
        before.setdefault(repr(row.columns), schema)
