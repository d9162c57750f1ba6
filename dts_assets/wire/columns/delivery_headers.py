"""The headers by which Tencent DTS numbers its messages: ``ps``, and ``ShardId`` where a topic has several shards.

The names stand in the vendor's demo programs; what a number means comes from programs that read the topics.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import offsets_of, valid
from dts_assets.wire.columns.texts import readable

_SEQUENCE, _SHARD = "ps", "ShardId"
_MOST_DIGITS = 18
"""More are no number of a message.

Differences of shorter numbers fit 64 bits, and no topic has so many messages.
"""

_ZERO = ord("0")
_DIGITS = re.compile(rf"\d{{1,{_MOST_DIGITS}}}".encode())


def delivery_headers(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
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
    return _numbers(places[0]), pc.fill_null(readable(places[1]), "")


def _numbers(values: pa.Array) -> pa.Array:
    """Return decimal numbers; a text that is no number, or has too many digits, counts as no header."""
    if _all_digits(values):
        return pc.cast(pc.cast(values, pa.string()), pa.int64())
    texts = (None if value is None else _DIGITS.fullmatch(value) for value in values.to_pylist())
    return pa.array([None if text is None else int(text[0]) for text in texts], pa.int64())


def _all_digits(values: pa.BinaryArray) -> bool:
    """Tell whether every text that is there is a number: Arrow's cast also takes signs and hexadecimal digits."""
    offsets, buffer = offsets_of(values), values.buffers()[2]
    lengths = np.diff(offsets)
    if buffer is None or not len(lengths) or lengths.max() > _MOST_DIGITS or (lengths[valid(values)] == 0).any():
        return False
    digits = np.frombuffer(buffer, np.uint8, count=int(offsets[-1] - offsets[0]), offset=int(offsets[0])) - np.uint8(
        _ZERO
    )
    return bool((digits < 10).all())
