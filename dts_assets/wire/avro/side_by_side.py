"""Avro values of many messages side by side: one step reads the next value of all messages.

An Avro value says neither its type nor its length, so that a message has to be read from its beginning. A parser does so message
by message and makes an object for each value. Messages of one schema have their fields in one order, so here each step over whole
arrays reads one field of all messages; only where messages differ, in the branch of a union or the length of an array, a step
concerns some of them. The cost is that of the steps, and grows little with the number of messages.

A message whose bytes are no value of its schema is marked as failed, and reads nothing from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dts_assets.wire.avro.schema import Type
from dts_assets.wire.columns.buffers import Bools

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_BITS, _MOST_BITS = 7, 70
_MORE, _DIGITS = 0x80, np.uint64(0x7F)
"""The mark of a byte that another one follows, and the mask of its bits."""

_MOST_ITEMS = 1 << 14
"""Items of an array or map, beyond which a message counts as failed: each takes a step.

MySQL's tables have 4096 columns at most.
"""

_DEEPEST = 64
"""Types inside one another, beyond which a message counts as failed: a schema may refer to itself."""

ROOM = 16
"""Bytes that stand behind the last message, so that a step may read beyond its end."""


class Messages:
    """The bytes of messages, one behind the other, and which of them have failed."""

    def __init__(self, data: Bytes, ends: Ints) -> None:
        """Take ``data`` with :data:`ROOM` bytes at its end, and where each message ends."""
        self.data = data
        self.ends = ends
        self.failed: Bools = np.zeros(len(ends), np.bool_)

    def fail(self, rows: Ints, wrong: Bools, at: Ints) -> Ints:
        """Mark messages as failed where ``wrong``, and return places with these messages at their end."""
        if not wrong.any():
            return at
        self.failed[rows[wrong]] = True
        return np.where(wrong, self.ends[rows], at)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers, booleans, or the places of symbols in an enum."""

    values: npt.NDArray[Any]

    def take(self, rows: Ints) -> Numbers:
        """Return some values, in this order."""
        return Numbers(self.values[rows])


@dataclass(frozen=True, slots=True)
class Slices:
    """Texts and bytes: where each begins and ends in the data."""

    starts: Ints
    ends: Ints

    def take(self, rows: Ints) -> Slices:
        """Return some values, in this order."""
        return Slices(self.starts[rows], self.ends[rows])


@dataclass(frozen=True, slots=True)
class Fields:
    """Records: a column for each field that was asked for."""

    columns: Mapping[str, Column]

    def take(self, rows: Ints) -> Fields:
        """Return some values, in this order."""
        return Fields({name: column.take(rows) for name, column in self.columns.items()})


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of a union: the branch of each, and the values of each branch in their order."""

    branches: Ints
    columns: Mapping[int, Column]

    def take(self, rows: Ints) -> Choices:
        """Return some values, in this order."""
        branches = self.branches[rows]
        taken = {}
        for branch, column in self.columns.items():
            places = np.cumsum(self.branches == branch) - 1
            taken[branch] = column.take(places[rows[branches == branch]])
        return Choices(branches, taken)

    def of(self, branch: int) -> tuple[Ints, Column | None]:
        """Return the values that have a branch: their numbers, and their column, None if there are none."""
        return np.flatnonzero(self.branches == branch), self.columns.get(branch)


@dataclass(frozen=True, slots=True)
class Lists:
    """Arrays and maps: the length of each, and all items one behind the other. ``keys`` are those of maps."""

    counts: Ints
    items: Column
    keys: Slices | None = None

    def take(self, rows: Ints) -> Lists:
        """Return some values, in this order."""
        firsts = np.cumsum(self.counts) - self.counts
        counts = self.counts[rows]
        inside = np.repeat(firsts[rows] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        return Lists(counts, self.items.take(inside), None if self.keys is None else self.keys.take(inside))


@dataclass(frozen=True, slots=True)
class Nothing:
    """Values that were passed over, or nulls."""

    def take(self, rows: Ints) -> Nothing:
        """Return as many values as there are rows."""
        return self


Column: TypeAlias = Numbers | Slices | Fields | Choices | Lists | Nothing
Wanted: TypeAlias = "Mapping[str, Wanted] | Extent | None"
"""The fields of a record that are asked for, by name; None asks for all.

With each field stands what is asked for of its value. What is asked for of an array or a union is asked for of each item or
branch. A field that is not named is passed over.
"""


class Extent(Enum):
    """A value that is asked for as bytes: where it begins and ends, whatever is in it."""

    BYTES = "bytes"


LENGTHS: Mapping[str, Wanted] = {}
"""The wish for a value that is passed over.

