"""Envelopes as the vendor's producer writes them, opened without a parser.

Nearly every message is ``version`` 1, ``total``, ``index`` and ``data``, in this order and nothing else. Then all that has to be
read are a dozen bytes before the data, in the same dozen steps for all messages at once; a parser would move the data twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import binary_array, offsets_of

_VERSION_1 = (0x08, 0x01)
_TOTAL, _INDEX, _DATA = 0x10, 0x18, 0x22
_MOST_VARINT_BYTES = 5  # of a uint32


@dataclass(frozen=True, slots=True)
class PlainEnvelopes:
    """The contents of envelopes of version 1, row for row."""

    total: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]
    data: pa.BinaryArray


def plain_envelopes(values: pa.BinaryArray) -> PlainEnvelopes | None:
    """What the values hold if every one is an envelope of the usual layout, else None."""
    if not len(values) or values.null_count:
        return None
    offsets = offsets_of(values)
    cursor = _Cursor(np.frombuffer(values.buffers()[2], np.uint8), offsets[:-1].astype(np.int64))
    for byte in _VERSION_1:
        cursor.expect(byte)
    cursor.expect(_TOTAL)
    total = cursor.varint(np.ones(len(values), np.bool_))
    index = cursor.varint(cursor.skip_if(_INDEX))
    cursor.expect(_DATA)
    size = cursor.varint(np.ones(len(values), np.bool_))
    if not cursor.fits or not (cursor.at + size == offsets[1:]).all():
        return None
    # What lies before the data becomes a value of its own, so that the data can be taken in one go.
    both = np.empty(2 * len(values) + 1, np.int32)
    both[::2], both[1::2] = offsets, cursor.at
    pieces = binary_array(pa.binary(), both, values.buffers()[2], None)
    return PlainEnvelopes(total, index, pieces.take(pa.array(np.arange(1, 2 * len(values), 2))))


class _Cursor:
    """A place in each of many messages, moved on in step; ``fits`` ends when any message is not as expected.

    A place beyond the end of all bytes reads the last one: then the message's size does not come out right.
    """

    def __init__(self, data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> None:
        self._data = data
        self.at = at
        self.fits = bool(len(data))

    def expect(self, byte: int) -> None:
        if self.fits:
            self.fits = bool((self._here() == byte).all())
            self.at = self.at + 1

    def skip_if(self, byte: int) -> npt.NDArray[np.bool_]:
        """Where the byte stands; it is passed there."""
        found: npt.NDArray[np.bool_] = self._here() == byte if self.fits else np.zeros(len(self.at), np.bool_)
        self.at = self.at + found
        return found

    def varint(self, where: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The numbers of up to 32 bits that stand at some places, 0 elsewhere."""
        numbers = np.zeros(len(self.at), np.int64)
        going = where
        for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
            if not self.fits or not going.any():
                return numbers
            byte = self._here()
            numbers |= np.where(going, (byte & 0x7F).astype(np.int64) << shift, 0)
            self.at = self.at + going
            going = going & (byte >= 0x80)
        self.fits = not going.any() and int(numbers.max(initial=0)) < 1 << 32
        return numbers

    def _here(self) -> npt.NDArray[np.uint8]:
        return self._data[np.minimum(self.at, len(self._data) - 1)]
