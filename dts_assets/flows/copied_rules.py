"""The rules of copied tables: those that rows pass at the writing, and those left for the decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from dts_assets.errors import LakeTableError
from dts_assets.errors.databases import CopyError
from dts_assets.flows.known_tables import filter_among, filters_between, registered_columns
from dts_assets.flows.layers import CHANGELOG, SQL
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder_of_changelog
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import TableRules, table_rules, unusable
from dts_assets.model.columns import Column, ColumnShape, same_name
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.row_filters import RowFilter
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import RulesLeft, filter_by_names, passed_now, rules_left
from dts_assets.planning.pauses import Fault, copy_command
from dts_assets.stages.copied_rules import NO_COPY_RULES, CopyRules, FilterOfCopy
from dts_assets.wire.ddl.schema_history import SourceStatement

KnownColumns: TypeAlias = Mapping[TableId, tuple[Column, ...]]
"""The columns of all tables before any rule."""


def lake_table_of(pipeline: Pipeline, source: TableId) -> TableId:
    """Return the table of the lake that has the rows of a source table."""
    routes = pipeline.settings.routes
    return routes.lake_table(source) if routes else source


def rules_to_pass(
    pipeline: Pipeline, source: TableId, shapes: Sequence[ColumnShape], *, at: SourcePosition | None = None
) -> CopyRules:
    """Return the rules that a copy passes when it is written now.

    ``shapes`` are the columns of the source, whether or not the lake knows the table. ``at`` is the position of the rows; None
    where they are newer than all statements.

    Raises:
        CopyError: The table cannot have its rules.
    """
    settings, table = pipeline.settings, lake_table_of(pipeline, source)
    if not settings.columns and not settings.rows:
        return NO_COPY_RULES
    columns = _columns(pipeline, table, shapes)
    rule_of, names = rule_finder_of_changelog(pipeline, table), [one.name for one in shapes]
    filters = () if at is None else filters_between(pipeline, table, source, (at, at))
    row_filter = filters[0] if filters else filter_among(pipeline, table, names, source)
    rules = _rules(pipeline, table, columns, row_filter)
    if rules is None:
        return NO_COPY_RULES
    if (clause := unusable(rules) or _lacking(pipeline, table, rules, names)) is not None:
        raise CopyError(str(source), clause, "mend its rules below columns and rows")
    passed = passed_now(columns, names, rule_of)
    by_name = {name: one for one in reversed(columns) for name in one.source_names}
    mine = {one.column: rules.columns[by_name[one.column].name] for one in passed}
    as_bytes = frozenset(name for name in mine if by_name[name].type == "binary")
    rows = None
    if rules.rows is not None:
        zone = settings.source_time_zone
        rows = FilterOfCopy(source, table, rules.filter_columns, rules.rows, zone, settings.routes)
    return CopyRules(mine, as_bytes, rows, passed, filter_by_names(row_filter))


def rules_of_copy(
    pipeline: Pipeline,
    copied: CopiedTable,
    known: KnownColumns | None = None,
    said: Sequence[SourceStatement] | None = None,
) -> RulesLeft:
    """Return the rules that the rows of a copy have not passed, by the configuration of now.

    ``known`` are the columns of all tables before any rule, for callers with many copies. Without ``said`` the statements are
    those that are stored.
    """
    settings, table = pipeline.settings, lake_table_of(pipeline, copied.table)
    if not (settings.columns or settings.rows or copied.passed or copied.passed_filter):
        return RulesLeft()
    columns = _columns(pipeline, table, copied.columns, known)
    first, last, source = copied.low, copied.last_low, copied.table
    if first is not None and last is not None:
        filters = filters_between(pipeline, table, source, (first, last), said)
    else:
        among = filter_among(pipeline, table, [one.name for one in copied.columns], source)
        filters = () if among is None else (among,)
    rules = _rules(pipeline, table, columns, filters[0] if filters else None)
    return rules_left(
        rules, columns, rule_finder_of_changelog(pipeline, table), settings.row_filter(table), copied, filters
    )


def refused_copies(
    pipeline: Pipeline, copied: Iterable[CopiedTable], tables: Iterable[TableId], said: Sequence[SourceStatement]
) -> dict[TableId, Fault]:
    """Return the faults of tables whose copies have passed other rules than now, with the statements ``said``."""
    found, wanted, copied = dict[TableId, Fault](), set(tables), tuple(copied)
    known = registered_columns(pipeline) if copied else {}
    for one in copied:
        table = lake_table_of(pipeline, one.table)
        clash = rules_of_copy(pipeline, one, known, said).clash if table in wanted else None
        if clash is not None:
            way_out = f"copy it anew: {copy_command('resync', pipeline.name, one.table)}"
            found[table] = Fault(CHANGELOG.name, f"copy of {table}", str(LakeTableError(str(table), clash, way_out)))
    return found


def _columns(
    pipeline: Pipeline, table: TableId, shapes: Sequence[ColumnShape], known: KnownColumns | None = None
) -> tuple[Column, ...]:
    """Return the columns of a table before any rule, and those that a copy alone has."""
    found = list((registered_columns(pipeline) if known is None else known).get(table, ()))
    named = {name for one in found for name in one.source_names}
    declared = pipeline.settings.types_of(table)
    for shape in shapes:
        if shape.name in named:
            continue
        same = next((place for place, one in enumerate(found) if same_name(one.name) == same_name(shape.name)), None)
        if same is not None:  # the server spells it otherwise than events
            found[same] = replace(found[same], spellings=(*found[same].source_names[::-1], shape.name))
        else:
            kind = declared.get(shape.name) or pipeline.lake_type(table, shape.original_type)
            found.append(Column(shape.name, kind, shape.is_key))
    shard = pipeline.settings.routes.shard_columns(table) if pipeline.settings.routes else ()
    found += [Column(name, "string", False) for name in shard if name not in {one.name for one in found}]
    return tuple(found)


def _lacking(pipeline: Pipeline, table: TableId, rules: TableRules, names: Sequence[str]) -> str | None:
    """Return a clause about a column that the row filter needs, and that is none of ``names``."""
    routes = pipeline.settings.routes
    shard = routes.shard_columns(table) if routes else ()
    for column in rules.filter_columns:
        if column.name not in shard and set(column.source_names).isdisjoint(names):
            return f"it has no column {column.name}, which its row filter needs"
    return None


def _rules(
    pipeline: Pipeline, table: TableId, columns: Sequence[Column], row_filter: RowFilter | None
) -> TableRules | None:
    settings = pipeline.settings
    return table_rules(
        columns,
        rule_finder_of_changelog(pipeline, table),
        row_filter,
        keeps_deleted=DELETED_AT in settings.snapshot_columns(table),
        writes_statements=SQL.takes(settings, table),
    )
