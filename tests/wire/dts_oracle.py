"""The naive decoder that the columnar one is compared to: one Python value at a time, and nothing shared with ``wire/``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from dts_assets.model.columns import Column, decimal_arguments
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.protocol import subscribe_pb2 as pb

CODECS = {"": "utf-8", "utf8": "utf-8", "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ascii": "utf-8", "binary": "utf-8",
          "gbk": "gbk", "gb18030": "gb18030", "big5": "big5", "latin2": "iso8859-2", "koi8r": "koi8-r"}  # fmt: skip
"""Sets that are not here are unknown: text where they are UTF-8. latin1 is handled by itself."""

OPERATIONS = {pb.INSERT: "insert", pb.UPDATE: "update", pb.DELETE: "delete"}
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?: ?([+-])(\d\d):(\d\d))?")


class Unfit(Exception):
    """A text that does not fit its type."""


@dataclass
class Expected:
    """What decoding some entries should give."""

    tables: dict[TableId, list[dict[str, Any]]] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)
    unsigned: set[TaughtType] = field(default_factory=set)


def changes(payloads: Sequence[bytes], tables: Mapping[TableId, tuple[Column, ...]]) -> Expected:
    """Rows of every table as dictionaries, in order."""
    expected = Expected()
    for index, payload in enumerate(payloads):
        entry = pb.Entry.FromString(payload)
        table = TableId(entry.header.schemaName, "", entry.header.tableName)
        if table not in tables:
            continue
        event = entry.event.dmlEvent
        rows = [_row(event, row, number, index, tables[table]) for number, row in enumerate(event.rows)]
        if event.dmlEventType not in OPERATIONS or any(row is None for row in rows):
            expected.rejected.add(index)
            continue
        for row in rows:
            assert row is not None
            for name, text in row.pop("unsigned"):
                expected.unsigned.add(TaughtType(table, name, text))
            expected.tables.setdefault(table, []).append(row)
    return expected


def _row(event: Any, row: Any, number: int, index: int, columns: Sequence[Column]) -> dict[str, Any] | None:
    width = len(event.columns)
    if any(len(image) not in (0, width) for image in (row.oldColumns, row.newColumns)):
        return None
    if not (row.oldColumns if event.dmlEventType == pb.DELETE else row.newColumns):
        return None
    made: dict[str, Any] = {
        "entry_index": index, "row_number": number, "op": OPERATIONS.get(event.dmlEventType),
        "absent": [], "invalid": {}, "unsigned": [],
    }  # fmt: skip
    for side, image in (("before", row.oldColumns), ("after", row.newColumns)):
        made[side] = None
        if not image:
            continue
        made[side] = {}
        for column in columns:
            place = next((n for n, one in enumerate(event.columns) if one.name == column.name), None)
            made[side][column.name] = None
            if place is not None:
                _cell(made, side, column, image[place], event.columns[place].originalType)
    return made


def _cell(made: dict[str, Any], side: str, column: Column, data: Any, original: str) -> None:
    if data.dataType == pb.NIL:
        return
    if data.dataType == pb.NA:
        made["absent"].append(f"{side}.{column.name}")
        return
    is_unsigned = data.dataType in (pb.UINT8, pb.UINT16, pb.UINT32, pb.UINT64)
    if is_unsigned and re.match(r"\s*(int|integer|bigint)\b(?!.*(unsigned|zerofill))", original.lower()):
        made["unsigned"].append((column.name, original))
    if data.dataType in (pb.STRING, pb.BYTES):
        raw, charset = data.bv, data.charset
    elif data.dataType in range(pb.NA):
        raw, charset = data.sv.encode(), ""
    else:
        raw, charset = data.bv or data.sv.encode(), data.charset
    try:
        made[side][column.name] = value(raw, charset, column.type, original)
    except Unfit:
        made["invalid"][f"{side}.{column.name}"] = _shown(raw)


def _shown(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex().upper()


def value(raw: bytes, charset: str, kind: str, original: str) -> Any:
    """What a value of a lake type becomes, or Unfit."""
    if kind == "binary":
        return raw
    if kind == "string":
        return _text(raw, charset)
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        raise Unfit from None
    arguments = decimal_arguments(kind)
    if arguments is not None:
        return _decimal(text, *arguments, bits=original.lower().startswith("bit"))
    if kind in ("int", "bigint"):
        if not re.fullmatch(r"-?[0-9]+", text):
            raise Unfit
        limit = 1 << (31 if kind == "int" else 63)
        return _within(int(text), -limit, limit - 1)
    if kind in ("float", "double"):
        return _real(text, kind)
    if kind == "boolean":
        if text.lower() not in ("0", "1", "true", "false"):
            raise Unfit
        return text.lower() in ("1", "true")
    return _moment(text, kind)


def _text(raw: bytes, charset: str) -> str:
    if charset == "latin1":
        return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in raw)
    try:
        return raw.decode(CODECS.get(charset, "utf-8"))
    except UnicodeDecodeError:
        raise Unfit from None


def _within(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise Unfit
    return number


def _decimal(text: str, precision: int, scale: int, *, bits: bool) -> Decimal:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise Unfit
    with localcontext() as context:
        context.prec = 5000
        number = Decimal(text)
        if bits and number < 0:
            number += 1 << 64
        unit = Decimal(1).scaleb(-scale)
        if number != number.quantize(unit) or abs(number) >= Decimal(10) ** (precision - scale):
            raise Unfit
        return number.quantize(unit)


def _real(text: str, kind: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise Unfit
    with np.errstate(over="ignore", under="ignore"):
        number = float(np.float32(text)) if kind == "float" else float(text)
    if number in (float("inf"), float("-inf")) or (number == 0 and re.search("[1-9]", text.lower().partition("e")[0])):
        raise Unfit
    return number


def _moment(text: str, kind: str) -> date | datetime:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Unfit
    year, month, day, hour, minute, second, fraction, sign, zone_hours, zone_minutes = found.groups()
    if (kind == "date" and (hour or sign)) or (kind == "timestamp_ntz" and sign):
        raise Unfit
    try:
        if kind == "date":
            return date(int(year), int(month), int(day))
        micros = int((fraction or "0").ljust(6, "0"))
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micros)
        if kind == "timestamp_ntz":
            return moment
        offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0)) * (-1 if sign == "-" else 1)
        return (moment - offset).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Unfit from None
