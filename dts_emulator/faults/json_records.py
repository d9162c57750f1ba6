"""Messages of DTS JSON in the form of records of DTS Avro, in which faults are looked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

STRANGE = "strange"
"""The field of a record that says something which no record of JSON says."""

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBERS = ("id", "version", "timestamp", "serverId", "total", "index", "executionTime")
_TEXTS = (
    "messageType", "fileName", "position", "safePosition", "gtid", "transactionId", "threadId", "sourceType", "sourceVersion",
    "schemaName", "tableName", "objectName", "sql", "heartbeatTimestamp", "syncedGtid", "fakeGtid", "readerTimestamp",
)  # fmt: skip
_IMAGES = ("oldColumns", "newColumns")
_FIELDS = frozenset({*_NUMBERS, *_TEXTS, *_IMAGES, "columns", "pkNames", "tags"})
_NEEDED = ("id", "version", "timestamp")
_TRUE = frozenset({"true", "1"})
_NONE = -1


def json_record(value: bytes) -> Mapping[str, Any] | None:
    """Return the record that a message in JSON is; None if it is none."""
    try:
        found = json.loads(value.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("messageType") is None:
        return None
    columns = _columns(found.get("columns"))
    record: dict[str, Any] = {name: _whole(found.get(name)) for name in _NUMBERS}
    record |= {name: _text(found.get(name)) for name in _TEXTS}
    record |= {name: _image(found.get(name), columns) for name in _IMAGES}
    record |= {"columns": columns, "pkNames": found.get("pkNames") or None, STRANGE: _is_strange(found)}
    record |= {name: _NONE for name in _NEEDED if record[name] is None}
    record |= {name: record[name] or 0 for name in ("serverId", "total", "index", "executionTime")}
    return record | {name: record[name] or "" for name in ("fileName", "position")}


def _is_strange(found: Mapping[str, Any]) -> bool:
    """Return whether a record has a field that nobody knows, or a list where a scalar stands."""
    if any(value is not None for name, value in found.items() if name not in _FIELDS):
        return True
    if any(isinstance(found.get(name), dict | list) for name in (*_NUMBERS, *_TEXTS)):
        return True
    return any(not isinstance(found.get(name), dict | list | None) and found[name] != "" for name in _IMAGES)


def _whole(value: Any) -> int | None:
    text = _text(value)
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _columns(found: Any) -> list[dict[str, Any]] | None:
    if not isinstance(found, list):
        return None
    return [
        {
            "name": one.get("name") if isinstance(one.get("name"), str) else "",
            "originalType": str(one.get("originalType")),
            "isKey": str(one.get("isKey")).lower() in _TRUE,
        }
        for one in found
        if isinstance(one, dict)
    ]


def _image(found: Any, columns: Sequence[Mapping[str, Any]] | None) -> Sequence[Any] | None:
    if isinstance(found, dict):
        return [found.get(one["name"], STRANGE) for one in columns or ()]
    return found or None if isinstance(found, list) else None
