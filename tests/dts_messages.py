"""Messages of Tencent DTS made by hand, with protobuf's own classes, a value at a time.

Nothing of the decoder and nothing of the emulator is used here, so that tests cannot share a mistake of either. Functions that
need columns and batches of the decoder stand in tests/wire/made.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from dts_assets.protocol import subscribe_pb2 as pb

Image: TypeAlias = Sequence[pb.Data]
Row: TypeAlias = tuple[Image, Image]
"""Old and new values; an image that an operation does not have is empty."""

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NULL = pb.Data()
ABSENT = pb.Data(dataType=pb.NA)
OPERATIONS = {"insert": pb.INSERT, "update": pb.UPDATE, "delete": pb.DELETE}


def number(text: object, data_type: Any = pb.INT32) -> pb.Data:
    return pb.Data(dataType=data_type, sv=str(text))


def text(value: str | bytes, charset: str = "utf8mb4", codec: str = "utf-8") -> pb.Data:
    return pb.Data(dataType=pb.STRING, charset=charset, bv=value.encode(codec) if isinstance(value, str) else value)


def raw(value: bytes) -> pb.Data:
    return pb.Data(dataType=pb.BYTES, bv=value)


def entry(message_type: Any, event: pb.Event | None = None, **header: Any) -> pb.Entry:
    """An entry with a header that names a place; ``header`` says what is different in it."""
    usual = {
        "version": 1,
        "sourceType": pb.MYSQL,
        "timestamp": 1648110060,
        "fileName": "mysql-bin.000005",
        "position": 4,
    }
    made = pb.Entry(event=event)
    made.header.MergeFrom(pb.Header(messageType=message_type, **{**usual, **header}))
    return made


def dml_event(columns: Sequence[tuple[str, str, bool]], rows: Iterable[Row], operation: Any = pb.INSERT) -> pb.Event:
    """The rows of one event; ``columns`` are ``("id", "int(11)", True)``: name, original type, whether of the key."""
    described = [pb.Column(name=name, originalType=original, isKey=is_key) for name, original, is_key in columns]
    changes = [pb.RowChange(oldColumns=old, newColumns=new) for old, new in rows]
    return pb.Event(dmlEvent=pb.DMLEvent(dmlEventType=operation, columns=described, rows=changes))


def dml(
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Row],
    *,
    operation: Any = pb.INSERT,
    database: str = "shopdb",
    table: str = "orders",
) -> pb.Entry:
    """A DML entry of a table whose key is its first column."""
    keyed = [(name, original, place == 0) for place, (name, original) in enumerate(columns)]
    return entry(pb.DML, dml_event(keyed, rows, operation), schemaName=database, tableName=table)


def entry_set(entries: Iterable[pb.Entry]) -> bytes:
    return pb.Entries(items=entries).SerializeToString()


def fragments(data: bytes, count: int = 1) -> list[bytes]:
    """An entry set as the values of ``count`` messages."""
    size = -(-len(data) // count)
    return [
        pb.Envelope(version=1, total=count, index=index, data=data[index * size : (index + 1) * size]).SerializeToString()
        for index in range(count)
    ]  # fmt: skip


def delimited(field_number: int, data: bytes) -> bytes:
    """A field of a message that is written by hand, with its tag and length before it."""
    length, prefix = len(data), bytearray([field_number << 3 | 2])
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    return bytes(prefix) + bytes([length]) + data
