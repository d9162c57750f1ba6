"""A topic whose Kafka partitions get equally many messages in every window, and its marks.

The source is answered from arithmetic, so that years of it take no memory. Each window of a Kafka partition is one transaction,
whose GTIDs go round the Kafka partitions, and ends with a CHECKPOINT. The marks may also be those of a topic whose messages carry
ids, and in which a table was loaded first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa

from dts_assets.model.delivery import CellDelivery, ShardSequence, ShardTransactions, Transaction
from dts_assets.model.ledger_rows import Counts, IngestWindow, RawWindow
from dts_assets.model.message_ids import SeenKind, SeenTable
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.runs import Run, SeenCheckpoint, ServerRange
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.model.witnesses import join_witnesses
from dts_assets.planning.staleness import FORMAT_INPUT, generation, input_text, raw_input

MESSAGES = 100
"""Messages of a Kafka partition in a window."""

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass
class RegularTopic:
    """The source: its messages stand evenly in the windows of a grid, from the first one on.

    They go up to the instant ``until``, by default the ``clock``.
    """

    grid: WindowGrid
    partitions: int
    clock: datetime
    until: datetime | None = None

    @property
    def high(self) -> int:
        """The offset behind the last message."""
        return self.offset_at(self.until or self.clock)

    def offset_at(self, instant: datetime) -> int:
        """Return the offset of the first message dated at or after an instant."""
        return max(0, -((self.grid.start - instant) * MESSAGES // self.grid.every))

    def watermarks(self) -> Mapping[int, Watermark]:
        """Return the offsets and times of all Kafka partitions."""
        high = self.high
        latest = self.grid.start + (high - 1) * self.grid.every / MESSAGES if high else None
        return dict.fromkeys(range(self.partitions), Watermark(0, high, self.grid.start if high else None, latest))

    def now(self) -> datetime | None:
        """Return the clock."""
        return self.clock

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        """Return the first offset dated at or after an instant; None if there is none yet."""
        offset = self.offset_at(instant)
        return offset if offset < self.high else None

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> Mapping[tuple[int, datetime], int | None]:
        """Return the offsets of many questions."""
        return {question: self.offset_for_time(*question, not_after=not_after) for question in questions}

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        """Return nothing: all clocks agree."""
        return ()

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the time of the first message: nothing else is asked for."""
        at = self.grid.start + offsets.start * self.grid.every / MESSAGES
        yield pa.RecordBatch.from_pydict({"timestamp": pa.array([at], pa.timestamp("ms", "UTC"))})


def raw_mark_of(topic: RegularTopic, cell: Cell, *, closed_by: ClosedBy = ClosedBy.MESSAGE) -> RawWindow:
    """Return the mark of raw of a cell, as far as the topic has it."""
    offsets = _offsets(topic, cell.window)
    made = generation([str(cell), str(offsets)], code_version=CODE_VERSION)
    return RawWindow(
        cell.kafka_partition, cell.window, 0, offsets, closed_by, len(offsets), 1_000 * len(offsets), cell.window.start,
        cell.window.end - timedelta(seconds=1), (), made, CODE_VERSION,
    )  # fmt: skip


def _range(first: int, last: int) -> ServerRange:
    places = ((number, 1, 1_000 * number) for number in range(first, last + 1))
    return ServerRange(SERVER, first, last, SourcePosition(0, 1, 1_000 * last), join_witnesses(places), in_last=last)


def entries_mark_of(topic: RegularTopic, raw: RawWindow, *, decoding: str) -> IngestWindow:
    """Return the mark of entries that belongs to a mark of raw."""
    offsets, partition, window = raw.offsets, raw.kafka_partition, raw.window
    # A window that is as long as several of the grid holds as many transactions.
    many = (window.end - window.start) // topic.grid.every
    place = topic.grid.number(window.start) * topic.partitions + partition * many + 1
    end = place + many - 1
    first, last = SourcePosition(0, 1, 1_000 * place), SourcePosition(0, 1, 1_000 * end + 999)
    gtid, inputs = (
        f"{SERVER}:{place}",
        (input_text(FORMAT_INPUT, decoding), input_text(raw_input(raw.cell), raw.generation)),
    )
    gtids = gtid if many == 1 else f"{SERVER}:{place}-{end}"
    synced = f"{SERVER}:1-{topic.partitions * (topic.grid.number(window.start) + many)}"
    count, at = len(offsets), offsets.end - 1
    run = Run(
        "", offsets.start, at, first, last, window.start, raw.last_time or window.start, 1, gtid, begins=True,
        servers=(_range(place, end),), broken=False, repeats=0,
    )  # fmt: skip
    delivery = CellDelivery(
        offsets.start, at, count, 0, 0, (),
        (ShardSequence("", offsets.start + 1, offsets.start, at + 1, at, at + 1, 0, 0, 0),),
        (
            ShardTransactions(
                "", many, many, count, Transaction(gtid, first, 1, offsets.start), (), 0, last, at, gtids, 0, False
            ),
        ),
    )  # fmt: skip
    return IngestWindow(
        partition, window, 0, offsets, Counts(messages=count, whole=count, entries=count, data=count - 3, control=3,
        decoded_sets=count), last, synced, (), raw.closed_by, Completeness.CONTIGUOUS, (), CODE_VERSION,
        generation(inputs, code_version=CODE_VERSION), tuple(sorted(inputs)), runs=(run,),
        checkpoints=(SeenCheckpoint("", at, last, synced, fake_gtid=False),), delivery=delivery,
    )  # fmt: skip


def entries_mark_with_ids(topic: RegularTopic, raw: RawWindow, *, decoding: str) -> IngestWindow:
    """Return the mark of entries that belongs to a mark of raw, of messages that carry ids."""
    made, partition, window = entries_mark_of(topic, raw, decoding=decoding), raw.kafka_partition, raw.window
    number = topic.grid.number(window.start) * topic.partitions + partition
    first, last = (SourcePosition(0, 0, 1_000 * number + at) for at in (0, 999))
    (run,) = made.runs
    kinds = [SeenKind.READ, SeenKind.CHANGE] if number == 0 else [SeenKind.CHANGE]
    tables = (
        SeenTable(
            "shopdb",
            "",
            "orders",
            kind,
            raw.offsets.start + at,
            SourcePosition(0, 0, first.position + at),
            window.start,
        )
        for at, kind in enumerate(kinds)
    )
    return replace(
        made, checkpoint=None, checkpoint_gtid_set=None, checkpoints=(), seen_tables=tuple(tables),
        runs=(replace(run, first=first, last=last, gtid=None, begins=False, servers=()),) if raw.offsets else (),
        delivery=replace(made.delivery, sequences=(), transactions=()),
    )  # fmt: skip


def cells_of(topic: RegularTopic, windows: Sequence[Window]) -> list[Cell]:
    """Return the cells of some windows in all Kafka partitions."""
    return [Cell(partition, window) for window in windows for partition in range(topic.partitions)]


def _offsets(topic: RegularTopic, window: Window) -> OffsetRange:
    return OffsetRange(min(topic.offset_at(window.start), topic.high), min(topic.offset_at(window.end), topic.high))
