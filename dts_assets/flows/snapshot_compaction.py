"""Snapshots put in order when a window has closed: worn files are written anew.

They are files with many deleted rows, and small files where these are many. The rows stay as they are, so readers that follow the
table need not look (REPLACE), and the state of the snapshot is what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.flows.apart import do_apart, fault_at
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.snapshot_jobs import file_groups, merged_table
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, commit_files
from dts_assets.flows.snapshot_tasks import RefreshResult, RefreshTask, refresh_files
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.columns import Column
from dts_assets.model.frontier import EMPTY_FRONTIER
from dts_assets.model.tables import TableId
from dts_assets.planning.compactions import FileShape, files_to_compact
from dts_assets.stages.change_columns import Counted
from dts_assets.store.lake import StoredFile, TableState


@dataclass(frozen=True, slots=True)
class _Work:
    """The files of one snapshot that are written anew, and the Iceberg snapshot that they are part of."""

    columns: tuple[Column, ...]
    state: TableState
    files: tuple[StoredFile, ...]


def compact_snapshots(
    pipeline: Pipeline,
    tables: Mapping[TableId, Sequence[Column]],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> None:
    """Put the snapshots of some tables in order, where that is worth it.

    It is the caller's turn in the tables. A table for which it fails stays as it is until the next window closes.

    Raises:
        SharedFaultError: All tables failed in the same way.
        Exception: A step failed with an error that concerns the run and not one table.
    """
    found = do_apart(SNAPSHOT.name, tables, lambda table: _work(pipeline, table, tuple(tables[table])))
    work = {table: one for table, one in found.results.items() if one is not None}
    run = pipeline.new_run()
    tasks = [task for table, one in work.items() for task in _tasks(pipeline, table, one, run)]
    results: dict[TableId, list[RefreshResult]] = {}
    for result in run_tasks(spark(), tasks, refresh_files, weight=lambda task: task.bytes) if tasks else ():
        results.setdefault(result.table, []).append(result)
    faults = dict(found.faults)
    for table, some in results.items():
        fault = next((one.fault for one in some if one.fault is not None), None)
        try:
            if fault is None:
                _commit(pipeline, table, work[table], some)
        except Exception as error:  # no row is wrong by it: the next run tries again
            fault = fault_at(SNAPSHOT.name, error)
        if fault is not None:
            faults[table] = fault
    for table, fault in faults.items():
        progress(f"compaction: the snapshot of {table} stays as it is for now: {fault.reason}")
    done = results.keys() - faults.keys()
    if done:
        many = sum(len(work[table].files) for table in done)
        progress(f"compaction: {many} files of {len(done)} snapshots were written anew")


def _work(pipeline: Pipeline, table: TableId, columns: tuple[Column, ...]) -> _Work | None:
    """Return what is to be done for a table; None where nothing is."""
    path = pipeline.table_path(SNAPSHOT.name, table)
    state = pipeline.lake.state(path)
    if state is None or STATE_PROPERTY not in state.properties:
        return None
    files = pipeline.lake.data_files(path, snapshot_id=state.snapshot_id, applies_deletes=True)
    chosen = files_to_compact([FileShape(file.bytes, file.rows, file.deleted_rows) for file in files])
    return _Work(columns, state, tuple(files[number] for number in chosen)) if chosen else None


def _tasks(pipeline: Pipeline, table: TableId, work: _Work, run: str) -> list[RefreshTask]:
    merged = merged_table(pipeline, table, work.columns, Counted(EMPTY_FRONTIER), run)
    return [
        RefreshTask(
            merged, (), tuple(replace(file, rewrite=True) for file in group), False, sum(one.bytes for one in group)
        )
        for group in file_groups(work.files)
    ]


def _commit(pipeline: Pipeline, table: TableId, work: _Work, results: Collection[RefreshResult]) -> None:
    commit_files(
        pipeline,
        table,
        results,
        state=work.state.properties[STATE_PROPERTY],
        current=work.state.snapshot_id,
        applied={path for file in work.files for path in file.deletes},
        same_rows=True,
    )
