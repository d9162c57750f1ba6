"""The contents of values of the usual layout, read without a parser (document 571/55396, Data)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import binary_array, offsets_of, varints, words

LAST_KNOWN = 14
"""The largest DataType that is known."""

_DATA_TYPE, _CHARSET, _SV, _BV = 0x08, 0x12, 0x1A, 0x22  # tags
# By DataType: the tag of the field that its values stand in, 0 for NIL and NA, which have none.
_TAGS = np.array([0, *[_SV] * 10, _BV, _SV, _BV, 0], np.uint8)

_HEAD, _NAME = 2, 4  # bytes before a value's own field, and before the name of its character set
_UTF8MB4 = b"utf8mb4"
_NAME_WORD = np.uint64(int.from_bytes(_UTF8MB4, "little"))
_NAME_MASK = np.uint64((1 << 8 * len(_UTF8MB4)) - 1)

_SHORT = np.full(256, _DATA_TYPE | 1 << 8, np.uint32)
_SHORT[: len(_TAGS)] = np.where(
    _TAGS > 0, _DATA_TYPE + (np.arange(len(_TAGS)) << 8) + (_TAGS.astype(np.int64) << 16), _SHORT[0]
)
"""By DataType: the first three bytes of a value without a character set, before a length below 128.

Types without a value have the bytes of another type, so that nothing is like them.
"""
_BEFORE_SHORT = _HEAD + 2
_TEXT_HEAD = bytes([_DATA_TYPE, 13, _CHARSET, len(_UTF8MB4)]) + _UTF8MB4 + bytes([_BV])
_BEFORE_TEXT = len(_TEXT_HEAD) + 1
"""Bytes before a text in utf8mb4 that is shorter than 128 bytes: the head and a length."""
_TEXT_WORD = np.uint64(int.from_bytes(_TEXT_HEAD[:8], "little"))
_TEXT_REST = np.uint64(int.from_bytes(_TEXT_HEAD[-7:], "little"))
_BLOCK = 1 << 15
"""Values at a time, so that the bytes at work stay in the processor's cache."""
_MOST_LENGTH_BYTES = 5


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values one after the other: ``types`` by number, and two elements of ``values`` for each.

    The two are the bytes before the value, and the value. ``names`` are the character sets; None if every one is utf8mb4 or
    has no name.
    """

    types: npt.NDArray[np.uint8]
    values: pa.BinaryArray
    names: pa.BinaryArray | None


_Block: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.uint8], bool]


def plain_values(messages: pa.BinaryArray) -> PlainValues | None:
    """Return the contents of ``Data`` messages that are all of the usual layout, else None.

    A value is a data type, a character set for text, and its bytes, in this order; NULL is nothing at all. Such values are
    read in the same steps for all at once, and all other values are left to the parser; both ways give the same images. One
    empty NULL more is added at the end. Measured on 30 columns: a quarter less time than parsing values in columns takes, and
    two thirds less than protobuf's own parser.
    """
    offsets = offsets_of(messages)
    return plain_values_at(messages.buffers()[2], offsets[:-1], offsets[1:])


def plain_values_at(
    buffer: pa.Buffer | None, begins: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
) -> PlainValues | None:
    """Return what :func:`plain_values` returns, for messages at some places of a buffer, ascending."""
    count = len(ends)
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    if len(data) < 8:
        data = np.append(data, np.zeros(8 - len(data), np.uint8))
    types = np.zeros(count + 1, np.uint8)
    # What lies between two values becomes an element of its own, so that no value is copied.
    bounds = np.full(2 * count + 3, ends[-1] if count else 0, np.int32)
    name_sizes = np.zeros(count, np.uint8)
    other_names = False
    for first in range(0, count, _BLOCK):
        part = slice(first, min(first + _BLOCK, count))
        block = _block(data, begins[part], ends[part])
        if block is None:
            return None
        types[part], bounds[2 * first + 1 : 2 * part.stop : 2], name_sizes[part], others = block
        other_names |= others
    bounds[0], bounds[2 : 2 * count + 1 : 2] = begins[0] if count else 0, ends
    values = binary_array(pa.binary(), bounds, buffer, None)
    return PlainValues(types, values, _names(begins, name_sizes, buffer) if other_names else None)


def _block(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]) -> _Block | None:
    """Return data types, the places where values begin, and the sizes of names of character sets.

    The last value says whether some names are not utf8mb4. Nearly all values are short: NULL, a number, or text in utf8mb4. Eight
    bytes tell that; the rest is looked at more closely.
    """
    at = begins.astype(np.int64)
    heads, sizes = words(data, at), ends - begins
    first = heads.astype(np.uint32)
    types = (first >> np.uint32(8)).astype(np.uint8)
    lengths = (sizes - np.int32(_BEFORE_SHORT)).view(np.uint32)
    usual = (first == _SHORT.take(types) + (lengths << np.uint32(24))) & (lengths < 0x80)
    is_text = heads == _TEXT_WORD
    texts = np.flatnonzero(is_text)
    if len(texts):
        rests, length = words(data, at[texts] + (_BEFORE_TEXT - 8)), sizes[texts] - np.int32(_BEFORE_TEXT)
        usual[texts] = (rests == _TEXT_REST | (length.astype(np.uint64) << np.uint64(56))) & (
            length.view(np.uint32) < 0x80
        )
    sent = sizes > 0
    usual |= ~sent
    is_text &= sent
    types *= sent
    name_sizes = is_text * np.uint8(len(_UTF8MB4))
    begin = np.minimum(begins + np.int32(_BEFORE_SHORT) + is_text * np.int32(_BEFORE_TEXT - _BEFORE_SHORT), ends)
    rest = np.flatnonzero(~usual)
    if not len(rest):
        return types, begin, name_sizes, False
    found = _any_layout(data, begins[rest], ends[rest])
    if found is None:
        return None
    types[rest], begin[rest], name_sizes[rest], others = found
    return types, begin, name_sizes, others


def _any_layout(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
) -> _Block | None:
    """Return what :func:`_block` returns, for values of any length and with any character set."""
    # Bytes beyond a value are read, too; no value that looks so far has the right size.
    octets = words(data, begins.astype(np.int64)).astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    sizes = ends - begins
    sent, types = sizes > 0, octets[:, 1].copy()
    if not (~sent | ((octets[:, 0] == _DATA_TYPE) & (types <= LAST_KNOWN) & (sizes >= _HEAD))).all():
        return None
    types *= sent
    head, tags, lengths = np.full(len(sizes), _HEAD, np.int32), octets[:, 2].copy(), octets[:, 3].copy()
    name_sizes, others = np.zeros(len(sizes), np.uint8), False
    named = np.flatnonzero((tags == _CHARSET) & (sizes > _HEAD))
    if len(named):
        name_sizes[named] = lengths[named]
        at = begins[named].astype(np.int64) + _NAME
        found = words(data, at) & _NAME_MASK
        if (name_sizes[named] >= 0x80).any():
            return None
        others = not ((found == _NAME_WORD) & (name_sizes[named] == len(_UTF8MB4))).all()
        head[named] = name_sizes[named] + np.int32(_NAME)
        if (sizes[named] < head[named]).any():
            return None
        at += name_sizes[named]
        tags[named], lengths[named] = data.take(at, mode="clip"), data.take(at + 1, mode="clip")
    valued = sizes > head
    begin = np.where(valued, begins + head + np.int32(2), ends)
    short = lengths == sizes - head - 2
    long = np.flatnonzero(valued & (lengths >= 0x80))
    if len(long):
        at = begins[long].astype(np.int64) + head[long] + 1
        length, places, endless = varints(data, at, np.ones(len(long), np.bool_), most=_MOST_LENGTH_BYTES)
        begin[long], short[long] = places, ~endless & (places + length == ends[long])
    wanted = _TAGS.take(types)
    if not (~valued | (short & (tags == wanted) & (wanted != 0))).all():
        return None
    return types, begin, name_sizes, others


def _names(begins: npt.NDArray[np.int32], sizes: npt.NDArray[np.uint8], data: pa.Buffer | None) -> pa.BinaryArray:
    bounds = np.full(2 * len(sizes) + 1, begins[0], np.int32)
    # A value without a name may have no bytes at all.
    bounds[1::2] = np.where(sizes > 0, begins + np.int32(_NAME), begins)
    bounds[2::2] = bounds[1::2] + sizes
    return binary_array(pa.binary(), bounds, data, None).take(pa.array(np.arange(1, 2 * len(sizes), 2)))
