"""The tables of a subscription: shapes that entries describe go into the registry file.

The graph is drawn from that file. It is a cache of the ledger's ``table_shapes``, and one of another lake counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from dts_assets.flows.layers import CHANGELOG, SQL
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import TableRules, stored_columns, table_rules
from dts_assets.model.columns import Column, ColumnShape, joined_type, same_name
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.routes import routed_columns
from dts_assets.model.row_filters import RowFilter, columns_of
from dts_assets.model.stored_filters import StoredFilter, screen, stored_filter
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.column_names import ColumnNames, named_columns, spelled_as_last
from dts_assets.planning.column_types import ColumnTypes, column_types
from dts_assets.stages.entry_facts import merge_shapes
from dts_assets.store.registry import (
    RegisteredColumn,
    RegisteredTable,
    merge_registry,
    note_removed,
    read_registry_of,
)
from dts_assets.wire.format import TableShape

if TYPE_CHECKING:
    from dts_assets.flows.following import ChangesOrigin


def register_shapes(pipeline: Pipeline, shapes: Mapping[TableShape, SourcePosition]) -> tuple[TableId, ...]:
    """Add the tables and columns of some shapes to the registry, and return the new tables.

    A column gets the type that holds what all shapes say, as text where no other type does. A registry file that was lost gets
    all shapes of the ledger first, because a file with some tables or columns alone would look whole. The ledger has the shapes
    already: it says which spelling of a name is the last.
    """
    before = _registered_tables(pipeline)
    if lost := before is None:
        shapes, before = merge_shapes([stored_shapes(pipeline.ledger.table_shapes()), shapes]), {}
    shapes, sources = _routed(pipeline, shapes, lost=lost)
    found: dict[TableId, dict[str, RegisteredColumn]] = {}
    known: dict[TableId, dict[str, RegisteredColumn]] = {}
    for shape in sorted(shapes, key=lambda one: (shapes[one], one.table)):
        if shape.table not in known:
            known[shape.table] = _by_name(before.get(shape.table))
        _add_shape(pipeline, shape, found.setdefault(shape.table, {}), known[shape.table])
    spelled = _spelled_as_last(pipeline, found, known, shapes)
    keyed = _keyed_as_last(pipeline, spelled, before, shapes)
    _merge(pipeline, _typed_as_all(pipeline, keyed, before), sources)
    if lost:
        register_removed(pipeline)
    return tuple(sorted(found.keys() - before.keys()))


def _routed(
    pipeline: Pipeline, shapes: Mapping[TableShape, SourcePosition], *, lost: bool
) -> tuple[dict[TableShape, SourcePosition], dict[TableId, tuple[TableId, ...]]]:
    """Return shapes of source tables as shapes of lake tables, without tables that are not decoded.

    Those that were decoded once are among them for a ``lost`` registry. Beside them stand the source tables of other names.
    """
    routes, found, sources = (
        pipeline.settings.routes,
        list[dict[TableShape, SourcePosition]](),
        dict[TableId, set[TableId]](),
    )
    for shape, position in shapes.items():
        if pipeline.settings.tables.takes(shape.table) or (
            lost and not routes and pipeline.is_stored(CHANGELOG, shape.table)
        ):
            table = routes.lake_table(shape.table)
            found.append({TableShape(table, routed_columns(routes, shape.table, shape.columns)): position})
            sources.setdefault(table, set()).add(shape.table)
    others = {table: tuple(sorted(some)) for table, some in sources.items() if some != {table}}
    return merge_shapes(found), others


def lake_shapes(pipeline: Pipeline, windows: Sequence[Window] | None = None) -> list[TableShapeRow]:
    """Return the shapes that the ledger has of some windows (None: of all), as shapes of lake tables.

    Those of tables that are not decoded are left out.
    """
    return routed_shapes(pipeline, pipeline.ledger.table_shapes(windows))


def routed_shapes(pipeline: Pipeline, rows: list[TableShapeRow]) -> list[TableShapeRow]:
    """Return shapes of source tables as :func:`lake_shapes` has them."""
    settings, routes = pipeline.settings, pipeline.settings.routes
    if not routes:
        return rows
    return [
        replace(row, table=routes.lake_table(row.table), columns=routed_columns(routes, row.table, row.columns))
        for row in rows
        if settings.tables.takes(row.table)
    ]


def _add_shape(
    pipeline: Pipeline,
    shape: TableShape,
    columns: dict[str, RegisteredColumn],
    known: Mapping[str, RegisteredColumn],
) -> None:
    """Add the columns of a shape to ``columns``, which go before ``known``.

    Both are by name without case.
    """
    described = {column.name: column for column in shape.columns}
    there = [_names_of(column) for column in {**known, **columns}.values()]
    ignores_case = pipeline.settings.traits.ignores_case and not shape.table.schema
    named = named_columns(there, list(described), ignores_case=ignores_case)
    for column, names in zip(described.values(), named, strict=True):
        key = same_name(names.lake)
        columns[key] = _registered(pipeline, shape.table, column, names, columns.get(key) or known.get(key))


def _spelled_as_last(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    before: Mapping[TableId, Mapping[str, RegisteredColumn]],
    shapes: Iterable[TableShape],
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the spelling of their latest event over all windows, whichever window this run is of.

    The ledger is read where it may say otherwise: where a spelling is new, or is not the last one.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    described = {(shape.table, column.name) for shape in shapes for column in shape.columns}
    doubtful = {
        (table, key)
        for table, columns in found.items()
        for key, column in columns.items()
        if column.spellings[1:]
        and (
            any((table, name) in described for name in column.spellings[:-1])
            or column.spellings != _spellings(before.get(table, {}).get(key))
        )
    }
    if not doubtful:
        return made
    seen: dict[tuple[TableId, str], tuple[datetime, SourcePosition]] = {}
    for row in lake_shapes(pipeline):
        place = row.window_start, row.first_position or SourcePosition(0, 0, 0)
        for shown in row.columns:
            seen[row.table, shown.name] = max(place, seen.get((row.table, shown.name), place))
    for table, key in doubtful:
        column = made[table][key]
        names = spelled_as_last(_names_of(column), partial(_place_of, seen, table))
        made[table][key] = replace(column, name=names.lake, spellings=names.source)
    return made


def _keyed_as_last(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    before: Mapping[TableId, RegisteredTable],
    shapes: Iterable[TableShape],
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the primary key of the latest event, whichever windows this run is of.

    The ledger is read where a table has got another key.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    keys = {table: {_key(entry.columns)} for table, entry in before.items() if table in made}
    for shape in shapes:
        if shape.table in made:
            keys.setdefault(shape.table, set()).add(_key(shape.columns))
    doubtful = {table for table, some in keys.items() if len(some) > 1}
    last: dict[TableId, tuple[datetime, SourcePosition, tuple[ColumnShape, ...]]] = {}
    for row in lake_shapes(pipeline) if doubtful else ():
        seen = row.window_start, row.first_position or SourcePosition(0, 0, 0), row.columns
        if row.table in doubtful and (row.table not in last or last[row.table][:2] < seen[:2]):
            last[row.table] = seen
    for table, (_, _, columns) in last.items():
        key = {column.name for column in columns if column.is_key}
        for name, column in {**_by_name(before.get(table)), **made[table]}.items():
            made[table][name] = replace(column, is_key=not key.isdisjoint(column.column.source_names))
    return made


def _key(columns: Iterable[RegisteredColumn | ColumnShape]) -> frozenset[str]:
    return frozenset(same_name(column.name) for column in columns if column.is_key)


def _place_of(
    seen: Mapping[tuple[TableId, str], tuple[datetime, SourcePosition]], table: TableId, name: str
) -> tuple[object, ...]:
    """Return where a name was seen last, before all else if no event of the ledger has it."""
    return seen.get((table, name), ())


def _spellings(column: RegisteredColumn | None) -> tuple[str, ...]:
    return () if column is None else column.spellings


def _by_name(table: RegisteredTable | None) -> dict[str, RegisteredColumn]:
    """Return columns by their name without case, which no two columns of a table share."""
    return {} if table is None else {same_name(column.name): column for column in table.columns}


def _names_of(column: RegisteredColumn) -> ColumnNames:
    return ColumnNames(column.name, column.spellings or (column.name,))


def stored_shapes(rows: Iterable[TableShapeRow]) -> dict[TableShape, SourcePosition]:
    """Return the shapes that the ledger knows, each with the first position at which any cell saw it."""
    return merge_shapes(
        {TableShape(row.table, row.columns): row.first_position or SourcePosition(0, 0, 0)} for row in rows
    )


def known_tables(pipeline: Pipeline) -> dict[TableId, tuple[Column, ...]]:
    """Return every table of the subscription with the columns that the lake stores under its rules.

    A registry file that was lost, or that is of another lake, is written anew from the ledger. There is no table before the
    lake is made.
    """
    if _registered_tables(pipeline) is None and pipeline.lake.identity(pipeline.name) is not None:
        register_shapes(pipeline, {})
    return {
        table: stored_columns(entry.shape, rule_finder(pipeline, table))
        for table, entry in (_registered_tables(pipeline) or {}).items()
        if pipeline.settings.decoded_sources(table, entry.sources)
    }


def stored_tables(pipeline: Pipeline) -> tuple[TableId, ...]:
    """Return the names of all tables that the lake may have.

    The settings may have left some out since.
    """
    return tuple(sorted({*known_tables(pipeline), *registered_columns(pipeline)}))


def registered_columns(pipeline: Pipeline) -> dict[TableId, tuple[Column, ...]]:
    """Return every known table with all columns that events told, whatever rules make of them."""
    return {table: entry.shape for table, entry in (_registered_tables(pipeline) or {}).items()}


def known_sources(pipeline: Pipeline) -> dict[TableId, tuple[TableId, ...]]:
    """Return the source tables of every known table, by its name in the lake."""
    found = {
        table: pipeline.settings.decoded_sources(table, entry.sources)
        for table, entry in (_registered_tables(pipeline) or {}).items()
    }
    return {table: sources for table, sources in found.items() if sources}


def known_names(pipeline: Pipeline) -> tuple[TableId, ...]:
    """Return the names of all known tables, in the lake and at the source, each once."""
    tables = known_tables(pipeline)
    if not pipeline.settings.routes:
        return tuple(tables)
    return tuple(dict.fromkeys([*tables, *(source for some in known_sources(pipeline).values() for source in some)]))


def ruled_tables(pipeline: Pipeline, tables: Iterable[TableId]) -> dict[TableId, TableRules]:
    """Return the rules on some known tables; those without any are left out."""
    settings, registered = pipeline.settings, _registered_tables(pipeline) or {}
    found = {}
    for table in tables if settings.columns or settings.rows else ():
        shape = registered[table].shape if table in registered else ()
        soft = DELETED_AT in settings.snapshot_columns(table)
        rules = table_rules(
            shape,
            rule_finder(pipeline, table),
            _filter_on(pipeline, table, shape),
            keeps_deleted=soft,
            writes_statements=SQL.takes(settings, table),
        )
        if rules is not None:
            found[table] = rules
    return found


def filter_of_rows(pipeline: Pipeline, table: TableId, columns: Sequence[Column]) -> StoredFilter | None:
    """Return the filter by which a merge judges rows with some columns.

    None stands for a table whose merges judge no row.
    """
    if pipeline.settings.row_filter(table) is None:
        return None
    return stored_filter(ruled_tables(pipeline, [table]).get(table), columns)


def filtered_sources(pipeline: Pipeline, origins: Iterable[ChangesOrigin], table: TableId) -> tuple[ChangesSource, ...]:
    """Return the changelogs of a table's rows, which have had several names.

    Each of them says whether the row filter of the table has judged its changes.
    """
    by_name, ours = pipeline.settings.row_filter, pipeline.settings.row_filter(table)
    return tuple(
        replace(one.source, filtered=True if theirs == ours else False if theirs is None else None)
        for one in origins
        for theirs in (by_name(one.table),)
    )


def screen_of(
    pipeline: Pipeline, table: TableId, columns: Sequence[Column], sources: Iterable[ChangesSource]
) -> StoredFilter | None:
    """Return the filter for all rows that a merge makes; None where their changes were under it."""
    if pipeline.settings.row_filter(table) is None or all(one.filtered for one in sources):
        return None
    rules = ruled_tables(pipeline, [table]).get(table)
    return None if rules is None else screen(rules, columns)


def _filter_on(pipeline: Pipeline, table: TableId, columns: Iterable[Column]) -> RowFilter | None:
    """Return the row filter of a table; a helper table may have that of its table."""
    own, helped = pipeline.settings.row_filter(table), helped_table(table)
    if own is not None or helped is None or (found := pipeline.settings.row_filter(helped)) is None:
        return own
    names = {same_name(name) for column in columns for name in column.source_names}
    return found if names.issuperset(map(same_name, columns_of(found))) else None


def source_types(pipeline: Pipeline) -> dict[TableId, dict[str, str]]:
    """Return the types that columns had at the source last, by table and by name in the lake."""
    return {
        table: {column.name: column.original_type for column in entry.columns}
        for table, entry in (_registered_tables(pipeline) or {}).items()
    }


def register_removed(pipeline: Pipeline) -> None:
    """Note in the registry file which tables the ledger calls removed."""
    removed = {row.table for row in pipeline.ledger.paused_tables() if row.is_removed}
    note_removed(pipeline.settings.registry_path, removed, lake=pipeline.lake.identity(pipeline.name))


def widen_unsigned(pipeline: Pipeline, columns: Iterable[tuple[TableId, str]], *, empty: frozenset[TableId]) -> bool:
    """Note that columns hold unsigned values, and return whether any type became another.

    Their type text does not say so. ``empty`` are tables without a stored row, whose columns may still become any type.
    """
    registered = _registered_tables(pipeline) or {}
    changed: dict[TableId, dict[str, RegisteredColumn]] = {}
    for table, name in columns:
        column = next(one for one in registered[table].columns if one.name == name)
        declared = pipeline.settings.types_of(table)
        wanted = pipeline.lake_type(table, column.original_type, unsigned=True)
        types = column_types(column.type, {**_kinds(column), column.original_type: wanted})
        if table in empty and not column.own_types:
            types = ColumnTypes(wanted)
        wider = replace(column, type=types.type, own_types=types.own)
        if wider != column and not declared.keys() & column.column.source_names:
            changed.setdefault(table, {})[same_name(name)] = wider
    sources = {table: registered[table].sources for table in changed}
    _merge(pipeline, _typed_as_all(pipeline, changed, registered), sources)
    return bool(changed)


def _registered_tables(pipeline: Pipeline) -> dict[TableId, RegisteredTable] | None:
    """Return the tables in the registry of this lake; None if there is none of it."""
    lake = pipeline.lake.identity(pipeline.name)
    return None if lake is None else read_registry_of(pipeline.settings.registry_path, lake)


def _merge(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    sources: Mapping[TableId, tuple[TableId, ...]],
) -> None:
    tables = [
        RegisteredTable(table, tuple(columns.values()), sources=sources.get(table, ()))
        for table, columns in found.items()
    ]
    merge_registry(pipeline.settings.registry_path, tables, lake=pipeline.lake.identity(pipeline.name))


def _is_remapped(pipeline: Pipeline, table: TableId, column: ColumnShape, known: RegisteredColumn) -> bool:
    """Tell whether ``type_mapping`` gives another type to what a column has always been at the source."""

    def mapped(original_type: str) -> str | None:
        usual = pipeline.format.column_type(original_type, unsigned=False, table=table)
        return pipeline.settings.mapped_type(table, original_type, usual)

    wanted = mapped(column.original_type)
    return wanted is not None and wanted == mapped(known.original_type)


def _registered(
    pipeline: Pipeline, table: TableId, column: ColumnShape, names: ColumnNames, known: RegisteredColumn | None
) -> RegisteredColumn:
    declared = pipeline.settings.types_of(table)
    kind = next((declared[name] for name in reversed(names.source) if name in declared), None)
    own: tuple[tuple[str, str], ...] = ()
    if kind is None:
        kind = pipeline.lake_type(table, column.original_type)
        if known is not None and not _is_remapped(pipeline, table, column, known):
            found = column_types(known.type, {**_kinds(known), column.original_type: kind})
            kind, own = found.type, found.own
    spellings = () if names.source == (names.lake,) else names.source
    return RegisteredColumn(names.lake, column.original_type, kind, column.is_key, spellings, own)


def _kinds(column: RegisteredColumn) -> dict[str, str]:
    """Return the lake types of the source types that a column is known to have had."""
    return {column.original_type: column.type, **dict(column.own_types)}


def _typed_as_all(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    before: Mapping[TableId, RegisteredTable],
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the types of all their events, whichever windows this run is of.

    The ledger is read where a column has got a type that the type before does not hold.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    known = {table: _by_name(entry) for table, entry in before.items() if table in made}
    doubtful: dict[tuple[TableId, str], list[RegisteredColumn]] = {}
    for table, columns in made.items():
        for key, column in columns.items():
            there = known.get(table, {}).get(key)
            if column.own_types and (there is None or column.own_types != there.own_types):
                for name in column.column.source_names:
                    doubtful.setdefault((table, name), []).append(column)
    texts: dict[tuple[TableId, str], set[str]] = {}
    for row in lake_shapes(pipeline) if doubtful else ():
        for shown in row.columns:
            for column in doubtful.get((row.table, shown.name), ()):
                texts.setdefault((row.table, same_name(column.name)), set()).add(shown.original_type)
    for (table, key), some in texts.items():
        column, kinds = made[table][key], {text: pipeline.lake_type(table, text) for text in some}
        # A type whose values turned out to be unsigned stands here as the wider one.
        kinds |= {text: joined_type(kinds.get(text, kind), kind) for text, kind in column.own_types}
        types = column_types(column.type, kinds)
        made[table][key] = replace(column, type=types.type, own_types=types.own)
    return made
