"""Changes taken over into snapshots: tasks are planned, run by Spark, and committed table by table.

A table with few changes is a task, or a few that share the files of its snapshot; all such tables are one Spark job. A table with
many changes is a job of its own, whose tasks share the changes by the hashes of their keys, so that a task's memory is bounded
whatever a table holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import numpy as np
from pyspark.sql import SparkSession

from dts_assets.flows.apart import do_apart, refuse_shared
from dts_assets.flows.layers import CHANGELOG, SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.flows.snapshot_tasks import (
    HeldFile,
    Looked,
    LookTask,
    MergedTable,
    RefreshResult,
    RefreshTask,
    ShareTask,
    look_through,
    refresh_files,
    share_out,
    write_share,
)
from dts_assets.flows.spark_tasks import run_shuffled, run_tasks
from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import SnapshotPlan, SnapshotState
from dts_assets.stages.change_columns import Counted
from dts_assets.stages.keys import Hashes
from dts_assets.stages.snapshot_in_arrow import linked_keys, with_linked
from dts_assets.store.commit import stands_at
from dts_assets.store.lake import StoredFile

STATE_PROPERTY = "dts-assets.state"
"""The property of a snapshot commit that holds its state.

The state is the frontier it stands at and the changelog state it was made from.
"""

SHARE_ROWS = 500_000
SHARE_BYTES = 24 << 20
"""The most stored bytes that the changes of one task may have.

With :data:`SHARE_ROWS` it keeps a task's memory small; more changes are shared out over several tasks.
"""

_CHANGES_OF_A_KEY = 16
"""The changes that are reckoned for a key that is computed again.

A task takes more of them, and holds more then.
"""

_TASK_BYTES = 64 << 20
"""Stored bytes of a snapshot that one task looks through."""

_SMALL_BYTES = 8 << 20
_MOST_SMALL = 8
"""The number of small files above which a snapshot has them written as one.

