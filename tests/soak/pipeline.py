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

from dts_assets.flows.redelivered_tasks import entry_keys
from dts_assets.model.columns import Column
from dts_assets.model.delivery import CellDelivery
from dts_assets.model.lineages import LineageRule
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.runs import CheckpointMark, Run, StatementMark
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.suspicions import Suspicion, find_suspicions
from dts_assets.planning.topic_lineages import find_lineages
from dts_assets.stages.changelog_rows import changelog_rows
from dts_assets.stages.collecting import Tally
from dts_assets.stages.delivery_tracker import Delivery
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.entry_facts import EntryFacts, entry_rows
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.heads import Head, find_head
from dts_assets.stages.partial_sets import Fragment
from dts_assets.stages.reassembly import SETS, Reassembler
from dts_assets.stages.redelivered_entries import KEY_COLUMNS, find_redelivered, relevant
from dts_assets.stages.row_hash import row_hashes
from dts_assets.stages.run_tracker import RunTracker
from dts_assets.store.registry import read_registry
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import FRAGMENTS
from tests.planning.rows import ingest_row

FORMAT = DtsProtobuf()

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
    checkpoints: tuple[CheckpointMark, ...]
    statements: tuple[StatementMark, ...]
    entries: pa.RecordBatch


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


@dataclass(slots=True)
class Outcome:
    """All that came of a topic."""

    cells: dict[Cell, Ingested]
    rows: Rows
    quarantine: list[Rejection] = field(default_factory=list)
    redelivered: dict[int, set[int]] = field(default_factory=dict)
    lineages: int = 1
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
    *,
    feed: int = 1 << 20,
) -> Outcome:
    """Everything that comes of a complete capture, given as MESSAGES by Kafka partition in offset order.

    ``feed`` is how many messages are joined at a time.
    """
    parts = [ingest(partition, batch, windows, feed=feed) for partition, batch in sorted(messages.items())]
    return finish(parts, tables)


def ingest(partition: int, batch: pa.RecordBatch, windows: Sequence[Window], *, feed: int = 1 << 20) -> Ingest:
    """The cells of one Kafka partition of a complete capture, and what of it is in quarantine."""
    cells: dict[Cell, Ingested] = {}
    quarantine: list[Rejection] = []
    lane = _Lane(batch, feed)
    for number, (window, rows) in enumerate(zip(windows, _ranges(batch, windows), strict=True)):
        cell = Cell(partition, window)
        cells[cell] = lane.ingest(cell, rows, quarantine, last=number == len(windows) - 1)
    return cells, quarantine


