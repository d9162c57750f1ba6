"""Tables that are there because a statement renamed another one, before any event has their name."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from dts_assets.flows.known_tables import known_sources, known_tables, register_shapes, source_types
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_history import stored_statements
from dts_assets.model.columns import ColumnShape
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.format import TableShape


def register_renamed(pipeline: Pipeline, starts: Collection[datetime] | None) -> frozenset[TableId]:
    """Make the new names of known tables known that statements of some windows (None: of all) gave them.

    Such a table has the columns of the table that got its name. Names that a statement gives and takes away again are left out;
    those that other statements take away, or drop, had rows for a while, which histories have. The new names are returned, as
    the lake has them.
    """
    effects = [
        (one.position, effect)
        for one in sorted(stored_statements(pipeline, starts), key=lambda one: (one.position, one.place))
        for effect in one.parsed.effects
    ]
    if not any(effect.kind is EffectKind.RENAME_TABLE for _, effect in effects):
        return frozenset()
    shapes, routes = _known_shapes(pipeline), pipeline.settings.routes
    there: dict[TableId, tuple[TableShape, SourcePosition]] = {}
    renamed: dict[TableId, tuple[TableShape, SourcePosition]] = {}
    for position, effect in effects:
        old = effect.tables[0] if effect.tables else None
        if old is None or effect.kind not in (EffectKind.RENAME_TABLE, EffectKind.DROP_TABLE):
            continue
        before = there.pop(old, None)
        if before is not None and before[1] != position:
            renamed.setdefault(old, before)
        columns = shapes.get(old) if before is None else before[0].columns
        if effect.kind is EffectKind.RENAME_TABLE and columns is not None:
            new = effect.tables[1]
            there[new] = TableShape(new, columns), position
    renamed |= there
    named = {
        new: table for new in renamed if (table := routes.decoded_table(new)) and pipeline.settings.tables.takes(new)
    }
    if found := {renamed[new][0]: renamed[new][1] for new in named if new not in shapes}:
        register_shapes(pipeline, found)
    return frozenset(named.values())


def with_new_names(pipeline: Pipeline, tables: Collection[TableId]) -> frozenset[TableId]:
    """Return tables of the lake and all tables to which statements have moved their rows since."""
    routes, found = pipeline.settings.routes, set(tables)
    renames = [
        effect.tables
        for one in sorted(stored_statements(pipeline, None), key=lambda one: (one.position, one.place))
        for effect in one.parsed.effects
        if effect.kind is EffectKind.RENAME_TABLE
    ]
    for old, new in renames:
        before, table = (routes.decoded_table(one) for one in (old, new))
        if before in found and table is not None:
            found.add(table)
    return frozenset(found)


def _known_shapes(pipeline: Pipeline) -> dict[TableId, tuple[ColumnShape, ...]]:
    """Return the columns of all known source tables that are one table of the lake each."""
    known, types = known_tables(pipeline), source_types(pipeline)
    return {
        sources[0]: tuple(
            ColumnShape(one.source_names[0], types.get(table, {}).get(one.name, ""), one.is_key) for one in known[table]
        )
        for table, sources in known_sources(pipeline).items()
        if len(sources) == 1 and table in known
    }
