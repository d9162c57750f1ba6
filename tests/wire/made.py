"""Entries and values as the vendor would send them, made from protobuf objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.format import ENTRIES, MESSAGES

Row: TypeAlias = tuple[Sequence[pb.Data], Sequence[pb.Data]]
"""Old and new values."""

NULL = pb.Data()
ABSENT = pb.Data(dataType=pb.NA)


def number(text: str, data_type: Any = pb.INT32) -> pb.Data:
    return pb.Data(dataType=data_type, sv=text)


def text(value: str | bytes, charset: str = "utf8mb4") -> pb.Data:
    return pb.Data(dataType=pb.STRING, charset=charset, bv=value.encode() if isinstance(value, str) else value)


def raw(value: bytes) -> pb.Data:
    return pb.Data(dataType=pb.BYTES, bv=value)


def entry(message_type: Any, **header: Any) -> pb.Entry:
    made = pb.Entry()
    fields = {
        "version": 1,
        "sourceType": pb.MYSQL,
        "timestamp": 1648110060,
        "fileName": "mysql-bin.000005",
        "position": 4,
    }
    made.header.MergeFrom(pb.Header(messageType=message_type, **{**fields, **header}))
    return made


def dml(
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Row],
    *,
    operation: Any = pb.INSERT,
    database: str = "shopdb",
    table: str = "orders",
) -> pb.Entry:
    """A DML entry; ``columns`` are names and original types (the first is the key), ``rows`` pairs of old and new values."""
    made = entry(pb.DML, schemaName=database, tableName=table)
    event = made.event.dmlEvent
    event.dmlEventType = operation
    for place, (name, original) in enumerate(columns):
        event.columns.add(name=name, originalType=original, isKey=place == 0)
    for old, new in rows:
        row = event.rows.add()
        row.oldColumns.extend(old)
        row.newColumns.extend(new)
    return made


def sets(*entries: pb.Entry) -> pa.Array:
    """One entry set holding all of them."""
    return pa.array([pb.Entries(items=entries).SerializeToString()], pa.binary())


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
