"""Copies of messages in other Kafka partitions.

Windows that may have some are compared on Spark, each in one task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.lineages import LineageRule
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.copies_elsewhere import CellEntries, CopiesElsewhere, copies_elsewhere
from dts_assets.stages.redelivered_entries import offsets_of_keys
from dts_assets.store.commit import Rectangle
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import read_batches
from dts_assets.wire.format import WireFormat


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The copies in some cells of messages in other Kafka partitions.

    ``moved`` are the starts of the windows in which an original came behind its copy: rows that were stored go.
    """

    copies: Mapping[Cell, CopiesElsewhere] = field(default_factory=dict)
    moved: frozenset[datetime] = frozenset()


NOTHING_ELSEWHERE = Elsewhere()


@dataclass(frozen=True, slots=True)
class SharedIdsTask:
    """The comparison of the cells of a window with each other and with earlier cells.

    ``cells`` are all of them in their order, each with its lineage rules and its files. ``ends`` has the first offset of each
    Kafka partition that is not in the changelogs yet, if rows are appended to those of the window.
    """

    window: Window
    cells: tuple[tuple[Cell, Mapping[str, LineageRule], tuple[str, ...]], ...]
    ends: Mapping[int, int]
    format: WireFormat
    entries_store: FileStore


def find_copies_elsewhere(
    pipeline: Pipeline,
    history: TopicHistory,
    windows: Collection[Window],
    ends: Mapping[tuple[int, datetime], int],
    *,
    spark: SparkProvider,
    progress: Progress,
) -> Elsewhere:
    """Find the copies in some windows of messages in other Kafka partitions.

    Where messages carry no ids, or there is one Kafka partition, nothing is read. ``ends`` are the first offsets, by Kafka
    partition and start, of windows to whose changelogs rows are appended.
    """
    wanted = {window: cells for window in windows if (cells := _compared(pipeline, history, window))}
    if not wanted:
        return NOTHING_ELSEWHERE
    rectangle: Rectangle = {
        "kafka_partition": {cell.kafka_partition for cells in wanted.values() for cell in cells},
        "window_start": {cell.window.start for cells in wanted.values() for cell in cells},
    }
    path = pipeline.path("entries")
    files = files_of_cells(pipeline, pipeline.lake.data_files(path, rectangle), history.rows)
    store = pipeline.lake.file_store(path)
    tasks = [
        SharedIdsTask(
            window,
            tuple((cell, history.rules(cell), tuple(file.path for file in files.get(cell, ()))) for cell in cells),
            {partition: end for (partition, start), end in ends.items() if start == window.start},
            pipeline.format,
            store,
        )
        for window, cells in wanted.items()
    ]
    watched = Watched("identity", "windows", of_bytes, progress)
    found = run_tasks(spark(), tasks, compare_window, weight=lambda task: len(task.cells), watched=watched)
    return Elsewhere(
        {cell: copies for one in found for cell, copies in one.copies.items()},
        frozenset(start for one in found for start in one.moved),
    )


def _compared(pipeline: Pipeline, history: TopicHistory, window: Window) -> list[Cell]:
    """Return the cells of a window, and the earlier ones that may share ids with them."""
    if not history.lives or len(pipeline.kafka_partitions) < 2:
        return []
    rows = history.rows
    own = (Cell(partition, window) for partition in pipeline.kafka_partitions)
    cells = [cell for cell in (*history.shared.get(window.start, ()), *own) if cell in rows and rows[cell].runs]
    if len({cell.kafka_partition for cell in cells}) < 2:
        return []
    return sorted(cells, key=lambda cell: (rows[cell].epoch, cell.window.start, cell.kafka_partition))


def compare_window(task: SharedIdsTask, _attempt: str) -> Elsewhere:
    """Return the copies in a window of messages in other Kafka partitions."""

    def entries(cell: Cell, rules: Mapping[str, LineageRule], paths: tuple[str, ...]) -> CellEntries:
        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return read_batches(task.entries_store, paths, columns)

        return CellEntries(cell.kafka_partition, cell.window == task.window, rules, read)

    found = copies_elsewhere([entries(*one) for one in task.cells], task.format)
    cells = [cell for cell, _, _ in task.cells]
    copies = {cells[place]: one for place, one in found.items()}
    moved = any(_has_moved(task, cells, cell.kafka_partition, one) for cell, one in copies.items())
    return Elsewhere(copies, frozenset([task.window.start] if moved else ()))


def _has_moved(task: SharedIdsTask, cells: Sequence[Cell], kafka_partition: int, copies: CopiesElsewhere) -> bool:
    """Return whether an original of copies that the changelogs have had came behind all that they have."""
    stored = offsets_of_keys(copies.keys) < task.ends.get(kafka_partition, 0)
    rows = zip(copies.cells[stored].tolist(), copies.offsets[stored].tolist(), strict=True)
    return any(
        cells[place].window == task.window and offset >= task.ends.get(cells[place].kafka_partition, 0)
        for place, offset in rows
    )
