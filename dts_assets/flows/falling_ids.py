"""Messages behind falling ids: compared on Spark with what had their ids before.

The answers stand in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from dts_assets.flows.known_tables import known_names
from dts_assets.flows.looks import looks
from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.removed_rows import refuse_removed_entries
from dts_assets.flows.reports import Progress, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Comparison, IngestWindow
from dts_assets.model.spans import Cell
from dts_assets.planning.message_lives import find_lives, follow_ids
from dts_assets.planning.parts_elsewhere import PartsElsewhere
from dts_assets.stages.message_contents import CONTENT_COLUMNS, compare
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import read_batches
from dts_assets.store.stored_files import StoredFile
from dts_assets.wire.format import WireFormat


@dataclass(frozen=True, slots=True)
class CompareTask:
    """The falls of ids of one Kafka partition, decided one after the other.

    Each answer is a part of the next question. ``rows`` are those of all Kafka partitions.
    """

    kafka_partition: int
    rows: tuple[IngestWindow, ...]
    known: tuple[Comparison, ...]
    files: Mapping[Cell, tuple[str, ...]]
    format: WireFormat
    entries_store: FileStore


def compare_contents(pipeline: Pipeline, *, spark: SparkProvider, progress: Progress) -> None:
    """Decide what messages behind falling ids are, where the ledger does not say it yet.

    Where no id falls, or all is decided, Spark is not started. Else all stored windows are looked at: contents may have to be
    compared with any of them.
    """
    if pipeline.settings.traits.order is not ChangeOrder.MESSAGE_ID:
        return
    if not next(looks(pipeline, known_names(pipeline))).topic.history.undecided:
        return
    rows, known = pipeline.ledger.windows(), pipeline.comparisons()
    lives = find_lives(rows, known)
    undecided = [one for one in lives.values() if one.undecided is not None]
    if not undecided:
        return
    compared = (
        part.cell
        for fall in (one.undecided for one in undecided)
        if fall is not None
        for part in chain(*fall.lives, (one.part for one in fall.elsewhere))
    )
    refuse_removed_entries(
        pipeline, compared, consequence="messages whose ids begin again cannot be compared with them"
    )
    files = files_of_cells(
        pipeline, pipeline.lake.data_files(pipeline.path("entries")), {row.cell: row for row in rows}
    )
    tasks = [_task(pipeline, one.kafka_partition, rows, known, files) for one in undecided]
    progress(f"identity: ids fall in {len(tasks)} Kafka partitions; comparing contents")
    watched = Watched("identity", "Kafka partitions", of_bytes, progress)
    results = run_tasks(spark(), tasks, decide_falls, weight=lambda task: len(task.files), watched=watched)
    decided = find_lives(rows, [*known, *(answer for result in results for answer in result)])
    cells = {answer.cell for result in results for answer in result}
    kept = [answer for one in decided.values() for _, answer in one.decided if answer.cell in cells]
    pipeline.ledger.replace_comparisons(cells, kept)


def _task(
    pipeline: Pipeline,
    partition: int,
    rows: Sequence[IngestWindow],
    known: Iterable[Comparison],
    files: Mapping[Cell, Sequence[StoredFile]],
) -> CompareTask:
    return CompareTask(
        partition,
        tuple(rows),
        tuple(one for one in known if one.kafka_partition == partition),
        {cell: tuple(file.path for file in some) for cell, some in files.items()},
        pipeline.format,
        pipeline.lake.file_store(pipeline.path("entries")),
    )


def decide_falls(task: CompareTask, _attempt: str) -> tuple[Comparison, ...]:
    """Return the comparisons that a Kafka partition lacks."""

    def read(cell: Cell) -> Iterator[pa.RecordBatch]:
        return read_batches(task.entries_store, task.files.get(cell, ()), CONTENT_COLUMNS)

    known = {one.inputs: one for one in task.known}
    rows = [row for row in task.rows if row.kafka_partition == task.kafka_partition]
    rows.sort(key=lambda row: (row.epoch, row.window))
    elsewhere = PartsElsewhere(task.rows)
    found: list[Comparison] = []
    while (fall := follow_ids(task.kafka_partition, rows, known, elsewhere=elsewhere).undecided) is not None:
        answer = compare(fall, read, task.format)
        known[answer.inputs] = answer
        found.append(answer)
    return tuple(found)
