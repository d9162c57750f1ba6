"""The columns that DML events describe, found in the bytes of entries and compared as bytes.

A row that is sent alone comes with the description of all columns of its table, and a parser copies every one of them. Nearly all
entries are written in one layout: header and event, operation, columns, rows, each in the order of its number and nothing beside
it. Where all entries of a call are, their columns are compared with those of the first entry of their table, then the rest with
those of the first that is left. Where few have equal columns, tag and length of the first column of every entry are read at once,
then those of the second, and so on. The parser passes over columns then. Other entries are left to it whole, and both ways give
the same (document 571/55396, Entry, Event, DMLEvent).

A step costs the same however few entries take part, so a call of few entries, or of one with very many rows, is left to the
parser, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import (
    Bools,
    binary_array,
    joint_codes,
    offsets_of,
    varints,
)

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Places: TypeAlias = npt.NDArray[np.int64]

_HEADER, _EVENT = 0x0A, 0x12  # tags in an Entry
_BEGIN, _DML, _COMMIT = 0x0A, 0x12, 0x1A  # in an Event
_OPERATION, _COLUMN, _ROW = 0x08, 0x12, 0x1A  # in a DMLEvent

_MOST_LENGTH_BYTES = 5
_BEYOND = 1 << 40
"""A length that ends beyond all bytes, for one that cannot be read."""

PER_STEP = 64
"""The entries that must take part in a step on the average.

A step takes some 50 microseconds at least, and the parser some 0.1 for a value.
"""

_FIRST_STEPS = 16
"""The steps that are made before the average counts."""

_COMMON = 4
"""Entries are compared with others of their tables if one in so many has the same columns."""

_FEW_LISTS = 8
"""So many lists of columns are compared one after the other, without copies."""

_LEAST_IN_STEP = 32
"""The first events of so many tables are walked in step, and fewer one by one."""


@dataclass(frozen=True, slots=True)
class Described:
    """The columns that entries describe: a number for each entry, and the bytes of each number's columns.

    The bytes have the columns' tags and lengths among them, and ``sizes`` is how many an entry has. ``rows`` is the number of its
    rows. ``are_dml`` marks DML events; another event has neither columns nor rows.
    """

    are_dml: Bools
    codes: npt.NDArray[np.int64]
    columns: list[bytes]
    sizes: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]

    def take(self, some: npt.NDArray[np.int64]) -> Described:
        """Return the columns of some entries."""
        return Described(self.are_dml[some], self.codes[some], self.columns, self.sizes[some], self.rows[some])


def described_columns(events: Events, tables: _Places | None = None) -> Described | None:
    """Return the columns that entries describe, None where an entry is of another layout.

    ``tables`` has the number of each entry's table, where it is known: entries of a table nearly always describe the same
    columns. None also says that there are too few entries for a walk.
    """
    tables = np.zeros(len(events.ends), np.int64) if tables is None else tables
    found = _described(events, tables)
    if found is None:
        return None
    codes, known, behind = found
    rows = _counted_rows(events.data, behind, events.ends)
    if rows is None:
        return None
    return Described(events.are_dml, codes, known, (behind - events.begins).astype(np.int32), rows)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of entries.

    Each is a DML event or not, and has an operation, a place where its columns begin, and a place where it ends.

    Another event has no columns, and begins at its end; its operation is 0, as where none is sent. ``are_usual`` says that all
    events are DML, BEGIN or COMMIT events with nothing beside them.
    """

    payloads: pa.BinaryArray
    data: _Bytes
    are_dml: Bools
    operations: npt.NDArray[np.int32]
    begins: _Places
    ends: _Places
    are_usual: bool

    def take(self, some: npt.NDArray[np.int64]) -> Events:
        """Return some events, with a copy of their entries."""
        payloads = self.payloads.take(pa.array(some))
        places = offsets_of(payloads)[1:].astype(np.int64)
        begins = places - (self.ends[some] - self.begins[some])
        buffer = payloads.buffers()[2]
        data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
        return Events(payloads, data, self.are_dml[some], self.operations[some], begins, places, self.are_usual)


