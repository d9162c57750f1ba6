"""A second decoder of DTS JSON: the standard library's json, value by value. It shares nothing with the product's decoder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.wire.avro_oracle import fraction

OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
ABSENT = object()
EPOCH = datetime(1970, 1, 1)
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
TIME = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]( [0-9][0-9]:[0-9][0-9]:[0-9][0-9](\.[0-9]{1,6})?( \+00:00)?)?")


class Unusable(Exception):
    """A message of which no row can be made."""


class Unclear(Exception):
    """A text whose meaning as a time is a question of the parser, and not of this format."""


def change_of(message: bytes, lake_types: Mapping[str, str]) -> dict[str, Any]:
    """The change that a message with a row is, for columns of some lake types.

    Raises:
        Unusable: No row can be made of it.
        Unclear: A text is a time in a form that no server prints.
    """
    try:
        read = json.loads(message.decode(), parse_int=str, parse_float=str)
        operation = OPERATIONS[read["messageType"]]
        columns = [(one["name"], one["originalType"]) for one in read["columns"]]
        keys = {one["name"] for one in read["columns"] if one["isKey"]} | {*(read.get("pkNames") or ())}
    except (ValueError, KeyError, TypeError):
        raise Unusable from None
    change: dict[str, Any] = {"op": operation, "before": None, "after": None, "absent": [], "invalid": {}}
    for side, name in (("before", "oldColumns"), ("after", "newColumns")):
        image = read.get(name)
        if not image:
            if side == ("before" if operation == "delete" else "after"):
                raise Unusable
            continue
        texts = _texts(image, [column for column, _ in columns])
        if any(texts[key] is None for key in keys):
            raise Unusable
        if (operation, side) in (("insert", "before"), ("delete", "after")):
            continue
        row: dict[str, Any] = {}
        for column, kind in columns:
            row[column] = None
            if texts[column] is ABSENT:
                change["absent"].append(f"{side}.{column}")
            elif texts[column] is not None:
                text = printed(texts[column], kind)
                try:
                    row[column] = typed(text, lake_types[column])
                except (ValueError, ArithmeticError):
                    change["invalid"][f"{side}.{column}"] = text
        change[side] = row
    return change


def _texts(image: Any, names: list[str]) -> dict[str, Any]:
    if isinstance(image, dict):
        if not image.keys() <= {*names}:
            raise Unusable
        return {name: _text(image.get(name, {"EmptyObject": "NONE"})) for name in names}
    if not isinstance(image, list) or len(image) != len(names):
        raise Unusable
    return {name: _text(value) for name, value in zip(names, image, strict=True)}


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise Unusable
    if value == {"EmptyObject": "NONE"}:
        return ABSENT
    found = value.get("value", {})
    if found is not None and not isinstance(found, str):
        raise Unusable
    return found


def printed(text: str, original_type: str) -> str:
    """A value as the server prints it."""
    kind = original_type.partition("(")[0]
    digits = re.search(r"\(([0-6])\)", original_type)
    if kind == "timestamp" and re.fullmatch("[0-9]{1,15}", text):
        number = int(text)
        if not number:
            return "0000-00-00 00:00:00"
        try:
            moment = EPOCH + timedelta(seconds=number // 1000)
        except OverflowError:
            return text
        return f"{moment}{fraction(number % 1000, digits)} +00:00"
    if kind == "date":
        return re.sub(r"^(\d{4,5}-\d\d-\d\d) 00:00:00(\.0{1,6})?$", r"\1", text, flags=re.ASCII)
    whole, point, rest = text.partition(".")
    is_clock = re.fullmatch(r"(\d{4,5}-\d\d-\d\d |-)?\d{2,3}:\d\d:\d\d", whole, re.ASCII)
    if kind in ("time", "datetime") and is_clock and (re.fullmatch(r"\d{3}", rest, re.ASCII) or not point):
        return whole + fraction(int(rest or 0), digits)
    if kind == "time" and is_clock:
        raise Unclear
    return text


def typed(text: str, lake_type: str) -> Any:
    """A text in a lake type.

    Raises:
        ValueError, ArithmeticError: It does not fit.
    """
    if lake_type == "string":
        return text
    if lake_type == "binary":
        if text and not re.fullmatch("0[xX]([0-9a-fA-F]{2})*", text):
            raise ValueError(text)
        return bytes.fromhex(text[2:])
    if lake_type in ("int", "bigint"):
        bits = 31 if lake_type == "int" else 63
        if not re.fullmatch(r"-?[0-9]+", text) or not -(1 << bits) <= int(text) < 1 << bits:
            raise ValueError(text)
        return int(text)
    if lake_type == "double":
        if not REAL.fullmatch(text) or abs(number := float(text)) == float("inf"):
            raise ValueError(text)
        if not number and re.match("[^eE]*[1-9]", text):
            raise ValueError(text)
        return number
    if lake_type.startswith("decimal"):
        if not REAL.fullmatch(text):
            raise ValueError(text)
        exact, (precision, scale) = Decimal(text), map(int, lake_type[8:-1].split(","))
        if exact and (exact.adjusted() >= precision - scale or exact != round(exact, scale)):
            raise ValueError(text)
        return round(exact, scale)
    if lake_type == "timestamp" and text.isdecimal():  # beyond all instants
        raise ValueError(text)
    if not TIME.fullmatch(text) and set(text) <= set("0123456789-: T.+Z"):
        raise Unclear
    if lake_type == "date":
        if len(text) != 10:
            raise ValueError(text)
        return date.fromisoformat(text)
    if lake_type == "timestamp":
        return datetime.fromisoformat(text.removesuffix(" +00:00")).replace(tzinfo=UTC)
    return datetime.fromisoformat(text)
