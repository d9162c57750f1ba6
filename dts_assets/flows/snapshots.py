"""The last flow: snapshots brought to the frontier, table by table, side by side."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dts_assets.flows.apart import Apart, do_apart, refuse_shared
from dts_assets.flows.layers import CHANGELOG, SNAPSHOT, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import LayerOutcome, Progress
from dts_assets.flows.snapshot_tasks import HeldFile, RefreshResult, RefreshTask, refresh_files
from dts_assets.flows.spark_tasks import SAY_EVERY, run_tasks
from dts_assets.flows.tables_plan import MARKED
from dts_assets.model.columns import Column, quoted
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.planning.cuts import not_behind
from dts_assets.planning.outgrown_types import outgrown_columns
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import (
    EMPTY_STATE,
    SnapshotPlan,
    SnapshotState,
    TableWindow,
    plan_snapshot,
    replaced_windows,
    windows_by_table,
)
from dts_assets.stages import absent_columns
from dts_assets.stages import snapshot_in_spark as stage
from dts_assets.stages.snapshot_in_arrow import SHOWN
from dts_assets.store.columns import flat_name, flat_names, snapshot_columns
from dts_assets.store.commit import stands_at
from dts_assets.store.lake import StoredFile, TableState
from dts_assets.store.schemas import snapshot_layout
from dts_assets.store.session import side_session

STATE_PROPERTY = "dts-assets.state"
"""The property of a snapshot commit that holds its state.

The state is the frontier it stands at and the changelog state it was made from.
"""

REFRESH_ROWS = 300_000
REFRESH_BYTES = 16 << 20
"""The most stored bytes that the changes of one table may have for one task.

With :data:`REFRESH_ROWS` it keeps a task's memory small; more is merged by Spark.
"""

_TASK_BYTES = 64 << 20
"""Stored bytes of a snapshot that one task looks through."""

_SMALL_BYTES = 8 << 20
_MOST_SMALL = 8
"""The number of small files above which a snapshot has them written as one.

Each refresh of a table that only gets rows adds a file.
"""


@dataclass(frozen=True, slots=True)
class _Job:
    """The work of one table.

    ``current`` is the present Iceberg snapshot of its snapshot table, None before the first; ``known`` are the windows in which
    the table has changes.
    """

    table: TableId
    columns: tuple[Column, ...]
    before: SnapshotState
    plan: SnapshotPlan
    current: int | None
    known: frozenset[datetime]
    turn: Turn


def advance_snapshots(work: LayerWork) -> dict[TableId, LayerOutcome]:
    """Bring the snapshots of the work's tables to its frontier.

    A table in which nothing changed is not committed. A table whose step fails has the fault in its outcome.

    Raises:
        OvertakenError: Another run of the tables has taken over.
        StaleGenerationError: Another run has written a snapshot since this one was planned.
    """
    pipeline, progress = work.pipeline, work.progress
    counted = pipeline.ledger.window_tables()
    windows, outgrown = windows_by_table(counted), outgrown_columns(counted)
    planned = do_apart(
        SNAPSHOT.name, work.tables, lambda table: _job(work, table, tuple(work.tables[table]), windows.get(table, ()))
    )
    jobs, faults = list(planned.results.values()), dict(planned.faults)
    pipeline.ledger.require_turn(MARKED, work.turn)  # so changelogs, counts and snapshots were read of one state
    busy = [job for job in jobs if not job.plan.nothing]
    if busy:
        began = time.monotonic()
        progress(f"snapshot: {len(busy)} of {len(jobs)} tables have changes to apply")
        session = work.spark()
        refreshed = _refresh(pipeline, busy, session)
        faults |= refreshed.faults
        settled = {*refreshed.results, *refreshed.faults}
        merges = _Merges(pipeline, session, [job for job in busy if job.table not in settled], progress)
        faults |= merges.run()
        stand = sum(job.table not in faults for job in busy)
        progress(f"snapshot: {stand} tables stand at the frontier after {time.monotonic() - began:.1f} s")
    done = {job.table for job in busy} - faults.keys()
    outcomes = {
        job.table: replace(
            _outcome(pipeline, job.table, committed=job.table in done), outgrown=outgrown.get(job.table, ())
        )
        for job in jobs
        if job.table not in faults
    }
    return outcomes | {table: LayerOutcome(fault=fault) for table, fault in faults.items()}


@dataclass(slots=True)
class _Merges:
    """The merges of some tables, which tell from time to time how many are done."""

    pipeline: Pipeline
    session: SparkSession
    jobs: Sequence[_Job]
    progress: Progress
    began: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    done: int = 0

    def run(self) -> Mapping[TableId, Fault]:
        """Merge all tables, and return the faults of those that failed."""
        jobs = {job.table: job for job in self.jobs}
        return do_apart(SNAPSHOT.name, jobs, lambda table: self._one(jobs[table])).faults

    def _one(self, job: _Job) -> None:
        _merge(self.pipeline, job, self.session)
        self.done += 1
        now = time.monotonic()
        if now - self.said >= SAY_EVERY and self.done < len(self.jobs):
            self.said = now
            after = f"after {now - self.began:.0f} s"
            self.progress(f"snapshot: {self.done} of {len(self.jobs)} tables, last {job.table}, {after}")


def _job(work: LayerWork, table: TableId, columns: tuple[Column, ...], windows: Sequence[TableWindow]) -> _Job:
    pipeline, path = work.pipeline, work.pipeline.table_path(SNAPSHOT.name, table)
    pipeline.lake.ensure(path, snapshot_layout(table, columns))
    pipeline.lake.evolve(path, snapshot_columns(columns))
    current, before = _stored_state(pipeline, table)
    changelog = pipeline.lake.state(pipeline.table_path(CHANGELOG.name, table))
    replaced: frozenset[datetime] = frozenset()
    if before.changelog_snapshot is not None and changelog is not None:
        path = pipeline.table_path(CHANGELOG.name, table)
        old, now = pipeline.lake.files_apart(path, before.changelog_snapshot, changelog.snapshot_id)
        replaced = replaced_windows(_by_window(old), _by_window(now), state=before, chains=work.chains)
    plan = plan_snapshot(
        before,
        not_behind(work.frontier(table), before.frontier),
        changelog_snapshot=None if changelog is None else changelog.snapshot_id,
        windows=windows,
        replaced=replaced,
        chains=work.chains,
    )
    known = frozenset(window.window_start for window in windows)
    return _Job(table, columns, before, plan, None if current is None else current.snapshot_id, known, work.turn)


def _stored_state(pipeline: Pipeline, table: TableId) -> tuple[TableState | None, SnapshotState]:
    """Return the Iceberg snapshot of a table's snapshot, and the state that it carries."""
    stored = pipeline.lake.state(pipeline.table_path(SNAPSHOT.name, table))
    text = None if stored is None else stored.properties.get(STATE_PROPERTY)
    return stored, EMPTY_STATE if text is None else SnapshotState.of_text(text)


