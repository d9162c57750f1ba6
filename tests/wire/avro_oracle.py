"""A second decoder of DTS Avro: fastavro, then plain Python value by value. It shares nothing with the product's decoder."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from tests.wire.avro_messages import parsed

OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "INIT_INSERT": "read"}
CHARSETS = {"utf8": "utf-8", "utf8mb4": "utf-8", "gbk": "gbk", "latin1": "latin-1", "binary": "utf-8", "": "utf-8"}
ABSENT = object()


@dataclass(frozen=True)
class Bytes:
    """A value as bytes in a character set, or as text in UTF-8."""

    data: bytes
    charset: str = ""


def record_of(schema: bytes, message: bytes) -> dict[str, Any] | None:
    """The record that a message is, with records of unions tagged by name; None if it is none."""
    source = io.BytesIO(message)
    try:
        found: Any = fastavro.schemaless_reader(
            source,
            parsed(schema)[0],
            return_record_name=True,
            return_record_name_override=False,
            return_named_type=True,
        )
    except Exception:  # whatever a parser raises of nonsense
        return None
    return found if source.read(1) == b"" and isinstance(found, dict) else None


def change_of(record: Mapping[str, Any], lake_types: Mapping[str, str]) -> dict[str, Any] | None:
    """The change that a record with a row is; None if it is none that can be used."""
    operation = OPERATIONS[record["messageType"]]
    columns = record["columns"]
    images: dict[str, list[Any] | None] = {"before": record["oldColumns"], "after": record["newColumns"]}
    for side, values in images.items():
        if values is not None and (isinstance(values, str) or len(values) != len(columns)):
            return None
        if values is None and side == ("before" if operation == "delete" else "after"):
            return None
    if operation in ("insert", "read"):
        images["before"] = None
    if operation == "delete":
        images["after"] = None
    made: dict[str, Any] = {"op": operation, "before": None, "after": None, "absent": [], "invalid": {}}
    for side, values in images.items():
        if values is None:
            continue
        row: dict[str, Any] = {}
        for column, value in zip(columns, values, strict=True):
            name, kind = column["name"], column["originalType"]
            text = text_of(value, kind)
            row[name] = None
            if text is ABSENT:
                made["absent"].append(f"{side}.{name}")
            elif isinstance(text, Bytes):
                try:
                    row[name] = typed(text, lake_types[name])
                except (ValueError, ArithmeticError):
                    made["invalid"][f"{side}.{name}"] = shown(text.data)
        made[side] = row
    return made


def text_of(value: Any, original_type: str) -> Any:
    """A value as the text that a database prints, None for NULL, ABSENT for what was not sent."""
    if value is None:
        return None
    name, inside = value
    name = name.rpartition(".")[2]
    if name == "EmptyObject":
        return ABSENT if inside == "NONE" else None
    if name in ("Integer", "Decimal", "TextObject", "TextGeometry"):
        return Bytes(inside["value"].encode())
    if name == "Character":
        return Bytes(inside["value"], inside["charset"])
    if name in ("BinaryObject", "BinaryGeometry"):
        return Bytes(inside["value"])
    if name == "Float":
        return Bytes(repr(inside["value"]).encode())
    digits = re.search(r"\(([0-6])\)", original_type)
    if name == "Timestamp":
        if inside["timestamp"] == 0 and inside["millis"] == 0:
            return Bytes(b"0000-00-00 00:00:00")
        moment = datetime(1970, 1, 1) + timedelta(seconds=inside["timestamp"])
        return Bytes(f"{moment}{fraction(inside['millis'], digits)} +00:00".encode())
    assert name == "DateTime"
    part = {key: number or 0 for key, number in inside.items()}
    day = f"{part['year']:04}-{part['month']:02}-{part['day']:02}"
    kind = original_type.partition("(")[0]
    if kind == "date":
        return Bytes(day.encode())
    if kind == "year":
        return Bytes(f"{part['year']:04}".encode())
    below = kind == "time" and min(part[key] for key in ("hour", "minute", "second", "millis")) < 0
    hour, minute, second, millis = (abs(part[key]) for key in ("hour", "minute", "second", "millis"))
    time = f"{hour:02}:{minute:02}:{second:02}{fraction(millis, digits)}"
    return Bytes((f"{'-' if below else ''}{time}" if kind == "time" else f"{day} {time}").encode())


def fraction(millis: int, digits: re.Match[str] | None) -> str:
    wanted = int(digits.group(1)) if digits else 0
    if wanted < 3 and millis % 10 ** (3 - wanted):
        wanted = 3
    return "." + f"{millis:03}000"[:wanted] if wanted else ""


def typed(value: Bytes, lake_type: str) -> Any:
    """The value in a lake type.

    Raises:
        ValueError, ArithmeticError: It does not fit.
    """
    if lake_type == "binary":
        return value.data
    text = value.data.decode(CHARSETS[value.charset])
    if lake_type == "string":
        return text
    if lake_type in ("int", "bigint"):
        number = int(text)
        if not re.fullmatch(r"-?\d+", text) or not -(1 << (31 if lake_type == "int" else 63)) <= number < 1 << (
            31 if lake_type == "int" else 63
        ):
            raise ValueError(text)
        return number
    if lake_type == "double":
        return float(text)
    if lake_type.startswith("decimal"):
        exact = Decimal(text)
        precision, scale = map(int, lake_type[8:-1].split(","))
        if exact and (exact.adjusted() >= precision - scale or exact != round(exact, scale)):
            raise ValueError(text)
        return round(exact, scale)
    if lake_type == "date":
        return date.fromisoformat(text)
    if lake_type == "timestamp":
        return datetime.fromisoformat(text.replace(" +00:00", "")).replace(tzinfo=UTC)
    assert lake_type == "timestamp_ntz"
    return datetime.fromisoformat(text)


def shown(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex().upper()}"
