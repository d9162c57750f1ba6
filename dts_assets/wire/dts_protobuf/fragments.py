"""Kafka messages to fragments (document 571/55396, Envelope; the headers ``ps`` and ``ShardId``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import Bools, binary_array, offsets_of, valid, varints
from dts_assets.wire.columns.delivery_headers import delivery_headers
from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.protobuf_parser import ENVELOPE, decode
from dts_assets.wire.format import FRAGMENTS

VERSION = 1
_REASONS = pa.array(
    [None, Reason.UNDECODABLE_MESSAGE, Reason.WRONG_VERSION, Reason.CONTRADICTORY_FRAGMENT], pa.string()
)


def fragments_of(messages: pa.RecordBatch, *, engine: Engine | None) -> pa.RecordBatch:
    """Return FRAGMENTS of messages, as :meth:`dts_assets.wire.format.WireFormat.fragments` promises them."""
    values = messages["value"]
    found = plain_envelopes(values) if engine != "protobuf" else None
    if found is None:
        found = _parsed_envelopes(values, engine)
    sequence, shard = delivery_headers(messages["headers"])
    columns = {
        "shard": shard,
        "sequence": sequence,
        "total": pa.array(found.total, mask=found.unusable),
        "index": pa.array(found.index, mask=found.unusable),
        "data": found.data,
        "is_null": pa.array(found.is_null),
        "reason": _REASONS.take(pa.array(found.reasons)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=FRAGMENTS)


@dataclass(frozen=True, slots=True)
class Envelopes:
    """The contents of envelopes, row for row.

    ``unusable`` marks values that are null or no envelope (None: none is); ``reasons`` are numbers of :data:`_REASONS`.
    """

    total: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]
    data: pa.BinaryArray
    is_null: Bools
    unusable: Bools | None
    reasons: npt.NDArray[np.int8]


def _parsed_envelopes(values: pa.BinaryArray, engine: Engine | None) -> Envelopes:
    """Return the contents of any values."""
    values = pc.fill_null(values, b"")
    is_null = np.asarray(pc.equal(pc.binary_length(values), 0))
    decoded = decode(values, ENVELOPE, engine=engine)
    batch = decoded.batch
    if decoded.poison:
        places = np.full(len(values), -1, np.int64)
        places[decoded.kept] = np.arange(len(decoded.kept))
        batch = batch.take(pa.array(places, mask=places < 0))
    poison = ~valid(batch["version"])
    version, total, index = (
        pc.fill_null(batch[name], 0).to_numpy().astype(np.int64) for name in ("version", "total", "index")
    )
    data = batch["data"]
    reasons = _contradictions(total, index, data)
    reasons[version != VERSION] = 2
    reasons[poison] = 1
    reasons[is_null] = 0
    unusable = is_null | poison
    if unusable.any():
        data = pc.if_else(pa.array(unusable), pa.scalar(None, pa.binary()), data)
    return Envelopes(total, index, data, is_null, unusable, reasons)


def _contradictions(
    total: npt.NDArray[np.int64], index: npt.NDArray[np.int64], data: pa.BinaryArray
) -> npt.NDArray[np.int8]:
    """Return the number of the reason for each segment with an impossible number or no content, else 0."""
    reasons = np.where((total == 0) | (index >= total), 3, 0).astype(np.int8)
    sent = pc.fill_null(pc.greater(pc.binary_length(data), 0), False)
    reasons[~np.asarray(sent) & (reasons == 0)] = 1
    return reasons


_HEAD = (0x08, VERSION, 0x10)  # the version, and the tag of the total
_INDEX, _DATA = 0x18, 0x22
_MOST_VARINT_BYTES = 5  # of a uint32


def plain_envelopes(values: pa.BinaryArray) -> Envelopes | None:
    """Return the contents of values that all are envelopes of the usual layout, else None.

    Nearly every message is ``version`` 1, ``total``, ``index`` and ``data``, in this order and nothing else. Then all that
    has to be read are a dozen bytes before the data, in the same dozen steps for all messages at once; a parser would move
    the data twice.
    """
    offsets, buffer = offsets_of(values), values.buffers()[2]
    if values.null_count or offsets[0] == offsets[-1]:
        return None
    data, begins = np.frombuffer(buffer, np.uint8), offsets[:-1].astype(np.int64)
    every = np.ones(len(values), np.bool_)
    if not all((data.take(begins + place, mode="clip") == byte).all() for place, byte in enumerate(_HEAD)):
        return None
    total, at, endless = varints(data, begins + len(_HEAD), every, most=_MOST_VARINT_BYTES)
    later = data.take(at, mode="clip") == _INDEX
    index, at, endless_index = varints(data, at + later, later, most=_MOST_VARINT_BYTES)
    fits = (data.take(at, mode="clip") == _DATA) & ~endless & ~endless_index & ((total | index) < 1 << 32)
    size, at, endless = varints(data, at + 1, every, most=_MOST_VARINT_BYTES)
    # A place beyond the end of all bytes reads the last byte: then the message's size does not come out right.
    if not (fits & ~endless & (at + size == offsets[1:])).all():
        return None
    # What lies before the data becomes a value of its own, so that the data can be taken in one go.
    both = np.empty(2 * len(values) + 1, np.int32)
    both[::2], both[1::2] = offsets, at
    pieces = binary_array(pa.binary(), both, buffer, None)
    parts = pieces.take(pa.array(np.arange(1, 2 * len(values), 2)))
    return Envelopes(total, index, parts, ~every, None, _contradictions(total, index, parts))
