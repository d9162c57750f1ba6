"""Values as the vendor's producer writes them, read in the same steps for all at once instead of by a parser one by one.

A value is a data type, a character set for text, and its bytes, in this order; NULL is nothing at all. Whatever else stands in
any message is left to the parser; both ways give the same images. Measured on
30 columns: a quarter less time than parsing values in columns takes, and two thirds less than protobuf's own parser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import Bools, binary_array, offsets_of

_DATA_TYPE, _CHARSET, _SV, _BV = 0x08, 0x12, 0x1A, 0x22  # tags
_LAST_KNOWN = 14
# By DataType: the tag of the field that its values stand in, 0 for NIL and NA, which have none.
_TAGS = np.array([0, *[_SV] * 10, _BV, _SV, _BV, 0], np.uint8)

_HEAD, _NAME = 2, 4  # bytes before a value's own field, and before the name of its character set
_UTF8MB4 = b"utf8mb4"
_NAME_WORD = np.uint64(int.from_bytes(_UTF8MB4, "little"))
_NAME_MASK = np.uint64((1 << 8 * len(_UTF8MB4)) - 1)
_BLOCK = 1 << 16
"""Values at a time, so that what is worked on stays in the processor's cache."""
_MOST_LENGTH_BYTES = 5
_AHEAD = 16  # how far beyond a place is looked

_Byte: TypeAlias = Callable[[npt.NDArray[np.int64], int], npt.NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values one after the other: ``types`` by number, ``values`` with two elements for each, what stands before it and itself.

    ``names`` are their character sets; None if every one is utf8mb4 or has no name.
    """

    types: npt.NDArray[np.uint8]
    values: pa.BinaryArray
    names: pa.BinaryArray | None


def plain_values(messages: pa.BinaryArray) -> PlainValues | None:
    """What ``Data`` messages hold if every one is of the usual layout, else None. One empty NULL more is added at the end."""
    buffer, offsets = messages.buffers()[2], offsets_of(messages)
    count = len(offsets) - 1
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    if len(data) < _AHEAD:
        data = np.append(data, np.zeros(_AHEAD - len(data), np.uint8))
    types = np.zeros(count + 1, np.uint8)
    # What lies between two values becomes an element of its own, so that no value is copied.
    bounds = np.full(2 * count + 3, offsets[-1], np.int32)
    name_sizes = np.zeros(count, np.uint8)
    other_names = False
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        block = _block(data, offsets[first : last + 1])
        if block is None:
            return None
        types[first:last], bounds[2 * first + 1 : 2 * last : 2], name_sizes[first:last], others = block
        other_names |= others
    bounds[0:1] = offsets[:1]
    bounds[2 : 2 * count + 1 : 2] = offsets[1:]
    values = binary_array(pa.binary(), bounds, buffer, None)
    return PlainValues(types, values, _names(offsets, name_sizes, buffer) if other_names else None)


def _block(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint8], bool] | None:
    """Data types, where values begin, and sizes of the names of character sets, some of which are not utf8mb4."""

    def byte(at: npt.NDArray[np.int64], ahead: int) -> npt.NDArray[np.uint8]:
        # Beyond the end any byte is read; no value that looks so far has the right size.
        return data[ahead:].take(at, mode="clip")

    places = offsets.astype(np.int64)
    begins, ends = places[:-1], places[1:]
    sizes = ends - begins
    sent = sizes > 0
    types = byte(begins, 1)
    fits = ~sent | ((byte(begins, 0) == _DATA_TYPE) & (types <= _LAST_KNOWN) & (sizes >= _HEAD))
    if not fits.all():
        return None
    types *= sent
    named = (byte(begins, 2) == _CHARSET) & (sizes > _HEAD)
    name_sizes = byte(begins, 3) * named
    head = name_sizes.astype(np.int64)
    head += np.where(named, _NAME, _HEAD)
    field = begins + head
    valued = sizes > head
    tags, lengths = _TAGS.take(types), byte(field, 1)
    fits = (~valued | ((byte(field, 0) == tags) & (tags != 0))) & (~named | ((sizes >= head) & (name_sizes < 0x80)))
    short = lengths == sizes - head - 2
    begin = np.where(valued, field + 2, ends)
    long = np.flatnonzero(valued & (lengths >= 0x80))
    if len(long):
        begin[long], short[long] = _long(byte, field[long], ends[long])
    fits &= ~valued | short
    if not fits.all():
        return None
    if named.all():
        return types, begin, name_sizes, not _all_utf8mb4(data, begins, name_sizes)
    return types, begin, name_sizes, not _all_utf8mb4(data, begins[named], name_sizes[named])


def _long(
    byte: _Byte, field: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Bools]:
    """Where values begin whose length takes several bytes, and whether they end where they should."""
    length = np.zeros(len(field), np.int64)
    begin, going = field + 1, np.ones(len(field), np.bool_)
    for number in range(_MOST_LENGTH_BYTES):
        digits = byte(field, 1 + number)
        length |= np.where(going, (digits & 0x7F).astype(np.int64) << (7 * number), 0)
        begin += going
        going &= digits >= 0x80
        if not going.any():
            break
    return begin, ~going & (begin + length == ends)


def _all_utf8mb4(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], sizes: npt.NDArray[np.uint8]) -> bool:
    """Whether all names of character sets are this one; they begin four bytes behind the values' own beginnings."""
    if (sizes != len(_UTF8MB4)).any():
        return False
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    places = begins + _NAME
    at = np.minimum(places, len(words) - 1)  # a name of seven bytes may be the last that there is
    names = (words[at] >> ((places - at) << 3).astype(np.uint64)) & _NAME_MASK
    return bool((names == _NAME_WORD).all())


def _names(offsets: npt.NDArray[np.int32], sizes: npt.NDArray[np.uint8], data: pa.Buffer | None) -> pa.BinaryArray:
    bounds = np.full(2 * len(sizes) + 1, offsets[0], np.int32)
    # A value without a name may have no bytes at all.
    bounds[1::2] = np.where(sizes > 0, offsets[:-1] + np.int32(_NAME), offsets[:-1])
    bounds[2::2] = bounds[1::2] + sizes
    return binary_array(pa.binary(), bounds, data, None).take(pa.array(np.arange(1, 2 * len(sizes), 2)))