def finish(parts: Iterable[Ingest], tables: Tables) -> Outcome:
    """The row changes of a topic from its Kafka partitions."""
    parts = list(parts)
    cells = {cell: one for found, _ in parts for cell, one in found.items()}
    return _tables(cells, [one for _, quarantine in parts for one in quarantine], tables)


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

    def __init__(self, batch: pa.RecordBatch, feed: int) -> None:
        self._feed = feed
        self._offsets = batch["offset"]
        self._fragments = FORMAT.fragments(batch) if batch.num_rows else FRAGMENTS.empty_table().to_batches()[0]

    def ingest(self, cell: Cell, rows: tuple[int, int], quarantine: list[Rejection], *, last: bool) -> Ingested:
        """Join and decode the messages in some rows."""
        start, end = rows
        offsets = self._range(start, end)
        delivery, facts, runs = Delivery(offsets), EntryFacts(), RunTracker()
        joiner = Reassembler(self._read_head, nothing_follows=last)
        parts: list[pa.RecordBatch] = []
        for begin in range(start, end, self._feed):
            size = min(self._feed, end - begin)
            where, fragments = self._offsets.slice(begin, size), self._fragments.slice(begin, size)
            delivery.see_messages(where, fragments)
            for row in np.flatnonzero(np.asarray(fragments["reason"].is_valid())).tolist():
                at, reason = where[row].as_py(), fragments["reason"][row].as_py()
                quarantine.append(Rejection(cell, at, at, reason, "entries"))
            parts += joiner.feed(where, fragments).to_batches()
        joiner.finish()
        for broken in joiner.broken:
            quarantine.append(Rejection(cell, broken.first_offset, broken.last_offset, broken.reason.value, "entries"))
        sets = _one_batch(pa.Table.from_batches(parts, SETS))
        decoded = FORMAT.entries(sets["data"])
        columns = EntryColumns.of(decoded.batch, sets, decoded.checkpoints)
        facts.add(replace(decoded, shapes=()), columns)  # the tables are known
        delivery.see_entries(columns)
        runs.see(columns)
        for one in decoded.rejected:
            first, final = sets["first_offset"][one.index].as_py(), sets["last_offset"][one.index].as_py()
            quarantine.append(Rejection(cell, first, final, one.reason.value, "entries"))
        entries = entry_rows(decoded.batch, sets, cell=cell, epoch=0)
        problems = [*delivery.problems(), *_problems(joiner, facts)]
        return Ingested(
            cell, offsets, joiner.tally, facts, delivery.result(), problems,
            runs.runs(), runs.checkpoints(), runs.statements(), entries,
        )  # fmt: skip

    def _range(self, start: int, end: int) -> OffsetRange:
        if not len(self._offsets):
            return OffsetRange(0, 0)
        behind = self._offsets[-1].as_py() + 1
        low, high = (self._offsets[row].as_py() if row < len(self._offsets) else behind for row in (start, end))
        return OffsetRange(low, high)

    def _read_head(self, shard: str, tail: Sequence[Fragment]) -> Head:
        before = int(np.searchsorted(self._offsets.to_numpy(), min(one.offset for one in tail)))

        def backwards() -> Iterator[tuple[pa.Int64Array, pa.RecordBatch]]:
            for end in range(before, 0, -_BACK):
                start = max(0, end - _BACK)
                yield self._offsets.slice(start, end - start), self._fragments.slice(start, end - start)

        return find_head(backwards(), shard=shard, tail=tail, reaches_start=True)


def _problems(joiner: Reassembler, facts: EntryFacts) -> Iterator[Problem]:
    """What the ledger says of a cell beside what is missing in it."""
    lost = joiner.tally.quarantined_messages + joiner.tally.quarantined_fragments + facts.quarantined_entries
    if lost:
        yield Problem(ProblemCode.QUARANTINED, None, None, f"{lost} in quarantine")
    if facts.rollbacks:
        yield Problem(ProblemCode.ROLLBACK, None, None, f"{facts.rollbacks} ROLLBACK entries")
    for what, count in sorted(facts.unknown.items()):
        yield Problem(ProblemCode.UNKNOWN, None, None, f"{what}: {count}")


def _tables(cells: dict[Cell, Ingested], quarantine: list[Rejection], tables: Tables) -> Outcome:
    """Row changes of all cells."""
    runs = [
        ingest_row(cell, runs=one.runs, checkpoints=one.checkpoints, statements=one.statements)
        for cell, one in cells.items()
    ]
    real = not any(mark.fake_gtid for one in cells.values() for mark in one.checkpoints)
    lineages = find_lineages(runs, trust_gtids=real, order=FORMAT.traits.order)
    suspicions = find_suspicions(runs, lineages)
    outcome = Outcome(cells, _NO_ROWS, quarantine, lineages=len(lineages.all))
    wanted: list[pa.RecordBatch] = []
    for cell, one in cells.items():
        rules = {run.shard: lineages.rule(cell.kafka_partition, run.shard) for run in one.runs}
        dml = one.entries.filter(pc.equal(one.entries["message_type"], "DML"))
        if cell in suspicions:
            dml = _fresh(dml, _redelivered(cells, suspicions[cell], rules, trust_gtids=real), outcome, tables)
        if dml.num_rows:
            wanted.append(dml.append_column("lineage", pa.array(entry_lineages(dml, rules))))
    if wanted:
        entries = _one_batch(pa.Table.from_batches(wanted))
        _decode(entries, outcome, tables)
    return outcome