def find_events(payloads: pa.BinaryArray) -> Events | None:
    """Return the events of entries, None where an entry is of another layout or entries are too few."""
    buffer = payloads.buffers()[2]
    if len(payloads) < PER_STEP or payloads.null_count or buffer is None or buffer.size < 8:
        return None
    data, offsets = np.frombuffer(buffer, np.uint8), offsets_of(payloads).astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    tags, _, behind = fields_at(data, begins)
    event_tags, inside, event_ends = fields_at(data, behind)
    if not ((tags == _HEADER) & (event_tags == _EVENT) & (event_ends == ends)).all():
        return None
    tags, at, dml_ends = fields_at(data, inside)
    are_dml = (tags == _DML) & (inside < ends)
    told = are_dml & (at < ends) & (data.take(at, mode="clip") == _OPERATION)
    operations = data.take(at + 1, mode="clip") * told
    long = operations >= 0x80
    begins = at + 2 * told
    if not (~are_dml | ((dml_ends == ends) & ~long & (begins <= ends))).all():
        return None
    usual = are_dml | (((tags == _BEGIN) | (tags == _COMMIT)) & (dml_ends == ends))
    operations = operations.astype(np.int32)
    return Events(payloads, data, are_dml, operations, np.where(are_dml, begins, ends), ends, bool(usual.all()))


def _described(events: Events, tables: _Places) -> tuple[_Places, list[bytes], _Places] | None:
    """Return a number for each event's columns, the bytes of each number's columns, and the places behind them.

    None where the layout is another, or where a walk is not worth it.
    """
    codes, behind = np.where(events.are_dml, -1, 0), events.begins.copy()
    known = {b"": 0}  # what all other events have
    left = np.flatnonzero(events.are_dml)
    while len(left):
        expected = _expected(events, left, tables[left])
        if expected is None:
            return None
        same, ends, columns = expected
        if len(same) * _COMMON < len(left):
            break
        numbers = {table: known.setdefault(data, len(known)) for table, data in columns.items()}
        of_table = np.zeros(max(numbers) + 1, np.int64)
        of_table[list(numbers)] = list(numbers.values())
        codes[same], behind[same] = of_table[tables[same]], ends
        left = left[codes[left] < 0]
    if len(left):
        walked = _behind_columns(events.data, events.begins[left], events.ends[left], least=PER_STEP)
        if walked is None:
            return None
        behind[left] = walked
        pieces = _between(events.payloads, events.begins[left], walked)
        of_left, first = joint_codes(pieces)
        distinct = [known.setdefault(data, len(known)) for data in pieces.take(pa.array(first)).to_pylist()]
        codes[left] = np.asarray(distinct)[of_left]
    return codes, list(known), behind


def _expected(events: Events, left: _Places, tables: _Places) -> tuple[_Places, _Places, dict[int, bytes]] | None:
    """Return the entries that have the columns of the first entry of their table.

    Then the places behind these columns, and the bytes of each table's. ``left`` are the entries that are looked at, ``tables``
    their tables. None where the layout is another.
    """
    first = np.full(int(tables.max()) + 1, -1)
    first[tables[::-1]] = left[::-1]  # the last that is written stays
    found = np.flatnonzero(first >= 0)
    found = found[np.argsort(first[found])]  # in the order of their bytes
    begins, ends = events.begins[first[found]], events.ends[first[found]]
    walked = _behind_columns_of_few(events.data, begins, ends)
    if walked is None:
        return None
    numbers, columns = np.zeros(len(first), np.int64), _between(events.payloads, begins, walked)
    numbers[found] = np.arange(len(found))
    lengths, begins, ends = walked - begins, events.begins[left], events.ends[left]
    behind = begins + lengths[numbers[tables]]
    fits = (behind == ends) | ((behind < ends) & (events.data.take(behind, mode="clip") == _ROW))
    if not fits.any():
        return None
    if not fits.all():
        left, tables, begins, behind = left[fits], tables[fits], begins[fits], behind[fits]
    same = _are_equal(events.payloads, begins, behind, columns, numbers[tables])
    if not same.all():
        left, behind = left[same], behind[same]
    return left, behind, dict(zip(found.tolist(), columns.to_pylist(), strict=True))


def _behind_columns_of_few(data: _Bytes, begins: _Places, ends: _Places) -> _Places | None:
    """Return what :func:`_behind_columns` returns, for events of which each stands for many."""
    if len(begins) >= _LEAST_IN_STEP:
        return _behind_columns(data, begins, ends, least=_LEAST_IN_STEP // 2)
    events = (data[begin:end].tobytes() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True))
    return begins + np.fromiter(map(_length_of_columns, events), np.int64, len(begins))


def _length_of_columns(event: bytes) -> int:
    """Return the bytes of the columns with which an event begins, as far as they can be read."""
    at = 0
    while at + 1 < len(event) and event[at] == _COLUMN:
        size, behind = event[at + 1], at + 2
        if size >= 0x80 and behind < len(event):  # a description of more than 127 bytes
            size, behind = size & 0x7F | event[behind] << 7, behind + 1
        if size >= 1 << 14 or behind + size > len(event):
            break
        at = behind + size
    return at


