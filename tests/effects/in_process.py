"""What flows ask of Spark, in this process and without a JVM.

Tasks run one after the other. The joins and the MERGE of Spark, which a snapshot needs where windows were replaced, have a
stand-in that takes all changes of the changelog anew, by the product's own Arrow stage, and replaces the table in one commit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.flows.layers import CHANGELOG, SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_tasks import RefreshTask, refresh_files
from dts_assets.flows.snapshots import STATE_PROPERTY
from dts_assets.planning.snapshot_plans import EMPTY_STATE
from dts_assets.store.files import WrittenFile
from tests.effects.effects import EffectFailed, Effects, Way


@dataclass
class InProcess:
    """The part of a Spark session that :func:`dts_assets.flows.spark_tasks.run_tasks` needs. A job is an effect."""

    effects: Effects

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.master": "local[1]"}

    def newSession(self) -> InProcess:
        return self

    def range(self, start: int, end: int, step: int, slots: int) -> InProcess:
        assert (start, step, end) == (0, 1, slots)
        self._slots = slots
        return self

    def mapInArrow(self, each: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: str) -> _Frame:
        return _Frame(self.effects, self._slots, each)


@dataclass
class _Frame:
    effects: Effects
    slots: int
    each: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def collect(self) -> list[dict[str, Any]]:
        way = self.effects.way_of("job of tasks")
        if way is Way.REFUSED:
            raise EffectFailed("no task was started")
        rows: list[dict[str, Any]] = []
        for slot in range(self.slots if way is not Way.CUT else self.slots // 2):
            batch = pa.RecordBatch.from_pydict({"id": [slot]})
            rows += (row for found in self.each([batch]) for row in found.to_pylist())
        if way in (Way.CUT, Way.UNHEARD):
            raise EffectFailed("the results of the tasks were lost")
        return rows


def merged(pipeline: Pipeline, job: Any, _: object) -> Any:
    """Make one snapshot from its whole changelog, in the place of ``dts_assets.flows.snapshots._merge``."""
    path, state = pipeline.table_path(SNAPSHOT.name, job.table), job.plan.state
    pipeline.lake.replace(path, {}, _whole(pipeline, job), properties={STATE_PROPERTY: state.to_text()})
    return job


def written_to(pipeline: Pipeline, job: Any, _: object, branch: str) -> None:
    """Do the same on a branch by another writer, in the place of ``dts_assets.flows.snapshots._write``.

    pyiceberg's own transaction is that writer, as Spark's is: it asserts what it read, and repeats nothing.
    """
    table = pipeline.lake.catalog.load_table(pipeline.lake.identifier(pipeline.table_path(SNAPSHOT.name, job.table)))
    schema, rows = table.schema().as_arrow(), []
    for file in _whole(pipeline, job):
        with table.io.new_input(file.path).open() as stream:
            rows.append(pq.read_table(stream).cast(schema))
    whole = pa.concat_tables(rows) if rows else schema.empty_table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyiceberg warns where there is nothing to overwrite
        table.overwrite(whole, branch=branch, snapshot_properties={STATE_PROPERTY: job.plan.state.to_text()})


def _whole(pipeline: Pipeline, job: Any) -> tuple[WrittenFile, ...]:
    path, state = pipeline.table_path(SNAPSHOT.name, job.table), job.plan.state
    changelog = pipeline.table_path(CHANGELOG.name, job.table)
    files = pipeline.lake.data_files(changelog, snapshot_id=state.changelog_snapshot)
    task = RefreshTask(
        job.table, job.columns, tuple(file.path for file in files), (), True, EMPTY_STATE.frontier, state.frontier,
        pipeline.lake.target(path, pipeline.new_run()), 0, pipeline.lake.file_store(changelog),
    )  # fmt: skip
    return refresh_files(task, "merged").written
