"""Values of flat messages, as the vendors' dialects write them, to typed columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, binary_array, masked, offsets_of
from dts_assets.wire.columns.casts import MICROSECONDS, matches, parse
from dts_assets.wire.columns.images import Image
from dts_assets.wire.columns.layouts import Bucket
from dts_assets.wire.columns.pivot import Reading, typed_values


def drs_reading(zone: str, *, epoch_seconds: bool) -> Reading:
    """Return the reading of DRS: printed bytes, and instants as wall clocks of a zone (``+08:00``).

    With ``epoch_seconds`` TIMESTAMP values are numbers of seconds. Wall clocks are those of DATETIME columns then, which are
    declared to be instants; each value tells by its form what it is, since a column may change its type amid the messages.
    """

    def typed(
        values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
    ) -> tuple[pa.Array, Bools | None]:
        if bucket.of_bytes:
            return printed_bytes(values)
        if bucket.lake_type == "timestamp":
            return seconds_or_clocks(values, zone) if epoch_seconds else parse(values, "timestamp", zone=zone)
        return typed_values(values, bucket, image, cells)

    return typed


_UTC = pa.timestamp("us", tz="UTC")
_SECONDS = r"^\d{1,12}(\.\d{1,6})?$"
_FIRST = 1_000_000
"""The microseconds at which MySQL's TIMESTAMP begins: zero stands for its zero timestamp."""


def seconds_or_clocks(values: pa.Array, zone: str) -> tuple[pa.Array, Bools | None]:
    """Return instants from seconds since the epoch, ``1624614713.201``, or from wall clocks, and which values are neither.

    Values that are neither are null; so are seconds before the type begins.
    """
    sent = np.asarray(values.is_valid())
    numbers = matches(values, _SECONDS)
    instants, bad = _instants_of_seconds(values, numbers)
    others = sent & ~numbers
    if others.any():
        clocks, wrong = parse(masked(values, pa.binary(), others), "timestamp", zone=zone)
        instants = pc.coalesce(instants, clocks)
        bad = bad if wrong is None else bad | wrong
    return instants, bad if bad.any() else None


def _instants_of_seconds(values: pa.Array, numbers: Bools) -> tuple[pa.Array, Bools]:
    """Return instants of those values that are numbers of seconds, and which numbers are beyond all instants."""
    decimals = pc.cast(masked(values, pa.string(), numbers), pa.decimal128(18, 6))
    words = (
        np.zeros(0, np.int64) if not len(values) else np.frombuffer(decimals.buffers()[1], np.int64, 2 * len(values))
    )
    micros = np.where(numbers, words[::2], 0)  # the lower half of each number, which is all of it
    bad = numbers & ((micros < _FIRST) | (micros > MICROSECONDS[1]))
    return pa.array(micros, pa.int64(), mask=~numbers | bad).view(_UTC), bad


_PRINT = r"^\[(-?\d{1,3}(, ?-?\d{1,3})*)?\]$"
_ZERO, _MINUS = ord("0"), ord("-")
_SMALLEST, _LARGEST = -128, 255
"""The range of printed bytes: Java's bytes are signed, and another producer's may not be."""


def printed_bytes(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Return the bytes behind texts such as ``[106, -3, 0]``, and which texts have another form.

    Java prints an array of bytes so ("Kafka Message Format", types binary, varbinary and blob). Texts of another form are
    null, as nulls are; the mask is None if there are none.
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
