"""Avro messages for tests, written by fastavro from objects that name only the fields which matter."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import fastavro
from fastavro.types import Schema

_EMPTY: Mapping[str, Any] = {
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
    "boolean": False,
}


@lru_cache(maxsize=64)
def parsed(schema: bytes) -> tuple[Schema, Mapping[str, Any]]:
    """Return fastavro's form of the record of a schema file, and every named type by its short name."""
    read = json.loads(schema)
    whole = read if isinstance(read, list) else [read]
    names: dict[str, Any] = {}
    for one in whole:
        _collect(one, names)
    known: dict[str, Any] = {}
    record: Schema | None = None
    for one in _in_order(whole):
        record = fastavro.parse_schema(one, known)
        if one["name"] == "Record":
            return record, names
    assert record is not None
    return record, names


def encoded(schema: bytes, fields: Mapping[str, Any]) -> bytes:
    """Return a record in bare binary encoding.

    A field that is not given is null, or empty where it cannot be null. A value of a union is ``{"Integer": {...}}``, a text, or
    null; bytes may be a text, or ``{"hex": "c3"}``.
    """
    record, _ = parsed(schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, record, _whole(schema, fields))
    return out.getvalue()


def container(schema: bytes, records: Iterable[Mapping[str, Any]], *, codec: str = "null") -> bytes:
    """Return an object container with records, which are given as to :func:`encoded`."""
    record, _ = parsed(schema)
    out = io.BytesIO()
    fastavro.writer(out, record, [_whole(schema, one) for one in records], codec=codec)
    return out.getvalue()


def _whole(schema: bytes, fields: Mapping[str, Any]) -> Any:
    record, names = parsed(schema)
    declared = next(
        one for one in names.values() if one["name"] == cast("dict[str, Any]", record)["name"].rpartition(".")[2]
    )
    return _made(declared, fields, names)


def _made(kind: Any, value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(kind, str):
        if kind in names:
            return _made(names[kind], value, names)
        if kind == "bytes" and isinstance(value, Mapping):
            return bytes.fromhex(value["hex"])
        if kind == "bytes" and isinstance(value, str):
            return value.encode()
        return _EMPTY.get(kind) if value is None else value
    if isinstance(kind, list):
        return _of_union(kind, value, names)
    if kind["type"] == "record":
        given = {} if value is None else value
        return {one["name"]: _made(one["type"], given.get(one["name"]), names) for one in kind["fields"]}
    if kind["type"] == "array":
        return [_made(kind["items"], one, names) for one in value or ()]
    if kind["type"] == "map":
        return {key: _made(kind["values"], one, names) for key, one in (value or {}).items()}
    if kind["type"] == "enum":
        return kind["symbols"][0] if value is None else value
    return _made(kind["type"], value, names)


def _of_union(kinds: list[Any], value: Any, names: Mapping[str, Any]) -> Any:
    if value is None and "null" in kinds:
        return None
    for kind in kinds:
        name = kind if isinstance(kind, str) else kind.get("name", kind["type"])
        if isinstance(value, Mapping) and name in value:
            full = name if name in _EMPTY else _full_name(names[name])
            return (full, _made(kind, value[name], names))
        if (name == "array" and isinstance(value, list)) or (name == "map" and isinstance(value, Mapping)):
            return (name, _made(kind, value, names))
        if isinstance(kind, dict) and kind["type"] == "enum" and value in kind["symbols"]:
            return (_full_name(kind), value)
        if name in _EMPTY and not isinstance(value, (Mapping, list)):
            return (name, _made(kind, value, names))
    raise ValueError(f"no branch of {kinds} takes the value")


def _full_name(kind: Mapping[str, Any]) -> str:
    space = kind.get("namespace", "com.tencent.subscribe.avro")
    return f"{space}.{kind['name']}" if space else str(kind["name"])


def _collect(kind: Any, names: dict[str, Any]) -> None:
    if isinstance(kind, list):
        for one in kind:
            _collect(one, names)
    elif isinstance(kind, dict):
        if kind.get("type") in ("record", "enum", "fixed"):
            names[kind["name"]] = kind
        for one in kind.get("fields", ()):
            _collect(one["type"], names)
        for part in ("items", "values"):
            _collect(kind.get(part), names)
        if isinstance(kind.get("type"), dict | list):
            _collect(kind["type"], names)


def _in_order(whole: list[Any]) -> list[Any]:
    """Return the schemas of a file so that each stands behind those that it names, as fastavro wants them."""
    left, done = {one["name"]: one for one in whole}, []
    while left:
        for name, one in list(left.items()):
            text = json.dumps(one)
            if not any(f'"{other}"' in text for other in left if other != name):
                done.append(left.pop(name))
                break
        else:
            return [*done, *left.values()]
    return done
