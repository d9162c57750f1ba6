"""A second reading of DRS JSON and JSON-C that shares nothing with the first: the standard library's json, value by value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

Change = dict[str, Any]

_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "INIT": "read"}


class Misfit(Exception):
    """A text that is no value of its type."""


def changes(message: bytes, types: Mapping[str, str], *, hours: int, form: str) -> list[Change]:
    """The row changes of a message for columns of some lake types; wall clocks are ``hours`` ahead of UTC."""
    read = json.loads(message, parse_int=str, parse_float=str)
    data, old = read["data"], read.get("old")
    if read["type"] == "DELETE":
        pairs = [(row, None) for row in (old or data if form == "drs-json" else data or old) or []]
    elif read["type"] == "UPDATE" and old:
        pairs = list(zip(old, data, strict=True))
    else:
        pairs = [(None, row) for row in data]
    found = []
    for number, pair in enumerate(pairs):
        change: Change = {
            "row_number": number, "op": _OPERATIONS[read["type"]], "before": None, "after": None, "absent": [], "invalid": {},
        }  # fmt: skip
        for side, row in zip(("before", "after"), pair, strict=True):
            if row is None:
                continue
            image: dict[str, Any] = {}
            for name, kind in types.items():
                image[name] = None
                if name not in row:
                    if name in read["mysqlType"]:
                        change["absent"].append(f"{side}.{name}")
                elif row[name] is not None:
                    text = {True: "true", False: "false"}.get(row[name], row[name])
                    try:
                        image[name] = value(text, kind, hours=hours, form=form)
                    except Misfit:
                        change["invalid"][f"{side}.{name}"] = text
            change[side] = image
        found.append(change)
    return found


def value(text: str, kind: str, *, hours: int, form: str) -> Any:
    """A text as a value of a lake type. Raises Misfit."""
    try:
        if kind == "timestamp" and form == "drs-json" and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
            return _instant(text)
        return _value(text, kind, hours=hours)
    except (ValueError, OverflowError):
        raise Misfit from None


def _instant(text: str) -> datetime:
    """The instant of seconds since the epoch; MySQL's TIMESTAMP begins one second behind it."""
    seconds, _, fraction = text.partition(".")
    if int(seconds) < 1:
        raise Misfit
    start = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
    return start + timedelta(seconds=int(seconds), microseconds=int(fraction.ljust(6, "0")))


def _value(text: str, kind: str, *, hours: int) -> Any:
    if kind == "string":
        return text
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        if not re.fullmatch(r"-?[0-9]+", text) or not -(1 << bits) <= int(text) < 1 << bits:
            raise Misfit
        return int(text)
    if kind in ("float", "double"):
        if not re.fullmatch(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?", text):
            raise Misfit
        return float(text) if kind == "double" else float(np.float32(text))
    if kind == "binary":
        if not re.fullmatch(r"\[.*\]", text):
            raise Misfit
        inner = text[1:-1]
        return (
            bytes(number & 255 if -128 <= number <= 255 else _no() for number in map(int, inner.split(",")))
            if inner
            else b""
        )
    if kind == "date":
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else _no()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += " 00:00:00"  # a date is its midnight
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", text):
        raise Misfit
    clock, _, fraction = text.partition(".")
    wall = datetime.strptime(clock, "%Y-%m-%d %H:%M:%S") + timedelta(microseconds=int(fraction.ljust(6, "0")))
    return wall if kind == "timestamp_ntz" else wall.replace(tzinfo=ZoneInfo("UTC")) - timedelta(hours=hours)


def _no() -> Any:
    raise Misfit
