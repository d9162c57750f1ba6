"""The number of each row in its binlog event, where every row is a message of its own.

The rows of an event follow one another in a Kafka partition, at one position and with growing ids. So a row's number is its
place in that run, and a run that a window's border cuts goes on behind it. Whatever else has a place in the binlog, and a greater
id, ends a run; so does a CHECKPOINT which says that the event was sent whole. Messages with ids that were passed are sent again:
they have runs of their own, and the run that they interrupt goes on behind them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.entry_columns import CHECKPOINT, DML, EntryColumns, Numbers

_FEW, _MARKS = 256, 4
"""Messages before a window, or CHECKPOINTs and HEARTBEATs among them, that are looked at to know which event is open there.

The last ones alone may all have been sent again. A producer sends a few messages twice, and never those of half a minute.
"""

DecodedBatch: TypeAlias = tuple[pa.RecordBatch, EntryColumns]
"""Decoded entries with their columns."""

Event: TypeAlias = tuple[int, int, int, str]
"""What all rows of an event have: number of the file, position, server id, GTID."""


@dataclass(slots=True)
class EventRun:
    """The rows that have come of one event: their ``ids``, which grow; none if no event is open."""

    file: int = 0
    position: int = 0
    server_id: int = 0
    gtid: str = ""
    ids: list[int] = field(default_factory=list)

    @property
    def event(self) -> Event:
        """The event."""
        return self.file, self.position, self.server_id, self.gtid

    def is_of(self, event: Event) -> bool:
        """Tell whether rows of an event have come."""
        return bool(self.ids) and self.event == event

    def number(self, sent: int) -> int:
        """Take a row of the event by its id, and return its number.

        An id that came before is the same row again. One between two that came is of another telling, which begins here.
        """
        place = bisect_left(self.ids, sent)
        if place == len(self.ids):
            self.ids.append(sent)
        elif self.ids[place] != sent:
            self.ids[:] = [sent]
            return 0
        return place


@dataclass(slots=True)
class EventRows:
    """Numbers the rows of events in one Kafka partition. Feed it every batch of entries in offset order.

    ``run`` is that of the last event, ``again`` that of messages which were sent again since. ``last`` is the greatest id since
    the last event began. ``seen`` says that the begin of the first event is known.
    """

    run: EventRun = field(default_factory=EventRun)
    again: EventRun = field(default_factory=EventRun)
    last: int = -1
    seen: bool = False

    def see(self, batch: pa.RecordBatch, entries: EntryColumns) -> Numbers:
        """Take note of entries, and return the number of each in its event; 0 for entries that are no rows."""
        numbers = np.zeros(len(entries), np.int64)
        rows = _ending(entries, (self.run.file, self.run.position) if self.run.ids else None)
        if len(rows):
            self.seen = True
            found = _Placed.of(batch, entries, rows)
            grows = bool((np.diff(found.ids, prepend=self.last) > 0).all())
            numbers[rows] = self._all_at_once(found) if grows else self._one_by_one(found)
        return numbers

    def _all_at_once(self, found: _Placed) -> Numbers:
        """Return the numbers of entries whose ids grow, as nearly all do."""
        count = len(found.ids)
        starts = np.maximum.accumulate(np.where(found.goes_on(), 0, np.arange(count)))
        before = self.run.ids if found.is_row[0] and self.run.is_of(found.event(0)) else []
        numbers = np.arange(count) - starts
        numbers[starts == 0] += len(before)
        start = int(starts[-1])
        ids = [*(before if start == 0 else ()), *found.ids[start:].tolist()] if found.is_row[-1] else []
        self.run, self.again, self.last = EventRun(*found.event(count - 1), ids), EventRun(), int(found.ids[-1])
        return np.where(found.is_row, numbers, 0)

    def _one_by_one(self, found: _Placed) -> Numbers:
        numbers = np.zeros(len(found.ids), np.int64)
        for place, (sent, is_row) in enumerate(zip(found.ids.tolist(), found.is_row.tolist(), strict=True)):
            event = found.event(place)
            if found.is_mark[place] and self.run.ids and (event[:2] < self.run.event[:2] or sent <= self.last):
                continue
            if is_row and self.run.is_of(event):
                numbers[place] = self.run.number(sent)
            elif sent > self.last or not self.run.ids or event[:2] > self.run.event[:2]:
                self.run, self.again = EventRun(*event, [sent] if is_row else []), EventRun()
                self.last = sent
                continue
            elif is_row and self.again.is_of(event):
                numbers[place] = self.again.number(sent)
            else:
                self.again = EventRun(*event, [sent] if is_row else [])
            self.last = max(self.last, sent)
        return numbers


@dataclass(frozen=True, slots=True)
class _Placed:
    """Entries that are rows or end an event, in columns."""

    is_row: npt.NDArray[np.bool_]
    is_mark: npt.NDArray[np.bool_]
    ids: Numbers
    files: Numbers
    positions: Numbers
    server_ids: Numbers
    gtids: pa.Array

    @classmethod
    def of(cls, batch: pa.RecordBatch, entries: EntryColumns, rows: Numbers) -> _Placed:
        kinds = entries.kinds[rows]
        return cls(
            is_row=kinds == DML,
            is_mark=kinds == CHECKPOINT,
            ids=entries.seq_ids[rows],
            files=entries.files[rows],
            positions=entries.positions[rows],
            server_ids=entries.server_ids[rows],
            gtids=pc.fill_null(batch["gtid"].take(pa.array(rows)), ""),
        )

    def event(self, place: int) -> Event:
        at = (int(self.files[place]), int(self.positions[place]))
        return *at, int(self.server_ids[place]), self.gtids[place].as_py()

    def goes_on(self) -> npt.NDArray[np.bool_]:
        """Return which entries are rows of the event that the entry before is a row of."""
        found = np.zeros(len(self.ids), np.bool_)
        found[1:] = self.is_row[1:] & self.is_row[:-1]
        for column in (self.files, self.positions, self.server_ids):
            found[1:] &= column[1:] == column[:-1]
        found[1:] &= np.asarray(pc.equal(self.gtids[1:], self.gtids[:-1]))
        return found


def first_placed(entries: EntryColumns) -> int | None:
    """Return the first entry with a place in the binlog; None if there is none."""
    rows = np.flatnonzero(entries.placed & (entries.kinds >= 0))
    return int(rows[0]) if len(rows) else None


def rows_before(
    before: Iterable[pa.RecordBatch], decode: Callable[[pa.RecordBatch], Iterable[DecodedBatch]]
) -> EventRows:
    """Return what the messages before a window say of the event that is open behind them.

    ``before`` are the messages, last batch first; only as many are decoded as may say something.
    """
    known: list[DecodedBatch] = []
    messages = marks = 0
    found = EventRows(seen=True)
    for some in _last_first(before):
        known[:0] = decode(some)
        found = EventRows(seen=True)
        for batch, entries in known:
            found.see(batch, entries)
        messages, marks = messages + len(some), sum(int((one.kinds >= CHECKPOINT).sum()) for _, one in known)
        if (messages >= _FEW or marks >= _MARKS) and known and _begins_outside(known[0][1], found.run):
            break
    return found


def _last_first(before: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Yield messages backwards, a few of each batch first."""
    for messages in before:
        end, size = messages.num_rows, _FEW
        while end:
            start = max(0, end - size)
            yield messages.slice(start, end - start)
            end, size = start, size * 16


def _begins_outside(entries: EntryColumns, run: EventRun) -> bool:
    """Tell whether entries begin with something else than a row of an event, so that none before them matters."""
    rows = _ending(entries, (run.file, run.position) if run.ids else None)[:1]
    if not len(rows):
        return False
    row = int(rows[0])
    return not run.ids or entries.kinds[row] != DML or entries.place(row) != (run.file, run.position)


def _ending(entries: EntryColumns, place: tuple[int, int] | None) -> Numbers:
    """Return the entries that are rows or end an event; ``place`` is that of the event before them, if one is open."""
    placed = entries.placed & (entries.kinds >= 0)
    ends = placed & (entries.kinds < CHECKPOINT)
    marks = np.flatnonzero(placed & (entries.kinds == CHECKPOINT))
    if len(marks):
        latest = np.maximum.accumulate(np.where(ends, np.arange(len(entries)), -1))[marks]
        sent = entries.keys[marks] >= entries.keys[np.maximum(latest, 0)]
        for number in np.flatnonzero(latest < 0).tolist():
            sent[number] = place is None or entries.place(int(marks[number])) >= place
        ends[marks[sent.astype(np.bool_)]] = True
    rows: Numbers = np.flatnonzero(ends)
    return rows
