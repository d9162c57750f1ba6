"""The pipeline from messages to row changes in memory: the steps that Spark tasks run, without Spark and without a lake.

It is what the flows do with a complete capture whose windows are all there: fragments are joined (heads read from windows
before), entry sets decoded, facts of delivery and runs collected cell by cell, lineages and redeliveries told over the whole
topic, rows decoded. Nothing here decides anything by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.delivery import CellDelivery
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Comparison, IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.message_ids import SeenTable
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Problem
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.message_lives import follow_ids
from dts_assets.planning.parts_elsewhere import PartsElsewhere
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.changelog_decoder import ChangelogDecoder
from dts_assets.stages.collecting import Tally
from dts_assets.stages.entries_wanted import CellKey, EntriesWanted
from dts_assets.stages.entry_facts import EntryFacts
from dts_assets.stages.message_contents import CONTENT_COLUMNS, compare
from dts_assets.stages.redelivered_entries import (
    COPY_COLUMNS,
    EntryKeys,
    copies_in_cell,
    keys_of,
    offsets_of_keys,
    redelivered_in_cell,
)
from dts_assets.stages.row_hash import row_hashes
from dts_assets.store.registry import read_registry
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.format import WireFormat
from tests.ledger_rows import ingest_row
from tests.stages.task_messages import found_elsewhere

Tables: TypeAlias = Mapping[TableId, tuple[Column, ...]]

_BACK = 64
"""Messages read back at a time in the search for a head."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row of quarantine."""

    cell: Cell
    first_offset: int
    last_offset: int
    reason: str
    stage: str
    changes: int = 0


@dataclass(slots=True)
class Ingested:
    """What the ledger keeps of a cell after its entries, and the entries themselves."""

    cell: Cell
    offsets: OffsetRange
    tally: Tally
    facts: EntryFacts
    delivery: CellDelivery
    problems: list[Problem]
    runs: tuple[Run, ...]
    checkpoints: tuple[SeenCheckpoint, ...]
    statements: tuple[SeenStatement, ...]
    seen_tables: tuple[SeenTable, ...]
    parts: list[pa.RecordBatch]
    """Rows of ``entries``."""

    @property
    def row(self) -> IngestWindow:
        """The row of ``windows``, as far as lineages and redeliveries ask."""
        row = ingest_row(
            self.cell, self.offsets, runs=self.runs, checkpoints=self.checkpoints, statements=self.statements
        )
        return replace(row, seen_tables=self.seen_tables)


@dataclass(slots=True)
class Rows:
    """Row changes in columns, one element each: where they stand in the source and in Kafka, and a hash of what they say.

    ``identities`` are those by which a row is told from all others of a capture: its table, position, Kafka partition and
    number. ``contents`` leave out what a re-read changes (offset, window) and the number of the lineage.
    """

    identities: npt.NDArray[np.uint64]
    contents: npt.NDArray[np.uint64]
    partitions: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """The offset of the first row that stands at the same place, as rows of one event do."""
        _, places = np.unique(self.identities, return_inverse=True)
        found = np.full(int(places.max(initial=-1)) + 1, np.iinfo(np.int64).max)
        np.minimum.at(found, places, self.offsets)
        return found[places]


@dataclass(slots=True)
class Outcome:
    """All that came of a topic."""

    cells: dict[Cell, Ingested]
    rows: Rows
    quarantine: list[Rejection] = field(default_factory=list)
    redelivered: dict[int, set[int]] = field(default_factory=dict)
    lineages: int = 1
    doubts: tuple[Doubt, ...] = ()
    """Places at which order or identity is not proven."""
    kept: int = 0
    redelivered_changes: int = 0
    quarantined_changes: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    """What was kept of rows although it is not known, with how often it came."""
    invalid: dict[int, set[int]] = field(default_factory=dict)
    """Offsets of rows with values that did not fit their type, by Kafka partition."""


Ingest: TypeAlias = tuple[dict[Cell, Ingested], list[Rejection]]
"""The cells of a Kafka partition, and its rows of quarantine."""


@cache
def tables_of(registry: Path) -> dict[TableId, tuple[Column, ...]]:
    """The tables that a registry file names."""
    found = read_registry(registry)
    return {table: tuple(column.column for column in entry.columns) for table, entry in found.items()}


