"""Bytes that a producer wrote as Java prints an array of them: ``[106, -3, 0]``, and ``[]`` for none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, offsets_of
from dts_assets.wire.columns.casts import matches

_PRINT = r"^\[(-?\d{1,3}(, ?-?\d{1,3})*)?\]$"
_ZERO, _MINUS = ord("0"), ord("-")
_SMALLEST, _LARGEST = -128, 255
"""Java's bytes are signed; those of another producer may not be."""


def printed_bytes(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    """The bytes that some texts (a binary array) stand for, and which texts are no such print (None: all are).

    Those are null, as nulls are.
    """
    valid = np.asarray(values.is_valid())
    bad = valid & ~matches(values, _PRINT)
    if bad.any():
        values = pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), values)
    offsets, buffer = offsets_of(values), values.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, count=int(offsets[-1]))
    digits = data - np.uint8(_ZERO)  # wraps around, so that all else is more than nine
    is_digit = digits < 10
    # A print ends with a bracket and begins with one: no number reaches over its ends.
    ends = np.flatnonzero(is_digit[:-1] & ~is_digit[1:])
    ends = ends[ends >= offsets[0]]
    tens = is_digit[ends - 1]
    hundreds = tens & is_digit[ends - 2]
    numbers = digits[ends].astype(np.int16)
    numbers += np.where(tens, digits[ends - 1], 0).astype(np.int16) * np.int16(10)
    numbers += np.where(hundreds, digits[ends - 2], 0).astype(np.int16) * np.int16(100)
    negative = data[ends - 1 - tens - hundreds] == _MINUS
    numbers = np.where(negative, -numbers, numbers)
    beyond = (numbers < _SMALLEST) | (numbers > _LARGEST)
    if beyond.any():
        bad[np.searchsorted(offsets, ends[beyond], side="right") - 1] = True
    bounds = np.searchsorted(ends, offsets).astype(np.int32)
    parsed = binary_array(pa.binary(), bounds, pa.py_buffer(numbers.astype(np.uint8)), valid & ~bad)
    return parsed, bad if bad.any() else None
