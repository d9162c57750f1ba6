"""The contents of messages whose ids fall, compared with what had these ids before: copies, or another life.

Ids alone say little, so contents are compared by digests. Only messages are looked at whose ids stand on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.ledger_rows import Comparison
from dts_assets.model.lives import Fall, Part, Stretch
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.wire.format import WireFormat

CONTENT_COLUMNS = ("last_offset", "message_type", "event_time", "position", "payload")
"""The columns of ``entries`` that contents are compared by."""

ReadCell = Callable[[Cell], Iterable[pa.RecordBatch]]
"""The entries of a cell in offset order, as batches with CONTENT_COLUMNS."""

_Numbers = npt.NDArray[np.int64]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Contents:
    """Messages by offset, id, content and time."""

    offsets: _Numbers
    ids: _Numbers
    digests: _Numbers
    times: _Numbers

    def among(self, others: Contents) -> npt.NDArray[np.bool_]:
        """Tell which messages have the id and the content of one among others."""
        return _pairs_among(self.ids, self.digests, others.ids, others.digests)

    def of_events_of(self, others: Contents) -> npt.NDArray[np.bool_]:
        """Tell which messages have the id and the time of one among others, copies left out.

        A time that is zero says nothing. The time of a copy may be another than the message's own.
        """
        first = others.first_told()
        return _pairs_among(self.ids, self.times, others.ids[first], others.times[first]) & (self.times > 0)

    def told_by(self, others: Contents) -> npt.NDArray[np.bool_]:
        """Tell which messages have the id, the content and the time of one among others.

        A time that is zero says nothing.
        """
        _, said = np.unique(np.concatenate([self.digests, others.digests]), return_inverse=True)
        _, times = np.unique(np.concatenate([self.times, others.times]), return_inverse=True)
        both = said.astype(np.int64) * (int(times.max(initial=0)) + 1) + times
        return _pairs_among(self.ids, both[: len(self.ids)], others.ids, both[len(self.ids) :]) & (self.times > 0)

    def later_than(self, others: Contents) -> npt.NDArray[np.bool_]:
        """Tell which messages have the id and the content of one among others, and a later time.

        Times that are zero say nothing.
        """
        timed = np.flatnonzero(others.times > 0)
        order = timed[np.argsort(-others.times[timed], kind="stable")]  # of equal ones the earliest is the last
        _, ids = np.unique(np.concatenate([self.ids, others.ids]), return_inverse=True)
        _, said = np.unique(np.concatenate([self.digests, others.digests]), return_inverse=True)
        _, codes = np.unique(ids.astype(np.int64) * (int(said.max(initial=0)) + 1) + said, return_inverse=True)
        earliest = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).max)
        earliest[codes[len(self.ids) :][order]] = others.times[order]
        later: npt.NDArray[np.bool_] = self.times > earliest[codes[: len(self.ids)]]
        return later

    def taken(self, wanted: npt.NDArray[np.bool_]) -> Contents:
        """Return some of the messages."""
        return Contents(self.offsets[wanted], self.ids[wanted], self.digests[wanted], self.times[wanted])

    def first_told(self) -> _Numbers:
        """Return the places of the messages that say of their id what none before them said."""
        order = np.lexsort((self.digests, self.ids))  # stable: equal ones stay in the order of arrival
        ids, said = self.ids[order], self.digests[order]
        first: _Numbers = order[np.append(True, (ids[1:] != ids[:-1]) | (said[1:] != said[:-1]))[: len(order)]]
        return first


def _pairs_among(ids: _Numbers, values: _Numbers, other_ids: _Numbers, others: _Numbers) -> npt.NDArray[np.bool_]:
    _, places = np.unique(np.concatenate([ids, other_ids]), return_inverse=True)
    _, said = np.unique(np.concatenate([values, others]), return_inverse=True)
    codes = places.astype(np.int64) * (int(said.max(initial=0)) + 1) + said
    return np.isin(codes[: len(ids)], codes[len(ids) :])


def compare(fall: Fall, read: ReadCell, wire: WireFormat) -> Comparison:
    """Return what the messages behind a fall are."""
    most = fall.passed
    own = contents_in(fall.parts, read, wire, least=fall.first, most=most)

    @cache
    def of_life(number: int) -> Contents:
        return contents_in(fall.lives[number], read, wire, least=fall.first, most=most)

    copied = said = told = np.zeros(len(own.ids), np.bool_)
    life, doubted = _life_of(fall, own, of_life, copied, said)
    if fall.elsewhere and (life != fall.life or len(doubted)):
        elsewhere, in_order = _contents_elsewhere(fall, read, wire)
        told = own.told_by(elsewhere.taken(in_order))
        copied = told & ~own.among(of_life(fall.life))
        said = own.among(elsewhere.taken(in_order)) | own.later_than(elsewhere)
        life, doubted = _life_of(fall, own, of_life, copied, said)
    if life == len(fall.lives):  # an event has one time: what was told with it before the begin would count twice
        doubted = own.offsets[told | own.told_by(of_life(fall.life))]
    until: tuple[int | None, int | None] = (None, None)
    if life < fall.life and fall.parts[-1].last > fall.greatest:
        until = len(fall.parts) - 1, _first_beyond(fall.parts[-1], read, fall.greatest)
    return Comparison(
        kafka_partition=fall.kafka_partition,
        window=fall.cell.window,
        offset=fall.offset,
        life=life,
        until=until[1],
        until_part=until[0],
        doubts=len(doubted),
        doubted=int(doubted[0]) if len(doubted) else None,
        inputs=fall.inputs,
        code_version=CODE_VERSION,
        parts=len(fall.parts),
        copied=int(copied.sum()),
    )


def _life_of(
    fall: Fall,
    own: Contents,
    of_life: Callable[[int], Contents],
    copied: npt.NDArray[np.bool_],
    said: npt.NDArray[np.bool_],
) -> tuple[int, _Numbers]:
    """Return the life of messages whose ids had been passed, and the offsets of doubtful ones.

    Messages that are ``copied`` from other Kafka partitions are no doubt. Those whose content was ``said`` there begin no life:
    they may be copies or stand behind a begin that is not seen there, so where they alone speak for a begin they are a doubt.
    """
    present = of_life(fall.life)
    # The greatest id itself may have been torn: more pieces of its event can come.
    passed = own.ids < fall.greatest
    known = np.isin(own.ids, present.ids)
    latest = (fall.latest - _EPOCH) // timedelta(microseconds=1)
    other = passed & known & ~own.among(present)
    # An id with its time again and another content is a piece of the event that came late: a new task's clock goes on.
    late = other & own.of_events_of(present)
    begins = (other & ~late) | (passed & ~known & (own.times > latest))
    if not (begins & ~said).any():
        return fall.life, own.offsets[begins | (((passed & ~known) | late) & ~copied)]
    if own.times.max(initial=0) <= latest:
        for number in range(fall.life - 1, -1, -1):
            if own.among(of_life(number)).all():
                return number, own.offsets[:0]
    return len(fall.lives), own.offsets[:0]


def _contents_elsewhere(fall: Fall, read: ReadCell, wire: WireFormat) -> tuple[Contents, npt.NDArray[np.bool_]]:
    """Return the contents of statements, and of tables with a key, in other Kafka partitions.

    With them comes which have ids that had not been passed there: all others may stand behind the same begin.
    """
    parts = [one.part for one in fall.elsewhere]
    found, at = _contents_of(parts, read, wire, least=fall.first, most=fall.passed, counted_once=True)
    passed = np.array([one.passed for one in fall.elsewhere])
    return found, found.ids > passed[at]


def contents_in(parts: Sequence[Part], read: ReadCell, wire: WireFormat, *, least: int, most: int) -> Contents:
    """Return the contents of the messages of some runs whose ids lie in a range, ends included."""
    return _contents_of(parts, read, wire, least=least, most=most, counted_once=False)[0]


def _contents_of(
    parts: Sequence[Part], read: ReadCell, wire: WireFormat, *, least: int, most: int, counted_once: bool
) -> tuple[Contents, _Numbers]:
    """Return contents, and the place of the part of each.

    With ``counted_once`` they are statements and those of tables with a key alone.
    """
    found: list[tuple[_Numbers, ...]] = [(np.zeros(0, np.int64),) * 5]
    by_cell: dict[Cell, list[int]] = {}
    for number, part in enumerate(parts):
        by_cell.setdefault(part.cell, []).append(number)
    for cell, mine in by_cell.items():
        starts = np.array([parts[number].start for number in mine])
        ends = np.array([parts[number].run.last_offset for number in mine])
        for batch in read(cell):
            offsets, ids = batch["last_offset"].to_numpy(), pc.fill_null(batch["position"], -1).to_numpy()
            place = np.searchsorted(starts, offsets, side="right") - 1
            inside = (place >= 0) & (offsets <= ends[np.maximum(place, 0)])
            wanted = inside & _with_ids(batch) & (ids >= least) & (ids <= most)
            rows = np.flatnonzero(wanted)
            if counted_once:
                is_statement = np.asarray(pc.equal(batch["message_type"], "DDL"))[rows]
                rows = rows[is_statement | wire.has_key(batch["payload"].take(pa.array(rows)))]
            if len(rows):
                said = wire.contents(batch["payload"].take(pa.array(rows)))
                found.append((offsets[rows], ids[rows], said, _times(batch)[rows], np.array(mine)[place[rows]]))
    *columns, at = (np.concatenate(column) for column in zip(*found, strict=True))
    return Contents(*columns), at


def _first_beyond(part: Part, read: ReadCell, greatest: int) -> int:
    """Return the offset of a run's first message with an id beyond the greatest."""
    for batch in read(part.cell):
        offsets = batch["last_offset"].to_numpy()
        beyond = (
            _with_ids(batch) & (offsets >= part.start) & (pc.fill_null(batch["position"], -1).to_numpy() > greatest)
        )
        if beyond.any():
            return int(offsets[np.argmax(beyond)])
    return part.run.last_offset