def windows_of(messages: Mapping[int, pa.RecordBatch], every: timedelta) -> tuple[Window, ...]:
    """Windows over all messages, from a whole number of them after midnight on."""
    times = [batch["timestamp"] for batch in messages.values() if batch.num_rows]
    first, last = min(pc.min(one).as_py() for one in times), max(pc.max(one).as_py() for one in times)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight + every * ((first - midnight) // every)
    count = (last - start) // every + 1
    return tuple(Window(start + number * every, start + (number + 1) * every) for number in range(count))


def run(
    messages: Mapping[int, pa.RecordBatch],
    windows: Sequence[Window],
    tables: Tables,
    wire: WireFormat,
    *,
    feed: int = 1 << 20,
) -> Outcome:
    """Everything that comes of a complete capture, given as MESSAGES by Kafka partition in offset order.

    ``feed`` is how many messages are joined at a time.
    """
    parts = [ingest(partition, batch, windows, wire, feed=feed) for partition, batch in sorted(messages.items())]
    return finish(parts, tables, wire)


def ingest(
    partition: int, batch: pa.RecordBatch, windows: Sequence[Window], wire: WireFormat, *, feed: int = 1 << 20
) -> Ingest:
    """The cells of one Kafka partition of a complete capture, and what of it is in quarantine."""
    cells: dict[Cell, Ingested] = {}
    quarantine: list[Rejection] = []
    lane = _Lane(batch, wire, feed)
    for number, (window, rows) in enumerate(zip(windows, _ranges(batch, windows), strict=True)):
        cell = Cell(partition, window)
        cells[cell] = lane.ingest(cell, rows, quarantine, last=number == len(windows) - 1)
    return cells, quarantine


def finish(parts: Iterable[Ingest], tables: Tables, wire: WireFormat) -> Outcome:
    """The row changes of a topic from its Kafka partitions."""
    parts = list(parts)
    cells = {cell: one for found, _ in parts for cell, one in found.items()}
    return _tables(cells, [one for _, quarantine in parts for one in quarantine], tables, wire)


def _ranges(batch: pa.RecordBatch, windows: Sequence[Window]) -> Iterator[tuple[int, int]]:
    """The rows of each window: a boundary is the first message at or after it."""
    times = batch["timestamp"].cast(pa.int64()).to_numpy()
    latest = np.maximum.accumulate(times) if len(times) else times
    bounds = [int(np.searchsorted(latest, _millis(window.end))) for window in windows[:-1]]
    yield from zip([0, *bounds], [*bounds, len(times)], strict=True)


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


class _Lane:
    """One Kafka partition."""

    def __init__(self, batch: pa.RecordBatch, wire: WireFormat, feed: int) -> None:
        self._feed, self._wire = feed, wire
        self._batch = batch
        self._offsets = batch["offset"]
        self._left_open: tuple[OpenSet, ...] = ()

    def ingest(self, cell: Cell, rows: tuple[int, int], quarantine: list[Rejection], *, last: bool) -> Ingested:
        """Join and decode the messages in some rows, which follow those of the last call."""
        start, end = rows
        offsets, kept = self._range(start, end), _Kept(cell, quarantine)
        reading = CellReading(
            cell,
            offsets,
            0,
            self._wire,
            before=self._before,
            reaches_start=True,
            nothing_follows=last,
            open_before=self._left_open,
        )
        decoder = CellDecoder(reading, kept)
        decoder.read(self._batch.slice(begin, min(self._feed, end - begin)) for begin in range(start, end, self._feed))
        self._left_open = decoder.left_open
        runs = decoder.runs
        return Ingested(
            cell, offsets, decoder.tally, decoder.facts, decoder.delivery.result(), list(decoder.problems()),
            runs.runs(), runs.checkpoints(), runs.statements(), tuple(decoder.tables.seen), kept.parts,
        )  # fmt: skip

    def _range(self, start: int, end: int) -> OffsetRange:
        if not len(self._offsets):
            return OffsetRange(0, 0)
        behind = self._offsets[-1].as_py() + 1
        low, high = (self._offsets[row].as_py() if row < len(self._offsets) else behind for row in (start, end))
        return OffsetRange(low, high)

    def _before(self, offset: int) -> Iterator[pa.RecordBatch]:
        before = int(np.searchsorted(self._offsets.to_numpy(), offset))
        for end in range(before, 0, -_BACK):
            start = max(0, end - _BACK)
            yield self._batch.slice(start, end - start)


@dataclass(slots=True)
class _Kept:
    """The rows of a cell, kept in memory."""

    cell: Cell
    quarantine: list[Rejection]
    parts: list[pa.RecordBatch] = field(default_factory=list)

    def entries(self, rows: pa.RecordBatch) -> None:
        self.parts.append(rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            self.quarantine.append(
                Rejection(self.cell, row["first_offset"], row["last_offset"], row["reason"], row["stage"])
            )


def _tables(cells: dict[Cell, Ingested], quarantine: list[Rejection], tables: Tables, wire: WireFormat) -> Outcome:
    """Row changes of all cells."""
    history = _history(cells, tables, wire)
    outcome = Outcome(
        cells, _NO_ROWS, quarantine, lineages=len(history.lineages.all), doubts=tuple(history.lineages.doubts)
    )
    redelivered: dict[CellKey, EntryKeys] = {}
    for cell in history.suspicions:
        found = _redelivered(cell, cells, history, wire)
        redelivered[key_of(cell)] = keys_of(found)
        outcome.redelivered.setdefault(cell.kafka_partition, set()).update(found["last_offset"].to_pylist())
        for row in found.select(("database", "schema", "table", "rows")).to_pylist():
            if TableId(row["database"] or "", row["schema"] or "", row["table"] or "") in tables:
                outcome.redelivered_changes += row["rows"] or 0
    if wire.traits.order is ChangeOrder.MESSAGE_ID:
        for cell, copies in found_elsewhere(history, {cell: one.parts for cell, one in cells.items()}, wire).items():
            new = np.setdiff1d(copies.keys, redelivered.get(key_of(cell), []))
            redelivered[key_of(cell)] = np.union1d(redelivered.get(key_of(cell), copies.keys), copies.keys)
            outcome.redelivered.setdefault(cell.kafka_partition, set()).update(offsets_of_keys(new).tolist())
            outcome.redelivered_changes += _changes_at(cells[cell].parts, offsets_of_keys(new), tables)
    sink = _Changelogs(outcome, numbered=not wire.traits.rows_apart)
    rules = {key_of(cell): history.rules(cell) for cell in cells}
    loads = {key_of(cell): loads for cell, loads in history.loads.items()}
    decoder = ChangelogDecoder(wire, tables, EntriesWanted(rules, redelivered, {}, loads), sink)
    decoder.read(part for one in cells.values() for part in one.parts)
    outcome.unknown = decoder.unknown
    outcome.quarantined_changes = sum(tally.quarantined for tally in decoder.tallies.values())
    outcome.kept = sum(tally.changes for tally in decoder.tallies.values())
    names = ("identities", "contents", "partitions", "offsets")
    outcome.rows = Rows(*(np.concatenate([getattr(one, name) for one in (_NO_ROWS, *sink.found)]) for name in names))
    if not sink.numbered:
        outcome.rows.contents = _told_apart(outcome.rows)
    return outcome


def _changes_at(parts: Iterable[pa.RecordBatch], offsets: npt.NDArray[np.int64], tables: Tables) -> int:
    """The changes of messages at some offsets, of wanted tables."""
    names = ("last_offset", "database", "schema", "table", "rows")
    rows = (row for part in parts for row in part.select(names).to_pylist() if row["last_offset"] in offsets)
    return sum(
        row["rows"] or 0
        for row in rows
        if TableId(row["database"] or "", row["schema"] or "", row["table"] or "") in tables
    )


def _told_apart(rows: Rows) -> npt.NDArray[np.uint64]:
    """What rows say, with the number of each among equal ones: a lost message moves the numbers of those behind it."""
    order = np.lexsort((rows.offsets, rows.partitions, rows.contents))
    found = rows.contents[order]
    begins = np.flatnonzero(np.append(True, found[1:] != found[:-1])) if len(found) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(begins, len(found)))
    contents = rows.contents.copy()
    contents[order] = found * np.uint64(31) + (np.arange(len(found)) - np.repeat(begins, lengths)).astype(np.uint64)
    return contents


def _history(cells: Mapping[Cell, Ingested], tables: Tables, wire: WireFormat) -> TopicHistory:
    """What all cells tell together, after the comparison of messages whose ids fall."""
    rows = [one.row for one in cells.values()]
    order, comparisons = wire.traits.order, dict[str, Comparison]()

    def contents(cell: Cell) -> Iterator[pa.RecordBatch]:
        return (part.select(CONTENT_COLUMNS) for part in cells[cell].parts)

    elsewhere = PartsElsewhere(rows)
    for partition in {row.kafka_partition for row in rows} if order is ChangeOrder.MESSAGE_ID else ():
        mine = sorted((row for row in rows if row.kafka_partition == partition), key=lambda row: row.window)
        while (fall := follow_ids(partition, mine, comparisons, elsewhere=elsewhere).undecided) is not None:
            answer = compare(fall, contents, wire)
            comparisons[answer.inputs] = answer
    return TopicHistory.of(rows, tables, order=order, comparisons=comparisons.values())


def _redelivered(cell: Cell, cells: Mapping[Cell, Ingested], history: TopicHistory, wire: WireFormat) -> pa.Table:
    """The entries of a cell that were delivered before."""
    suspicion, rules = history.suspicions[cell], history.rules(cell)
    if wire.traits.order is ChangeOrder.MESSAGE_ID:
        read = {one: [part.select(COPY_COLUMNS) for part in cells[one].parts] for one in (cell, *suspicion.earlier)}
        earlier = [(history.stretches(one), read[one]) for one in suspicion.earlier]
        return copies_in_cell((history.stretches(cell), read[cell]), earlier, rules, wire)
    return redelivered_in_cell(
        cells[cell].parts,
        [cells[one].parts for one in suspicion.earlier],
        rules, trust_gtids=history.trusts_gtids, by_gtid=suspicion.by_gtid,
        said=wire.contents if wire.traits.rows_apart else None,
    )  # fmt: skip


def key_of(cell: Cell) -> CellKey:
    """A cell as the decoder of changelogs names it."""
    return cell.kafka_partition, cell.window.start


@dataclass(slots=True)
class _Changelogs:
    """The rows of all tables, kept in memory."""

    outcome: Outcome
    numbered: bool = True
    found: list[Rows] = field(default_factory=list)

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        self.found.append(_rows(rows, str(table), numbered=self.numbered))
        doubtful = rows.filter(pa.array(np.diff(offsets_of(rows["invalid"])) > 0))
        for partition, at in zip(
            *(doubtful[name].to_pylist() for name in ("kafka_partition", "kafka_offset")), strict=True
        ):
            self.outcome.invalid.setdefault(partition, set()).add(at)

    def rejected(self, rows: pa.RecordBatch) -> None:
        windows = {cell.window.start: cell.window for cell in self.outcome.cells}
        for row in rows.to_pylist():
            cell = Cell(row["kafka_partition"], windows[row["window_start"]])
            self.outcome.quarantine.append(
                Rejection(cell, row["first_offset"], row["last_offset"], row["reason"], row["stage"])
            )

    def statements(self, rows: pa.RecordBatch) -> None:
        """Statements are not asked for."""


def _rows(rows: pa.RecordBatch, table: str, *, numbered: bool) -> Rows:
    position = rows["source_position"]
    place = {"file": position.field("file"), "position": position.field("position")}
    beside = {name: rows[name] for name in ("kafka_partition", "row_number")}
    named = {"table": pa.array([table] * rows.num_rows, pa.string())}
    said = {name: rows[name] for name in ("op", "before", "after", "absent", "invalid", "event_time", "transaction_id")}
    known = beside if numbered else {"kafka_partition": beside["kafka_partition"]}
    identities = row_hashes(pa.RecordBatch.from_pydict(named | place | known))
    contents = row_hashes(pa.RecordBatch.from_pydict(named | place | known | said))
    partitions = rows["kafka_partition"].to_numpy().astype(np.int64)
    return Rows(identities, contents, partitions, rows["kafka_offset"].to_numpy())


_NO_ROWS = Rows(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64))
