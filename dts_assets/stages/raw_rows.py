"""Kafka messages become rows of ``raw_envelopes``.

Every message is kept as it came, with the Kafka partition and window it belongs to.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.spans import Cell
from dts_assets.wire.columns.buffers import offsets_of

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


class ContentDigest:
    """A digest of messages that says whether a second reading of the same offsets gave the same ones.

    Each column is hashed for itself, so that it does not matter how the messages are cut into batches. Counts and bytes would
    not do: a repaired recording may hold as many bytes as the broken one.
    """

    def __init__(self) -> None:
        # OpenSSL's SHA-256 uses the processor's own instructions: 1.6 GB/s against BLAKE2's 0.8.
        self._columns: dict[str, hashlib._Hash] = {}

    def add(self, messages: pa.RecordBatch) -> None:
        """Add messages that follow those of the calls before."""
        for name in ("offset", "timestamp"):
            self._add_numbers(name, messages[name].cast(pa.int64()))
        for name in ("key", "value"):
            self._add_bytes(name, messages[name])
        headers = messages["headers"]
        self._add_numbers("headers", pc.fill_null(pc.list_value_length(headers), -1))
        pairs = headers.flatten()
        for name in ("key", "value"):
            self._add_bytes(f"headers.{name}", pairs.field(name).cast(pa.binary()))

    def text(self) -> str:
        """Return the digest so far, 16 hex digits."""
        parts = (f"{name}={column.hexdigest()}" for name, column in sorted(self._columns.items()))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _add_bytes(self, name: str, values: pa.Array) -> None:
        self._add_numbers(f"{name}.lengths", pc.fill_null(pc.binary_length(values), -1))
        values = pc.fill_null(values, b"") if values.null_count else values
        data, offsets = values.buffers()[2], offsets_of(values)
        if data is not None:  # the bytes of all values, one behind the other, without a copy
            self._update(name, memoryview(data)[int(offsets[0]) : int(offsets[-1])])

    def _add_numbers(self, name: str, numbers: pa.Array) -> None:
        self._update(name, numbers.to_numpy().tobytes())

    def _update(self, name: str, data: bytes | memoryview) -> None:
        self._columns.setdefault(name, hashlib.sha256()).update(data)


def with_coordinates(batch: pa.RecordBatch, *, cell: Cell, epoch: int) -> pa.RecordBatch:
    """Return a batch of one cell with ``kafka_partition`` int32, ``epoch`` int32 and ``window_start`` behind its columns."""
    rows = batch.num_rows
    columns = {
        "kafka_partition": pa.repeat(pa.scalar(cell.kafka_partition, pa.int32()), rows),
        "epoch": pa.repeat(pa.scalar(epoch, pa.int32()), rows),
        "window_start": pa.repeat(pa.scalar(cell.window.start, UTC_MICROSECONDS), rows),
    }
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])
