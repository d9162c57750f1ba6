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
"""Messages that are looked at before a window, or CHECKPOINTs and HEARTBEATs among them.

The last ones alone may all have been sent again. A producer sends a few messages twice, and never those of half a minute.
"""

_FIRST_SEQUENCE = 1
"""The number with which a vendor's task begins to count its messages."""

_MOST_NUMBERINGS = 64
"""Numberings that are told apart in one batch."""

DecodedBatch: TypeAlias = tuple[pa.RecordBatch, EntryColumns]
"""Decoded entries with their columns."""

Mask: TypeAlias = npt.NDArray[np.bool_]

Event: TypeAlias = tuple[int, int, int, str]
"""The facts that all rows of an event share: number of the file, position, server id, GTID."""


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

    def number(self, sent: int, *, told_anew: bool = False) -> int:
        """Take a row of the event by its id, and return its number.

        An id that came before is the same row again. A smaller one that did not come is out of its order, or if the event is
        ``told_anew`` the first of another telling.
        """
        place = bisect_left(self.ids, sent)
        if place < len(self.ids) and self.ids[place] == sent:
            return place
        if told_anew and place < len(self.ids):
            self.ids[:] = [sent]
            return 0
        self.ids.insert(place, sent)
        return len(self.ids) - 1


@dataclass(slots=True)
class EventRows:
    """Numbers the rows of events in one Kafka partition. Feed it every batch of entries in offset order.

    ``run`` is that of the last event, ``again`` that of messages which were sent again since. ``last`` is the greatest id since
    the last event began. ``seen`` says that the begin of the first event is known. ``sequence`` is the greatest ``ps``.
    """

    run: EventRun = field(default_factory=EventRun)
    again: EventRun = field(default_factory=EventRun)
    last: int = -1
    seen: bool = False
    sequence: int = -1

    def repeats(self, sequences: pa.Int64Array) -> Mask:
        """Return which entries come in messages whose numbers were passed, so that a producer has sent them again.

        ``sequences`` are their ``ps`` headers, in offset order.
        """
        if sequences.null_count == len(sequences):
            return np.zeros(len(sequences), np.bool_)
        numbers = pc.fill_null(sequences, -1).to_numpy()
        repeated: list[Mask] = []
        # Each numbering that begins anew stands for itself.
        for part in np.split(numbers, np.flatnonzero(numbers == _FIRST_SEQUENCE)[:_MOST_NUMBERINGS]):
            before = -1 if part[:1].tolist() == [_FIRST_SEQUENCE] else self.sequence
            greatest = np.maximum.accumulate(np.append(before, part))
            repeated.append((part >= 0) & (part <= greatest[:-1]))
            self.sequence = int(greatest[-1])
        found: Mask = np.concatenate(repeated)
        return found

    def see(self, batch: pa.RecordBatch, entries: EntryColumns) -> tuple[Numbers, Mask]:
        """Take note of entries; return the number of each in its event, and which go on with it.

        An entry that is no row has the number 0. A row that is sent again goes on with nothing.
        """
        numbers, goes_on = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.bool_)
        rows = _ending(entries, (self.run.file, self.run.position) if self.run.ids else None)
        if len(rows):
            self.seen = True
            found = _Placed.of(batch, entries, rows)
            grows = bool((np.diff(found.ids, prepend=self.last) > 0).all())
            numbers[rows], goes_on[rows] = self._all_at_once(found) if grows else self._one_by_one(found)
        return numbers, goes_on

    def _all_at_once(self, found: _Placed) -> tuple[Numbers, Mask]:
        """Return the numbers of entries whose ids grow, as nearly all do."""
        count = len(found.ids)
        starts = np.maximum.accumulate(np.where(found.goes_on(), 0, np.arange(count)))
        before = self.run.ids if found.is_row[0] and self.run.is_of(found.event(0)) else []
        numbers = np.arange(count) - starts
        numbers[starts == 0] += len(before)
        start = int(starts[-1])
        ids = [*(before if start == 0 else ()), *found.ids[start:].tolist()] if found.is_row[-1] else []
        self.run, self.again, self.last = EventRun(*found.event(count - 1), ids), EventRun(), int(found.ids[-1])
        return np.where(found.is_row, numbers, 0), found.is_row & (numbers > 0)

    def _one_by_one(self, found: _Placed) -> tuple[Numbers, Mask]:
        numbers, goes_on = np.zeros(len(found.ids), np.int64), np.zeros(len(found.ids), np.bool_)
        for place, (sent, is_row) in enumerate(zip(found.ids.tolist(), found.is_row.tolist(), strict=True)):
            event = found.event(place)
            if found.is_mark[place] and self.run.ids and (event[:2] < self.run.event[:2] or sent <= self.last):
                continue
            if is_row and self.run.is_of(event):
                goes_on[place] = sent > self.run.ids[-1]
                numbers[place] = self.run.number(sent, told_anew=self.again != EventRun())
            elif sent > self.last or not self.run.ids or event[:2] > self.run.event[:2]:
                self.run, self.again = EventRun(*event, [sent] if is_row else []), EventRun()
                self.last = sent
                continue
            elif is_row and self.again.is_of(event):
                numbers[place] = self.again.number(sent)
            else:
                self.again = EventRun(*event, [sent] if is_row else [])
            self.last = max(self.last, sent)
        return numbers, goes_on


@dataclass(frozen=True, slots=True)
class _Placed:
    """Entries that are rows or end an event, in columns."""

    is_row: Mask
    is_mark: Mask
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

    def goes_on(self) -> Mask:
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
    """Tell whether entries begin with something else than a row of an event.

    Then none before them matters.
    """
    rows = _ending(entries, (run.file, run.position) if run.ids else None)[:1]
    if not len(rows):
        return False
    row = int(rows[0])
    return not run.ids or entries.kinds[row] != DML or entries.place(row) != (run.file, run.position)


def _ending(entries: EntryColumns, place: tuple[int, int] | None) -> Numbers:
    """Return the entries that are rows or end an event.

    ``place`` is that of the event before them, if one is open.
    """
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