def _with_ids(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(pc.is_in(batch["message_type"], value_set=pa.array(["DML", "DDL"])), False))


def _times(batch: pa.RecordBatch) -> _Numbers:
    times: _Numbers = pc.fill_null(
        batch["event_time"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 0
    ).to_numpy()
    return times


def copied_messages(
    own: tuple[Sequence[Stretch], pa.Table],
    earlier: Sequence[tuple[Sequence[Stretch], pa.Table]],
    wire: WireFormat,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the DML entries of a cell that are copies, and row for row their originals.

    A copy has the life, the id and the content of an entry before it: in an earlier stretch, or among its neighbours with the
    same id. Without a key neighbours can be equal pieces of one event, so of n equal ones in a stretch each is the copy of
    another one.
    """
    stretches, mine = own
    found = [_of_stretches(some, table) for some, table in ((*earlier, (stretches, mine)))]
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    numbers, lives, limits = columns
    entries = pa.concat_tables([table for _, table in (*earlier, own)]).combine_chunks()
    ids = pc.fill_null(entries["position"], -1).to_numpy()
    own_row = np.arange(len(ids)) >= len(ids) - mine.num_rows
    goes_on = np.append(False, (ids[1:] == ids[:-1]) & (numbers[1:] == numbers[:-1]))
    candidate = own_row & ((ids <= limits) | goes_on)
    rows = np.flatnonzero(np.isin(ids, ids[candidate]))
    entries = entries.take(pa.array(rows))
    payloads = entries["payload"].combine_chunks() if len(rows) else pa.array([], pa.binary())
    kept = _first_copies([lives[rows], ids[rows], wire.contents(payloads)], numbers[rows], wire.has_key(payloads))
    copies = np.flatnonzero((kept < np.arange(len(rows))) & candidate[rows])
    batch = pa.RecordBatch.from_struct_array(entries.to_struct_array().combine_chunks())
    return batch.take(pa.array(copies)), batch.take(pa.array(kept[copies]))


def _of_stretches(stretches: Sequence[Stretch], entries: pa.Table) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return the number of the stretch, the life and the limit of copies of each entry."""
    starts = np.array([one.offset for one in stretches], np.int64)
    at = np.maximum(np.searchsorted(starts, entries["last_offset"].to_numpy(), side="right") - 1, 0)
    values = [
        [one.number for one in stretches],
        [one.life for one in stretches],
        [one.copies_until for one in stretches],
    ]
    number, life, limit = (np.array(column, np.int64)[at] for column in values)
    return number, life, limit


def _first_copies(columns: Sequence[_Numbers], stretches: _Numbers, has_key: npt.NDArray[np.bool_]) -> _Numbers:
    """Return for each row the first row that it is a copy of.

    Both have equal columns, and without a key an equal place among the equal rows of their stretch.
    """
    codes = np.zeros(len(stretches), np.int64)
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (int(inverse.max(initial=0)) + 1) + inverse, return_inverse=True)
    order = np.lexsort((np.arange(len(codes)), stretches, codes))
    begins = np.ones(len(codes), np.bool_)
    begins[1:] = (codes[order][1:] != codes[order][:-1]) | (stretches[order][1:] != stretches[order][:-1])
    starts = np.maximum.accumulate(np.where(begins, np.arange(len(codes)), 0))
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - starts
    places[has_key] = 0
    _, first, inverse = np.unique(
        codes * (int(places.max(initial=0)) + 1) + places, return_index=True, return_inverse=True
    )
    kept: _Numbers = first[inverse].astype(np.int64)
    return kept
