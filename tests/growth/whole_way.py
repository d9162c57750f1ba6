"""The way of messages from a topic to changelogs in memory, step by step as the flows go it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Comparison, IngestWindow, ServerPositions
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.completeness import level_of_cell
from dts_assets.planning.message_lives import follow_ids
from dts_assets.planning.topic_marks import TopicMarks
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.changelog_decoder import ChangelogDecoder
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.message_contents import CONTENT_COLUMNS, compare
from dts_assets.stages.redelivered_entries import COPY_COLUMNS, copies_in_cell, keys_of, redelivered_in_cell
from dts_assets.wire.format import MESSAGES, WireFormat
from tests.growth.hostile_streams import Stream

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Way:
    """A topic of one Kafka partition, whose messages lie in two windows; ``took`` is told the name of each step."""

    wire: WireFormat
    took: Callable[[str], None] = lambda step: None
    entries: dict[Cell, list[pa.RecordBatch]] = field(default_factory=dict)
    rows: dict[Cell, IngestWindow] = field(default_factory=dict)
    shapes: dict[TableId, tuple[Column, ...]] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    messages: pa.RecordBatch = field(default_factory=lambda: as_messages([]))
    changes: int = 0
    rejections: int = 0

    def go(self, messages: pa.RecordBatch) -> Way:
        """Go the whole way. The second window is open: it may end before its last message."""
        half, self.messages = messages.num_rows // 2, messages
        parts = [messages.slice(0, half), messages.slice(half)] if half else [messages]
        for place, part in enumerate(parts):
            start = START + place * HOUR
            self._ingest(Cell(0, Window(start, start + HOUR)), part)
        self._decode(self._plan())
        return self

    def _ingest(self, cell: Cell, messages: pa.RecordBatch) -> None:
        first = messages["offset"][0].as_py()
        offsets = OffsetRange(first, first + messages.num_rows)
        kept, before = _Kept(), self.messages.slice(0, first)
        left_open = next(reversed(self.rows.values())).left_open if self.rows else ()
        reading = CellReading(
            cell, offsets, 0, self.wire, before=lambda _: iter([before]), reaches_start=True, nothing_follows=False,
            is_open=bool(self.rows), open_before=left_open,
        )  # fmt: skip
        decoder = CellDecoder(reading, kept)
        decoder.read([messages])
        self.took("decode")
        facts = decoder.facts
        problems, delivery = tuple(decoder.problems()), decoder.delivery.result()
        self.rows[cell] = IngestWindow(
            cell.kafka_partition, cell.window, 0, offsets, decoder.counts(), facts.checkpoint, facts.checkpoint_gtid_set,
            tuple(ServerPositions(server, *bounds) for server, bounds in sorted(facts.positions.items())),
            ClosedBy.MESSAGE, level_of_cell(problems, delivery), problems, CODE_VERSION, f"g{first}", ("raw=1",),
            runs=decoder.runs.runs(), checkpoints=decoder.runs.checkpoints(), statements=decoder.runs.statements(),
            delivery=delivery, emptying=facts.emptying,
            emptied=tuple(facts.emptied), altering=facts.altering, altered=tuple(facts.altered), unread=tuple(facts.unread),
            left_open=decoder.left_open, seen_tables=tuple(decoder.tables.seen),
        )  # fmt: skip
        self.entries[cell] = kept.batches
        self.rejections += kept.quarantined
        for shape in facts.shapes:
            columns = [
                Column(
                    one.name, self.wire.column_type(one.original_type, unsigned=False, table=shape.table), one.is_key
                )
                for one in shape.columns
            ]
            self.shapes.setdefault(shape.table, tuple(columns))
        self.took("facts")

    def _plan(self) -> TopicMarks:
        if self.wire.traits.order is ChangeOrder.MESSAGE_ID:
            self._compare()
            self.took("compare")
        marks = TopicMarks.of(
            self.rows.values(), self.shapes, kafka_partitions=range(1), consistency=Consistency.CUT,
            order=self.wire.traits.order, settings="s", comparisons=self.comparisons.values(),
        )  # fmt: skip
        self.took("marks")
        for row in self.rows.values():
            marks.mark(row.window)
        self.took("mark")
        return marks

    def _compare(self) -> None:
        """Compare contents behind falling ids as the flow does: a fall at a time."""
        rows = list(self.rows.values())
        for _ in range(_MOST_FALLS):
            fall = follow_ids(0, rows, self.comparisons).undecided
            if fall is None:
                return
            answer = compare(fall, lambda cell: (one.select(CONTENT_COLUMNS) for one in self.entries[cell]), self.wire)
            self.comparisons[answer.inputs] = answer

    def _decode(self, marks: TopicMarks) -> None:
        history, kept = marks.history, _Kept()
        for cell, batches in self.entries.items():
            key, redelivered = (cell.kafka_partition, cell.window.start), {}
            suspicion = history.suspicions.get(cell)
            if suspicion is not None:
                found = self._told_again(marks, cell, suspicion.earlier, batches, by_gtid=suspicion.by_gtid)
                redelivered = {key: keys_of(found)}
                self.took("told again")
            wanted = EntriesWanted(
                {key: history.rules(cell)}, redelivered, {key: history.statements.get(cell, frozenset())},
                {key: history.loads.get(cell, ())},
            )  # fmt: skip
            decoder = ChangelogDecoder(self.wire, self.shapes, wanted, kept)
            decoder.read_statements(batches)
            self.took("statements")
            decoder.read(batches)
            self.took("changes")
        self.changes, self.rejections = kept.count, self.rejections + kept.quarantined

    def _told_again(
        self, marks: TopicMarks, cell: Cell, earlier: tuple[Cell, ...], batches: list[pa.RecordBatch], *, by_gtid: bool
    ) -> pa.Table:
        history = marks.history
        if self.wire.traits.order is ChangeOrder.MESSAGE_ID:
            return copies_in_cell(
                (history.stretches(cell), [one.select(COPY_COLUMNS) for one in batches]),
                [(history.stretches(one), self.entries[one]) for one in earlier], history.rules(cell), self.wire,
            )  # fmt: skip
        return redelivered_in_cell(
            batches, [self.entries[one] for one in earlier], history.rules(cell), trust_gtids=history.trusts_gtids,
            by_gtid=by_gtid, said=self.wire.contents if self.wire.traits.rows_apart else None,
        )  # fmt: skip


_MOST_FALLS = 100
"""A run keeps 64 runs of a window at most, so that there are fewer falls than that in each."""


@dataclass
class _Kept:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    count: int = 0
    quarantined: int = 0

    def entries(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        self.count += rows.num_rows

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.quarantined += rows.num_rows

    def statements(self, rows: pa.RecordBatch) -> None:
        self.count += rows.num_rows


def as_messages(stream: Stream) -> pa.RecordBatch:
    """The messages of a stream, with offsets from 0 on."""
    count = len(stream)
    columns = [
        pa.repeat("shop", count),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        pa.array(range(count), pa.int64()),
        pa.repeat(pa.scalar(START, MESSAGES.field("timestamp").type), count),
        pa.nulls(count, pa.binary()),
        pa.array([value for value, _ in stream], pa.binary()),
        pa.array(
            [[{"key": key, "value": value} for key, value in headers] for _, headers in stream],
            MESSAGES.field("headers").type,
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
