"""Changelogs written anew when their rows turn out to reach a table with rules.

Statements tell it late: rows have been stored by then. One commit brings the ruled rows and the note that they have passed rules.
Layers whose changelogs have another note are made anew. Versions with the values of before go as soon as no layer needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from dts_assets.errors import LakeTableError
from dts_assets.flows.apart import do_apart, fault_at
from dts_assets.flows.known_tables import registered_columns, source_types
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reached_rules import (
    PASSED_PROPERTY,
    passed_before,
    passed_by,
    passed_text,
    reached_from,
    rule_finder,
    rules_because_of_others,
)
from dts_assets.flows.reports import Progress
from dts_assets.flows.rewritten_files import rewrite_files
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.flows.table_rules import WAY_OUT, refused_by_rules
from dts_assets.model.collections import DOCUMENT, is_collection
from dts_assets.model.column_rules import ColumnRule, RuleKind, stored_columns
from dts_assets.model.columns import Column, is_json, same_name
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.helper_tables import helped_table
from dts_assets.model.refreshes import run_of
from dts_assets.model.tables import TableId
from dts_assets.planning.copied_rules import rule_digest
from dts_assets.planning.pauses import Fault
from dts_assets.stages.document_tokens import UntokenizableError
from dts_assets.stages.stored_rules import with_rules
from dts_assets.store.commit import stands_at
from dts_assets.store.expiry import expire
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.planned_properties import PlannedProperties, set_properties
from dts_assets.store.schemas import changelog_layout
from dts_assets.store.staged_tables import SchemaState
from dts_assets.store.tags import change_tags, cut_tags

PLAIN_PROPERTY = "dts-assets.plain-versions"
"""The property of a changelog of whose layers earlier versions may have plain values."""

_WAY_OUT = "take the table out and add it again, by dts-assets tables remove and add"


@dataclass(frozen=True, slots=True)
class RuledTask:
    """The rewriting of one file of a changelog under rules.

    They are by the names of columns without case; ``json`` are the columns of JSON among these. A task that ``spares`` leaves out
    values that look as if the rule had made them.
    """

    table: TableId
    path: str
    partition: tuple[object, ...]
    bytes: int
    target: WriteTarget
    rules: Mapping[str, ColumnRule]
    json: frozenset[str]
    spares: bool


def write_ruled(task: RuledTask, attempt: str) -> tuple[WrittenFile, ...] | Fault:
    """Return the file that takes the place of a task's file, or the fault of its table.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        with TableWriter(task.target, f"ruled-{attempt}") as writer:
            for batch in read_batches(task.target.store, [task.path], task.target.arrow_schema.names):
                writer.write_partition(
                    task.partition, with_rules(batch, task.rules, json=task.json, spares=task.spares)
                )
            return writer.close()
    except UntokenizableError as error:
        return refused_by_rules(task.table, str(error))
    except Exception as error:
        return fault_at(CHANGELOG.name, error)


@dataclass(frozen=True, slots=True)
class Passed:
    """The outcome of :func:`pass_rules`.

    Where a rule cannot be applied, the tables that rows reach have a fault, too. Layers of ``rewritten`` tables are made anew.
    """

    faults: Mapping[TableId, Fault] = field(default_factory=dict)
    rewritten: frozenset[TableId] = frozenset()


NOTHING_PASSED = Passed()


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """The files of a changelog that are written anew, and the properties that come with them."""

    head: int
    tasks: tuple[RuledTask, ...]
    properties: PlannedProperties


def pass_rules(
    pipeline: Pipeline,
    tables: Mapping[TableId, Sequence[Column]],
    *,
    spark: SparkProvider,
    progress: Progress,
    note: Callable[[Collection[TableId]], None],
    makes: Collection[TableId] = (),
) -> Passed:
    """Let all stored rows of changelogs pass the rules of the tables that they reach.

    ``tables`` have all columns that events told. ``note`` is told before the first commit whose layers will be made anew. A
    changelog among ``makes`` is made if it is not there. It is the caller's turn in the tables.
    """
    asked = {table: rules for table, columns in tables.items() if (rules := _missing(pipeline, table, columns))}
    return apply_rules_to(pipeline, tables, asked, spark=spark, progress=progress, note=note, makes=makes)


