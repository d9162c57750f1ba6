"""A hash of changelog rows that says whether two computations of a window gave the same rows.

It is a sum over rows, so that partitions and batches add up in any order, of a hash of each row's values by column name. A column
that was added since is null in old rows and does not count; numbers count by their value, whatever their width, and a value
by the type that its own event had. So neither another type of a column nor the order of columns changes the hash.

Every column is hashed at once, by multiplications and shifts of 64-bit numbers in numpy. Writing each row out as text for a
library's hash took a third of the time of decoding it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import numbers_of, offsets_of

Hashes: TypeAlias = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_LONG = 1024
"""Bytes from which on a value is hashed for itself.

Hashing in step takes as many steps as the longest value has words.
"""

_MOST_ITEMS = 1 << 16
"""The most items of lists and maps that are objects of Python at a time.

A single list may have more.
"""

_SHIFT = np.uint64(32)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio, as in SplitMix64
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # spreads well with shifts by 32
_TAILS = np.array([(1 << (8 * size)) - 1 for size in range(8)], np.uint64)


def row_hashes(rows: pa.RecordBatch, own: Mapping[str, Sequence[pa.Array]] = MappingProxyType({})) -> Hashes:
    """Return the hash of every row.

    ``own`` has the values of columns of the images as their events had them (``after.n``), an array for each type. They count in
    the place of the values in ``rows``, whose type another event may have changed.
    """
    total = np.zeros(rows.num_rows, np.uint64)
    if rows.num_rows:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            for leaf, values in _leaves(name, column):
                for part in own.get(leaf, (values,)):
                    total += _of_lists(leaf, part) if _is_list(part.type) else _of_column(leaf, part)
    return _mixed(total)


def summed(hashes: Hashes) -> int:
    """Return the sum of hashes as a signed 64-bit number."""
    return signed(int(np.sum(hashes, dtype=np.uint64)))


def signed(number: int) -> int:
    """Fold a sum of hashes into the range of a lake bigint."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


def _leaves(name: str, column: pa.Array) -> list[tuple[str, pa.Array]]:
    """Return the columns under a column, by their whole name. Empty lists and maps count as null."""
    if pa.types.is_struct(column.type):
        children = zip(column.type, column.flatten(), strict=True)
        return [leaf for child, values in children for leaf in _leaves(f"{name}.{child.name}", values)]
    if _is_list(column.type) and column.offsets[0].as_py() == column.offsets[-1].as_py():  # nothing in any of them
        return []
    return [(name, column)]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind) or pa.types.is_list(kind))


def _of_lists(name: str, column: pa.Array) -> Hashes:
    """Return a hash of the text of each list or map.

    Some are read at a time: as objects of Python they take very much memory.
    """
    ends, start, found = column.offsets.to_numpy(), 0, []
    while start < len(column):
        end = max(start + 1, int(np.searchsorted(ends, ends[start] + _MOST_ITEMS, side="right")) - 1)
        values = column.slice(start, end - start).to_pylist()
        texts = [repr(sorted(value)) if value else None for value in values]
        found.append(_of_column(name, pa.array(texts, pa.string())))
        start = end
    return np.concatenate(found)


def _of_column(name: str, column: pa.Array) -> Hashes:
    """Return a hash of each value and the column's name, 0 where the value is null."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.uint64)
    hashes = _values(column) + _seed(name)
    hashes ^= hashes >> _SHIFT
    hashes *= _MULTIPLIER
    hashes ^= hashes >> _SHIFT
    if column.null_count:
        hashes *= _valid(column)
    return hashes


def _valid(column: pa.Array) -> Hashes:
    """Return 1 for each value, 0 for each null."""
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    first = column.offset >> 3
    flags = np.unpackbits(bits[first : (column.offset + len(column) + 7) >> 3], bitorder="little")
    return flags[column.offset & 7 :][: len(column)].astype(np.uint64)


@lru_cache(maxsize=4096)
def _seed(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def _mixed(numbers: Hashes) -> Hashes:
    """Return numbers in which every bit depends on every bit of the given ones."""
    mixed = numbers ^ (numbers >> _SHIFT)
    for _ in range(2):
        mixed *= _MULTIPLIER
        mixed ^= mixed >> _SHIFT
    return mixed


def _values(column: pa.Array) -> Hashes:
    """Return a 64-bit number for each value, any number for nulls.

    Floats go by way of double and instants by way of microseconds.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(column)
    if pa.types.is_decimal(kind):
        return _of_decimals(column)
    if pa.types.is_floating(kind):
        return numbers_of(column).astype(np.float64).view(np.uint64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_timestamp(kind):
        column = (column if kind.unit == "us" else column.cast(pa.timestamp("us", kind.tz))).view(pa.int64())
    elif pa.types.is_date(kind):
        column = column.view(pa.int32())
    return numbers_of(column).astype(np.int64).view(np.uint64)


def _of_decimals(column: pa.Array) -> Hashes:
    """Return the digits as a number, equal to the bigint of that value if there is one."""
    words = np.frombuffer(column.buffers()[1], np.uint64, count=2 * len(column), offset=16 * column.offset)
    low, high = words[::2], words[1::2]
    sign = (low.view(np.int64) >> 63).view(np.uint64)
    return low + (high - sign) * _ODD


def _of_bytes(column: pa.Array) -> Hashes:
    """Hash all values in step, eight bytes at a time.

    The longest come first, so that those that still go on are always the first ones.
    """
    offsets = offsets_of(column).astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    data = _with_a_word_more(column.buffers()[2], int(offsets[-1]))
    long = np.flatnonzero(sizes > _LONG)
    sizes[long] = 0
    order = None
    if sizes.min(initial=0) != sizes.max(initial=0):
        order = np.argsort((_LONG - sizes).astype(np.uint16), kind="stable")
        starts, sizes = starts[order], sizes[order]
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    hashes = sizes.astype(np.uint64) * _ODD
    ascending = -sizes
    for at in range(0, int(sizes[0]) if len(sizes) else 0, 8):
        going = int(np.searchsorted(ascending, -at, side="left"))
        whole = int(np.searchsorted(ascending, -at - 8, side="right"))
        word = words[starts[:going] + at]
        word[whole:] &= _TAILS[sizes[whole:going] - at]
        word ^= hashes[:going]
        word *= _MULTIPLIER
        word ^= word >> _SHIFT
        hashes[:going] = word
    made = hashes
    if order is not None:
        made = np.empty_like(hashes)
        made[order] = hashes
    for one in long:
        value = data.data[int(offsets[one]) : int(offsets[one + 1])]
        made[one] = int.from_bytes(hashlib.sha256(value).digest()[:8], "little")
    return made


def _with_a_word_more(buffer: pa.Buffer | None, end: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of a buffer with at least eight behind ``end``.

    The last word of a value may reach beyond it.
    """
    if buffer is not None and buffer.size >= end + 8:
        return np.frombuffer(buffer, np.uint8)
    data = np.zeros(end + 8, np.uint8)
    if buffer is not None:
        data[:end] = np.frombuffer(buffer, np.uint8, count=end)
    return data
