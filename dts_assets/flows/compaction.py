"""Compaction: the files of a window that was read many times are written as few files.

A window is compacted once it has closed, and now and then while it is open. A window of an hour that was refreshed every twenty
seconds lies in 180 files of each table, which every reader would pay for. The rows stay as they are, and the new file goes into
the folder of the last run that wrote files of the window: for the ledger nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from dts_assets.flows.apart import fault_at
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.open_windows import own_files
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.model.refreshes import compacted_name, runs_of
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.planning.compactions import is_worth_compacting
from dts_assets.planning.pauses import Fault
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches

Done = TypeVar("Done")

_STEP = "compaction"
_SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """The rewriting of files of one partition tuple as one file, rows in their order."""

    paths: tuple[str, ...]
    partition: tuple[Any, ...]
    bytes: int
    target: WriteTarget


def compact_files(task: CompactionTask, attempt: str) -> tuple[WrittenFile, ...] | Fault:
    """Return the file that takes the place of a task's files, or the fault of their table.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        return _compacted(task, attempt)
    except Exception as error:
        return fault_at(_STEP, error)


def _compacted(task: CompactionTask, attempt: str) -> tuple[WrittenFile, ...]:
    columns = task.target.arrow_schema.names
    with TableWriter(task.target, f"{compacted_name(task.paths)}-{attempt}") as writer:
        for batch in read_batches(task.target.store, task.paths, columns):
            writer.write_partition(task.partition, batch)
        return writer.close()


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a table in which a task's files take the place of others.

    ``found`` are all of its files.
    """

    path: tuple[str, ...]
    rectangle: Rectangle
    found: tuple[str, ...]
    task: CompactionTask


def compact_cells(
    pipeline: Pipeline,
    rows: Iterable[IngestWindow],
    raw: Mapping[Cell, RawWindow],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> None:
    """Compact the files of raw and of entries of some cells.

    It is the caller's turn in their Kafka partitions.
    """
    parts: list[_Part] = []
    for row in rows:
        rectangle: Rectangle = {"kafka_partition": {row.kafka_partition}, "window_start": {row.window.start}}
        for name, refreshes in (("raw_envelopes", raw[row.cell].refreshes), ("entries", row.refreshes)):
            parts += _part(pipeline, pipeline.path(name), rectangle, runs_of(refreshes))
    _compact(pipeline, parts, spark, progress)


def compact_changelogs(
    pipeline: Pipeline, marks: Iterable[Cut], tables: Iterable[TableId], *, spark: SparkProvider, progress: Progress
) -> None:
    """Compact the changelog files of some windows, table by table.

    It is the caller's turn in the tables.
    """
    parts: list[_Part] = []
    tables = list(tables)
    for mark in marks:
        rectangle: Rectangle = {"window_start": {mark.window.start}}
        for table in tables:
            path = pipeline.table_path(CHANGELOG.name, table)
            found = _or_warned(path, progress, partial(_part, pipeline, path, rectangle, mark.made_by))
            parts += found or []
    _compact(pipeline, parts, spark, progress)


def _or_warned(path: tuple[str, ...], progress: Progress, step: Callable[[], Done]) -> Done | None:
    """Return the result of a step of one table; None if it failed.

    The next run tries again, and no row is wrong by it.

    Raises:
        Exception: The step failed with an error that concerns the run and not the table.
    """
    try:
        return step()
    except Exception as error:
        _warn(path, fault_at(_STEP, error), progress)
        return None


def _warn(path: tuple[str, ...], fault: Fault, progress: Progress) -> None:
    progress(f"compaction: the files of {'.'.join(path)} stay as they are for now: {fault.reason}")


def _part(pipeline: Pipeline, path: tuple[str, ...], rectangle: Rectangle, runs: Sequence[str]) -> list[_Part]:
    """Return what ``runs`` have written inside a rectangle, if it is worth a compaction."""
    if not runs:
        return []
    found = pipeline.lake.data_files(path, rectangle)
    files = own_files(found, runs)
    if not is_worth_compacting(len(files)):
        return []
    task = CompactionTask(
        tuple(file.path for file in files),
        tuple(files[0].partition.values()),
        sum(file.bytes for file in files),
        pipeline.lake.target(path, runs[-1]),  # the compacted file stands under the last run
    )
    return [_Part(path, rectangle, tuple(file.path for file in found), task)]


def _compact(pipeline: Pipeline, parts: Sequence[_Part], spark: SparkProvider, progress: Progress) -> None:
    if not parts:
        return
    written = run_tasks(spark(), [part.task for part in parts], compact_files, weight=lambda task: task.bytes)

    def commit(part: _Part, files: Sequence[WrittenFile] | Fault) -> None:
        if isinstance(files, Fault):
            _warn(part.path, files, progress)
            return
        old = frozenset(part.task.paths)
        pipeline.lake.replace(
            part.path,
            part.rectangle,
            files,
            base=part.found,
            keep=lambda file: file.file_path not in old,
            same_rows=True,
        )

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        list(
            pool.map(lambda part, files: _or_warned(part.path, progress, partial(commit, part, files)), parts, written)
        )
    many = sum(len(part.task.paths) for part in parts)
    progress(f"compaction: {many} files became {len(parts)}")