def _behind_columns(data: _Bytes, begins: _Places, ends: _Places, *, least: int) -> _Places | None:
    """Return the places behind the columns of events.

    None where the layout is another, or where fewer than ``least`` events take part in a step on the average.
    """
    found, left, at, stop = begins.copy(), np.arange(len(begins)), begins, ends
    steps = taken = 0
    while True:
        tags, _, behind = fields_at(data, at)
        going = (tags == _COLUMN) & (at < stop)
        if not going.all():
            found[left[~going]] = at[~going]
            left, behind, stop = left[going], behind[going], stop[going]
        if not len(left):
            return found
        if (behind > stop).any():
            return None
        at, steps, taken = behind, steps + 1, taken + len(left)
        if are_too_few(taken, steps, least):
            return None


def _counted_rows(data: _Bytes, begins: _Places, ends: _Places) -> npt.NDArray[np.int32] | None:
    """Return how many rows stand between some places.

    None where something else stands there, or where a walk is not worth it.
    """
    at, stop, left = begins, ends, np.arange(len(begins))
    rows = np.zeros(len(begins), np.int32)
    steps = taken = 0
    while True:
        going = at < stop
        if not going.all():
            rows[left[~going]] = steps
            at, stop, left = at[going], stop[going], left[going]
        if not len(at):
            return rows
        steps, taken = steps + 1, taken + len(at)
        tags, _, at = fields_at(data, at)
        if not ((tags == _ROW) & (at <= stop)).all() or are_too_few(taken, steps, PER_STEP):
            return None


def are_too_few(taken: int, steps: int, least: int) -> bool:
    """Tell whether fewer than ``least`` take part in a step on the average.

    A walk is not worth it then.
    """
    return steps > _FIRST_STEPS and taken < steps * least


def fields_at(data: _Bytes, at: _Places) -> tuple[_Bytes, _Places, _Places]:
    """Return the tags of the fields at some places, and where their contents begin and end.

    Beyond the end of all bytes the last byte is read; then the end does not fit what is around it.
    """
    tags, lengths = data.take(at, mode="clip"), data.take(at + 1, mode="clip")
    begins = at + 2
    ends = begins + lengths
    long = np.flatnonzero(lengths >= 0x80)
    if len(long):
        mine = at[long] + 2
        second = data.take(mine, mode="clip").astype(np.int64)
        begins[long], ends[long] = mine + 1, mine + 1 + (lengths[long] & 0x7F) + (second << 7)
        longer = long[second >= 0x80]
        if len(longer):
            every = np.ones(len(longer), np.bool_)
            size, behind, endless = varints(data, at[longer] + 1, every, most=_MOST_LENGTH_BYTES)
            begins[longer], ends[longer] = behind, behind + np.where(endless, _BEYOND, size)
    return tags, begins, ends


def _are_equal(
    payloads: pa.BinaryArray, begins: _Places, ends: _Places, columns: pa.BinaryArray, numbers: _Places
) -> Bools:
    """Tell whether the bytes of each entry from one place to another are the columns of its number.

    Those of few numbers are compared where they stand, number by number; bytes that differ mostly do so at once.
    """
    if len(columns) > _FEW_LISTS:
        same = pc.equal(_between(payloads, begins, ends), columns.take(pa.array(numbers)))
        return same.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    found = np.zeros(len(begins), np.bool_)
    pieces = _with_gaps(payloads, begins, ends)
    for number, wanted in enumerate(columns):
        found |= pc.equal(pieces, wanted).to_numpy(zero_copy_only=False)[::2] & (numbers == number)
    return found


def _between(payloads: pa.BinaryArray, begins: _Places, ends: _Places) -> pa.BinaryArray:
    """Return the bytes of each entry from one place to another."""
    return _with_gaps(payloads, begins, ends).take(pa.array(np.arange(0, 2 * len(begins), 2)))


def _with_gaps(payloads: pa.BinaryArray, begins: _Places, ends: _Places) -> pa.BinaryArray:
    """Return the bytes of each entry from one place to another.

    Behind each stand those up to the next entry's.
    """
    bounds = np.empty(2 * len(begins) + 1, np.int32)
    bounds[:-1:2], bounds[1::2], bounds[-1] = begins, ends, ends[-1]
    return binary_array(pa.binary(), bounds, payloads.buffers()[2], None)
