"""What one Spark task of the ingest does: messages to raw files, raw files to entries files. Picklable in, picklable out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.delivery import CellDelivery
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem, ProblemCode, Reason
from dts_assets.model.runs import CheckpointMark, Run, StatementMark
from dts_assets.model.spans import Cell
from dts_assets.sources.source import Source
from dts_assets.stages.collecting import BrokenSet, Tally
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.entry_facts import EntryFacts, entry_rows
from dts_assets.stages.heads import Head, find_head
from dts_assets.stages.partial_sets import Fragment
from dts_assets.stages.raw_rows import ContentDigest, raw_rows
from dts_assets.stages.reassembly import Reassembler, whole_sets
from dts_assets.stages.window_state import WindowState
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.wire.format import Rejected, WireFormat

CHUNK_BYTES = 16 << 20
"""Bytes of entry sets decoded in one call: larger gains nothing measurable below a hundred tables and costs memory."""

MESSAGE_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class RawTask:
    """Copy messages of one cell into the lake. ``parts`` cut ``offsets`` into pieces, each with a digest of its own."""

    source: Source
    cell: Cell
    offsets: OffsetRange
    parts: tuple[OffsetRange, ...]
    epoch: int
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class RawPart:
    """The messages of a piece of a cell; ``digest`` tells them from others."""

    offsets: OffsetRange
    messages: int
    digest: str


@dataclass(frozen=True, slots=True)
class RawResult:
    """What was copied; times are the least and greatest message times.

    ``seconds`` is how long the task took, by the clock of the worker.
    """

    cell: Cell
    files: tuple[WrittenFile, ...]
    parts: tuple[RawPart, ...]
    bytes: int
    first_time: datetime | None
    last_time: datetime | None
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """How many messages were copied."""
        return sum(part.messages for part in self.parts)


def copy_messages(task: RawTask, attempt: str) -> RawResult:
    """Read an offset range from the source and write it as raw rows, in offset order."""
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
            writer.write(raw_rows(batch, cell=task.cell, epoch=task.epoch))
        files = writer.close()
    first_time, last_time = min(times, default=None), max(times, default=None)
    parts = tuple(RawPart(part, count[0], digest.text()) for part, count, digest in noted)
    return RawResult(task.cell, files, parts, size, first_time, last_time, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The raw files of one cell in offset order."""

    cell: Cell
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntriesTask:
    """Join and decode the messages of one cell.

    ``earlier`` are the raw files of the cells before it, nearest first, as far back as raw is stored without a hole;
    ``reaches_start`` says that nothing before them can ever be stored. ``nothing_follows`` says that the source has ended.
    ``is_open`` says that the window has not closed: then the fragments at the end whose set is not whole yet are left for the
    next reading. ``resume`` is the state in which an earlier reading of the messages before ``offsets`` ended.
    """

    cell: Cell
    offsets: OffsetRange
    epoch: int
    format: WireFormat
    own: RawFiles
    earlier: tuple[RawFiles, ...]
    reaches_start: bool
    nothing_follows: bool
    io_properties: Mapping[str, str]
    entries: WriteTarget
    quarantine: WriteTarget
    is_open: bool = False
    resume: bytes | None = None


@dataclass(frozen=True, slots=True)
class EntriesResult:
    """What became of a cell's messages, those that an earlier reading noted included; files are of these alone.

    ``end`` is the offset up to which messages were decoded: before the end of the task where the window is open. ``resume`` is
    what the next reading goes on with. ``heads_from`` are the earlier cells that were asked for heads of sets.
    ``decoder`` names the parser and its version, ``seconds`` is how long the task took, by the clock of the worker.
    """

    cell: Cell
    files: tuple[WrittenFile, ...]
    quarantine_files: tuple[WrittenFile, ...]
    tally: Tally
    facts: EntryFacts
    runs: tuple[Run, ...]
    checkpoints: tuple[CheckpointMark, ...]
    statements: tuple[StatementMark, ...]
    delivery: CellDelivery
    problems: tuple[Problem, ...]
    heads_from: tuple[Cell, ...]
    looked_beyond: bool
    """Whether the search for a head ran past everything that is stored."""
    decoder: str = ""
    seconds: float = 0.0
    end: int = 0
    resume: bytes | None = None