def _by_window(files: Iterable[StoredFile]) -> dict[datetime, frozenset[str]]:
    found: dict[datetime, set[str]] = {}
    for file in files:
        found.setdefault(file.partition["window_start"], set()).add(file.path)
    return {start: frozenset(paths) for start, paths in found.items()}


def changelog_versions(pipeline: Pipeline, table: TableId) -> tuple[int, ...]:
    """Return the Iceberg snapshot of the changelog that a snapshot was made from.

    The next snapshot is made from the difference to it.
    """
    made_from = _stored_state(pipeline, table)[1].changelog_snapshot
    return () if made_from is None else (made_from,)


def _outcome(pipeline: Pipeline, table: TableId, *, committed: bool) -> LayerOutcome:
    size = pipeline.lake.size(pipeline.table_path(SNAPSHOT.name, table))
    return LayerOutcome(committed) if size is None else LayerOutcome(committed, size.rows, size.bytes)


def _refresh(pipeline: Pipeline, jobs: Sequence[_Job], session: SparkSession) -> Apart[None]:
    """Take few and simple changes over by Spark tasks.

    The result has the tables that are done, and those that failed.
    """
    run, by_table = pipeline.new_run(), {job.table: job for job in jobs}
    planned = do_apart(SNAPSHOT.name, by_table, lambda table: list(_refresh_tasks(pipeline, by_table[table], run)))
    tasks = [task for some in planned.results.values() for task in some]
    results: dict[TableId, list[RefreshResult]] = {}
    for result in run_tasks(session, tasks, refresh_files, weight=lambda task: task.bytes):
        results.setdefault(result.table, []).append(result)
    failed = {one.table: one.fault for some in results.values() for one in some if one.fault is not None}
    refuse_shared(results, failed)
    for table in failed:
        path = pipeline.table_path(SNAPSHOT.name, table)
        pipeline.lake.discard(path, (file for one in results[table] for file in one.written))
    done = [table for table, some in results.items() if table not in failed and not any(one.null_key for one in some)]
    committed = do_apart(SNAPSHOT.name, done, lambda table: _commit(pipeline, by_table[table], results[table]))
    return Apart(committed.results, {**planned.faults, **failed, **committed.faults})


