"""The work of one Spark task of the ingest: messages to raw files, raw files to entries files.

Tasks and results are picklable.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.ledger_rows import ServerPositions
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.positions import ServerPosition
from dts_assets.model.spans import Cell
from dts_assets.planning.ingest_marks import Copied, CopiedPart, Decoded
from dts_assets.sources.source import Source
from dts_assets.stages.cell_decoder import CHUNK_BYTES, CellDecoder, CellReading
from dts_assets.stages.entry_facts import MOST_EMPTIED
from dts_assets.stages.raw_rows import ContentDigest, with_coordinates
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.wire.format import TableShape, WireFormat

MESSAGE_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class RawTask:
    """The copying of the messages of one cell into the lake.

    ``parts`` cut ``offsets`` into pieces, each with a digest of its own.
    """

    source: Source
    cell: Cell
    offsets: OffsetRange
    parts: tuple[OffsetRange, ...]
    epoch: int
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class RawResult:
    """The messages that a task copied.

    ``seconds`` is how long the task took, by the clock of the worker.
    """

    cell: Cell
    files: tuple[WrittenFile, ...]
    copied: Copied
    seconds: float = 0.0


def copy_messages(task: RawTask, attempt: str) -> RawResult:
    """Copy an offset range from the source into raw files, in offset order."""
    began = time.monotonic()
    size = 0
    times: list[datetime] = []
    noted = [(part, [0], ContentDigest()) for part in task.parts]
    with TableWriter(task.target, attempt) as writer:
        for batch in task.source.read(task.cell.kafka_partition, task.offsets):
            size += pc.sum(pc.fill_null(pc.binary_length(batch["value"]), 0)).as_py() or 0
            bounds = pc.min_max(batch["timestamp"]).as_py()
            times += [bounds["min"], bounds["max"]]
            offsets = batch["offset"].to_numpy()
            for part, count, digest in noted:
                first, last = np.searchsorted(offsets, (part.start, part.end))
                if last > first:
                    count[0] += int(last - first)
                    digest.add(batch.slice(first, last - first))
            writer.write(with_coordinates(batch, cell=task.cell, epoch=task.epoch))
        files = writer.close()
    first_time, last_time = min(times, default=None), max(times, default=None)
    parts = tuple(CopiedPart(part, count[0], digest.text()) for part, count, digest in noted)
    return RawResult(task.cell, files, Copied(parts, size, first_time, last_time), time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class EntriesTask:
    """The joining and decoding of the messages of one cell.

    ``own`` are its raw files in offset order, ``earlier`` those of the cells before it, nearest first, as far back as raw is
    stored without a hole;
    ``reaches_start`` says that no message before them can ever be stored. ``nothing_follows`` says that the source has ended.
    ``is_open`` says that the window has not closed: fragments at its end whose entry set is not whole yet are then left for the
    next reading. ``resume`` is the state in which an earlier reading of the messages before ``offsets`` ended. ``open_before``
    are the entry sets that the cell before left open; None where that is not known.
    """

    cell: Cell
    offsets: OffsetRange
    epoch: int
    format: WireFormat
    own: tuple[str, ...]
    earlier: Mapping[Cell, tuple[str, ...]]
    reaches_start: bool
    nothing_follows: bool
    raw_store: FileStore
    entries: WriteTarget
    quarantine: WriteTarget
    is_open: bool = False
    resume: bytes | None = None
    open_before: tuple[OpenSet, ...] | None = None


@dataclass(frozen=True, slots=True)
class EntriesResult:
    """The entries that a task wrote, and the facts of the whole cell, earlier readings of it included.

    ``shapes`` has the place of the first event with each table's columns, ``changes`` counts the row changes and ``latest_event``
    is the greatest event time. ``decoder`` names the parser and its version; ``seconds`` is how long the task took, by the clock
    of the worker.
    """

    cell: Cell
    files: tuple[WrittenFile, ...]
    quarantine_files: tuple[WrittenFile, ...]
    decoded: Decoded
    shapes: Mapping[TableShape, ServerPosition]
    changes: int
    latest_event: datetime | None
    decoder: str
    seconds: float


def decode_entries(task: EntriesTask, attempt: str) -> EntriesResult:
    """Join the fragments of a cell, decode its entry sets and write entries and quarantine rows."""
    began = time.monotonic()
    stored = _StoredMessages(task)
    reading = CellReading(
        task.cell, task.offsets, task.epoch, task.format, stored.before, task.reaches_start, task.nothing_follows,
        task.is_open, task.resume, task.open_before,
    )  # fmt: skip
    with TableWriter(task.entries, attempt) as entries, TableWriter(task.quarantine, attempt) as rejected:
        decoder = CellDecoder(reading, _Files(task.cell, entries, rejected))
        decoder.read(stored.own())
        files, quarantine_files = entries.close(), rejected.close()
    facts = decoder.facts
    return EntriesResult(
        task.cell, files, quarantine_files, _decoded(decoder, stored), facts.shapes, facts.changes, facts.latest_event,
        task.format.decoder, time.monotonic() - began,
    )  # fmt: skip


def _decoded(decoder: CellDecoder, stored: _StoredMessages) -> Decoded:
    """Return the facts of a cell after its last message."""
    facts = decoder.facts
    positions = sorted(facts.positions.items())
    return Decoded(
        end=decoder.end,
        counts=decoder.counts(),
        delivery=decoder.delivery.result(),
        problems=tuple(decoder.problems()),
        runs=decoder.runs.runs(),
        checkpoints=decoder.runs.checkpoints(),
        statements=decoder.runs.statements(),
        checkpoint=facts.checkpoint,
        checkpoint_gtid_set=facts.checkpoint_gtid_set,
        positions=tuple(ServerPositions(server, first, last) for server, (first, last) in positions),
        emptying=facts.emptying,
        emptied=tuple(sorted(facts.emptied)) if len(facts.emptied) <= MOST_EMPTIED else (),
        altering=facts.altering,
        altered=tuple(sorted(facts.altered)) if facts.names_altered else (),
        unread=tuple(facts.unread) if facts.names_altered else (),
        heads_from=tuple(stored.heads_from),
        looked_beyond=stored.looked_beyond,
        resume=decoder.resume(),
        left_open=decoder.left_open,
        seen_tables=tuple(decoder.tables.seen),
        taken_over=decoder.taken_over,
    )


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that the rows of a cell are written to."""

    cell: Cell
    entries_file: TableWriter
    quarantine_file: TableWriter

    def entries(self, rows: pa.RecordBatch) -> None:
        self.entries_file.write_partition((self.cell.kafka_partition, self.cell.window.start), rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.quarantine_file.write(rows)


class _StoredMessages:
    """The raw files of a task, and which earlier cells were asked for heads of sets."""

    def __init__(self, task: EntriesTask) -> None:
        self._task = task
        self.heads_from: dict[Cell, None] = {}
        self.looked_beyond = False

    def own(self) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the task, in offset order."""
        task = self._task
        return read_batches(task.raw_store, task.own, MESSAGE_COLUMNS, offsets=task.offsets, batch_bytes=CHUNK_BYTES)

    def before(self, offset: int) -> Iterator[pa.RecordBatch]:
        """Yield the messages before an offset, backwards.

        The messages of the cell itself come first, then those of the cells before it, the nearest cell first.
        """
        task = self._task
        for cell, paths in ((task.cell, task.own), *task.earlier.items()):
            if cell != task.cell:
                self.heads_from[cell] = None
            yield from read_batches(
                task.raw_store, paths, MESSAGE_COLUMNS, offsets=OffsetRange(0, offset), backwards=True
            )
        self.looked_beyond = True
