"""The decoding of one cell: messages are joined and decoded, facts collected, rows handed to a sink.

A cell is read here in the same way from files in the lake (``flows/ingest_tasks.py``) and from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.ledger_rows import Counts
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.stages.collecting import Tally
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.entry_facts import EntryFacts, account_for_all, entry_rows
from dts_assets.stages.event_rows import DecodedBatch, first_placed, rows_before
from dts_assets.stages.heads import Head, find_head, fragment_at
from dts_assets.stages.isolation import decoded_apart, rejection_of
from dts_assets.stages.partial_sets import MOST_SET_BYTES, Fragment
from dts_assets.stages.quarantine import Unusable, quarantine_rows
from dts_assets.stages.reassembly import Reassembler, sets_of, whole_sets
from dts_assets.stages.rollback_entries import with_rollbacks
from dts_assets.stages.shapes_of_sets import placed_shapes
from dts_assets.stages.window_state import WindowState
from dts_assets.wire.format import ENTRIES, DecodedEntries, Rejected, WireFormat

CHUNK_BYTES = 16 << 20
"""Bytes of entry sets decoded in one call.

More gains nothing measurable below a hundred tables and costs memory.
"""

Sized = TypeVar("Sized")

MessagesBefore: TypeAlias = Callable[[int], Iterable[pa.RecordBatch]]
"""The stored messages before an offset, last batch first."""


class EntriesSink(Protocol):
    """The place where the rows of a cell go, batch by batch."""

    def entries(self, rows: pa.RecordBatch) -> None:
        """Take rows of ``entries``."""

    def rejected(self, rows: pa.RecordBatch) -> None:
        """Take rows of ``quarantine``."""


@dataclass(frozen=True, slots=True)
class CellReading:
    """One reading of a cell: which messages, and what is known of those before and behind them.

    ``before`` gives the messages before an offset, and ``reaches_start`` says that nothing before them can ever be stored.
    ``nothing_follows`` says that the source has ended. ``is_open`` says that the window has not closed: the fragments at the
    end whose set is not whole yet are left for the next reading. ``resume`` is the state in which an earlier reading of the
    messages before ``offsets`` ended. ``open_before`` are the entry sets that the cell before left open; None where that is not
    known.
    """

    cell: Cell
    offsets: OffsetRange
    epoch: int
    format: WireFormat
    before: MessagesBefore
    reaches_start: bool
    nothing_follows: bool
    is_open: bool = False
    resume: bytes | None = None
    open_before: tuple[OpenSet, ...] | None = None


class CellDecoder:
    """One pass over the messages of a cell. Give it all of them with :meth:`read`; then its facts are those of the cell.

    ``end`` is the offset up to which messages were decoded: before the end of ``offsets`` where the window is open.
    """

    def __init__(self, reading: CellReading, sink: EntriesSink) -> None:
        self._reading = reading
        self._sink = sink
        self._format = reading.format
        state = WindowState.begin(reading.offsets) if reading.resume is None else WindowState.of_bytes(reading.resume)
        self.facts, self.runs, self.delivery, self.tables = state.facts, state.runs, state.delivery, state.tables
        self._neighbours, self._events = state.neighbours, state.events
        self._arrivals, self._forms = state.arrivals, state.forms
        self.end = reading.offsets.end
        self._joiner = Reassembler(
            self._read_head,
            nothing_follows=reading.nothing_follows,
            knows_before=reading.open_before is not None or reading.resume is not None,
            tally=state.tally,
        )
        self.tally = self._joiner.tally
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Join and decode the messages of the reading, given as MESSAGES in offset order."""
        self._take_over(self._reading.open_before or ())
        for batch in self._whole_sets(batches) if self._reading.is_open else batches:
            self._add(batch)
        self._decode()
        self._joiner.finish()
        self._reject(self._joiner.take_broken())
        self.delivery.until(self.end)

    @property
    def left_open(self) -> tuple[OpenSet, ...]:
        """The entry sets that the cell leaves unfinished."""
        return tuple(self._joiner.left_open)

    @property
    def taken_over(self) -> tuple[OpenSet, ...]:
        """The entry sets that the cell was told of, or else those that it found by itself."""
        known = self._reading.open_before
        return tuple(self._joiner.taken_over) if known is None else known

    def counts(self) -> Counts:
        """Return the terms of the ledger's equations."""
        return counts_of(self.tally, self.facts)

    def resume(self) -> bytes | None:
        """Return the state with which the next reading goes on.

        None where a set is not whole, since messages that come later may still decide about it, and where it is too large.
        """
        if not self._reading.is_open or self._joiner.found_broken or self._joiner.waiting or self.tally.carried_out:
            return None
        state = WindowState(
            self.tally,
            self.facts,
            self.runs,
            self.delivery,
            self.tables,
            self._neighbours,
            self._events,
            self._arrivals,
            self._forms,
        )
        return state.to_bytes()

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that the cell's mark names."""
        yield from self.delivery.problems()
        yield from self._neighbours.problems()
        yield from self.runs.problems()
        for first, last in self._joiner.waiting:
            yield Problem(ProblemCode.WAITING, first, last, "its head is not stored yet")
        for one in self.left_open:
            if not one.collecting:
                detail = f"{len(one.offsets)} of {one.total} fragments were sent, then something else"
                yield Problem(ProblemCode.INTERRUPTED, min(one.offsets), max(one.offsets), detail)
        lost, facts = self.tally.quarantined_messages + self.tally.quarantined_fragments, self.facts
        unapplied = "statements that may change rows as no event tells and no rule knows (see ddl, column applied)"
        for code, count, of_what in (
            (ProblemCode.QUARANTINED, lost, "messages are in quarantine"),
            (ProblemCode.QUARANTINED, facts.quarantined_sets, "entry sets are in quarantine"),
            (ProblemCode.QUARANTINED, facts.quarantined_entries, "entries are in quarantine"),
            (ProblemCode.ROLLBACK, facts.rollbacks, "ROLLBACK entries"),
            (ProblemCode.DDL, facts.ddl_unapplied, unapplied),
        ):
            if count:
                yield Problem(code, None, None, f"{count} {of_what}")
        rejected = lost + facts.quarantined_sets + facts.quarantined_entries
        yield from self._forms.problems(rejected, self.tally.messages - self.tally.null_messages, self._format)
        for what, count in sorted(facts.unknown.items()):
            yield Problem(ProblemCode.UNKNOWN, None, None, f"{what}: {count}")

    def _take_over(self, sets: Sequence[OpenSet]) -> None:
        """Begin with entry sets that the cell before left open; their fragments are read back."""
        wanted = pa.array(sorted({offset for one in sets for offset in one.offsets}), pa.int64())
        found: dict[int, Fragment] = {}
        earlier = iter(self._reading.before(self._reading.offsets.start) if sets else ())
        while len(found) < len(wanted) and (batch := next(earlier, None)) is not None:
            some = batch.filter(pc.is_in(batch["offset"], value_set=wanted))
            fragments = self._format.fragments(some)
            found |= {
                one.offset: one for one in (fragment_at(row, some["offset"], fragments) for row in range(len(some)))
            }
        for one in sets:
            if found.keys() >= set(one.offsets):  # else the ledger's equation tells that they are missing
                parts = [found[offset] for offset in one.offsets]
                self._joiner.take_over(one, parts, may_outlive=self._reading.is_open)

    def _whole_sets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of an open window up to the end of the last set that is whole."""
        held: pa.RecordBatch | None = None
        for batch in batches:
            if held is not None:
                yield held
            held = batch
        if held is None:
            return
        whole = whole_sets(self._format.fragments(held)) if not self._joiner.busy else held.num_rows
        if whole < held.num_rows:
            self.end = held["offset"][whole].as_py()
        if whole:
            yield held.slice(0, whole)

    def _add(self, messages: pa.RecordBatch) -> None:
        fragments = self._format.fragments(messages)
        offsets = messages["offset"]
        self.delivery.see_messages(offsets, fragments)
        reasons = fragments["reason"]
        if reasons.null_count < len(reasons):
            named = pa.table([offsets, reasons, messages["value"]], names=["offset", "reason", "value"])
            bad = named.filter(reasons.is_valid()).to_pylist()
            self._reject([Unusable(row["offset"], row["offset"], row["reason"], "", row["value"]) for row in bad])
        sets = self._joiner.feed(offsets, fragments)
        self._reject(self._joiner.take_broken())
        if sets.num_rows:
            self._pending += sets.to_batches()
            self._pending_bytes += sets.nbytes
        if self._pending_bytes >= CHUNK_BYTES // 2:  # a batch is mostly a chunk: joining two of them would copy both
            self._decode()

    def _decode(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for together in _at_most(pending, MOST_SET_BYTES, lambda batch: batch.nbytes):
            self._decode_together(pa.Table.from_batches(together).combine_chunks())

    def _decode_together(self, table: pa.Table) -> None:
        """Decode entry sets whose bytes fit one Arrow array."""
        order = self._format.traits.order
        for sets, decoded in self._decoded(table):
            if order is ChangeOrder.ARRIVAL:
                decoded = replace(decoded, batch=self._arrivals.placed(decoded.batch, self._reading.cell))
            columns = EntryColumns.of(decoded.batch, sets, decoded.checkpoints)
            told = columns
            if self._format.traits.rows_apart:
                decoded, columns = self._numbered(decoded, columns)
                sequences = sets["sequence"].take(decoded.batch["set_index"])
                told = columns.take(np.flatnonzero(~self._events.repeats(sequences)))
            batch, columns = with_rollbacks(decoded.batch, columns)  # which end no transaction
            decoded = replace(decoded, batch=batch)
            self.facts.add(decoded, columns, placed_shapes(decoded, columns, sets, self._format.entries))
            self.delivery.see_entries(told)
            self.runs.see(columns, order=order)
            if order is ChangeOrder.MESSAGE_ID:
                self.tables.see(decoded.batch, columns, decoded.reads)
                copies = self._neighbours.see(decoded.batch["payload"], columns, self._format)
                self.runs.repeated(columns, copies)
            self._sink.entries(entry_rows(decoded.batch, sets, cell=self._reading.cell, epoch=self._reading.epoch))
            self._reject([_rejected_row(rejection, sets) for rejection in decoded.rejected])

    def _numbered(self, decoded: DecodedEntries, columns: EntryColumns) -> tuple[DecodedEntries, EntryColumns]:
        """Return entries with the number of each row in its event.

        The event may have begun in an earlier window.
        """
        if not self._events.seen and (row := first_placed(columns)) is not None:
            earlier = self._reading.before(int(columns.offsets[row]))
            self._events = rows_before(earlier, self._decoded_before)
        numbers, goes_on = self._events.see(decoded.batch, columns)
        place = decoded.batch.schema.get_field_index("entry_number")
        batch = decoded.batch.set_column(place, ENTRIES.field(place), pa.array(numbers.astype(np.int32)))
        return replace(decoded, batch=batch), replace(columns, goes_on=goes_on)

    def _decoded_before(self, messages: pa.RecordBatch) -> Iterator[DecodedBatch]:
        """Yield the entries of messages that are read again."""
        for sets, decoded in self._decoded(sets_of(messages["offset"], self._format.fragments(messages))):
            yield decoded.batch, EntryColumns.of(decoded.batch, sets)

    def _decoded(self, table: pa.Table) -> Iterator[tuple[pa.RecordBatch, DecodedEntries]]:
        """Yield entry sets with their entries; a set that nobody expected stands alone, rejected."""

        def entries(sets: pa.RecordBatch) -> DecodedEntries:
            return account_for_all(self._format.entries(sets["data"]), sets["data"])

        for whole in table.to_batches():
            for sets, decoded in decoded_apart(entries, whole):
                yield sets, _unexpected(sets, decoded) if isinstance(decoded, Exception) else decoded

    def _reject(self, found: Sequence[Unusable]) -> None:
        """Hand rows of quarantine to the sink."""
        self._forms.see(one.data for one in found)
        partition, start = self._reading.cell.kafka_partition, self._reading.cell.window.start
        for some in _at_most(found, MOST_SET_BYTES, lambda one: len(one.data or b"")):
            rows = quarantine_rows(some, kafka_partition=partition, window_start=start, stage="entries")
            self._sink.rejected(rows)

    def _read_head(self, shard: str, tail: Sequence[Fragment]) -> Head:
        """Return what lies before a set's tail, read back from the stored messages."""
        earlier = self._reading.before(min(fragment.offset for fragment in tail))
        fragments = ((batch["offset"], self._format.fragments(batch)) for batch in earlier)
        return find_head(fragments, shard=shard, tail=tail, reaches_start=self._reading.reaches_start)


