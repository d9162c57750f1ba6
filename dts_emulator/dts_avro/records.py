"""Entries of the task as records, one for each row, by the vendor's table of types."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro
from fastavro.types import Schema

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts import record_fields
from dts_emulator.dts.record_fields import base_of
from dts_emulator.source.source_schema import text_of

_SPACE = "com.tencent.subscribe.avro"
_ARGUMENTS = re.compile(r"\((\d+)(?:,(\d+))?\)")
_MOMENT = re.compile(
    r"(?:(?P<year>\d+)-(?P<month>\d+)-(?P<day>\d+))?[ ]?"
    r"(?:(?P<sign>-?)(?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+)(?:\.(?P<fraction>\d+))?)?(?: \+00:00)?"
)
_DATES, _TIMES = ("year", "month", "day"), ("hour", "minute", "second")

_INTEGERS = frozenset({
    pb.INT8, pb.INT16, pb.INT32, pb.INT64, pb.UINT8, pb.UINT16, pb.UINT32, pb.UINT64,
})  # fmt: skip


@cache
def schema_file() -> bytes:
    """Return the content of ``Record.avsc``."""
    return files(__package__).joinpath("Record.avsc").read_bytes()


@cache
def record_schema() -> Schema:
    """Return fastavro's form of the record of ``Record.avsc``."""
    known: dict[str, Any] = {}
    *kinds, record = json.loads(schema_file())
    for one in kinds:
        fastavro.parse_schema(one, known)
    return fastavro.parse_schema(record, known)


def encoded(record: Mapping[str, Any]) -> bytes:
    """Return a record in bare binary encoding."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, record_schema(), record)
    return out.getvalue()


def records_of(entry: pb.Entry, *, text_as_bytes: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the records of an entry, without ``id``, ``safePosition`` and ``readerTimestamp``.

    ``text_as_bytes`` says that columns of the TEXT types are BinaryObject, as those of the BLOB types.
    """

    def image(values: Sequence[pb.Data], columns: Sequence[pb.Column]) -> list[tuple[str, Any]]:
        pairs = zip(values, columns, strict=True)
        return [_value(value, column.originalType, text_as_bytes=text_as_bytes) for value, column in pairs]

    for record in record_fields.records_of(entry, image):
        yield record | {name: ("array", record[name]) for name in _ARRAYS if record[name] is not None}


_ARRAYS = ("columns", "oldColumns", "newColumns", "pkNames")


def _value(value: pb.Data, original_type: str, *, text_as_bytes: bool) -> tuple[str, Any]:
    """Return a value as the record of its kind."""
    kind, base = value.dataType, base_of(original_type)
    if kind in (pb.NIL, pb.NA):
        return f"{_SPACE}.EmptyObject", "NULL" if kind == pb.NIL else "NONE"
    if kind in _INTEGERS:
        if base == "year":
            return _of("DateTime", _moment(value.sv.zfill(4) + "-0-0") | {"month": None, "day": None})
        return _of("Integer", {"precision": len(value.sv.lstrip("-")), "value": value.sv})
    if kind in (pb.FLOAT32, pb.FLOAT64):
        return _of("Float", {"value": float(value.sv), "precision": 0, "scale": 0})
    if kind == pb.DECIMAL:
        precision, scale = _arguments(original_type)
        return _of("Decimal", {"value": value.sv, "precision": precision, "scale": scale})
    if base == "timestamp":
        return _of("Timestamp", _instant(value.bv.decode()))
    if base in ("date", "datetime", "time"):
        return _of("DateTime", _moment(value.bv.decode()))
    if base in ("enum", "set", "json"):
        return _of("TextObject", {"type": base, "value": text_of(value.charset)(value.bv)})
    is_text = kind == pb.STRING and base not in ("binary", "varbinary")
    if is_text and not (text_as_bytes and base.endswith("text")):
        return _of("Character", {"charset": value.charset, "value": value.bv})
    return _of("BinaryObject", {"type": base, "value": value.bv})


def _of(name: str, fields: dict[str, Any]) -> tuple[str, Any]:
    return f"{_SPACE}.{name}", fields


def _arguments(original_type: str) -> tuple[int, int]:
    found = _ARGUMENTS.search(original_type)
    return (10, 0) if found is None else (int(found.group(1)), int(found.group(2) or 0))


def _moment(text: str) -> dict[str, int | None]:
    """Return the parts of a date, a time or both.

    A time below zero has all its parts below zero.

    Raises:
        ValueError: The text is none of them.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("a value of a date or time type has another form")
    parts: dict[str, int | None] = {name: None if found[name] is None else int(found[name]) for name in _DATES}
    sign = -1 if found["sign"] else 1
    parts |= {name: None if found[name] is None else sign * int(found[name]) for name in _TIMES}
    parts["millis"] = None if found["hour"] is None else sign * int((found["fraction"] or "0").ljust(3, "0")[:3])
    return parts


def _instant(text: str) -> dict[str, int]:
    """Return seconds and milliseconds of ``2021-05-17 07:22:42.500 +00:00``; zero for the zero timestamp."""
    if text.startswith("0000"):
        return {"timestamp": 0, "millis": 0}
    moment = datetime.fromisoformat(text.removesuffix(" +00:00")).replace(tzinfo=UTC)
    return {"timestamp": int(moment.timestamp()), "millis": moment.microsecond // 1000}