Of an array or a map its length is told all the same, and nothing of its items.
"""


def read(kind: Type, messages: Messages, starts: Ints, wanted: Wanted = None) -> tuple[Column, Ints]:
    """Return a value of a type from each message, and where it ends.

    Of a failed message the value means nothing.
    """
    return _read(kind, messages, np.arange(len(starts)), starts, wanted, 0)


def _read(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    if depth > _DEEPEST:
        return Nothing(), messages.fail(rows, np.ones(len(rows), np.bool_), at)
    if isinstance(wanted, Extent):
        _, end = _read(kind, messages, rows, at, LENGTHS, depth)
        return Slices(at, np.maximum(at, end)), end
    return _READERS[kind.kind](kind, messages, rows, at, wanted, depth + 1)


def varint(messages: Messages, rows: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Return the zigzag number that begins at each place, and where it ends."""
    first = messages.data.take(at)
    end = at + 1
    if len(first) and first.max() >= _MORE:
        values, end = _long_varint(messages, rows, first, end)
    else:
        values = _ONE_BYTE.take(first)
    return values, messages.fail(rows, end > messages.ends.take(rows), end)


def _long_varint(messages: Messages, rows: Ints, first: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return numbers of any length from their first bytes and the places behind these, and where they end."""
    data = messages.data
    numbers = first.astype(np.uint64)
    going = np.flatnonzero(first >= _MORE)
    numbers[going] &= _DIGITS
    places = at[going]
    # A number that does not end in its message ends in the room behind it.
    for shift in range(_BITS, _MOST_BITS, _BITS):
        digits = data[places]
        numbers[going] |= (digits.astype(np.uint64) & _DIGITS) << np.uint64(shift)
        places = places + 1
        at[going] = places
        more = np.flatnonzero(digits >= (_MORE if shift + _BITS < _MOST_BITS else 2))  # the last one has one bit left
        going, places = going[more], places[more]
        if not len(going):
            break
    if len(going):
        endless = np.zeros(len(rows), np.bool_)
        endless[going] = True
        at = messages.fail(rows, endless, at)
    return _signed(numbers), at


def _signed(numbers: npt.NDArray[np.uint64]) -> Ints:
    """Return the numbers that zigzag numbers stand for: 0, -1, 1 and -2 for 0 to 3."""
    values: Ints = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
    return values


_ONE_BYTE = _signed(np.arange(256, dtype=np.uint64))
"""The number that each byte stands for which no other byte follows."""


def _null(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    return Nothing(), at


def _long(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    values, at = varint(messages, rows, at)
    return Numbers(values), at


def _enum(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    values, at = varint(messages, rows, at)
    wrong = (values < 0) | (values >= len(kind.symbols))
    return Numbers(np.where(wrong, 0, values)), messages.fail(rows, wrong, at)


def _fixed_width(dtype: str) -> Callable[..., tuple[Column, Ints]]:
    size = np.dtype(dtype).itemsize

    def reader(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
        windows = np.ndarray((len(messages.data) - size + 1,), dtype, buffer=messages.data.data, strides=(1,))
        values = windows[at]
        end = messages.fail(rows, at + size > messages.ends[rows], at + size)
        if dtype == "u1":
            return Numbers(values == 1), messages.fail(rows, values > 1, end)
        return Numbers(values), end

    return reader


def _slice(messages: Messages, rows: Ints, at: Ints, sizes: Ints) -> tuple[Slices, Ints]:
    ends = messages.ends[rows]
    wrong = (sizes < 0) | (sizes > ends - at)
    if wrong.any():
        sizes = np.where(wrong, 0, sizes)
        found = Slices(at, at + sizes)
        return found, messages.fail(rows, wrong, at + sizes)
    end = at + sizes
    return Slices(at, end), end


def _bytes(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    sizes, at = varint(messages, rows, at)
    return _slice(messages, rows, at, sizes)


def _fixed(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    return _slice(messages, rows, at, np.full(len(at), kind.size))


def _record(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    columns: dict[str, Column] = {}
    for field in kind.fields:
        passed = isinstance(wanted, Mapping) and field.name not in wanted
        inside = LENGTHS if passed else wanted[field.name] if isinstance(wanted, Mapping) else None
        column, at = _read(field.type, messages, rows, at, inside, depth)
        if not passed:
            columns[field.name] = column
    return Fields(columns), at


def _union(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    branches, at = varint(messages, rows, at)
    wrong = (branches < 0) | (branches >= len(kind.items))
    if wrong.any():
        at, branches = messages.fail(rows, wrong, at), np.where(wrong, -1, branches)
    columns: dict[int, Column] = {}
    first = int(branches[0]) if len(branches) else 0
    if len(branches) and first >= 0 and bool((branches == first).all()):
        columns[first], at = _read(kind.items[first], messages, rows, at, wanted, depth)
        return Choices(branches, columns), at
    for branch in np.flatnonzero(np.bincount(branches + 1, minlength=1)[1:]).tolist():
        mine = np.flatnonzero(branches == branch)
        columns[branch], at[mine] = _read(kind.items[branch], messages, rows[mine], at[mine], wanted, depth)
    return Choices(branches, columns), at


def _list(kind: Type, messages: Messages, rows: Ints, at: Ints, wanted: Wanted, depth: int) -> tuple[Column, Ints]:
    """Read arrays and maps item by item: item ``n`` of all of them is read in one step."""
    at = at.copy()
    counts = np.zeros(len(rows), np.int64)
    left = np.zeros(len(rows), np.int64)
    going = np.arange(len(rows))
    parts: list[tuple[Ints, Ints, Column]] = []
    keys: list[Column] = []
    while len(going):
        new = going[left[going] == 0]
        if len(new):
            sizes, places = varint(messages, rows[new], at[new])
            negative = np.flatnonzero(sizes < 0)
            if len(negative):  # the block's bytes are told, too
                sizes[negative] = -sizes[negative]
                _, places[negative] = varint(messages, rows[new[negative]], places[negative])
            # An item without bytes would let a few bytes stand for any number of items.
            wrong = (sizes < 0) | (sizes > messages.ends[rows[new]] - places) | (sizes > _MOST_ITEMS - counts[new])
            places = messages.fail(rows[new], wrong, places)
            left[new], at[new] = np.where(wrong, 0, sizes), places
            going = going[left[going] > 0]
            if not len(going):
                break
        if kind.kind == "map":
            key, at[going] = _bytes(kind, messages, rows[going], at[going], None, depth)
            keys.append(key)
        column, at[going] = _read(kind.items[0], messages, rows[going], at[going], wanted, depth)
        if wanted is not LENGTHS:
            parts.append((going, counts[going], column))
        counts[going] += 1
        left[going] -= 1
        failed = messages.failed[rows[going]]
        if failed.any():
            going = going[~failed]
    if not parts:
        return Lists(counts, Nothing(), Slices(at[:0], at[:0]) if kind.kind == "map" else None), at
    firsts = np.cumsum(counts) - counts
    places = np.concatenate([firsts[owners] + numbers for owners, numbers, _ in parts])
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    items = concat([column for _, _, column in parts]).take(order)
    found = concat(keys).take(order) if keys else None
    return Lists(counts, items, found if isinstance(found, Slices) else None), at


def concat(columns: Sequence[Column]) -> Column:
    """Return columns of one kind as one column."""
    first = columns[0]
    if len(columns) == 1 or isinstance(first, Nothing):
        return first
    if isinstance(first, Numbers):
        return Numbers(np.concatenate([one.values for one in columns if isinstance(one, Numbers)]))
    if isinstance(first, Slices):
        slices = [one for one in columns if isinstance(one, Slices)]
        return Slices(np.concatenate([one.starts for one in slices]), np.concatenate([one.ends for one in slices]))
    if isinstance(first, Fields):
        records = [one for one in columns if isinstance(one, Fields)]
        return Fields({name: concat([one.columns[name] for one in records]) for name in first.columns})
    if isinstance(first, Choices):
        unions = [one for one in columns if isinstance(one, Choices)]
        branches = sorted({branch for one in unions for branch in one.columns})
        found = {
            branch: concat([one.columns[branch] for one in unions if branch in one.columns]) for branch in branches
        }
        return Choices(np.concatenate([one.branches for one in unions]), found)
    lists = [one for one in columns if isinstance(one, Lists)]
    keys = [one.keys for one in lists if one.keys is not None]
    items = [one.items for one in lists if int(one.counts.sum())] or [lists[0].items]
    joined = concat(keys) if keys else None
    counts = np.concatenate([one.counts for one in lists])
    return Lists(counts, concat(items), joined if isinstance(joined, Slices) else None)


_READERS: Mapping[str, Callable[..., tuple[Column, Ints]]] = {
    "null": _null, "boolean": _fixed_width("u1"), "int": _long, "long": _long, "float": _fixed_width("<f4"),
    "double": _fixed_width("<f8"), "bytes": _bytes, "string": _bytes, "fixed": _fixed, "enum": _enum, "record": _record,
    "union": _union, "array": _list, "map": _list,
}  # fmt: skip
