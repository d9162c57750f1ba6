"""Changes of a table amid which its primary key changes: a step for each key, and one commit.

Each step finds rows by the key that its changes told. It takes its changes over into the files that the step before has left,
which are in no commit yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from dts_assets.flows.apart import do_apart
from dts_assets.flows.first_looks import looks_of
from dts_assets.flows.lost_keys import lost_key
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_jobs import Merge, SnapshotJob, plan_merge
from dts_assets.flows.snapshot_merges import (
    MergedRows,
    ambiguous_changes,
    commit_files,
    results_of,
    state_after,
    unknown_values,
    with_sum_plan,
)
from dts_assets.flows.snapshot_tasks import RefreshResult, look_through
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.lost_keys import LostKey
from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.model.stored_sums import NO_CHANGE, SumChange
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.store.files import WrittenFile
from dts_assets.store.stored_files import StoredFile


def merge_in_steps(pipeline: Pipeline, job: SnapshotJob, session: SparkSession) -> MergedRows:
    """Bring a table of a layer to its frontier, over changes of its primary key.

    Raises:
        StaleGenerationError: Another run has written the snapshot since this one was planned.
    """
    layer, table, run = job.layer, job.table, pipeline.new_run()
    path = pipeline.table_path(layer.name, table)
    stored = () if job.plan.rebuilds else pipeline.lake.data_files(path, applies_deletes=True)
    files = _Files({file.path: file for file in stored})
    merges: list[Merge] = []
    lost: list[LostKey] = []

    def work(_: TableId) -> Fault | None:
        for step in job.steps():
            mine = replace(step, stands=tuple(files.standing.values())) if merges else step
            looked = run_tasks(
                session, list(looks_of(pipeline, mine, run)), look_through, weight=lambda task: task.bytes
            )
            fault = _fault(one.fault for one in looked)
            if fault is None:
                merges.append(with_sum_plan(pipeline, plan_merge(pipeline, mine, looked, run)))
                results = results_of(merges[-1], session)
                files.take(results)
                lost.extend(filter(None, [lost_key(mine, merges[-1].merged, files.unknown)]))
                fault = _fault(one.fault for one in results)
            if fault is not None:
                return fault
        return None

    made = do_apart(layer.name, [table], work)
    fault = made.faults.get(table) or made.results[table]
    pipeline.lake.discard(path, files.superseded if fault is None else (*files.superseded, *files.written.values()))
    if fault is not None:
        return MergedRows({table: fault})
    job.turn.still()
    committed = do_apart(
        layer.name,
        [table],
        lambda _: commit_files(
            pipeline, layer, table,
            [RefreshResult(table, tuple(files.removed), tuple(files.written.values()), unknown=files.unknown,
                           sums=files.sums)],
            state=state_after(job, files.ambiguous, next(iter(lost), None)), current=job.current, applied=merges[0].applied,
            rebuilds=job.plan.rebuilds,
            columns=job.planned, tags=job.tags, sums=merges[-1].merged.sums,
        ),
    )  # fmt: skip
    return MergedRows(
        dict(committed.faults), {table: files.not_removed}, {table: files.unknown}, {table: files.ambiguous}
    )


def _fault(found: Iterable[Fault | None]) -> Fault | None:
    return next((fault for fault in found if fault is not None), None)


@dataclass(slots=True)
class _Files:
    """The files of a table between two steps, by path.

    ``standing`` hold its rows. Of these ``written`` are in no commit. ``removed`` are files of the table that its rows have left,
    ``superseded`` are files of steps that no rows are left in. ``unknown`` counts the values in ``standing`` that are not known.
    """

    standing: dict[str, StoredFile]
    written: dict[str, WrittenFile] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    superseded: list[WrittenFile] = field(default_factory=list)
    not_removed: NotRemoved = ALL_REMOVED
    unknown: Mapping[str, int] = field(default_factory=dict)
    sums: SumChange = NO_CHANGE
    ambiguous: list[pa.RecordBatch] = field(default_factory=list)

    def take(self, results: Sequence[RefreshResult]) -> None:
        """Take the files of a step in, which removes rows from files by new files alone."""
        for result in results:
            for path in result.removed:
                del self.standing[path]
                if path in self.written:
                    self.superseded.append(self.written.pop(path))
                else:
                    self.removed.append(path)
            for file in result.written:
                self.written[file.path] = file
                values = {str(number): value for number, value in enumerate(file.partition)}
                self.standing[file.path] = StoredFile(file.path, values, file.rows, file.bytes)
            self.not_removed += result.not_removed
        self.ambiguous += ambiguous_changes(results)
        self.unknown = unknown_values(results)
        self.sums = sum((one.sums for one in results), NO_CHANGE)  # each step writes all rows anew