def _refresh_tasks(pipeline: Pipeline, job: _Job, run: str) -> Iterator[RefreshTask]:
    """Yield the tasks of one table.

    There is none if the changes are too many, if some keys are to be computed again or some changes lack columns, and if a key
    column is a floating-point number. Such a table is merged by Spark.
    """
    plan = job.plan
    inexact = any(column.is_key and column.type in ("float", "double") for column in job.columns)
    if plan.rebuilds or plan.recomputes or plan.fold_absent or inexact:
        return
    changelog = pipeline.lake.data_files(
        pipeline.table_path(CHANGELOG.name, job.table),
        {"window_start": set(plan.newer)},
        snapshot_id=plan.state.changelog_snapshot,
    )
    size = sum(file.bytes for file in changelog)
    if sum(file.rows for file in changelog) > REFRESH_ROWS or size > REFRESH_BYTES:
        return
    path = pipeline.table_path(SNAPSHOT.name, job.table)
    target = pipeline.lake.target(path, run)
    store = pipeline.lake.file_store(pipeline.table_path(CHANGELOG.name, job.table))
    for number, group in enumerate(_groups(pipeline.lake.data_files(path))):
        yield RefreshTask(
            table=job.table,
            columns=job.columns,
            changelog=tuple(file.path for file in changelog),
            files=tuple(group),
            adds=number == 0,
            before=job.before.frontier,
            after=plan.state.frontier,
            target=target,
            bytes=size + sum(group.values()),
            changelog_store=store,
        )


def _groups(files: Collection[StoredFile]) -> list[dict[HeldFile, int]]:
    """Return files of a snapshot with their bytes, as tasks take them.

    The first group has the smallest files; its task adds the new rows.
    """
    small = sum(file.bytes < _SMALL_BYTES for file in files) > _MOST_SMALL
    groups: list[dict[HeldFile, int]] = [{}]
    for file in sorted(files, key=lambda file: (file.bytes, file.path)):
        if sum(groups[-1].values()) + file.bytes > _TASK_BYTES:
            groups.append({})
        groups[-1][HeldFile(file.path, small and file.bytes < _SMALL_BYTES)] = file.bytes
    return groups


def _commit(pipeline: Pipeline, job: _Job, results: Sequence[RefreshResult]) -> None:
    removed = {path for result in results for path in result.removed}
    job.turn.still()
    pipeline.lake.replace(
        pipeline.table_path(SNAPSHOT.name, job.table),
        {},
        [file for result in results for file in result.written],
        properties={STATE_PROPERTY: job.plan.state.to_text()},
        keep=lambda file: file.file_path not in removed,
        assertion=stands_at(job.current),
    )


def _merge(pipeline: Pipeline, job: _Job, session: SparkSession) -> None:
    """Write one snapshot by Spark, on a branch that then becomes the table.

    A commit of Spark asserts what it read itself, and not what the run was planned on.
    """
    path = pipeline.table_path(SNAPSHOT.name, job.table)
    job.turn.still()
    # A session of its own: the commit's properties are session settings, and tables are worked on side by side.
    with pipeline.lake.branched(path, job.current) as branch, side_session(session) as spark:
        _write(pipeline, job, spark, branch)


def _write(pipeline: Pipeline, job: _Job, spark: SparkSession, branch: str) -> None:
    """Write one snapshot in one commit to a branch, which carries its new state."""
    table = pipeline.lake.spark_name(pipeline.table_path(SNAPSHOT.name, job.table))
    name = f"{table}.{quoted(f'branch_{branch}')}"
    names = [flat_name(column.name) for column in job.columns]
    written = [column for column, _ in snapshot_columns(job.columns)]
    option, state = f"snapshot-property.{STATE_PROPERTY}", job.plan.state.to_text()
    if job.plan.rebuilds:
        now = _changelog(pipeline, job, spark, job.plan.state.changelog_snapshot)
        held_now = now.where(stage.held(job.plan.state.frontier))
        plan = job.plan
        rows = stage.whole_snapshot(
            held_now, job.columns, names=names, fold_absent=plan.fold_absent, follow_moves=plan.follow_moves
        )
        rows.writeTo(name).option(option, state).overwrite(F.lit(True))
        return
    helper = stage.helper_prefix(names)
    source = stage.merge_source(_result(pipeline, job, spark, table), job.columns, names=names)
    if job.current is None:
        # No append: a first version of which the catalog has not told yet would stand beside this one.
        rows = source.where(f"{helper}takes").select(*map(quoted, written))
        rows.writeTo(name).option(option, state).overwrite(F.lit(True))
        return
    spark.conf.set(f"spark.sql.iceberg.{option}", state)
    keys = [flat_names(column) for column in job.columns if column.is_key]
    on = stage.same_row(keys, unfit=job.plan.state.unfit, helper=helper)
    sets = ", ".join(f"target.{quoted(column)} = source.{quoted(column)}" for column in written)
    columns = ", ".join(quoted(column) for column in written)
    values = ", ".join(f"source.{quoted(column)}" for column in written)
    source.createOrReplaceTempView("snapshot_changes")
    spark.sql(
        f"MERGE INTO {name} AS target USING snapshot_changes AS source ON {on} "
        f"WHEN MATCHED AND source.{helper}takes THEN UPDATE SET {sets} WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND source.{helper}takes THEN INSERT ({columns}) VALUES ({values})"
    )


