"""The rules of copied tables: those that rows pass at the writing, and those left for the decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from dts_assets.errors import LakeTableError
from dts_assets.errors.databases import CopyError
from dts_assets.flows.known_tables import filter_among, registered_columns
from dts_assets.flows.layers import CHANGELOG, SQL
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.column_rules import TableRules, table_rules, unusable
from dts_assets.model.columns import Column, ColumnShape, same_name
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import RulesLeft, filter_digest, passed_now, rules_left
from dts_assets.planning.pauses import Fault, copy_command
from dts_assets.stages.copied_rules import NO_COPY_RULES, CopyRules, FilterOfCopy

KnownColumns: TypeAlias = Mapping[TableId, tuple[Column, ...]]
"""The columns of all tables before any rule."""


def lake_table_of(pipeline: Pipeline, source: TableId) -> TableId:
    """Return the table of the lake that has the rows of a source table."""
    routes = pipeline.settings.routes
    return routes.lake_table(source) if routes else source


def rules_to_pass(pipeline: Pipeline, source: TableId, shapes: Sequence[ColumnShape]) -> CopyRules:
    """Return the rules that a copy passes when it is written now.

    ``shapes`` are the columns of the source, whether or not the lake knows the table.

    Raises:
        CopyError: The table cannot have its rules.
    """
    settings, table = pipeline.settings, lake_table_of(pipeline, source)
    if not settings.columns and not settings.rows:
        return NO_COPY_RULES
    columns = _columns(pipeline, table, shapes)
    rule_of, names = rule_finder(pipeline, table), [one.name for one in shapes]
    rules = _rules(pipeline, source, columns, names)
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
    return CopyRules(mine, as_bytes, rows, passed, filter_digest(settings.row_filter(table)))


def rules_of_copy(pipeline: Pipeline, copied: CopiedTable, known: KnownColumns | None = None) -> RulesLeft:
    """Return the rules that the rows of a copy have not passed, by the configuration of now.

    ``known`` are the columns of all tables before any rule, for callers with many copies.
    """
    settings, table = pipeline.settings, lake_table_of(pipeline, copied.table)
    if not (settings.columns or settings.rows or copied.passed or copied.passed_filter):
        return RulesLeft()
    columns = _columns(pipeline, table, copied.columns, known)
    rules = _rules(pipeline, copied.table, columns, [one.name for one in copied.columns])
    return rules_left(rules, columns, rule_finder(pipeline, table), settings.row_filter(table), copied)


def refused_copies(
    pipeline: Pipeline, copied: Iterable[CopiedTable], tables: Iterable[TableId]
) -> dict[TableId, Fault]:
    """Return the faults of tables whose copies have passed other rules than those of now."""
    found, wanted, copied = dict[TableId, Fault](), set(tables), tuple(copied)
    known = registered_columns(pipeline) if copied else {}
    for one in copied:
        table = lake_table_of(pipeline, one.table)
        clash = rules_of_copy(pipeline, one, known).clash if table in wanted else None
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


def _rules(pipeline: Pipeline, source: TableId, columns: Sequence[Column], names: Iterable[str]) -> TableRules | None:
    settings, table = pipeline.settings, lake_table_of(pipeline, source)
    return table_rules(
        columns,
        rule_finder(pipeline, table),
        filter_among(pipeline, table, names, source),
        keeps_deleted=DELETED_AT in settings.snapshot_columns(table),
        writes_statements=SQL.takes(settings, table),
    )
