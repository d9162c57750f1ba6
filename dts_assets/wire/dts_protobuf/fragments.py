"""Kafka messages to fragments (document 571/55396, Envelope; the headers ``ps`` and ``ShardId``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import binary_array, offsets_of
from dts_assets.wire.columns.casts import readable
from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.protobuf_parser import ENVELOPE, decode
from dts_assets.wire.format import FRAGMENTS

VERSION = 1
_SEQUENCE, _SHARD = "ps", "ShardId"
_REASONS = pa.array(
    [None, Reason.UNDECODABLE_MESSAGE, Reason.WRONG_VERSION, Reason.CONTRADICTORY_FRAGMENT], pa.string()
)
_DIGITS = re.compile(rb"\d{1,19}")


def fragments_of(messages: pa.RecordBatch, *, engine: Engine | None) -> pa.RecordBatch:
    """Return FRAGMENTS of messages, as :meth:`dts_assets.wire.format.WireFormat.fragments` promises them."""
    plain = plain_envelopes(messages["value"]) if engine != "protobuf" else None
    if plain is not None:
        return _whole_batch(messages, plain)
    values = pc.fill_null(messages["value"], b"")
    is_null = np.asarray(pc.equal(pc.binary_length(values), 0))
    decoded = decode(values, ENVELOPE, engine=engine)
    kept = decoded.kept
    count = messages.num_rows
    version, total, index = (
        _spread(decoded.batch[name].to_numpy(), kept, count) for name in ("version", "total", "index")
    )
    data = decoded.batch["data"]
    if kept is not None:
        places = np.full(count, -1, np.int64)
        places[kept] = np.arange(len(kept))
        data = data.take(pa.array(places, mask=places < 0))
    poison = np.zeros(count, np.bool_)
    poison[list(decoded.poison)] = True
    reasons = _contradictions(total, index, data)
    reasons[version != VERSION] = 2
    reasons[poison] = 1
    reasons[is_null] = 0
    usable = ~is_null & ~poison
    sequence, shard = _headers(messages["headers"])
    columns = {
        "shard": shard,
        "sequence": sequence,
        "total": pa.array(total, mask=~usable),
        "index": pa.array(index, mask=~usable),
        "data": data if usable.all() else pc.if_else(pa.array(usable), data, pa.scalar(None, pa.binary())),
        "is_null": pa.array(is_null),
        "reason": _REASONS.take(pa.array(reasons)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=FRAGMENTS)


def _whole_batch(messages: pa.RecordBatch, envelopes: PlainEnvelopes) -> pa.RecordBatch:
    """Return FRAGMENTS of messages all of whose envelopes are of the usual layout."""
    sequence, shard = _headers(messages["headers"])
    columns = {
        "shard": shard,
        "sequence": sequence,
        "total": pa.array(envelopes.total),
        "index": pa.array(envelopes.index),
        "data": envelopes.data,
        "is_null": pa.array(np.zeros(messages.num_rows, np.bool_)),
        "reason": _REASONS.take(pa.array(_contradictions(envelopes.total, envelopes.index, envelopes.data))),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=FRAGMENTS)


def _contradictions(
    total: npt.NDArray[np.int64], index: npt.NDArray[np.int64], data: pa.BinaryArray
) -> npt.NDArray[np.int8]:
    """Return the number of the reason for each segment with an impossible number or no content, else 0."""
    reasons = np.where((total == 0) | (index >= total), 3, 0).astype(np.int8)
    sent = pc.fill_null(pc.greater(pc.binary_length(data), 0), False)
    reasons[~np.asarray(sent) & (reasons == 0)] = 1
    return reasons


def _spread(values: npt.NDArray[np.generic], kept: npt.NDArray[np.int64] | None, count: int) -> npt.NDArray[np.int64]:
    if kept is None:
        return values.astype(np.int64)
    spread = np.zeros(count, np.int64)
    spread[kept] = values
    return spread


def _headers(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the sequence number and the shard of each message.

    A message without them has null and ""; of a repeated header the last counts.
    """
    count = len(headers)
    lists = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    pairs = headers.flatten()
    owners = np.repeat(np.arange(count), lists)
    keys, values = pairs.field("key"), pairs.field("value")
    places = []
    for key in (_SEQUENCE, _SHARD):
        found = np.asarray(pc.fill_null(pc.and_(pc.equal(keys, key), values.is_valid()), False))
        place = np.full(count, -1, np.int64)
        place[owners[found]] = np.flatnonzero(found)
        places.append(values.take(pa.array(place, mask=place < 0)))
    return _numbers(places[0]), pc.fill_null(_texts(places[1]), "")


def _numbers(values: pa.Array) -> pa.Array:
    """Return decimal numbers; a text that is no number, or beyond 63 bits, counts as no header."""
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.int64())
    try:
        return pc.cast(pc.cast(values, pa.string()), pa.int64())
    except pa.ArrowInvalid:
        numbers = [
            int(value) if value is not None and _DIGITS.fullmatch(value) and int(value) < 1 << 63 else None
            for value in values.to_pylist()
        ]
        return pa.array(numbers, pa.int64())


def _texts(values: pa.Array) -> pa.Array:
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else readable(value) for value in values.to_pylist()], pa.string())


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
    """Return the contents of values that all are envelopes of the usual layout, else None.

    Nearly every message is ``version`` 1, ``total``, ``index`` and ``data``, in this order and nothing else. Then all that
    has to be read are a dozen bytes before the data, in the same dozen steps for all messages at once; a parser would move
    the data twice.
    """
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
    """A place in each of many messages, moved on in step.

    ``fits`` ends when any message is not as expected. A place beyond the end of all bytes reads the last byte: then the
    message's size does not come out right.
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
        """Return the messages in which the byte comes next, and pass over it there."""
        found: npt.NDArray[np.bool_] = self._here() == byte if self.fits else np.zeros(len(self.at), np.bool_)
        self.at = self.at + found
        return found

    def varint(self, where: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the numbers of up to 32 bits that stand at some places, 0 elsewhere."""
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
