"""The number of each row in its binlog event, where every row is a message of its own.

The rows of an event follow one another in a Kafka partition, at one position and with growing ids. So a row's number is its
place in that run, and a run that a window's border cuts goes on behind it. Whatever else has a place in the binlog ends a run; so
does a CHECKPOINT which says that the event was sent whole, and an id that does not grow: then the rows come again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.entry_columns import CHECKPOINT, DML, EntryColumns, Numbers

_FEW = 256
"""Messages before a window that are looked at first for the begin of an event; most events have fewer rows."""

DecodedBatch = tuple[pa.RecordBatch, EntryColumns]
"""Decoded entries with their columns."""


@dataclass(slots=True)
class EventRows:
    """Numbers the rows of events in one Kafka partition. Feed it every batch of entries in offset order.

    ``rows`` of the event at ``file`` and ``position`` have come, the last one with ``id``; none if the last entry was no row.
    ``seen`` says that the begin of the first event is known.
    """

    file: int = 0
    position: int = 0
    server_id: int = 0
    gtid: str = ""
    id: int = -1
    rows: int = 0
    seen: bool = False

    def see(self, batch: pa.RecordBatch, entries: EntryColumns) -> Numbers:
        """Take note of entries, and return the number of each in its event; 0 for entries that are no rows."""
        numbers = np.zeros(len(entries), np.int64)
        rows = _ending(entries, (self.file, self.position) if self.rows else None)
        if not len(rows):
            return numbers
        self.seen = True
        is_row = entries.kinds[rows] == DML
        keys, ids = entries.keys[rows], entries.seq_ids[rows]
        gtids = pc.fill_null(batch["gtid"].take(pa.array(rows)), "")
        goes_on = np.zeros(len(rows), np.bool_)
        goes_on[1:] = is_row[1:] & is_row[:-1] & (keys[1:] == keys[:-1]) & (ids[1:] > ids[:-1])
        goes_on[1:] &= entries.server_ids[rows[1:]] == entries.server_ids[rows[:-1]]
        goes_on[1:] &= np.asarray(pc.equal(gtids[1:], gtids[:-1]))
        first, last = int(rows[0]), int(rows[-1])
        carried = self.rows if is_row[0] and self._goes_on(entries, first, gtids[0].as_py()) else 0
        starts = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(rows))))
        found = np.arange(len(rows)) - starts
        found[starts == 0] += carried
        numbers[rows[is_row]] = found[is_row]
        self.file, self.position = entries.place(last)
        self.server_id, self.gtid = int(entries.server_ids[last]), gtids[-1].as_py()
        self.id, self.rows = int(ids[-1]), int(found[-1]) + 1 if is_row[-1] else 0
        return numbers

    def _goes_on(self, entries: EntryColumns, row: int, gtid: str) -> bool:
        place = (self.file, self.position, self.server_id, self.gtid)
        same = place == (*entries.place(row), int(entries.server_ids[row]), gtid)
        return self.rows > 0 and same and int(entries.seq_ids[row]) > self.id


def first_row(entries: EntryColumns) -> int | None:
    """Return the row that comes first, if it may go on with an event; None if it cannot, or nothing is known yet."""
    placed = np.flatnonzero(entries.placed & (entries.kinds >= 0) & (entries.kinds < CHECKPOINT))
    if not len(placed) or entries.kinds[placed[0]] != DML:
        return None
    row = int(placed[0])
    return row if int(_ending(entries, entries.place(row))[0]) == row else None


def rows_before(
    before: Iterable[pa.RecordBatch], decode: Callable[[pa.RecordBatch], Iterable[DecodedBatch]], place: tuple[int, int]
) -> EventRows:
    """Return what the messages before a window say of the event at ``place``, with which the window begins.

    ``before`` are the messages, last batch first; only as many are decoded as may have rows of the event.
    """
    known: list[list[DecodedBatch]] = []
    for messages in _last_first(before):
        known.append(list(decode(messages)))
        if any(_begins_behind(entries, place) for _, entries in known[-1]):
            break
    found = EventRows()
    for decoded in reversed(known):
        for batch, entries in decoded:
            found.see(batch, entries)
    return found


def _last_first(before: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Yield messages backwards, a few of each batch first."""
    for messages in before:
        end, size = messages.num_rows, _FEW
        while end:
            start = max(0, end - size)
            yield messages.slice(start, end - start)
            end, size = start, size * 16


def _begins_behind(entries: EntryColumns, place: tuple[int, int]) -> bool:
    """Tell whether entries hold anything that is no row of the event at a place, so that none before it matters."""
    rows = _ending(entries, place)
    files, positions = entries.files[rows], entries.positions[rows]
    return bool(((entries.kinds[rows] != DML) | (files != place[0]) | (positions != place[1])).any())


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