def decode_entries(task: EntriesTask, attempt: str) -> EntriesResult:
    """Join the fragments of a cell, decode its entry sets and write entries and quarantine rows."""
    return _EntriesRun(task, attempt).result()


class _EntriesRun:
    """One attempt of one entries task."""

    def __init__(self, task: EntriesTask, attempt: str) -> None:
        self._task = task
        self._attempt = attempt
        self._format = task.format
        state = WindowState.begin(task.offsets) if task.resume is None else WindowState.of_bytes(task.resume)
        self._facts, self._runs, self._delivery = state.facts, state.runs, state.delivery
        self._end = task.offsets.end
        self._heads_from: dict[Cell, None] = {}
        self._looked_beyond = False
        self._joiner = Reassembler(self._read_head, nothing_follows=task.nothing_follows, tally=state.tally)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0

    def result(self) -> EntriesResult:
        began = time.monotonic()
        task = self._task
        with (
            TableWriter(task.entries, self._attempt) as entries,
            TableWriter(task.quarantine, self._attempt) as rejected,
        ):
            self._entries, self._rejected = entries, rejected
            for batch in self._messages():
                self._add(batch)
            self._decode()
            self._joiner.finish()
            self._keep([_broken_row(broken) for broken in self._joiner.broken])
            files, quarantine_files = entries.close(), rejected.close()
        self._delivery.until(self._end)
        return EntriesResult(
            task.cell, files, quarantine_files, self._joiner.tally, self._facts,
            self._runs.runs(), self._runs.checkpoints(), self._runs.statements(), self._delivery.result(),
            tuple(self._problems()),
            tuple(self._heads_from), self._looked_beyond, self._format.decoder, time.monotonic() - began,
            self._end, self._state(),
        )  # fmt: skip

    def _state(self) -> bytes | None:
        """Return the state with which the next reading goes on.

        None where a set is not whole, since messages that come later may still decide about it, and where it is too large.
        """
        if not self._task.is_open or self._joiner.broken or self._joiner.waiting or self._joiner.carried:
            return None
        return WindowState(self._joiner.tally, self._facts, self._runs, self._delivery).to_bytes()

    def _messages(self) -> Iterator[pa.RecordBatch]:
        """The messages of the task in batches; of an open window those of whole sets."""
        task = self._task
        batches = read_batches(
            task.io_properties, task.own.paths, MESSAGE_COLUMNS, offsets=task.offsets, batch_bytes=CHUNK_BYTES
        )
        if not task.is_open:
            yield from batches
            return
        held: pa.RecordBatch | None = None
        for batch in batches:
            if held is not None:
                yield held
            held = batch
        if held is None:
            return
        whole = whole_sets(self._format.fragments(held)) if not self._joiner.busy else held.num_rows
        if whole < held.num_rows:
            self._end = held["offset"][whole].as_py()
        if whole:
            yield held.slice(0, whole)

    def _add(self, messages: pa.RecordBatch) -> None:
        fragments = self._format.fragments(messages)
        offsets = messages["offset"]
        self._delivery.see_messages(offsets, fragments)
        reasons = fragments["reason"]
        if reasons.null_count < len(reasons):
            self._keep(
                [
                    (
                        offsets[row].as_py(),
                        offsets[row].as_py(),
                        reasons[row].as_py(),
                        "",
                        messages["value"][row].as_py(),
                    )
                    for row in np.flatnonzero(np.asarray(reasons.is_valid())).tolist()
                ]
            )
        sets = self._joiner.feed(offsets, fragments)
        if sets.num_rows:
            self._pending += sets.to_batches()
            self._pending_bytes += sets.nbytes
        if self._pending_bytes >= CHUNK_BYTES // 2:  # a batch is mostly a chunk: putting two together would copy them
            self._decode()

    def _decode(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending).combine_chunks()
        self._pending, self._pending_bytes = [], 0
        for sets in table.to_batches():
            decoded = self._format.entries(sets["data"])
            columns = EntryColumns.of(decoded.batch, sets, decoded.checkpoints)
            self._facts.add(decoded, columns)
            self._delivery.see_entries(columns)
            self._runs.see(columns, order=self._format.traits.order)
            rows = entry_rows(decoded.batch, sets, cell=self._task.cell, epoch=self._task.epoch)
            self._entries.write_partition((self._task.cell.kafka_partition, self._task.cell.window.start), rows)
            self._keep([_rejected_row(rejection, sets) for rejection in decoded.rejected])

    def _keep(self, rows: Sequence[tuple[int, int, str, str, bytes | None]]) -> None:
        """Put rows (first offset, last offset, reason, detail, payload) into quarantine."""
        if not rows:
            return
        first, last, reason, detail, payload = (list(column) for column in zip(*rows, strict=True))
        cell, count = self._task.cell, len(rows)
        batch = pa.RecordBatch.from_pydict(
            {
                "kafka_partition": pa.array([cell.kafka_partition] * count, pa.int32()),
                "window_start": pa.array([cell.window.start] * count, pa.timestamp("us", tz="UTC")),
                "stage": ["entries"] * count,
                "first_offset": first,
                "last_offset": last,
                "reason": reason,
                "detail": detail,
                "payload": pa.array(payload, pa.binary()),
            }
        )
        self._rejected.write(batch)

    def _read_head(self, shard: str, tail: Sequence[Fragment]) -> Head:
        """What lies before a set's tail, read back from raw: this cell's own first, then those before it, nearest first."""
        before = min(fragment.offset for fragment in tail)

        def backwards() -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
            for files in (self._task.own, *self._task.earlier):
                if files is not self._task.own:
                    self._heads_from[files.cell] = None
                for batch in read_batches(
                    self._task.io_properties,
                    files.paths,
                    MESSAGE_COLUMNS,
                    offsets=OffsetRange(0, before),
                    backwards=True,
                ):
                    yield batch["offset"], self._format.fragments(batch)
            self._looked_beyond = True

        return find_head(backwards(), shard=shard, tail=tail, reaches_start=self._task.reaches_start)

    def _problems(self) -> Iterator[Problem]:
        yield from self._delivery.problems()
        for waiting in self._joiner.waiting:
            yield Problem(ProblemCode.WAITING, waiting.first_offset, waiting.last_offset, "its head is not stored yet")
        lost = self._joiner.tally.quarantined_messages + self._joiner.tally.quarantined_fragments
        if lost:
            yield Problem(ProblemCode.QUARANTINED, None, None, f"{lost} messages are in quarantine")
        if self._facts.quarantined_entries:
            detail = f"{self._facts.quarantined_entries} entries are in quarantine"
            yield Problem(ProblemCode.QUARANTINED, None, None, detail)
        if self._facts.rollbacks:
            yield Problem(ProblemCode.ROLLBACK, None, None, f"{self._facts.rollbacks} ROLLBACK entries")
        if self._facts.ddl_unapplied:
            detail = f"{self._facts.ddl_unapplied} statements whose effect on rows is not applied (see entries, message_type DDL)"
            yield Problem(ProblemCode.DDL, None, None, detail)
        for what, count in sorted(self._facts.unknown.items()):
            yield Problem(ProblemCode.UNKNOWN, None, None, f"{what}: {count}")


def _broken_row(broken: BrokenSet) -> tuple[int, int, str, str, bytes]:
    return broken.first_offset, broken.last_offset, broken.reason.value, broken.detail, broken.data


def _rejected_row(rejected: Rejected, sets: pa.RecordBatch) -> tuple[int, int, str, str, bytes]:
    first, last = sets["first_offset"][rejected.index].as_py(), sets["last_offset"][rejected.index].as_py()
    where = "" if rejected.entry_number is None else f"entry {rejected.entry_number}: "
    return first, last, Reason(rejected.reason).value, f"{where}{rejected.detail}", rejected.payload
