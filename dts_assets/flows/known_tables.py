"""The tables of a subscription: shapes that entries describe go into the registry file.

The graph is drawn from that file. It is a cache of the ledger's ``table_shapes``, and one of another lake counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from dts_assets.flows.filters_in_eras import filters_in_eras
from dts_assets.flows.lake_shapes import lake_shapes, stored_shapes
from dts_assets.flows.last_columns import by_name, key_names, keyed_as_told, names_of, spelled_as_told
from dts_assets.flows.layers import CHANGELOG, SQL
from dts_assets.flows.partial_images import note_keys
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder, rule_finder_of_changelog
from dts_assets.flows.stored_changes import ChangesSource
from dts_assets.flows.taught_types import taught_before
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import TableRules, stored_columns, table_rules
from dts_assets.model.columns import Column, ColumnShape, joined_type, same_name
from dts_assets.model.filter_names import FilterSince
from dts_assets.model.frontier import Frontier
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.positions import SourcePosition
from dts_assets.model.routes import routed_columns
from dts_assets.model.row_filters import RowFilter, columns_of
from dts_assets.model.stored_filters import StoredFilter, screen, stored_filter
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.model.windows import Window
from dts_assets.planning.column_names import ColumnNames, named_columns
from dts_assets.planning.column_types import column_types
from dts_assets.store.registry import (
    RegisteredColumn,
    RegisteredTable,
    merge_registry,
    note_removed,
    read_registry_of,
)
from dts_assets.wire.ddl.schema_history import SourceStatement
from dts_assets.wire.format import TableShape

if TYPE_CHECKING:
    from dts_assets.flows.following import ChangesOrigin


def register_shapes(pipeline: Pipeline, shapes: Iterable[TableShape]) -> tuple[TableId, ...]:
    """Add the tables and columns of shapes, in the source's order, to the registry; return the new tables.

    A column gets the type that holds what all shapes say, as text where no other type does. A registry file that was lost gets
    all shapes of the ledger first, because a file with some tables or columns alone would look whole. The ledger has the shapes
    already: it says which spelling of a name is the last.
    """
    before = _registered_tables(pipeline)
    if lost := before is None:
        shapes, before = [*stored_shapes(pipeline.ledger.table_shapes()), *shapes], {}
    shapes, sources = _routed(pipeline, shapes, lost=lost)
    found: dict[TableId, dict[str, RegisteredColumn]] = {}
    known: dict[TableId, dict[str, RegisteredColumn]] = {}
    for shape in shapes:
        if shape.table not in known:
            known[shape.table] = by_name(before.get(shape.table))
        _add_shape(pipeline, shape, found.setdefault(shape.table, {}), known[shape.table])
    all_sources = {
        table: {*sources.get(table, ()), *(before[table].sources if table in before else ())} for table in found
    }
    spelled = spelled_as_told(pipeline, found, known, shapes, all_sources)
    keyed = keyed_as_told(pipeline, spelled, before, shapes, all_sources)
    _merge(pipeline, _typed_as_all(pipeline, keyed, before), sources, lacks_renames=lost or None)
    note_keys(pipeline, shapes, before)
    if lost:
        widen_unsigned(pipeline, taught_before(pipeline, found))
        register_removed(pipeline)
    return tuple(sorted(found.keys() - before.keys()))


def _routed(
    pipeline: Pipeline, shapes: Iterable[TableShape], *, lost: bool
) -> tuple[tuple[TableShape, ...], dict[TableId, tuple[TableId, ...]]]:
    """Return shapes of source tables as shapes of lake tables, without tables that are not decoded.

    Those that were decoded once are among them for a ``lost`` registry. Beside them stand the source tables of other names.
    """
    found, sources = dict[TableShape, None](), dict[TableId, set[TableId]]()
    shapes = tuple(shapes)
    if any(shape.table.source_set for shape in shapes):
        pipeline.learn_sets()
    routes = pipeline.settings.routes
    for shape in shapes:
        if pipeline.settings.tables.takes(shape.table) or (
            lost and not routes and pipeline.is_stored(CHANGELOG, shape.table)
        ):
            table = routes.lake_table(shape.table)
            found[TableShape(table, routed_columns(routes, shape.table, shape.columns))] = None
            sources.setdefault(table, set()).add(shape.table)
    others = {table: tuple(sorted(some)) for table, some in sources.items() if some != {table}}
    return tuple(found), others


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
    there = [names_of(column) for column in {**known, **columns}.values()]
    ignores_case = pipeline.settings.traits.ignores_case and not shape.table.schema
    named = named_columns(there, list(described), ignores_case=ignores_case)
    for column, names in zip(described.values(), named, strict=True):
        key = same_name(names.lake)
        columns[key] = _registered(pipeline, shape.table, column, names, columns.get(key) or known.get(key))


def register_counted(pipeline: Pipeline, windows: Sequence[Window]) -> None:
    """Register names and keys of columns once more where windows told several, in an order that counts know."""
    rows = pipeline.ledger.table_shapes(windows)
    told: dict[tuple[datetime, TableId], set[tuple[frozenset[str], frozenset[str]]]] = {}
    for row in rows:
        names = frozenset(column.name for column in row.columns)
        told.setdefault((row.window_start, row.source), set()).add((names, key_names(row.columns)))
    several = {table for (_, table), some in told.items() if len(some) > 1}
    if several:
        lake_names = {*map(pipeline.settings.routes.lake_table, several)}
        mine = [row for row in rows if pipeline.settings.routes.lake_table(row.table) in lake_names]
        register_shapes(pipeline, stored_shapes(mine, pipeline.ledger.window_tables(windows), pipeline.settings.routes))


def known_tables(pipeline: Pipeline) -> dict[TableId, tuple[Column, ...]]:
    """Return every table of the subscription with the columns that the lake stores under its rules.

    A registry file that was lost, or that is of another lake, is written anew from the ledger. There is no table before the
    lake is made.
    """
    return {
        table: stored_columns(entry.shape, rule_finder(pipeline, table))
        for table, entry in _tables_of_lake(pipeline).items()
        if pipeline.settings.decoded_sources(table, entry.sources)
    }


def _tables_of_lake(pipeline: Pipeline) -> dict[TableId, RegisteredTable]:
    """Return the tables in the registry, which is written anew if it was lost."""
    if _registered_tables(pipeline) is None and pipeline.lake.identity(pipeline.name) is not None:
        register_shapes(pipeline, ())
    return _registered_tables(pipeline) or {}


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
        for table, entry in _tables_of_lake(pipeline).items()
    }
    return {table: sources for table, sources in found.items() if sources}


def known_names(pipeline: Pipeline) -> tuple[TableId, ...]:
    """Return the names of all known tables, in the lake and at the source, each once."""
    tables = known_tables(pipeline)
    if not pipeline.settings.routes:
        return tuple(tables)
    return tuple(
        dict.fromkeys([*tables, *(source.of_all_sets for some in known_sources(pipeline).values() for source in some)])
    )


def ruled_tables(
    pipeline: Pipeline, tables: Iterable[TableId], said: Sequence[SourceStatement] | None = None
) -> dict[TableId, TableRules]:
    """Return the rules on some known tables; those without any are left out.

    ``said`` are the statements that may give columns of row filters other names; None stands for those that are stored.
    """
    settings, registered = pipeline.settings, _registered_tables(pipeline) or {}
    found, tables = {}, tuple(tables)
    eras = filters_in_eras(pipeline, known_sources(pipeline), tables, said) if settings.rows else {}
    for table in tables if settings.columns or settings.rows else ():
        shape = registered[table].shape if table in registered else ()
        soft = DELETED_AT in settings.snapshot_columns(table)
        rules = table_rules(
            shape,
            rule_finder_of_changelog(pipeline, table),
            _filter_on(pipeline, table, shape),
            keeps_deleted=soft,
            writes_statements=SQL.takes(settings, table),
            eras=eras.get(table, {}),
        )
        if rules is not None:
            found[table] = rules
    return found


def filter_among(pipeline: Pipeline, table: TableId, names: Iterable[str], source: TableId) -> RowFilter | None:
    """Return the row filter of a source table with the last names of its columns among some.

    ``table`` is its name in the lake.
    """
    rows, there = pipeline.settings.row_filter(table), {same_name(name) for name in names}
    if rows is None:
        return None
    found = (one.rows for one in reversed(_eras_of(pipeline, table, source)))
    return next((one for one in found if there.issuperset(map(same_name, columns_of(one)))), rows)


def filters_between(
    pipeline: Pipeline,
    table: TableId,
    source: TableId,
    positions: tuple[SourcePosition, SourcePosition],
    said: Sequence[SourceStatement] | None = None,
) -> tuple[RowFilter, ...]:
    """Return the row filters of a source table with the names that columns have between two positions.

    ``table`` is its name in the lake. Without ``said`` the statements are those that are stored.
    """
    rows, (first, last) = pipeline.settings.row_filter(table), positions
    if rows is None:
        return ()
    mine = _eras_of(pipeline, table, source, said)
    begun = [one.rows for one in mine if one.since is None or one.since <= first][-1:]
    later = [one.rows for one in mine if one.since is not None and first < one.since <= last]
    return tuple(dict.fromkeys([*begun, *later])) or (rows,)


def _eras_of(
    pipeline: Pipeline, table: TableId, source: TableId, said: Sequence[SourceStatement] | None = None
) -> tuple[FilterSince, ...]:
    eras = filters_in_eras(pipeline, known_sources(pipeline), [table], said).get(table, {})
    return eras.get(source, eras.get(None, ()))


def filter_of_rows(
    pipeline: Pipeline, table: TableId, columns: Sequence[Column], frontier: Frontier
) -> StoredFilter | None:
    """Return the filter by which a merge judges rows with some columns, at a frontier.

    None stands for a table whose merges judge no row.
    """
    if pipeline.settings.row_filter(table) is None:
        return None
    rules = ruled_tables(pipeline, [table]).get(table)
    return stored_filter(None if rules is None else rules.until(_last_of(frontier)), columns)


def _last_of(frontier: Frontier) -> SourcePosition | None:
    """Return the position of the last change that a frontier may hold.

    None stands for windows that count as a whole.
    """
    return frontier.cut if frontier.whole_until is None else None


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
    pipeline: Pipeline, table: TableId, columns: Sequence[Column], sources: Iterable[ChangesSource], frontier: Frontier,
    *, is_history: bool,
) -> StoredFilter | None:  # fmt: skip
    """Return the filter for all rows that a merge makes at a frontier.

    None stands for rows whose changes were under it.
    """
    if pipeline.settings.row_filter(table) is None or all(one.filtered for one in sources):
        return None
    rules = ruled_tables(pipeline, [table]).get(table)
    return None if rules is None else screen(rules.until(_last_of(frontier)), columns, is_history=is_history)


def _filter_on(pipeline: Pipeline, table: TableId, columns: Iterable[Column]) -> RowFilter | None:
    """Return the row filter of a table; a helper table may have that of its table.

    Of several that follow one another it is the first one whose columns the helper has: it is made before one of them goes.
    """
    own, helped = pipeline.settings.row_filter(table), helped_table(table)
    if own is not None or helped is None:
        return own
    names = {same_name(name) for column in columns for name in column.source_names}
    parts = (rows for _, rows in pipeline.settings.row_filters(helped))
    return next((rows for rows in parts if names.issuperset(map(same_name, columns_of(rows)))), None)


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


def widen_unsigned(pipeline: Pipeline, taught: Iterable[TaughtType]) -> bool:
    """Note that types of columns have unsigned values, and return whether any type became another."""
    registered = _registered_tables(pipeline) or {}
    changed: dict[TableId, dict[str, RegisteredColumn]] = {}
    for one in taught:
        table, text = one.table, one.original_type
        columns = {**by_name(registered.get(table)), **changed.get(table, {})}
        column = columns.get(same_name(one.column))
        if column is None or pipeline.settings.types_of(table).keys() & column.column.source_names:
            continue
        kind = joined_type(pipeline.lake_type(table, text), pipeline.lake_type(table, text, unsigned=True))
        wider = _typed(pipeline, table, column, {text: kind})
        if wider != column:
            changed.setdefault(table, {})[same_name(one.column)] = wider
    sources = {table: registered[table].sources for table in changed}
    _merge(pipeline, _typed_as_all(pipeline, changed, registered), sources)
    return bool(changed)


def _registered_tables(pipeline: Pipeline) -> dict[TableId, RegisteredTable] | None:
    """Return the tables in the registry of this lake; None if there is none of it."""
    lake = pipeline.lake.identity(pipeline.name)
    found = None if lake is None else read_registry_of(pipeline.settings.registry_path, lake)
    if found and any(source.source_set for entry in found.values() for source in entry.sources):
        pipeline.learn_sets()
    return found


def _merge(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    sources: Mapping[TableId, tuple[TableId, ...]],
    *,
    lacks_renames: bool | None = None,
) -> None:
    tables = [
        RegisteredTable(table, tuple(columns.values()), sources=sources.get(table, ()))
        for table, columns in found.items()
    ]
    lake = pipeline.lake.identity(pipeline.name)
    merge_registry(pipeline.settings.registry_path, tables, lake=lake, lacks_renames=lacks_renames)


def _is_remapped(pipeline: Pipeline, table: TableId, column: ColumnShape, known: RegisteredColumn) -> bool:
    """Tell whether ``type_mapping`` gives another type to what a column has always been at the source."""

    def mapped(original_type: str) -> str | None:
        usual = pipeline.format.column_type(original_type, unsigned=False, table=table)
        return pipeline.settings.mapped_type(table, original_type, usual)

    wanted = mapped(column.original_type)
    return wanted is not None and wanted == mapped(known.original_type) and not known.own_types


def _registered(
    pipeline: Pipeline, table: TableId, column: ColumnShape, names: ColumnNames, known: RegisteredColumn | None
) -> RegisteredColumn:
    declared = pipeline.settings.types_of(table)
    kind = next((declared[name] for name in reversed(names.source) if name in declared), None)
    own: tuple[tuple[str, str], ...] = ()
    if kind is None:
        kind = pipeline.lake_type(table, column.original_type)
        # Nearly all of a run's thousands of columns have the one type that they had.
        is_same = known is not None and (known.original_type, known.type) == (column.original_type, kind)
        joins = known is not None and (known.own_types or not is_same)
        if known is not None and joins and not _is_remapped(pipeline, table, column, known):
            found = _typed(pipeline, table, known, {column.original_type: kind})
            kind, own = found.type, found.own_types
    spellings = () if names.source == (names.lake,) else names.source
    return RegisteredColumn(names.lake, column.original_type, kind, column.is_key, spellings, own)


def _typed(pipeline: Pipeline, table: TableId, column: RegisteredColumn, kinds: Mapping[str, str]) -> RegisteredColumn:
    """Return a column that has had some source types more, with their lake types.

    A type whose values turned out to be unsigned stays the wider one.
    """
    text = column.original_type
    known = {text: pipeline.lake_type(table, text), **dict(column.own_types)}
    wider = pipeline.lake_type(table, text, unsigned=True)
    if not column.own_types and column.type == wider == "decimal(20,0)" != known[text]:
        known[text] = wider  # taught before there was a place for it
    known |= {one: joined_type(known.get(one, kind), kind) for one, kind in kinds.items()}
    taught = [one for one, kind in known.items() if kind != pipeline.lake_type(table, one)]
    types = column_types(column.type, known, taught)
    return replace(column, type=types.type, own_types=types.own)


def _typed_as_all(
    pipeline: Pipeline,
    found: Mapping[TableId, Mapping[str, RegisteredColumn]],
    before: Mapping[TableId, RegisteredTable],
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the types of all their events, whichever windows this run is of.

    The ledger is read where a column has got a type that the type before does not hold.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    known = {table: by_name(entry) for table, entry in before.items() if table in made}
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
        kinds = {text: pipeline.lake_type(table, text) for text in some}
        made[table][key] = _typed(pipeline, table, made[table][key], kinds)
    return made
