"""Snapshots and histories whose files are written anew, while their rows and their state stay as they are.

When a window has closed they are put in order: worn files are written anew, and expired versions go. Worn are files with many
deleted rows, and small files where these are many. When columns become another type, all files are. Where the rows stay as they
are, readers that follow the table need not look (REPLACE).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dts_assets.flows.apart import Apart, do_apart, fault_at
from dts_assets.flows.conversions import to_convert
from dts_assets.flows.followed_tables import followed_sources
from dts_assets.flows.layers import SNAPSHOT, Layer
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.snapshot_jobs import expired_versions, file_groups, merged_table
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, commit_files
from dts_assets.flows.snapshot_tasks import RefreshResult, RefreshTask, put_in_order
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.flows.sum_plans import sum_plan
from dts_assets.model.columns import Column
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.frontier import EMPTY_FRONTIER
from dts_assets.model.stored_sums import SumPlan
from dts_assets.model.tables import TableId
from dts_assets.planning.compactions import FileShape, files_to_compact
from dts_assets.planning.pauses import Fault
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.change_columns import NO_TIME, Counted
from dts_assets.store.converted_columns import PlannedColumns
from dts_assets.store.files import WriteTarget
from dts_assets.store.lake import TableState
from dts_assets.store.stored_files import StoredFile

_SUMMED_BYTES = 256 << 20
"""The most stored bytes of a table that is written anew to get the sum of its rows.

