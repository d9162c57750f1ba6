"""Arrow buffers as numpy arrays and back, without copying."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the ``len + 1`` offsets of a binary, string, list or map array.

    They are returned as they stand and need not begin at zero.
    """
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32, count=len(array) + 1, offset=array.offset * 4)


def slices(array: pa.Array) -> list[memoryview]:
    """Return the bytes of each value of a binary or string array without nulls, which share its memory."""
    buffer = array.buffers()[2]
    data = memoryview(b"" if buffer is None else buffer)
    return [data[start:end] for start, end in pairwise(offsets_of(array).tolist())]


def numbers_of(array: pa.Array) -> npt.NDArray[Any]:
    """Return a view of a number array that has no nulls, or whose nulls do not matter."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(0, dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def valid(array: pa.Array) -> Bools:
    """Return which values are not null."""
    return np.ones(len(array), np.bool_) if array.null_count == 0 else np.asarray(array.is_valid())


def varints(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], where: Bools, *, most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Bools]:
    """Return the numbers that begin at some places, the places behind them, and which numbers do not end.

    They are protobuf's numbers, seven bits in a byte, of ``most`` bytes. Elsewhere than ``where`` a number is 0 and a place
    stays. Beyond the end of all bytes the last byte is read.
    """
    numbers, going = np.zeros(len(at), np.int64), where
    for shift in range(0, 7 * most, 7):
        if not going.any():
            break
        digits = data.take(at, mode="clip")
        numbers |= ((digits & 0x7F) * going).astype(np.int64) << shift
        at = at + going
        going = going & (digits >= 0x80)
    return numbers, at, going


def words(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Words:
    """Return the eight bytes from some places on as words, the first byte in the lowest bits.

    Places may be as far as the end of all bytes, of which there are eight at least; what is beyond it is zero.
    """
    every = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    beyond = at - (len(data) - 8)
    if not len(at) or beyond.max() <= 0:
        found: Words = every[at]
        return found
    beyond = np.clip(beyond, 0, 8)
    last: Words = every[np.minimum(at, len(data) - 8)]
    shifted: Words = last >> (np.minimum(beyond, 7) << 3).astype(np.uint64)
    return np.where(beyond == 8, np.uint64(0), shifted)


def joint_codes(*columns: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return a number for each row, and the first row of each number.

    Rows have one number where all columns are equal; numbers are given in the order of the rows.
    """
    joint = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        joint *= max(1, len(encoded.dictionary))
        joint += encoded.indices.to_numpy()
    encoded = pa.array(joint).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    first = np.full(len(encoded.dictionary), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    return codes, first


def rows_by_code(codes: Ints) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield each code from 0 on with its rows, ascending: in one sort, however many codes there are."""
    if not len(codes):
        return
    if codes[0] >= 0 and bool(np.all(codes == codes[0])):
        yield int(codes[0]), np.arange(len(codes))
        return
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(order)]):
        yield int(codes[order[start]]), order[start:end]


def bitmap(valid: Bools) -> pa.Buffer:
    """Return a mask as the validity bits of Arrow."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def binary_array(
    kind: pa.DataType, offsets: npt.NDArray[np.int32], data: pa.Buffer | None, valid: Bools | None
) -> pa.Array:
    """Return a binary or string array over existing offsets and bytes.

    The text of a string array is not checked.
    """
    validity = None if valid is None else bitmap(valid)
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(b"") if data is None else data]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def with_empty_last(array: pa.Array) -> pa.Array:
    """Return a binary array over the same bytes with one more, empty value at its end.

    A value that was not sent can point to it.
    """
    offsets = offsets_of(array)
    return binary_array(pa.binary(), np.append(offsets, offsets[-1]), array.buffers()[2], None)


def masked(array: pa.Array, kind: pa.DataType, valid: Bools | None) -> pa.Array:
    """Return the bytes of an array as another binary or string type, null where ``valid`` is false."""
    return binary_array(kind, offsets_of(array), array.buffers()[2], valid)


def spread(array: pa.Array, where: Bools) -> pa.Array:
    """Return an array with the values of another in the places of a mask, and null elsewhere.

    Texts and bytes are not copied.
    """
    if where.all():
        return array
    places, there = np.flatnonzero(where), where  # places are written three times as fast as by the mask
    if array.null_count:
        there = where.copy()
        there[places] = np.asarray(array.is_valid())
    if pa.types.is_boolean(array.type):
        flags = np.zeros(len(where), np.bool_)
        flags[places] = np.asarray(array.fill_null(False))
        return pa.array(flags, mask=~there)
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return binary_array(array.type, offsets_of(array)[run_lengths(where)], array.buffers()[2], there)
    width = array.type.byte_width
    found = np.zeros(len(where), f"V{width}" if width > 8 else f"u{width}")
    found[places] = np.frombuffer(array.buffers()[1], found.dtype, count=len(array), offset=array.offset * width)
    return pa.Array.from_buffers(array.type, len(where), [bitmap(there), pa.py_buffer(found)])


def empty_lists(count: int) -> pa.ListArray:
    """Return ``count`` empty lists of text."""
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string()))


def empty_maps(count: int) -> pa.MapArray:
    """Return ``count`` empty maps of text to text."""
    nothing = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), nothing, nothing)


def run_lengths(lengths: Ints | Bools) -> npt.NDArray[np.int32]:
    """Return the offsets, from zero, of runs with these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