def _result(pipeline: Pipeline, job: _Job, spark: SparkSession, snapshot_name: str) -> DataFrame:
    """Return the last operation on every key that the plan touches."""
    plan, before = job.plan, job.before.frontier
    now = _changelog(pipeline, job, spark, plan.state.changelog_snapshot)
    fresh = now.where(stage.in_windows(plan.newer, job.known))
    fresh = fresh.where(stage.held(plan.state.frontier) & ~stage.held(before))
    operations = stage.key_operations(fresh, job.columns)
    if not plan.recomputes:
        return _last(job, operations, _base(job, spark, snapshot_name, operations))
    suspects = _suspects(pipeline, job, spark, fresh, now)
    again = stage.key_operations(now.where(stage.held(plan.state.frontier)), job.columns).join(
        suspects, on="key", how="left_semi"
    )
    operations = operations.join(suspects, on="key", how="left_anti")
    forward = _last(job, operations, _base(job, spark, snapshot_name, operations))
    recomputed = suspects.join(_last(job, again, None), on="key", how="left")
    return forward.unionByName(recomputed.withColumn("takes", F.coalesce("takes", F.lit(False))))


def _suspects(pipeline: Pipeline, job: _Job, spark: SparkSession, fresh: DataFrame, now: DataFrame) -> DataFrame:
    """Return the keys that have to be computed again from the whole changelog."""
    plan = job.plan
    found: list[DataFrame] = []
    if plan.suspect_until is not None:
        found.append(fresh.where(stage.at_or_before(plan.suspect_until)))
    if plan.replaced:
        inside = stage.in_windows(plan.replaced, job.known)
        found.append(now.where(inside & stage.held(plan.state.frontier)))
        old = _changelog(pipeline, job, spark, job.before.changelog_snapshot)
        found.append(old.where(inside & stage.held(job.before.frontier)))
    keys = [stage.key_operations(changes, job.columns).select("key") for changes in found]
    whole = keys[0]
    for more in keys[1:]:
        whole = whole.unionByName(more)
    suspects = whole.distinct()
    if not plan.follow_moves:
        return suspects
    # What a moved row did not send stands in changes of the key that it came from.
    held_now = now.where(stage.held(plan.state.frontier))
    return absent_columns.linked_keys(suspects, stage.partial_moves(held_now, job.columns))


def _last(job: _Job, operations: DataFrame, base: DataFrame | None) -> DataFrame:
    if not job.plan.fold_absent:
        return stage.latest(operations)
    whole = operations if base is None else operations.unionByName(base)
    return absent_columns.folded(whole, job.columns, follow_moves=job.plan.follow_moves)


def _base(job: _Job, spark: SparkSession, snapshot_name: str, operations: DataFrame) -> DataFrame | None:
    """Return the current rows of the touched keys, where changes may lack columns.

    Read by the snapshot's id: Spark 4.1 cannot plan a merge whose source reads the target as it is.
    """
    if not job.plan.fold_absent or job.current is None:
        return None
    rows = spark.sql(f"SELECT * FROM {snapshot_name} VERSION AS OF {job.current}")
    held_columns = set(rows.columns)  # as they were then: a column may have come, become wider or been respelled since
    names = [flat_name(column.name) for column in job.columns]
    values = []
    for column, name in zip(job.columns, names, strict=True):
        held = next((one for one in flat_names(column) if one in held_columns), None)
        value = F.lit(None) if held is None else F.col(quoted(held))
        values.append(value.cast(column.type).alias(name))
    former = {one: flat_name(column.name) for column in job.columns for one in flat_names(column)[1:]}
    invalid = F.col("_invalid")
    for one, name in former.items():
        invalid = F.transform_keys(invalid, partial(_key_renamed, one, name))
    rows = rows.select(*values, *SHOWN, invalid.alias("_invalid"))
    current = stage.as_operations(rows, job.columns, names=names)
    return current.join(operations.select("key").distinct(), on="key", how="left_semi")


def _key_renamed(former: str, name: str, key: SparkColumn, _: SparkColumn) -> SparkColumn:
    return F.when(key == F.lit(former), F.lit(name)).otherwise(key)


def _changelog(pipeline: Pipeline, job: _Job, spark: SparkSession, snapshot_id: int | None) -> DataFrame:
    """Return a changelog as it stood at one of its Iceberg snapshots.

    A DataFrame alone would follow later commits.
    """
    name = pipeline.lake.spark_name(pipeline.table_path(CHANGELOG.name, job.table))
    return stage.with_images_of(spark.sql(f"SELECT * FROM {name} VERSION AS OF {snapshot_id}"), job.columns)
