"""The fragments of formats in which every message is whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.delivery_headers import delivery_headers
from dts_assets.wire.format import FRAGMENTS


def whole_fragments(messages: pa.RecordBatch, *, numbered: bool = False) -> pa.RecordBatch:
    """Return FRAGMENTS of messages, row for row: every message is whole.

    ``numbered`` says that the vendor numbers its messages in headers.
    """
    count = messages.num_rows
    values = messages["value"]
    is_null = np.asarray(pc.equal(pc.fill_null(pc.binary_length(values), 0), 0))
    sequence, shard = pa.nulls(count, pa.int64()), pa.repeat(pa.scalar(""), count)
    if numbered:
        sequence, shard = delivery_headers(messages["headers"])
    columns = {
        "shard": shard,
        "sequence": sequence,
        "total": pa.array(np.ones(count, np.int64), mask=is_null),
        "index": pa.array(np.zeros(count, np.int64), mask=is_null),
        "data": pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), values) if is_null.any() else values,
        "is_null": pa.array(is_null),
        "reason": pa.nulls(count, pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=FRAGMENTS)
