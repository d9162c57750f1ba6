"""Changes taken over into snapshots: tasks are run by Spark, and committed table by table.

All tables with few changes are one Spark job. A table with many changes is a job of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from dts_assets.flows.ambiguous_changes import with_more
from dts_assets.flows.apart import do_apart, refuse_shared
from dts_assets.flows.first_looks import looks_of
from dts_assets.flows.layers import Layer
from dts_assets.flows.lost_keys import lost_key
from dts_assets.flows.merged_table import MergedTable
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.flows.row_sum_counts import stored_sums
from dts_assets.flows.snapshot_jobs import SHARE_BYTES, Merge, SnapshotJob, plan_merge
from dts_assets.flows.snapshot_tasks import (
    Looked,
    RefreshResult,
    RefreshTask,
    ShareTask,
    look_through,
    refresh_files,
    share_out,
    write_share,
)
from dts_assets.flows.spark_tasks import run_shuffled, run_tasks
from dts_assets.flows.sum_plans import sum_plan
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.lost_keys import LostKey
from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.model.stored_sums import SumPlan
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.planning.task_shares import by_size
from dts_assets.store.commit import stands_at
from dts_assets.store.converted_columns import PlannedColumns
from dts_assets.store.planned_fields import PlannedSchema

STATE_PROPERTY = "dts-assets.state"
"""The property of a snapshot commit that holds its state.

The state is the frontier it stands at and the changelog state it was made from.
"""


UNKNOWN_PROPERTY = "dts-assets.unknown-values"
"""The property of a snapshot commit that counts the values which it made NULL, as nobody knows them.

It is a JSON object with the counts by column.
"""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The faults of tables that failed, and what there is to tell of the others.

    These are the removals that removed nothing, the numbers of values that are not known, by column, and the changes that may
    mean several different rows.
    """

    faults: dict[TableId, Fault] = field(default_factory=dict)
    not_removed: dict[TableId, NotRemoved] = field(default_factory=dict)
    unknown: dict[TableId, Mapping[str, int]] = field(default_factory=dict)
    ambiguous: dict[TableId, list[pa.RecordBatch]] = field(default_factory=dict)

    def add(self, other: MergedRows) -> None:
        """Take the facts about other tables in."""
        self.faults.update(other.faults)
        self.not_removed.update(other.not_removed)
        self.unknown.update(other.unknown)
        self.ambiguous.update(other.ambiguous)


def merge_rows(
    pipeline: Pipeline, layer: Layer, jobs: Sequence[SnapshotJob], session: SparkSession, progress: Progress
) -> MergedRows:
    """Bring some tables of a layer to their frontiers.

    Raises:
        SharedFaultError: All tables failed in the same way.
        StaleGenerationError: Another run has written a snapshot since this one was planned.
    """
    run, by_table = pipeline.new_run(), {job.table: job for job in jobs}
    looks = do_apart(layer.name, by_table, lambda table: list(looks_of(pipeline, by_table[table], run)))
    looked: dict[TableId, list[Looked]] = {table: [] for table in looks.results}
    tasks = [task for some in looks.results.values() for task in some]
    for found in run_tasks(session, tasks, look_through, weight=lambda task: task.bytes):
        looked[found.table].append(found)
    done = MergedRows({**looks.faults, **_faults(looked)})
    planned = do_apart(
        layer.name,
        [table for table in looked if table not in done.faults],
        lambda table: with_sum_plan(pipeline, plan_merge(pipeline, by_table[table], looked[table], run)),
    )
    done.faults.update(planned.faults)
    small = {table: merge for table, merge in planned.results.items() if merge.is_small}
    done.add(_merge_small(pipeline, layer, small, session))
    for table, merge in planned.results.items():
        if table not in small:
            changes = sum(file.rows for file in merge.changelog)
            progress(f"{layer.name}: {table} has {changes:,} changes to look through, for {merge.shares} tasks")
            done.add(_merge_shared(pipeline, merge, session))
    return done