def apply_rules_to(
    pipeline: Pipeline,
    tables: Mapping[TableId, Sequence[Column]],
    asked: Mapping[TableId, Mapping[str, ColumnRule]],
    *,
    spark: SparkProvider,
    progress: Progress,
    note: Callable[[Collection[TableId]], None],
    makes: Collection[TableId] = (),
    spares: bool = False,
) -> Passed:
    """Write changelogs anew under the rules that are ``asked`` for, by table and column; see :func:`pass_rules`.

    ``spares`` leaves out values that look as if the rule had made them.
    """
    if not asked:
        return NOTHING_PASSED
    planned = do_apart(
        CHANGELOG.name,
        asked,
        lambda table: _planned(pipeline, table, tables[table], asked[table], makes=table in makes, spares=spares),
        busy=(),
    )
    work = {table: one for table, one in planned.results.items() if one is not None}
    rewritten = {*work, *(one.table for table in work for one in reached_from(pipeline).get(table, ()))}
    if work:
        note(rewritten)
        progress(
            f"changelog: rows of {len(work)} tables reach a table with rules on columns; their files are written anew"
        )
    written = rewrite_files(spark, {table: one.tasks for table, one in work.items()}, write_ruled)

    def commit(table: TableId) -> None:
        one = work[table]
        pipeline.lake.replace(
            pipeline.table_path(CHANGELOG.name, table), {}, written.files[table], base=[task.path for task in one.tasks],
            assertion=stands_at(one.head), columns=one.properties,
        )  # fmt: skip

    committed = do_apart(CHANGELOG.name, written.files, commit, busy=())
    faults = {**planned.faults, **written.faults, **committed.faults}
    return Passed({**_of_reached(pipeline, faults, tables), **faults}, frozenset(rewritten))


def _missing(pipeline: Pipeline, table: TableId, columns: Iterable[Column]) -> dict[str, ColumnRule]:
    """Return the rules because of other tables that the rows of a changelog have not passed, by column."""
    wanted = rules_because_of_others(pipeline, table, columns)
    passed = passed_by(pipeline, table) if wanted else {}
    return {name: rule for name, rule in wanted.items() if name not in passed}


def _planned(
    pipeline: Pipeline,
    table: TableId,
    columns: Sequence[Column],
    rules: Mapping[str, ColumnRule],
    *,
    makes: bool,
    spares: bool,
) -> _Rewriting | None:
    """Return the work on a changelog; None where a note is enough.

    That is so where no row has a value in these columns.

    Raises:
        LakeTableError: A rule cannot be applied to a column.
    """
    path, lake = pipeline.table_path(CHANGELOG.name, table), pipeline.lake
    there = lake.table(path)
    if there is None and not makes:
        return None
    because = rules_because_of_others(pipeline, table, columns)
    new = {name: rule_digest(rule) for name, rule in rules.items() if name in because}
    passed = {**passed_by(pipeline, table), **new}
    head = None if there is None else there.current_snapshot()
    by_name = {same_name(name): rules[one.name] for one in columns if one.name in rules for name in one.lake_names}
    target = None if there is None else lake.target(path, "")
    stored = {} if target is None or is_collection(columns) else _stored_types(target, by_name)
    if there is None or head is None or target is None or not (stored or is_collection(columns)):
        layout = changelog_layout(table, stored_columns(columns, rule_finder(pipeline, table)))
        lake.remember(path, layout, name=PASSED_PROPERTY, value=passed_text(passed), again=True)
        return None
    _refuse_types(table, columns, stored, by_name)
    for other in sorted({one.table for one in reached_from(pipeline).get(table, ())} - {table}):
        note_plain_versions(pipeline, [other])
    types = source_types(pipeline).get(table, {})
    json = frozenset(same_name(name) for name in rules if is_json(types.get(name, "")))
    files = lake.data_files(path, snapshot_id=head.snapshot_id)
    tasks = (
        RuledTask(
            table,
            file.path,
            tuple(file.partition.values()),
            file.bytes,
            replace(target, run=run_of(file.path)),  # for the ledger nothing has changed
            by_name,
            json,
            spares,
        )
        for file in files
    )
    properties = ((PASSED_PROPERTY, passed_text(passed)), (PLAIN_PROPERTY, "true"))
    return _Rewriting(head.snapshot_id, tuple(tasks), PlannedProperties(properties, SchemaState.of(there)))


def _stored_types(target: WriteTarget, names: Collection[str]) -> dict[str, pa.DataType]:
    """Return the types of the columns in a changelog's images that have one of some names."""
    image = target.arrow_schema.field("after").type
    return {field.name: field.type for field in image if same_name(field.name) in names}


