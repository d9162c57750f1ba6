"""Tables that are there because a statement renamed another one, before any event has their name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dts_assets.flows.known_tables import (
    known_sources,
    known_tables,
    register_counted,
    register_shapes,
    registered_columns,
    source_types,
)
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.columns import Column, ColumnShape, joined_type, same_name
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import ToldPlace, told_places
from dts_assets.model.windows import Window
from dts_assets.store.registry import lacks_renames, merge_registry
from dts_assets.wire.ddl.effects import Effect, EffectKind
from dts_assets.wire.ddl.schema_history import SourceStatement
from dts_assets.wire.format import TableShape


def register_names(
    pipeline: Pipeline, windows: Sequence[Window], *, again: Sequence[Window], stored: Iterable[datetime]
) -> frozenset[TableId]:
    """Make the tables known that changes and statements tell, and return the new names that statements gave.

    The statements are those of some windows and of the ``stored`` ones behind the first of them: a window that comes late tells
    which columns a table had that a later one renames. The changes are those of the windows that were made ``again``.
    """
    first = min(window.start for window in windows)
    restore_renamed(pipeline)
    register_counted(pipeline, again)
    later = (start for start in stored if start > first)
    return register_renamed(pipeline, {*later, *(window.start for window in windows)})


def register_renamed(pipeline: Pipeline, starts: Collection[datetime] | None) -> frozenset[TableId]:
    """Make the new names of known tables known that statements of some windows (None: of all) gave them.

    Such a table has the columns that the table with the former name had then; a name that several tables had in turn has those
    of each. Names that a statement gives and takes away again are left out; those that other statements take away, or drop,
    had rows for a while, which histories have. The new names are returned, as the lake has them.
    """
    given = {
        effect.tables[-1]
        for _, effect in _effects(pipeline, stored_statements(pipeline, starts))
        if effect.kind is EffectKind.RENAME_TABLE
    }
    if not given:
        return frozenset()
    # A name that a statement of another window gave is the name of another table, whatever events told of it before.
    statements = sorted(stored_statements(pipeline, None), key=lambda one: (one.position, one.place))
    effects = [*_effects(pipeline, statements)]
    shapes, routes = _known_shapes(pipeline), pipeline.settings.routes
    told = _told(pipeline, {effect.tables[0] for _, effect in effects if effect.tables})
    there: dict[TableId, tuple[TableShape, SourcePosition]] = {}
    renamed: dict[TableId, list[tuple[TableShape, SourcePosition]]] = {}
    for position, effect in effects:
        old = effect.tables[0] if effect.tables else None
        if old is None or effect.kind not in (EffectKind.RENAME_TABLE, EffectKind.DROP_TABLE):
            continue
        before = there.pop(old, None)
        if before is not None and before[1] != position:
            renamed.setdefault(old, []).append(before)
        columns = _columns_at(position, old, shapes.get(old, ()), told, before)
        new = effect.tables[-1]
        if effect.kind is EffectKind.RENAME_TABLE and columns and new != old:
            there[new] = TableShape(new, columns), position
    for new, last in there.items():
        renamed.setdefault(new, []).append(last)
    named = {
        new: table
        for new in given & renamed.keys()
        if (table := routes.decoded_table(new)) and pipeline.settings.tables.takes(new)
    }
    registered = registered_columns(pipeline)
    # A shape that a name had twice counts from where it had it first.
    if found := {
        shape: at
        for new, table in named.items()
        for shape, at in reversed(renamed[new])
        if _brings_columns(shape, shapes.get(new, ()))
        or _brings_types(pipeline, shape, table, registered.get(table, ()))
    }:
        register_shapes(pipeline, sorted(found, key=lambda shape: (found[shape], shape.table)))
    return frozenset(named.values())


def restore_renamed(pipeline: Pipeline) -> None:
    """Make all columns known again that statements brought, if the registry file was lost since the last run."""
    path, lake = pipeline.settings.registry_path, pipeline.lake.identity(pipeline.name)
    if lacks_renames(path, lake):
        register_renamed(pipeline, None)
        merge_registry(path, (), lake=lake, lacks_renames=False)


def _brings_columns(shape: TableShape, known: tuple[ColumnShape, ...]) -> bool:
    """Tell whether a table gets columns with its name that it has not had, whatever their case."""
    return not {same_name(one.name) for one in shape.columns} <= {same_name(one.name) for one in known}


def _brings_types(pipeline: Pipeline, shape: TableShape, table: TableId, columns: Sequence[Column]) -> bool:
    """Tell whether a table gets values with its name that a column of it does not hold."""
    declared = pipeline.settings.types_of(table)
    types = {same_name(name): column.type for column in columns for name in column.source_names}
    return any(
        joined_type(types[name], pipeline.lake_type(table, one.original_type)) != types[name]
        for one in shape.columns
        if one.name not in declared and (name := same_name(one.name)) in types
    )


_Told = Mapping[TableId, Sequence[tuple[ToldPlace, TableShapeRow]]]
"""The lists of columns that events of source tables told, in the order of their places."""


def _columns_at(
    position: SourcePosition,
    table: TableId,
    known: tuple[ColumnShape, ...],
    told: _Told,
    given: tuple[TableShape, SourcePosition] | None,
) -> tuple[ColumnShape, ...]:
    """Return the columns that a table has at a position, with its key.

    They are those that events told last, or of the table that gave its name to it since; within a window several lists may have
    changed places, so that all of them count. The ``known`` columns are those of a table of which statements alone have told.
    """
    since = None if given is None else given[1]
    lists = [
        row for place, row in told.get(table, ()) if place.first <= position and (since is None or since < place.first)
    ]
    if not lists and given is not None:
        return given[0].columns
    if not lists:
        return () if table in told else known
    last = lists[-1]
    here = [
        row for row in lists if (row.window_start, row.kafka_partition) == (last.window_start, last.kafka_partition)
    ]
    key = {column.name for column in last.columns if column.is_key}
    columns = {same_name(column.name): column for row in here for column in row.columns}
    return tuple(replace(column, is_key=column.name in key) for column in columns.values())


def _told(pipeline: Pipeline, tables: Collection[TableId]) -> _Told:
    routes, found = pipeline.settings.routes, dict[TableId, list[tuple[ToldPlace, TableShapeRow]]]()
    names = {one.of_all_sets for one in tables}
    shapes, counts = pipeline.ledger.of_tables({*names, *map(routes.lake_table, tables)})
    for place, row in told_places(shapes, counts, routes.named):
        if row.source in tables:
            found.setdefault(row.source, []).append((place, row))
    return {table: sorted(rows, key=lambda one: (one[0].first, repr(one[1].columns))) for table, rows in found.items()}


def with_new_names(pipeline: Pipeline, tables: Collection[TableId]) -> frozenset[TableId]:
    """Return tables of the lake and all tables to which statements have moved their rows since."""
    return tables_reached(pipeline, dict.fromkeys(tables)).union(tables)


def tables_reached(pipeline: Pipeline, first: Mapping[TableId, SourcePosition | None]) -> frozenset[TableId]:
    """Return the tables of the lake to which statements have moved rows of some changes.

    ``first`` has the least position of the changes by table of the lake; None stands for any position.
    """
    routes, known = pipeline.settings.routes, [one for one in first.values() if one is not None]
    since = min(known, default=None) if len(known) == len(first) else None
    statements = stored_statements(pipeline, None, since=since) if first else ()
    # Rows may pass through names that the lake does not have.
    found, reached = dict[TableId, SourcePosition | None](first), set[TableId]()
    for position, effect in _effects(pipeline, sorted(statements, key=lambda one: (one.position, one.place))):
        if effect.kind is not EffectKind.RENAME_TABLE:
            continue
        old, new = (routes.decoded_table(one) or one for one in effect.tables)
        least = found.get(old)
        if old not in found or (least is not None and least > position):
            continue
        others = found.get(new, least)
        found[new] = None if least is None or others is None else min(least, others)
        if routes.decoded_table(effect.tables[-1]) is not None:
            reached.add(new)
    return frozenset(reached)


def _effects(pipeline: Pipeline, statements: Iterable[SourceStatement]) -> Iterator[tuple[SourcePosition, Effect]]:
    """Yield the effects of statements with their positions, in the order of the statements.

    Where there are sets their tables are those of the set that sent the statement.
    """
    by_set = pipeline.settings.routes.by_set
    for one in statements:
        for effect in one.parsed.effects:
            tables = tuple(table.of_set(one.source_set) for table in effect.tables) if by_set else effect.tables
            yield one.position, replace(effect, tables=tables)


def _known_shapes(pipeline: Pipeline) -> dict[TableId, tuple[ColumnShape, ...]]:
    """Return the columns of all known source tables that are one table of the lake each.

    Of a TDSQL they are those of each set.
    """
    known, types, routes = known_tables(pipeline), source_types(pipeline), pipeline.settings.routes
    return {
        source: tuple(
            ColumnShape(one.source_names[0], types.get(table, {}).get(one.name, ""), one.is_key)
            for one in known[table]
            if not routes.by_set or one.name not in routes.shard_columns(table)
        )
        for table, sources in known_sources(pipeline).items()
        if len({one.of_all_sets for one in sources}) == 1 and table in known
        for source in sources
    }
