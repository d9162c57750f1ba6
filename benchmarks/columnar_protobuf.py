"""Protobuf messages written a column at a time by Arrow kernels, one message per element.

Random traffic made one Python message after the other comes at about 1 MB/s, so that a gigabyte would take longer than
everything that is measured with it. Here it comes at about 100 MB/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers: TypeAlias = npt.NDArray[np.int64]

_NOTHING = pa.scalar(b"", pa.binary())


def joined(*parts: Any) -> pa.BinaryArray:
    """Element by element the parts one after the other; a part may be one scalar for all. A null part counts as empty."""
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement=b"")


def constant(data: bytes) -> pa.Scalar:
    """Return a part that is equal in all elements."""
    return pa.scalar(data, pa.binary())


def varints(numbers: Integers) -> pa.BinaryArray:
    """Base-128 varints of numbers that are not negative."""
    sizes = np.ones(len(numbers), np.int32)
    left = numbers >> 7
    while left.any():
        sizes += left > 0
        left >>= 7
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.zeros(int(offsets[-1]), np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        has = sizes > byte
        more = (sizes[has] > byte + 1).astype(np.uint8) << 7
        data[offsets[:-1][has] + byte] = ((numbers[has] >> (7 * byte)) & 0x7F).astype(np.uint8) | more
    return binary(offsets, data)


def binary(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8] | pa.Buffer) -> pa.BinaryArray:
    """Return a binary array over a buffer."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), buffer])


def lengths(array: pa.BinaryArray) -> Integers:
    """Bytes of every element; none may be null."""
    return np.diff(_offsets(array)).astype(np.int64)


def field(number: int, contents: pa.BinaryArray) -> pa.BinaryArray:
    """Encode a length-delimited field of every element: tag, length, contents."""
    return joined(constant(_tag(number, 2)), varints(lengths(contents)), contents)


def constant_field(number: int, contents: bytes) -> bytes:
    """Encode a length-delimited field of one value."""
    return _tag(number, 2) + _varint(len(contents)) + contents


def number_field(number: int, values: Integers) -> pa.BinaryArray:
    """Encode a varint field of every element; as protobuf's own writers do, 0 is left out."""
    return pc.if_else(pa.array(values == 0), constant(b""), joined(constant(_tag(number, 0)), varints(values)))


def constant_number_field(number: int, value: int) -> bytes:
    """Encode a varint field of one value."""
    return _tag(number, 0) + _varint(value)


def grouped(array: pa.BinaryArray, starts: Integers) -> pa.BinaryArray:
    """Neighbours one after the other: element i holds those from ``starts[i]`` up to ``starts[i + 1]``. Copies nothing."""
    offsets = _offsets(array)
    return binary(offsets[np.append(starts, len(array))].astype(np.int32), array.buffers()[2] or pa.py_buffer(b""))


def chosen(arrays: Sequence[pa.BinaryArray], order: Integers) -> pa.BinaryArray:
    """Return the elements of several arrays in the order of ``order``, which counts through all arrays."""
    return pa.concat_arrays(list(arrays)).take(pa.array(order))


def _offsets(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _varint(number: int) -> bytes:
    data: bytes = varints(np.array([number]))[0].as_py()
    return data


def _tag(number: int, wire_type: int) -> bytes:
    assert number < 16, "fields beyond 15 have longer tags, and subscribe.proto has none"
    return bytes([number << 3 | wire_type])
