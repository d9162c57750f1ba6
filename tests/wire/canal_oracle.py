"""A second reading of Canal's JSON that shares nothing with the first: the standard library's json, value by value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

Change = dict[str, Any]

_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "INIT": "read"}


class Misfit(Exception):
    """A text that is no value of its type."""


def row_messages(message: bytes) -> list[tuple[str, str, bytes]]:
    """The message with its database and table, if it has rows; none for a statement or a mark."""
    read = json.loads(message)
    if read["type"] not in _OPERATIONS:
        return []
    return [(read["database"], read["table"], message)]


def changes(message: bytes, types: Mapping[str, str], *, hours: int) -> list[Change]:
    """The row changes of a message for columns of some lake types; wall clocks are ``hours`` ahead of UTC."""
    read = json.loads(message, parse_int=str, parse_float=str)
    data, old = read["data"], read.get("old")
    if read["type"] == "DELETE":
        pairs = [(row, None) for row in data]
    elif read["type"] == "UPDATE" and old:
        pairs = [({**row, **changed}, row) for row, changed in zip(data, old, strict=True)]
    else:
        pairs = [(None, row) for row in data]
    found = []
    for number, pair in enumerate(pairs):
        change: Change = {
            "row_number": number, "op": _OPERATIONS[read["type"]], "before": None, "after": None, "absent": [], "invalid": {},
        }  # fmt: skip
        for side, row in zip(("before", "after"), pair, strict=True):
            if row is not None:
                change[side] = {
                    name: _column(change, side, row, read["mysqlType"], name, kind, hours)
                    for name, kind in types.items()
                }
        found.append(change)
    return found


def _column(
    change: Change, side: str, row: Mapping[str, Any], originals: Mapping[str, str], name: str, kind: str, hours: int
) -> Any:
    if name not in row:
        if name in originals:
            change["absent"].append(f"{side}.{name}")
        return None
    if row[name] is None:
        return None
    sent = {True: "true", False: "false"}.get(row[name], row[name])
    text = as_the_server_has_it(sent, originals[name])
    if text is None:
        change["invalid"][f"{side}.{name}"] = sent
        return None
    try:
        return value(text, kind, original=originals[name], hours=hours)
    except (Misfit, ValueError, OverflowError, ArithmeticError):
        change["invalid"][f"{side}.{name}"] = text
        return None


def as_the_server_has_it(text: str, original: str) -> str | None:
    """Canal's number of an ENUM or SET as its labels, and its text of a BINARY with all its bytes; None for no label."""
    name, opened, rest = original.partition("(")
    name = name.lower()
    if name == "binary" and re.match(r"[0-9]{1,3}\)", rest) and int(rest.partition(")")[0]) <= 255:
        return text.ljust(int(rest.partition(")")[0]), "\0")
    if name not in ("enum", "set") or not opened or not re.fullmatch(r"[0-9]+", text):
        return text
    labels = _labels(rest, escaped=False) or _labels(rest, escaped=True)
    kept = text if text in labels else None
    number = int(text) if labels and len(text) <= 20 else -1
    if number < 0:
        return kept
    if name == "enum":
        return kept if number > len(labels) else ["", *labels][number]
    if number >= 2 ** len(labels):
        return kept
    return ",".join(label for place, label in enumerate(labels) if number // 2**place % 2)


def _labels(rest: str, *, escaped: bool) -> list[str]:
    """The labels in ``'a','it''s')``, character by character; none if they are written otherwise.

    ``escaped`` says that a backslash stands before quotes.
    """
    found: list[str] = []
    place = 0
    while True:
        if rest[place : place + 1] != "'":
            return []
        place, label = place + 1, ""
        while place < len(rest) and (rest[place] != "'" or rest[place : place + 2] == "''"):
            if escaped and rest[place] == "\\":
                place += 1
                label += {"n": "\n", "t": "\t"}.get(rest[place : place + 1], rest[place : place + 1])
                place += 1
                continue
            label += rest[place]
            place += 1 + (rest[place] == "'")
        found.append(label)
        following = rest[place + 1 : place + 2]
        if following == ")":
            return [one.rstrip(" ") for one in found]
        if following != ",":
            return []
        place += 2


def value(text: str, kind: str, *, original: str, hours: int) -> Any:
    """A text as a value of a lake type. Raises Misfit, or whatever the standard library raises."""
    if kind == "string":
        return text
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        if not re.fullmatch(r"-?[0-9]+", text) or not -(1 << bits) <= int(text) < 1 << bits:
            raise Misfit
        return int(text)
    if kind.startswith("decimal"):
        return _decimal(text, *map(int, re.findall(r"\d+", kind)))
    if kind == "double":
        if not re.fullmatch(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?", text):
            raise Misfit
        return float(text)
    if kind == "binary":
        return text.encode("iso-8859-1")
    if kind == "date":
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise Misfit
        return date.fromisoformat(text)
    return _clock(text, kind, hours=hours)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
        raise Misfit
    number = Decimal(text)
    if abs(number) >= Decimal(10) ** (precision - scale) or number != round(number, scale):
        raise Misfit
    return round(number, scale)


def _clock(text: str, kind: str, *, hours: int) -> datetime:
    utc = ZoneInfo("UTC")
    zoned = kind == "timestamp" and text.endswith(" +00:00")
    if zoned:
        text, hours = text.removesuffix(" +00:00"), 0
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", text):
        raise Misfit
    clock, _, fraction = text.partition(".")
    wall = datetime.strptime(clock, "%Y-%m-%d %H:%M:%S") + timedelta(microseconds=int(fraction.ljust(6, "0")))
    return wall if kind == "timestamp_ntz" else wall.replace(tzinfo=utc) - timedelta(hours=hours)
