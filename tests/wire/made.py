"""Entries and messages in the columns that the decoder takes, made from protobuf objects."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.format import ENTRIES, MESSAGES
from tests.dts_messages import entry_set


def sets(*entries: pb.Entry) -> pa.Array:
    """One entry set holding all of them."""
    return pa.array([entry_set(entries)], pa.binary())


def batch(*entries: pb.Entry) -> pa.RecordBatch:
    """DML entries as rows of ``entries``, with no more than ``changes()`` needs."""
    rows = [
        {
            "payload": one.SerializeToString(),
            "database": one.header.schemaName,
            "table": one.header.tableName,
            "schema": None,
        }
        for one in entries
    ]
    names = ("database", "schema", "table", "payload")
    return pa.RecordBatch.from_pylist(rows, pa.schema([ENTRIES.field(name) for name in names]))


def messages(
    *values: bytes | None, headers: Sequence[Sequence[tuple[str, bytes | None]] | None] = ()
) -> pa.RecordBatch:
    """Kafka messages with these values; ``headers`` per message, where given."""
    rows = [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": 0,
            "key": None,
            "value": value,
            "headers": None
            if offset >= len(headers) or headers[offset] is None
            else [{"key": key, "value": data} for key, data in headers[offset] or ()],
        }
        for offset, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, MESSAGES)