def _merge_small(
    pipeline: Pipeline, layer: Layer, merges: Mapping[TableId, Merge], session: SparkSession
) -> MergedRows:
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
    committed = do_apart(layer.name, done, lambda table: _commit(pipeline, merges[table], results[table]))
    return _reported({**failed, **committed.faults}, results)


def _refresh_tasks(merge: Merge) -> Iterator[RefreshTask]:
    changelog = tuple(file.path for file in merge.changelog)
    size = sum(file.bytes for file in merge.changelog)
    for number, group in enumerate(merge.groups):
        yield RefreshTask(merge.merged, changelog, group, number == 0, size + sum(file.bytes for file in group))


def _merge_shared(pipeline: Pipeline, merge: Merge, session: SparkSession) -> MergedRows:
    """Take many changes of a table over, shared out by their keys."""
    layer, table = merge.job.layer, merge.job.table
    made = do_apart(layer.name, [table], lambda _: _results_of_shares(merge, session))
    results = made.results.get(table, [])
    failed = {**made.faults, **_faults({table: results})}
    if failed:
        _discard(pipeline, merge, results)
        return MergedRows(failed)
    committed = do_apart(layer.name, [table], lambda _: _commit(pipeline, merge, results))
    return _reported(dict(committed.faults), {table: results})


def results_of(merge: Merge, session: SparkSession) -> list[RefreshResult]:
    """Return the files that the tasks of one table write and remove."""
    if not merge.is_small:
        return _results_of_shares(merge, session)
    return run_tasks(session, list(_refresh_tasks(merge)), refresh_files, weight=lambda task: task.bytes)


def _results_of_shares(merge: Merge, session: SparkSession) -> list[RefreshResult]:
    split = run_shuffled(session, _share_tasks(merge), share_out, partial(_write, merge.merged), shares=merge.shares)
    changelog = tuple(file.path for file in merge.changelog)
    size = sum(file.bytes for file in merge.changelog)
    tasks = [
        RefreshTask(merge.merged, changelog, group, False, size + sum(file.bytes for file in group))
        for group in merge.groups
        if group
    ]
    return [*split, *run_tasks(session, tasks, refresh_files, weight=lambda task: task.bytes)]


def _reported(faults: dict[TableId, Fault], results: Mapping[TableId, Sequence[RefreshResult]]) -> MergedRows:
    """Return the faults of tables, and what their tasks report."""
    ambiguous = {table: ambiguous_changes(some) for table, some in results.items()}
    return MergedRows(faults, _not_removed(results), _unknown(results), ambiguous)


def ambiguous_changes(results: Iterable[RefreshResult]) -> list[pa.RecordBatch]:
    """Return the changes of a table that may mean several different rows, as its tasks found them."""
    return [one.ambiguous for one in results if one.ambiguous is not None]


def state_after(job: SnapshotJob, ambiguous: Iterable[pa.RecordBatch], lost: LostKey | None) -> str:
    """Return the text of the state that a table is in after a job.

    The job may have ``lost`` the key of some rows.
    """
    state = job.plan.state
    ambiguous_now = with_more(state.ambiguous, job.table, ambiguous)
    return replace(state, ambiguous=ambiguous_now, lost=state.lost or lost).to_text()


def _not_removed(results: Mapping[TableId, Iterable[RefreshResult]]) -> dict[TableId, NotRemoved]:
    return {table: sum((one.not_removed for one in some), ALL_REMOVED) for table, some in results.items()}


def _unknown(results: Mapping[TableId, Iterable[RefreshResult]]) -> dict[TableId, Mapping[str, int]]:
    return {table: unknown_values(some) for table, some in results.items()}


def unknown_values(results: Iterable[RefreshResult]) -> Mapping[str, int]:
    """Return how many values of a table the tasks have written that are not known, by column."""
    return sum((Counter(one.unknown) for one in results), Counter[str]())


def _write(merged: MergedTable, share: int, pieces: Iterator[bytes | Fault], attempt: str) -> RefreshResult:
    return write_share(merged, pieces, attempt)


