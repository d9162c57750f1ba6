"""The upkeep of copied tables: what stands of a copy in the lake, and how much longer.

Rows of a copy leave when it is given up or dropped, and together with the entries of their window, which cannot be made again
then. Rows that a rule has not passed yet, because it came later or an earlier version of dts-assets wrote them, are written
anew under it. Each step notes first, or writes under a new name, so that one that was stopped goes on.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.errors.databases import CopyError
from dts_assets.flows.apart import fault_at
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import KnownColumns, lake_table_of, rules_of_copy, rules_to_pass
from dts_assets.flows.copies import BOUNDS, change, clear, give_up
from dts_assets.flows.known_tables import registered_columns
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedTable, CopyKind, CopyState
from dts_assets.model.message_retention import ENTRIES
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.stages.copied_rules import CopyRules
from dts_assets.stages.copied_texts import row_fields
from dts_assets.store.expiry import expire
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.store.iceberg_tables import drop_columns
from dts_assets.store.schemas import SYSTEM_TABLES

_KEPT_BY = "dts-assets.copies-kept-by"
"""The property of ``copied_tables`` with the code version that has taken care of all copies."""

_BESIDE = ("chunk", "source_position", "read_at", "row_number", "removed")
"""The columns of a copied table that rows keep when they are written anew, beside ``copy`` and ``row``."""


def drop_copies(pipeline: Pipeline, tables: Collection[TableId]) -> tuple[CopiedTable, ...]:
    """Drop all copies of some tables of the lake, and return those of whole tables.

    No window takes them any more. Their rows stay until the caller drops the copied tables.
    """
    now = datetime.now(UTC)
    found = [one for one in pipeline.ledger.copied_tables() if lake_table_of(pipeline, one.table) in tables]
    dropped = {one.copy for one in found if one.state in (CopyState.READING, CopyState.COPIED)}
    if dropped:
        pipeline.ledger.change_copied_tables(
            lambda rows: [one.ending(CopyState.DROPPED, now) if one.copy in dropped else one for one in rows]
        )
    return tuple(one for one in found if one.copy in dropped and one.kind is not CopyKind.REPAIR)


def lost_copies(pipeline: Pipeline, tables: Collection[TableId]) -> dict[TableId, tuple[TableId, ...]]:
    """Return the source tables that lack a copy which was dropped, by the table of the lake."""
    whole = [one for one in pipeline.ledger.copied_tables() if one.kind is not CopyKind.REPAIR]
    there = {one.table for one in whole if one.state is CopyState.COPIED}
    lost = sorted({one.table for one in whole if one.state is CopyState.DROPPED} - there)
    found = {table: tuple(one for one in lost if lake_table_of(pipeline, one) == table) for table in tables}
    return {table: some for table, some in found.items() if some}


def keep_copies(pipeline: Pipeline, *, spark: SparkProvider, progress: Progress) -> None:
    """Let rows of copies leave that nobody takes any more, and apply the rules that others lack.

    It is the caller's turn in the tables. What fails for one table is a line of progress, and the next run tries again.
    """
    copied = pipeline.ledger.copied_tables()
    if not copied:
        return
    _drop_removed(pipeline, copied)
    if any(one.is_bounded and one.state is not CopyState.READING for one in copied):
        pipeline.ledger.change_copied_tables(
            lambda rows: [one if one.state is CopyState.READING else one.without_bounds() for one in rows]
        )
    _leave_with_entries(pipeline, copied, progress)
    of_table: dict[TableId, list[CopiedTable]] = {}
    for one in pipeline.ledger.copied_tables():
        of_table.setdefault(one.table, []).append(one)
    known, is_done = registered_columns(pipeline), True
    for table, mine in sorted(of_table.items()):
        try:
            _keep_table(pipeline, table, mine, known, spark, progress)
        except Exception as error:
            is_done = False
            progress(f"copies: {table} stays as it is for now: {fault_at('copies', error).reason}")
    if is_done:
        path, layout = pipeline.path("copied_tables"), SYSTEM_TABLES["copied_tables"]
        pipeline.lake.remember(path, layout, name=_KEPT_BY, value=CODE_VERSION, again=True)


def lack_care(pipeline: Pipeline) -> bool:
    """Return whether there are copies of which this version of the code has not taken care yet.

    An earlier one has left plain values in them, bounds of keys, and copies of tables that were removed.
    """
    there = pipeline.lake.table(pipeline.path("copied_tables"))
    if there is None or there.current_snapshot() is None:
        return False  # nothing was ever copied
    return there.properties.get(_KEPT_BY) != CODE_VERSION


def _drop_removed(pipeline: Pipeline, copied: Iterable[CopiedTable]) -> None:
    """Drop copies of tables that were removed by a version of dts-assets that left them."""
    removed = {row.table for row in pipeline.ledger.paused_tables() if row.is_removed}
    if any(one.has_rows and lake_table_of(pipeline, one.table) in removed for one in copied):
        drop_copies(pipeline, removed)
        others = pipeline.other_tables()
        for one in copied:
            if lake_table_of(pipeline, one.table) in removed:
                pipeline.lake.drop(copies_path(pipeline, one.table), others)


def _leave_with_entries(pipeline: Pipeline, copied: Iterable[CopiedTable], progress: Progress) -> None:
    """Let copies leave whose windows have lost their entries, so that nobody can make them again."""
    removed, now = pipeline.unmakeable().removed, datetime.now(UTC)

    def is_gone(one: CopiedTable) -> bool:
        if one.state is not CopyState.COPIED or one.gone_at is not None or one.window_start is None:
            return False
        cells = pipeline.cells([pipeline.grid.of_start(one.window_start)])
        return len(removed.among(ENTRIES, cells)) == len(cells)

    gone = [one for one in copied if is_gone(one)]
    if not gone:
        return
    names = {one.copy for one in gone}
    pipeline.ledger.change_copied_tables(
        lambda rows: [replace(one, gone_at=now) if one.copy in names else one for one in rows]
    )
    for one in gone:
        clear(pipeline, one)
    rows = sum(one.rows for one in gone)
    progress(f"retention: {rows:,} rows of {len(gone)} copies left with the entries of their windows")


def _keep_table(
    pipeline: Pipeline,
    table: TableId,
    copied: Collection[CopiedTable],
    known: KnownColumns,
    spark: SparkProvider,
    progress: Progress,
) -> None:
    """Take care of one copied table."""
    path = copies_path(pipeline, table)
    stored = pipeline.lake.table(path)
    if stored is None:
        return
    if set(BOUNDS) & set(stored.schema().column_names):
        drop_columns(pipeline.lake.catalog, pipeline.lake.identifier(path), BOUNDS)
    if any(not one.has_rows or one.stored for one in copied) and _has_rows(pipeline, path):
        parts = {file.partition["copy"] for file in pipeline.lake.data_files(path)}
        wanted = {one.part for one in pipeline.ledger.copied_tables() if one.table == table and one.has_rows}
        if stays := parts - wanted:  # a step was stopped before its rows were gone
            pipeline.lake.replace(path, {"copy": stays}, ())
    for one in (one for one in copied if one.has_rows):
        left = rules_of_copy(pipeline, one, known)
        if one.state is CopyState.COPIED and left.any:
            _apply_rules(pipeline, one, spark, progress)
        if one.state is CopyState.READING and (left.any or left.clash is not None):
            give_up(pipeline, one)  # nobody can go on with it: a copy is of one set of rules
            progress(f"copies: {table} has other rules since its copy was begun, so it is given up; copy it again")


def _has_rows(pipeline: Pipeline, path: tuple[str, ...]) -> bool:
    state = pipeline.lake.state(path)
    return state is not None and state.properties.get("total-records") != "0"


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """The work of a task: the rows of some files, written anew under rules."""

    paths: tuple[str, ...]
    bytes: int
    store: FileStore
    target: WriteTarget
    copy: str
    columns: tuple[ColumnShape, ...]
    rules: CopyRules


def _apply_rules(pipeline: Pipeline, copied: CopiedTable, spark: SparkProvider, progress: Progress) -> None:
    """Write the rows of a copy anew under the rules that they have not passed.

    They are committed under a new name, which the ledger takes over together with the note of their rules; then the old ones go.
    """
    path = copies_path(pipeline, copied.table)
    try:
        now = rules_to_pass(pipeline, copied.table, copied.columns, at=copied.low)
    except CopyError as error:
        progress(f"copies: {error}")
        return
    done = {one.column for one in copied.passed}
    mine = {name: rule for name, rule in now.columns.items() if name not in done}
    rules = replace(now, columns=mine, rows=None if copied.passed_filter else now.rows)
    name, files = uuid.uuid4().hex[:12], pipeline.lake.data_files(path, {"copy": {copied.part}})
    target, store = pipeline.lake.target(path, pipeline.new_run()), pipeline.lake.file_store(path)
    tasks = [_Rewriting((file.path,), file.bytes, store, target, name, copied.columns, rules) for file in files]
    written = run_tasks(spark(), tasks, _written, weight=lambda task: task.bytes) if tasks else []
    pipeline.lake.replace(path, {"copy": {name}}, [file for some in written for file in some])
    dropped = tuple(one for one in copied.passed if one.column not in now.columns)
    change(
        pipeline,
        copied.copy,
        lambda row: (
            replace(
                row, stored=name, passed=(*dropped, *now.passed), passed_filter=now.passed_filter or row.passed_filter
            )
            if row.has_rows
            else row
        ),
    )
    pipeline.lake.replace(path, {"copy": {copied.part}}, ())
    # It is the only turn in which copies are read, so nobody reads the versions of before.
    catalog, identifier = pipeline.lake.catalog, pipeline.lake.identifier(path)
    expire(catalog, identifier, keep_for=timedelta(0), keep=0, warn=progress, others=pipeline.other_tables())
    progress(f"copies: {copied.rows:,} rows of {copied.table} were written anew under its rules")


def _written(task: _Rewriting, attempt: str) -> tuple[WrittenFile, ...]:
    with TableWriter(task.target, attempt) as writer:
        for batch in read_batches(task.store, task.paths, (*_BESIDE, "row")):
            for chunk, rows in _ruled(task, batch):
                writer.write_partition((task.copy, chunk), rows)
        return writer.close()


def _ruled(task: _Rewriting, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch of one chunk under the rules.

    Those that the source does not have come behind the others. All are numbered from the first on without a gap, as the decoding
    numbers them.
    """
    removed = pc.fill_null(batch["removed"], False)
    stored = batch["row"]
    values = [stored.field(name) for name in row_fields(stored.type, task.columns)]
    flat = pa.RecordBatch.from_arrays(
        [*values, *(batch[name] for name in _BESIDE)],
        names=[*(f"c{number}" for number in range(len(values))), *_BESIDE],
    )
    first = batch["row_number"][0].as_py() if batch.num_rows else 0
    for gone in (False, True):
        some = flat.filter(removed if gone else pc.invert(removed))
        if not some.num_rows:
            continue
        made = task.rules.applied(some, task.columns, removed=gone)
        if not made.num_rows:
            continue
        columns = made.columns[: len(values)]
        row = pa.StructArray.from_arrays(
            columns, names=row_fields(task.target.arrow_schema.field("row").type, task.columns)
        )
        beside = {name: made[name] for name in _BESIDE}
        beside["row_number"] = pa.array(np.arange(first, first + made.num_rows, dtype=np.int32))
        first += made.num_rows
        rows = {"copy": pa.repeat(task.copy, made.num_rows), **beside, "row": row}
        yield beside["chunk"][0].as_py(), pa.RecordBatch.from_pydict(rows)