A larger one waits for its next rebuild.
"""


@dataclass(frozen=True, slots=True)
class _Work:
    """The files of one table that are written anew, and those that expired versions leave.

    ``state`` is the Iceberg snapshot that they are part of. Versions that ended before ``expired_before`` go, in microseconds.
    ``target`` is the place for files with ``converted`` columns; None where no column is converted. ``sums`` says how the sum of
    the rows goes on.
    """

    columns: tuple[Column, ...]
    state: TableState
    worn: tuple[StoredFile, ...]
    expiring: tuple[StoredFile, ...] = ()
    expired_before: int = NO_TIME
    target: WriteTarget | None = None
    converted: PlannedColumns | None = None
    sums: SumPlan | None = None

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """All files that are read."""
        return (*self.worn, *self.expiring)


def compact_rows(
    pipeline: Pipeline,
    layer: Layer,
    tables: Mapping[TableId, Sequence[Column]],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> None:
    """Put some tables of a layer in order, where that is worth it.

    It is the caller's turn in the tables. A table for which it fails stays as it is until the next window closes.

    Raises:
        SharedFaultError: All tables failed in the same way.
        Exception: A step failed with an error that concerns the run and not one table.
    """
    found = do_apart(layer.name, tables, lambda table: _work(pipeline, layer, table, tuple(tables[table])))
    work = {table: one for table, one in found.results.items() if one is not None}
    written = _written_anew(pipeline, layer, work, pipeline.new_run(), spark)
    for table, fault in {**found.faults, **written.faults}.items():  # no row is wrong by it: the next run tries again
        progress(f"compaction: the {layer.name} of {table} stays as it is for now: {fault.reason}")
    if written.results:
        many = sum(written.results.values())
        progress(f"compaction: {many} files of the {layer.name} of {len(written.results)} tables were put in order")


def worn_files(pipeline: Pipeline, layer: Layer, tables: Mapping[TableId, Sequence[Column]]) -> Mapping[TableId, int]:
    """Return how many files :func:`compact_rows` would read to write them anew, for the tables with some."""
    found = do_apart(layer.name, tables, lambda table: _work(pipeline, layer, table, tuple(tables[table])))
    return {table: len(one.files) for table, one in found.results.items() if one is not None}


def convert_rows(
    pipeline: Pipeline,
    layer: Layer,
    tables: Mapping[TableId, Sequence[Column]],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> Mapping[TableId, Fault]:
    """Convert the columns of a layer's tables to the types that the registry has, and return the faults.

    These are columns that Iceberg cannot widen. It is the caller's turn in the tables.
    """
    run = pipeline.new_run()
    sources = followed_sources(pipeline) if layer is SNAPSHOT else {}
    # A snapshot that follows statements has the present type of each column, whatever types it had before.
    asked = {table: columns for table, columns in tables.items() if to_convert(columns) and table not in sources}
    found = do_apart(layer.name, asked, lambda table: _conversion(pipeline, layer, table, tuple(asked[table]), run))
    work = {table: one for table, one in found.results.items() if one is not None}
    if not work:
        return found.faults
    progress(f"{layer.name}: {len(work)} tables have columns that became another type; their files are written anew")
    return {**found.faults, **_written_anew(pipeline, layer, work, run, spark).faults}


def _conversion(
    pipeline: Pipeline, layer: Layer, table: TableId, columns: tuple[Column, ...], run: str
) -> _Work | None:
    """Return the work by which a table gets converted columns.

    None stands for a table that needs none, or that is made anew when it is opened.
    """
    path = pipeline.table_path(layer.name, table)
    wanted = layer.columns_of(pipeline.settings, table, to_convert(columns))
    conversion = pipeline.lake.conversion(path, wanted, run, layer.layout(pipeline.settings, table))
    if conversion is None:
        return None
    state = pipeline.lake.state(path)
    if state is None or STATE_PROPERTY not in state.properties:
        pipeline.lake.drop(path)
        return None
    if SnapshotState.of_text(state.properties[STATE_PROPERTY]).present is not None:
        return None  # a merged table follows the statements of its shards, and has present types, too
    files = pipeline.lake.data_files(path, snapshot_id=state.snapshot_id, applies_deletes=True)
    sums = sum_plan(pipeline, layer.name, table, conversion[0], anew=True)
    return _Work(columns, state, tuple(files), target=conversion[0], converted=conversion[1], sums=sums)


def _written_anew(
    pipeline: Pipeline, layer: Layer, work: Mapping[TableId, _Work], run: str, spark: SparkProvider
) -> Apart[int]:
    """Write files of some tables anew, and return the numbers of changed files and the faults."""
    tasks = [task for table, one in work.items() for task in _tasks(pipeline, layer, table, one, run)]
    results: dict[TableId, list[RefreshResult]] = {table: [] for table, one in work.items() if one.converted}
    for result in run_tasks(spark(), tasks, put_in_order, weight=lambda task: task.bytes) if tasks else ():
        results.setdefault(result.table, []).append(result)
    changed, faults = dict[TableId, int](), dict[TableId, Fault]()
    for table, some in results.items():
        if not (work[table].converted or any(one.changes for one in some)):
            continue
        fault = next((one.fault for one in some if one.fault is not None), None)
        try:
            if fault is None:
                _commit(pipeline, layer, table, work[table], some)
                changed[table] = sum(len(one.removed) + len(one.deletes) for one in some)
        except Exception as error:
            fault = fault_at(layer.name, error)
        if fault is not None:
            faults[table] = fault
    return Apart(changed, faults)


def _work(pipeline: Pipeline, layer: Layer, table: TableId, columns: tuple[Column, ...]) -> _Work | None:
    """Return what is to be done for a table; None where nothing is."""
    path = pipeline.table_path(layer.name, table)
    state = pipeline.lake.state(path)
    if state is None or STATE_PROPERTY not in state.properties:
        return None
    bounds = ["_valid_to"] if layer.has_versions else []
    files = pipeline.lake.data_files(path, snapshot_id=state.snapshot_id, applies_deletes=True, bounds=bounds)
    shapes = (
        FileShape(file.bytes, file.rows, file.deleted_rows, tuple(file.partition.values()), file.is_former)
        for file in files
    )
    sums = _sum_plan(pipeline, layer, table, files)
    chosen = range(len(files)) if sums is not None and sums.anew else files_to_compact(list(shapes))
    worn = tuple(files[number] for number in chosen)
    known = SnapshotState.of_text(state.properties[STATE_PROPERTY])
    columns = columns if known.present is None else known.present.stored(columns)
    expired_before = expired_versions(pipeline, layer, known.frontier)
    taken = set(chosen)
    expiring = tuple(
        file
        for number, file in enumerate(files)
        if number not in taken and file.least.get("_valid_to", expired_before) < expired_before
    )
    return _Work(columns, state, worn, expiring, expired_before, sums=sums) if worn or expiring else None


def _sum_plan(pipeline: Pipeline, layer: Layer, table: TableId, files: Sequence[StoredFile]) -> SumPlan | None:
    """Return how the sum of a table's rows goes on.

    A table whose sum nobody knows, since a column went or because it is older than sums, has its files written anew.
    """
    path = pipeline.table_path(layer.name, table)
    plan = sum_plan(pipeline, layer.name, table, pipeline.lake.target(path, ""), anew=False)
    if plan is None or plan.counts_gone or sum(file.bytes for file in files) > _SUMMED_BYTES:
        return plan
    return replace(plan, anew=True)


def _tasks(pipeline: Pipeline, layer: Layer, table: TableId, work: _Work, run: str) -> list[RefreshTask]:
    merged = replace(
        merged_table(pipeline, layer, table, work.columns, Counted(EMPTY_FRONTIER), run, target=work.target),
        expired_before=work.expired_before,
        sums=work.sums,
    )
    worn = {file.path for file in work.worn}
    return [
        RefreshTask(
            merged,
            (),
            tuple(replace(file, rewrite=file.path in worn) for file in group),
            False,
            sum(one.bytes for one in group),
        )
        for group in file_groups(work.files)
    ]


def _commit(pipeline: Pipeline, layer: Layer, table: TableId, work: _Work, results: Collection[RefreshResult]) -> None:
    commit_files(
        pipeline,
        layer,
        table,
        results,
        state=work.state.properties[STATE_PROPERTY],
        current=work.state.snapshot_id,
        applied={path for file in work.files for path in file.deletes},
        same_rows=work.expired_before == NO_TIME,
        columns=work.converted,
        # The former files are then needed by nobody. Where columns become another type, tags stay with the type of their cut.
        tags=TagChange(moves=True) if work.converted is None else None,
        sums=work.sums,
    )