def _refuse_types(
    table: TableId, columns: Sequence[Column], stored: Mapping[str, pa.DataType], rules: Mapping[str, ColumnRule]
) -> None:
    """Refuse stored values that no rule can replace.

    Raises:
        LakeTableError: A column is no text, holds documents, or is one of the primary key under a rule other than ``hash``.
    """
    others = [rule for rule in rules.values() if rule.kind is not RuleKind.TOKENIZE]
    if is_collection(columns) and (others or {*rules} != {DOCUMENT}):
        raise LakeTableError(
            str(table), "a rule of a table that its rows reach is not tokenize on its documents", WAY_OUT
        )
    for column in columns:
        of_key = rules.get(same_name(column.name)) if column.is_key else None
        if of_key is not None and of_key.kind is not RuleKind.HASH:
            clause = f"the {of_key.kind.value} of a table that its rows reach is on {column.name}, a column of its primary key"
            raise LakeTableError(str(table), clause, WAY_OUT)
    for name, kind in stored.items():
        rule = rules[same_name(name)]
        if rule.kind is not RuleKind.DROP and not pa.types.is_string(kind):
            clause = f"its column {name} is stored as {kind}, and the {rule.kind.value} of a table that rows reach makes texts"
            raise LakeTableError(str(table), clause, _WAY_OUT)


def _of_reached(
    pipeline: Pipeline, faults: Mapping[TableId, Fault], tables: Collection[TableId]
) -> dict[TableId, Fault]:
    """Return the faults of tables that rows of failed ones reach: they would show plain values.

    A name that rows had only within a statement is none of the ``tables``: nobody could resume it.
    """
    return {
        one.table: refused_by_rules(one.table, f"rows of {table} reach it, and could not pass its rules")
        for table in faults
        for one in sorted(reached_from(pipeline).get(table, ()))
        if one.table in tables and one.table not in faults
    }


def note_plain_versions(pipeline: Pipeline, tables: Iterable[TableId]) -> None:
    """Note of tables that earlier versions of their layers may have plain values."""
    for table in tables:
        set_properties(pipeline.lake, pipeline.table_path(CHANGELOG.name, table), {PLAIN_PROPERTY: "true"})


def forget_plain_versions(pipeline: Pipeline, progress: Progress, tables: Collection[TableId] = ()) -> None:
    """Let versions expire that were made before rows had passed the rules of the tables that they reach.

    ``tables`` are looked at beside those that statements move. Tags of closed cuts at such versions go. A layer that is not made
    anew yet, as that of a paused table, keeps them until it is.
    """
    reached = reached_from(pipeline)
    names = {*tables, *reached, *(one.table for some in reached.values() for one in some)}
    names |= {table for table in registered_columns(pipeline) if helped_table(table) is not None}
    others = pipeline.other_tables()
    for table in sorted(names):
        path = pipeline.table_path(CHANGELOG.name, table)
        there = pipeline.lake.table(path)
        if there is None or PLAIN_PROPERTY not in there.properties:
            continue
        try:
            is_done = _forget(pipeline, table, others, progress)
        except Exception as error:  # the next run tries again
            progress(f"expiry: versions of {table} with plain values stay for now: {fault_at('expiry', error).reason}")
            continue
        if is_done:
            set_properties(pipeline.lake, path, {}, without=(PLAIN_PROPERTY,))


def _forget(pipeline: Pipeline, table: TableId, others: OtherTables, progress: Progress) -> bool:
    """Let all versions of a table's layers expire but the present ones, and return whether they are gone."""
    lake, passed, is_done = pipeline.lake, passed_before(pipeline, table), True
    head = lake.state(pipeline.table_path(CHANGELOG.name, table))
    needed = {version for layer in pipeline.layers for version in layer.needed_versions(pipeline, table)}
    for layer in pipeline.layers:
        path = pipeline.table_path(layer.name, table)
        there = lake.table(path)
        current = None if there is None else there.current_snapshot()
        if there is None or current is None:
            continue
        if layer.by_key or layer.has_versions:
            is_done &= stored_state(pipeline, layer.name, table)[1].passed == passed
        tags = frozenset(name for name, version in cut_tags(there).items() if version == current.snapshot_id)
        change_tags(lake.catalog_of(path), lake.identifier(path), current.snapshot_id, TagChange(stay=tags))
        expire(
            lake.catalog_of(path), lake.identifier(path), needed=needed, keep_for=timedelta(0), none_before=_LATER, warn=progress,
            keep=0, others=others,
        )  # fmt: skip
        left = lake.table(path)
        is_done &= left is not None and len(left.metadata.snapshots) == 1
    return is_done and (head is None or needed <= {head.snapshot_id})


_LATER = datetime(9999, 1, 1, tzinfo=UTC)