def _redelivered(
    cells: Mapping[Cell, Ingested], suspicion: Suspicion, rules: Mapping[str, LineageRule], *, trust_gtids: bool
) -> pa.Table:
    own = relevant(
        cells[suspicion.cell].entries, positions=None, gtids=pa.array([], pa.string()) if suspicion.by_gtid else None
    )
    positions = pc.unique(own["position"])
    gtids = pc.unique(own["gtid"]).drop_null() if suspicion.by_gtid else None
    earlier = [
        pa.Table.from_batches([relevant(cells[one].entries, positions=positions, gtids=gtids).select(KEY_COLUMNS)])
        for one in suspicion.earlier
    ]
    mine = pa.Table.from_batches([own.select(KEY_COLUMNS)])
    return find_redelivered(earlier, mine, rules, trust_gtids=trust_gtids, by_gtid=suspicion.by_gtid)


def _fresh(dml: pa.RecordBatch, found: pa.Table, outcome: Outcome, tables: Tables) -> pa.RecordBatch:
    """The entries that were not delivered before; the others are noted."""
    if not found.num_rows or not dml.num_rows:
        return dml
    keys = entry_keys(found["last_offset"].combine_chunks(), found["entry_number"].combine_chunks())
    partition = dml["kafka_partition"][0].as_py()
    outcome.redelivered.setdefault(partition, set()).update(found["last_offset"].to_pylist())
    for row in found.select(("database", "schema", "table", "rows")).to_pylist():
        if TableId(row["database"] or "", row["schema"] or "", row["table"] or "") in tables:
            outcome.redelivered_changes += row["rows"] or 0
    return dml.filter(pa.array(~np.isin(entry_keys(dml["last_offset"], dml["entry_number"]), keys)))


def _decode(entries: pa.RecordBatch, outcome: Outcome, tables: Tables) -> None:
    decoded = FORMAT.changes(entries, tables)
    outcome.unknown = dict(decoded.unknown)
    windows = {cell.window.start: cell.window for cell in outcome.cells}
    for one in decoded.rejected:
        row = {
            name: entries[name][one.index].as_py()
            for name in ("kafka_partition", "window_start", "last_offset", "rows")
        }
        cell = Cell(row["kafka_partition"], windows[row["window_start"]])
        at, count = row["last_offset"], row["rows"] or 1
        outcome.quarantine.append(Rejection(cell, at, at, one.reason.value, "tables", count))
        outcome.quarantined_changes += count
    found = []
    for changes in decoded.tables:
        rows = changelog_rows(changes, entries)
        found.append(_rows(rows, str(changes.table)))
        doubtful = rows.filter(pa.array(np.diff(offsets_of(rows["invalid"])) > 0))
        for partition, at in zip(
            *(doubtful[name].to_pylist() for name in ("kafka_partition", "kafka_offset")), strict=True
        ):
            outcome.invalid.setdefault(partition, set()).add(at)
    names = ("identities", "contents", "partitions", "offsets")
    outcome.rows = Rows(*(np.concatenate([getattr(one, name) for one in (_NO_ROWS, *found)]) for name in names))
    outcome.kept = len(outcome.rows.offsets)


def _rows(rows: pa.RecordBatch, table: str) -> Rows:
    position = rows["source_position"]
    place = {"file": position.field("file"), "position": position.field("position")}
    beside = {name: rows[name] for name in ("kafka_partition", "row_number")}
    named = {"table": pa.array([table] * rows.num_rows, pa.string())}
    said = {name: rows[name] for name in ("op", "before", "after", "absent", "invalid", "event_time", "transaction_id")}
    identities = row_hashes(pa.RecordBatch.from_pydict(named | place | beside))
    contents = row_hashes(pa.RecordBatch.from_pydict(named | place | beside | said))
    partitions = rows["kafka_partition"].to_numpy().astype(np.int64)
    return Rows(identities, contents, partitions, rows["kafka_offset"].to_numpy())


_NO_ROWS = Rows(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    whole = table.combine_chunks()
    found = whole.to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], whole.schema)