def _share_tasks(merge: Merge) -> list[ShareTask]:
    """Return the tasks that share a table's changes out.

    Where changes lack columns, some tasks share out the rows that are touched.
    """
    whole = tuple(file.path for file in merge.changelog)
    size = sum(file.bytes for file in merge.changelog)
    groups = by_size(merge.changelog, SHARE_BYTES // 2)
    tasks = [
        ShareTask(
            merge.merged, tuple(file.path for file in group), merge.shares, sum(file.bytes for file in group),
            linked=merge.linked, patterns=merge.patterns,
        )
        for group in groups
    ]  # fmt: skip
    if merge.merged.needs_rows:
        tasks += [
            ShareTask(
                merge.merged,
                whole,
                merge.shares,
                size + sum(file.bytes for file in group),
                group,
                merge.linked,
                merge.patterns,
            )
            for group in merge.groups
            if group
        ]
    return tasks


def _faults(results: Mapping[TableId, Sequence[Looked] | Sequence[RefreshResult]]) -> dict[TableId, Fault]:
    return {table: one.fault for table, some in results.items() for one in some if one.fault is not None}


def _discard(pipeline: Pipeline, merge: Merge, results: Iterable[RefreshResult]) -> None:
    path = pipeline.table_path(merge.job.layer.name, merge.job.table)
    for one in results:
        pipeline.lake.discard(path, [*one.written, *one.deletes])


def _commit(pipeline: Pipeline, merge: Merge, results: Sequence[RefreshResult]) -> None:
    """Commit the files of a table, all at once, with the state that the snapshot is in then."""
    job = merge.job
    job.turn.still()
    commit_files(
        pipeline,
        job.layer,
        job.table,
        results,
        state=state_after(job, ambiguous_changes(results), lost_key(job, merge.merged, unknown_values(results))),
        current=job.current,
        applied=merge.applied,
        rebuilds=job.plan.rebuilds,
        columns=job.planned,
        tags=job.tags,
        sums=merge.merged.sums,
    )


def with_sum_plan(pipeline: Pipeline, merge: Merge) -> Merge:
    """Return a merge that goes on with the sum of its table's rows."""
    job, merged = merge.job, merge.merged
    anew = job.plan.rebuilds or job.has_steps or merged.held_columns is not None
    plan = sum_plan(pipeline, job.layer.name, job.table, merged.target, anew=anew)
    return merge if plan is None else replace(merge, merged=replace(merged, sums=plan))


def commit_files(
    pipeline: Pipeline,
    layer: Layer,
    table: TableId,
    results: Iterable[RefreshResult],
    *,
    state: str,
    current: int | None,
    applied: Collection[str],
    rebuilds: bool = False,
    same_rows: bool = False,
    columns: PlannedColumns | PlannedSchema | None = None,
    tags: TagChange | None = None,
    sums: SumPlan | None = None,
) -> None:
    """Commit the files of a layer's table in one Iceberg snapshot that carries ``state``.

    ``current`` is the Iceberg snapshot that the work was planned on, ``applied`` are the delete files that tasks have applied.
    ``rebuilds`` says that no file stays, ``same_rows`` that the new files hold the rows of the removed ones. ``columns`` and
    ``tags`` come in the same commit, and the sum of the rows behind it that ``sums`` tells.

    Raises:
        StaleGenerationError: Another run has written the snapshot since.
    """
    results = list(results)
    removed, unknown = {path for result in results for path in result.removed}, unknown_values(results)
    pipeline.lake.replace(
        pipeline.table_path(layer.name, table),
        {},
        [file for result in results for file in result.written],
        properties={
            STATE_PROPERTY: state,
            **({UNKNOWN_PROPERTY: json.dumps(unknown)} if unknown else {}),
            **stored_sums(sums, (result.sums for result in results)),
        },
        keep=None if rebuilds else lambda file: file.file_path not in removed,
        assertion=stands_at(current),
        deletes=[file for result in results for file in result.deletes],
        applied=applied,
        same_rows=same_rows,
        columns=columns,
        tags=tags,
    )
