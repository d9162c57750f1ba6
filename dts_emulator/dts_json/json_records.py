"""Entries of the task as records in JSON, one for each row: each value is a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts import record_fields
from dts_emulator.dts.record_fields import base_of
from dts_emulator.source.source_schema import text_of

Images = Literal["texts", "objects", "names"]

_ORDER = (
    "id", "version", "messageType", "fileName", "position", "safePosition", "timestamp", "gtid", "transactionId", "serverId",
    "threadId", "sourceType", "sourceVersion", "schemaName", "tableName", "objectName", "columns", "oldColumns", "newColumns",
    "sql", "executionTime", "heartbeatTimestamp", "syncedGtid", "fakeGtid", "pkNames", "readerTimestamp", "tags", "total",
    "index",
)  # fmt: skip
"""The fields in the order of the vendor's table."""

_MIDNIGHT = " 00:00:00.000"


def encoded(record: Mapping[str, Any]) -> bytes:
    """Return a record as JSON, its fields in the order of the vendor's table."""
    ordered = {name: record[name] for name in _ORDER}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def records_of(entry: pb.Entry, *, images: Images = "texts", whole_dates: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the records of an entry, without ``id``, ``safePosition`` and ``readerTimestamp``.

    ``images`` and ``whole_dates`` are choices of the task, see ``JsonOptions``.
    """

    def image(values: Sequence[pb.Data], columns: Sequence[pb.Column]) -> Any:
        texts = [
            _text(value, base_of(column.originalType), whole_dates=whole_dates)
            for value, column in zip(values, columns, strict=True)
        ]
        sent = [value.dataType != pb.NA for value in values]
        if images == "names":
            named = zip(columns, texts, sent, strict=True)
            return {column.name: text for column, text, is_sent in named if is_sent}
        if images == "objects":
            return [_object(value, text) for value, text in zip(values, texts, strict=True)]
        return texts

    return record_fields.records_of(entry, image)


def _object(value: pb.Data, text: str | None) -> dict[str, str | None] | None:
    if value.dataType == pb.NA:
        return {"EmptyObject": "NONE"}
    return None if text is None else {"charset": value.charset, "value": text}


def _text(value: pb.Data, base: str, *, whole_dates: bool) -> str | None:
    """Return a value as the page says; None for NULL, and for a column that was not sent."""
    if value.dataType in (pb.NIL, pb.NA):
        return None
    if value.sv:
        return value.sv
    if base == "timestamp":
        return _milliseconds(value.bv.decode())
    if base in ("datetime", "time"):
        whole, _, fraction = value.bv.decode().partition(".")
        return f"{whole}.{fraction[:3].ljust(3, '0')}"
    if base == "date":
        return value.bv.decode() + (_MIDNIGHT if whole_dates else "")
    if base == "json":
        return value.bv.decode()
    if value.dataType == pb.BYTES or base in ("binary", "varbinary"):
        return f"0x{value.bv.hex()}"
    return text_of(value.charset)(value.bv)


def _milliseconds(text: str) -> str:
    """Return the milliseconds since 1970 of ``2021-05-17 07:22:42.500 +00:00``; 0 for the zero timestamp."""
    if text.startswith("0000"):
        return "0"
    moment = datetime.fromisoformat(text.removesuffix(" +00:00")).replace(tzinfo=UTC)
    return str(int(moment.timestamp()) * 1000 + moment.microsecond // 1000)