def _unexpected(sets: pa.RecordBatch, error: Exception) -> DecodedEntries:
    """Return no entry of one set, and its rejection."""
    rejected = Rejected(0, None, *rejection_of(error), sets["data"][0].as_py())
    return DecodedEntries(pa.RecordBatch.from_pylist([], ENTRIES), (rejected,), {}, (), {})


def _at_most(found: Sequence[Sized], most: int, size_of: Callable[[Sized], int]) -> Iterator[list[Sized]]:
    """Yield things in order, several together while they have at most so many bytes.

    No Arrow array of binary values holds more than 2^31.
    """
    together: list[Sized] = []
    size = 0
    for one in found:
        if together and size + size_of(one) > most:
            yield together
            together, size = [], 0
        together.append(one)
        size += size_of(one)
    if together:
        yield together


def counts_of(tally: Tally, facts: EntryFacts) -> Counts:
    """Return the terms of the ledger's equations, from the messages and the entries of a cell."""
    return Counts(
        **asdict(tally),
        entries=facts.entries,
        data=facts.data,
        control=facts.control,
        quarantined_entries=facts.quarantined_entries,
        decoded_sets=facts.decoded_sets,
        quarantined_sets=facts.quarantined_sets,
    )


def _rejected_row(rejected: Rejected, sets: pa.RecordBatch) -> Unusable:
    first, last = sets["first_offset"][rejected.index].as_py(), sets["last_offset"][rejected.index].as_py()
    where = "" if rejected.entry_number is None else f"entry {rejected.entry_number}: "
    return Unusable(first, last, rejected.reason, f"{where}{rejected.detail}", rejected.payload)