Each refresh of a table that only gets rows adds a file.
"""


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """The work of one table.

    ``current`` is the present Iceberg snapshot of its snapshot table, None before the first; ``truncating`` are the windows with
    truncations of the table.
    """

    table: TableId
    columns: tuple[Column, ...]
    before: SnapshotState
    plan: SnapshotPlan
    current: int | None
    truncating: frozenset[datetime]
    turn: Turn


@dataclass(frozen=True, slots=True)
class Merge:
    """A job whose changes were looked through: the files to read, and those that may lose rows.

    ``applied`` are the delete files of the snapshot, ``rows`` bounds the changes that count. ``linked`` has the keys between
    which rows move without all columns.
    """

    job: SnapshotJob
    merged: MergedTable
    changelog: tuple[StoredFile, ...]
    groups: tuple[tuple[HeldFile, ...], ...]
    applied: frozenset[str]
    rows: int
    linked: Mapping[str, Hashes] | None = None

    @property
    def shares(self) -> int:
        """The number of tasks that the changes are shared out to."""
        size = sum(file.bytes for file in self.changelog)
        whole = sum(file.rows for file in self.changelog)
        counted = size * self.rows // whole if whole else 0
        return max(1, -(-self.rows // SHARE_ROWS), -(-counted // SHARE_BYTES))

    @property
    def is_small(self) -> bool:
        """True if the task that writes rows can read whatever it needs."""
        reads = sum(file.bytes for file in self.changelog)
        return self.shares == 1 and reads <= 2 * SHARE_BYTES and not (self.merged.needs_rows and len(self.groups) > 1)


@dataclass(frozen=True, slots=True)
class MergedSnapshots:
    """The faults of tables whose snapshots failed, and the removals of others that found no row."""

    faults: dict[TableId, Fault] = field(default_factory=dict)
    unmatched: dict[TableId, int] = field(default_factory=dict)

    def add(self, other: MergedSnapshots) -> None:
        """Take the facts about other tables in."""
        self.faults.update(other.faults)
        self.unmatched.update(other.unmatched)


def merge_snapshots(
    pipeline: Pipeline, jobs: Sequence[SnapshotJob], session: SparkSession, progress: Progress
) -> MergedSnapshots:
    """Bring the snapshots of some tables to their frontiers.

    Raises:
        SharedFaultError: All tables failed in the same way.
        StaleGenerationError: Another run has written a snapshot since this one was planned.
    """
    run, by_table = pipeline.new_run(), {job.table: job for job in jobs}
    looks = do_apart(SNAPSHOT.name, by_table, lambda table: list(_looks(pipeline, by_table[table], run)))
    looked: dict[TableId, list[Looked]] = {table: [] for table in looks.results}
    tasks = [task for some in looks.results.values() for task in some]
    for found in run_tasks(session, tasks, look_through, weight=lambda task: task.bytes):
        looked[found.table].append(found)
    done = MergedSnapshots({**looks.faults, **_faults(looked)})
    planned = do_apart(
        SNAPSHOT.name,
        [table for table in looked if table not in done.faults],
        lambda table: _merge(pipeline, by_table[table], looked[table], run),
    )
    done.faults.update(planned.faults)
    small = {table: merge for table, merge in planned.results.items() if merge.is_small}
    done.add(_merge_small(pipeline, small, session))
    for table, merge in planned.results.items():
        if table not in small:
            changes = sum(file.rows for file in merge.changelog)
            progress(f"snapshot: {table} has {changes:,} changes to look through, for {merge.shares} tasks")
            done.add(_merge_shared(pipeline, merge, session))
    return done


def _looks(pipeline: Pipeline, job: SnapshotJob, run: str) -> Iterator[LookTask]:
    """Yield the tasks that find out what is computed again, and where rows move."""
    plan, before, after = job.plan, job.before, job.plan.state.frontier
    now, then = plan.state.changelog_snapshot, before.changelog_snapshot
    look = partial(_look, pipeline, job, run)
    if plan.follow_moves:
        whole = plan.rebuilds or plan.recomputes
        yield from look(
            "moves", Counted(after, EMPTY_FRONTIER if whole else before.frontier), None if whole else plan.newer, now
        )
    if plan.rebuilds:
        yield from look("truncation", Counted(after), job.truncating, now)
        return
    if plan.suspect_until is not None:
        yield from look("keys", Counted(after, before.frontier, until=plan.suspect_until), plan.newer, now)
    if plan.replaced:
        yield from look("keys", Counted(after), plan.replaced, now)
        yield from look("keys", Counted(before.frontier), plan.replaced, then)


def _look(
    pipeline: Pipeline,
    job: SnapshotJob,
    run: str,
    sought: str,
    counted: Counted,
    starts: Collection[datetime] | None,
    version: int | None,
) -> Iterator[LookTask]:
    files = _changelog(pipeline, job, starts, version)
    merged = _merged(pipeline, job, counted, run)
    for group in _by_size(files, SHARE_BYTES):
        yield LookTask(merged, tuple(file.path for file in group), sought, sum(file.bytes for file in group))


def _merged(pipeline: Pipeline, job: SnapshotJob, counted: Counted, run: str) -> MergedTable:
    whole = merged_table(pipeline, job.table, job.columns, counted, run)
    return replace(whole, fold_absent=job.plan.fold_absent, unfit=job.plan.state.unfit)


def merged_table(
    pipeline: Pipeline, table: TableId, columns: tuple[Column, ...], counted: Counted, run: str
) -> MergedTable:
    """Return what tasks need to know of a table whose changes send every column, and whose keys fit."""
    return MergedTable(
        table=table,
        columns=columns,
        counted=counted,
        target=pipeline.lake.target(pipeline.table_path(SNAPSHOT.name, table), run),
        changelog_store=pipeline.lake.file_store(pipeline.table_path(CHANGELOG.name, table)),
    )


def _changelog(
    pipeline: Pipeline, job: SnapshotJob, starts: Collection[datetime] | None, version: int | None
) -> list[StoredFile]:
    """Return the changelog files of some windows (None: all that the frontier reaches), in an Iceberg snapshot."""
    path, reached = pipeline.table_path(CHANGELOG.name, job.table), job.plan.state.frontier.window
    if version is None or reached is None:
        return []
    rectangle = {} if starts is None else {"window_start": set(starts)}
    files = pipeline.lake.data_files(path, rectangle, snapshot_id=version)
    return [file for file in files if file.partition["window_start"] <= reached]


def _merge(pipeline: Pipeline, job: SnapshotJob, looked: Sequence[Looked], run: str) -> Merge:
    """Return what is to be done for a table, by what its changes touch."""
    plan, before, after = job.plan, job.before.frontier, job.plan.state.frontier
    version = plan.state.changelog_snapshot
    linked = linked_keys(one.moves for one in looked if one.moves is not None) if plan.follow_moves else None
    stands = pipeline.lake.data_files(pipeline.table_path(SNAPSHOT.name, job.table), applies_deletes=True)
    if plan.rebuilds:
        emptied_at = max((one.emptied_at for one in looked if one.emptied_at is not None), default=None)
        files, counted = _changelog(pipeline, job, None, version), Counted(after, emptied_at=emptied_at)
    elif plan.recomputes:
        again = np.unique(np.concatenate([one.keys for one in looked]))
        again = again if linked is None else with_linked(again, linked)
        files = _changelog(pipeline, job, None, version)
        counted = Counted(after, before, again=again, newer=frozenset(plan.newer))
    else:
        files, counted = _changelog(pipeline, job, plan.newer, version), Counted(after, before)
    rows = sum(file.rows for file in files)
    if counted.again is not None:
        newer = sum(file.rows for file in files if file.partition["window_start"] in counted.newer)
        rows = min(rows, newer + len(counted.again) * _CHANGES_OF_A_KEY)
    applied = frozenset(path for file in stands for path in file.deletes)
    groups = tuple(file_groups([] if plan.rebuilds else stands))
    return Merge(job, _merged(pipeline, job, counted, run), tuple(files), groups, applied, rows, linked)


def file_groups(files: Collection[StoredFile]) -> list[tuple[HeldFile, ...]]:
    """Return files of a snapshot as tasks take them.

    The first group has the smallest files; its task adds the new rows.
    """
    small = sum(file.bytes < _SMALL_BYTES for file in files) > _MOST_SMALL
    return [
        tuple(
            HeldFile(file.path, small and file.bytes < _SMALL_BYTES, file.bytes, file.deletes, file.shared_deletes)
            for file in group
        )
        for group in _by_size(files, _TASK_BYTES)
    ] or [()]


def _by_size(files: Iterable[StoredFile], most: int) -> list[list[StoredFile]]:
    """Return files in groups of at most so many bytes, or of one file; the smallest come first."""
    groups: list[list[StoredFile]] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.bytes, file.path)):
        if not groups or size + file.bytes > most:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return groups


def _merge_small(pipeline: Pipeline, merges: Mapping[TableId, Merge], session: SparkSession) -> MergedSnapshots:
    """Take few changes over, all tables in one Spark job."""
    tasks = [task for merge in merges.values() for task in _refresh_tasks(merge)]
    results: dict[TableId, list[RefreshResult]] = {}
    for result in run_tasks(session, tasks, refresh_files, weight=lambda task: task.bytes):
        results.setdefault(result.table, []).append(result)
    failed = _faults(results)
    refuse_shared(results, failed)
    for table in failed:
        _discard(pipeline, merges[table], results[table])
    done = [table for table in results if table not in failed]
    committed = do_apart(SNAPSHOT.name, done, lambda table: _commit(pipeline, merges[table], results[table]))
    return MergedSnapshots({**failed, **committed.faults}, _unmatched(results))


def _refresh_tasks(merge: Merge) -> Iterator[RefreshTask]:
    changelog = tuple(file.path for file in merge.changelog)
    size = sum(file.bytes for file in merge.changelog)
    for number, group in enumerate(merge.groups):
        yield RefreshTask(merge.merged, changelog, group, number == 0, size + sum(file.bytes for file in group))


def _merge_shared(pipeline: Pipeline, merge: Merge, session: SparkSession) -> MergedSnapshots:
    """Take many changes of a table over, shared out by their keys."""
    table, shares = merge.job.table, merge.shares

    def work(_: TableId) -> list[RefreshResult]:
        split = run_shuffled(session, _share_tasks(merge), share_out, partial(_write, merge.merged), shares=shares)
        changelog = tuple(file.path for file in merge.changelog)
        size = sum(file.bytes for file in merge.changelog)
        held = [group for group in merge.groups if group]
        tasks = [
            RefreshTask(merge.merged, changelog, group, False, size + sum(file.bytes for file in group))
            for group in held
        ]
        return [*split, *run_tasks(session, tasks, refresh_files, weight=lambda task: task.bytes)]

    made = do_apart(SNAPSHOT.name, [table], work)
    results = made.results.get(table, [])
    failed = {**made.faults, **_faults({table: results})}
    if failed:
        _discard(pipeline, merge, results)
        return MergedSnapshots(failed)
    committed = do_apart(SNAPSHOT.name, [table], lambda _: _commit(pipeline, merge, results))
    return MergedSnapshots(dict(committed.faults), _unmatched({table: results}))


def _unmatched(results: Mapping[TableId, Iterable[RefreshResult]]) -> dict[TableId, int]:
    return {table: sum(one.unmatched for one in some) for table, some in results.items()}


def _write(merged: MergedTable, share: int, pieces: Iterator[bytes | Fault], attempt: str) -> RefreshResult:
    return write_share(merged, pieces, attempt)


def _share_tasks(merge: Merge) -> list[ShareTask]:
    """Return the tasks that share a table's changes out.

    Where changes lack columns, some tasks share out the rows that are touched.
    """
    whole = tuple(file.path for file in merge.changelog)
    size = sum(file.bytes for file in merge.changelog)
    groups = _by_size(merge.changelog, SHARE_BYTES // 2)
    tasks = [
        ShareTask(
            merge.merged, tuple(file.path for file in group), merge.shares, sum(file.bytes for file in group),
            linked=merge.linked,
        )
        for group in groups
    ]  # fmt: skip
    if merge.merged.needs_rows:
        tasks += [
            ShareTask(merge.merged, whole, merge.shares, size + sum(file.bytes for file in group), group, merge.linked)
            for group in merge.groups
            if group
        ]
    return tasks


def _faults(results: Mapping[TableId, Sequence[Looked] | Sequence[RefreshResult]]) -> dict[TableId, Fault]:
    return {table: one.fault for table, some in results.items() for one in some if one.fault is not None}


def _discard(pipeline: Pipeline, merge: Merge, results: Iterable[RefreshResult]) -> None:
    path = pipeline.table_path(SNAPSHOT.name, merge.job.table)
    for one in results:
        pipeline.lake.discard(path, [*one.written, *one.deletes])


def _commit(pipeline: Pipeline, merge: Merge, results: Sequence[RefreshResult]) -> None:
    """Commit the files of a table, all at once, with the state that the snapshot is in then."""
    job = merge.job
    job.turn.still()
    commit_files(
        pipeline,
        job.table,
        results,
        state=job.plan.state.to_text(),
        current=job.current,
        applied=merge.applied,
        rebuilds=job.plan.rebuilds,
    )


def commit_files(
    pipeline: Pipeline,
    table: TableId,
    results: Iterable[RefreshResult],
    *,
    state: str,
    current: int | None,
    applied: Collection[str],
    rebuilds: bool = False,
    same_rows: bool = False,
) -> None:
    """Commit the files of a snapshot in one Iceberg snapshot that carries ``state``.

    ``current`` is the Iceberg snapshot that the work was planned on, ``applied`` are the delete files that tasks have applied.
    ``rebuilds`` says that no file stays, ``same_rows`` that the new files hold the rows of the removed ones.

    Raises:
        StaleGenerationError: Another run has written the snapshot since.
    """
    results = list(results)
    removed = {path for result in results for path in result.removed}
    pipeline.lake.replace(
        pipeline.table_path(SNAPSHOT.name, table),
        {},
        [file for result in results for file in result.written],
        properties={STATE_PROPERTY: state},
        keep=None if rebuilds else lambda file: file.file_path not in removed,
        assertion=stands_at(current),
        deletes=[file for result in results for file in result.deletes],
        applied=applied,
        same_rows=same_rows,
    )
