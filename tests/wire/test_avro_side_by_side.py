"""Avro values read side by side are what fastavro reads one by one, for any schema, and whatever lies between the messages."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.wire.avro.schema import Type, parse_schema
from dts_assets.wire.avro.side_by_side import (
    ROOM,
    Choices,
    Column,
    Fields,
    Lists,
    Messages,
    Numbers,
    Slices,
    concat,
    read,
)
from tests.tiers import examples

Schema = Any

NUMBERS = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.one_of(st.integers(-70, 70), st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}
BYTES = st.one_of(st.binary(max_size=6), st.binary(min_size=60, max_size=70))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PRIMITIVES = ("null", *NUMBERS, "bytes", "string")


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Schema:
    names = iter(range(1000))

    def one(depth: int, *, in_union: bool = False) -> Schema:
        kinds = ["primitive", "primitive", "enum", "fixed"]
        kinds += [] if not depth else ["record", "record", "array", "map", *([] if in_union else ["union"] * 2)]
        kind = draw(st.sampled_from(kinds))
        name = f"N{next(names)}"
        if kind == "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        if kind == "enum":
            return {"type": "enum", "name": name, "symbols": [f"S{n}" for n in range(draw(st.integers(1, 70)))]}
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": draw(st.integers(1, 9))}
        if kind == "record":
            fields = [{"name": f"f{n}", "type": one(depth - 1)} for n in range(draw(st.integers(0, 3)))]
            return {"type": "record", "name": name, "fields": fields}
        if kind == "union":
            branches = [one(depth - 1, in_union=True) for _ in range(draw(st.integers(1, 3)))]
            kept: dict[str, Schema] = {}
            for branch in branches:
                kept.setdefault(branch if isinstance(branch, str) else branch.get("name", branch["type"]), branch)
            return list(kept.values())
        inside = "items" if kind == "array" else "values"
        return {"type": kind, inside: draw(st.sampled_from(["long", "string"])) if depth < 2 else one(depth - 1)}

    fields = [{"name": f"r{n}", "type": one(depth)} for n in range(draw(st.integers(1, 4)))]
    return {"type": "record", "name": "Record", "fields": fields}


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values of a schema; of a union with the branch's place beside the value."""
    if isinstance(schema, list):
        return st.one_of(*[st.tuples(st.just(place), values(one)) for place, one in enumerate(schema)])
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in NUMBERS:
        return NUMBERS[kind]
    if kind == "null":
        return st.none()
    if kind == "bytes":
        return BYTES
    if kind == "string":
        return TEXTS
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "record":
        return st.fixed_dictionaries({one["name"]: values(one["type"]) for one in schema["fields"]})
    if kind == "array":
        # The items of an array have to have bytes.
        return st.lists(values(schema["items"]), max_size=4).filter(
            lambda found: len(found) <= size(schema["items"], found)
        )
    return st.dictionaries(TEXTS, values(schema["values"]), max_size=3)


def size(schema: Schema, items: list[Any]) -> int:
    return sum(len(written(schema, item)) for item in items)


def written(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), _for_fastavro(schema, value))
    return out.getvalue()


def _for_fastavro(schema: Schema, value: Any) -> Any:
    if isinstance(schema, list):
        place, inner = value
        branch = schema[place]
        made = _for_fastavro(branch, inner)
        if isinstance(branch, str):
            return made if branch == "null" else (branch, made)
        return (branch.get("name", branch["type"]), made)
    if isinstance(schema, dict):
        if schema["type"] == "record":
            return {one["name"]: _for_fastavro(one["type"], value[one["name"]]) for one in schema["fields"]}
        if schema["type"] == "array":
            return [_for_fastavro(schema["items"], one) for one in value]
        if schema["type"] == "map":
            return {key: _for_fastavro(schema["values"], one) for key, one in value.items()}
    return value


def shown(kind: Type, column: Column, data: bytes, row: int) -> Any:
    """One value of a column as Python has it."""
    if isinstance(column, Numbers):
        value = column.values[row].item()
        return kind.symbols[value] if kind.kind == "enum" else value
    if isinstance(column, Slices):
        raw = data[int(column.starts[row]) : int(column.ends[row])]
        return raw.decode() if kind.kind == "string" else raw
    if isinstance(column, Fields):
        return {one.name: shown(one.type, column.columns[one.name], data, row) for one in kind.fields}
    if isinstance(column, Choices):
        branch = int(column.branches[row])
        rows, inside = column.of(branch)
        assert inside is not None
        return branch, shown(kind.items[branch], inside, data, int(np.searchsorted(rows, row)))
    if isinstance(column, Lists):
        first = int(column.counts[:row].sum())
        items = [shown(kind.items[0], column.items, data, first + n) for n in range(int(column.counts[row]))]
        if kind.kind == "array":
            return items
        assert column.keys is not None or not items
        keys = [] if column.keys is None else [
            data[int(column.keys.starts[first + n]) : int(column.keys.ends[first + n])].decode() for n in range(len(items))
        ]  # fmt: skip
        return dict(zip(keys, items, strict=True))
    return None


def side_by_side(messages: list[bytes]) -> tuple[Messages, np.ndarray[Any, Any], bytes]:
    data = b"".join(messages) + bytes(ROOM)
    ends = np.cumsum([len(one) for one in messages], dtype=np.int64)
    return Messages(np.frombuffer(data, np.uint8), ends), np.append(0, ends[:-1]), data


@st.composite
def written_messages(draw: st.DrawFn) -> tuple[Schema, list[Any], list[bytes]]:
    schema = draw(schemas())
    made = draw(st.lists(values(schema), min_size=1, max_size=6))
    return schema, made, [written(schema, value) for value in made]


@examples(300)
@given(written_messages(), st.data())
def test_messages_are_read_as_fastavro_reads_them(
    made: tuple[Schema, list[Any], list[bytes]], data: st.DataObject
) -> None:
    schema, expected, messages = made
    (kind,) = parse_schema(json.dumps(schema).encode())
    found, starts, everything = side_by_side(messages)
    column, ends = read(kind, found, starts)
    assert not found.failed.any()
    assert ends.tolist() == found.ends.tolist()
    assert [shown(kind, column, everything, row) for row in range(len(messages))] == expected
    rows = data.draw(st.lists(st.integers(0, len(messages) - 1), min_size=1))
    taken = column.take(np.asarray(rows))
    assert [shown(kind, taken, everything, row) for row in range(len(rows))] == [expected[row] for row in rows]
    twice = concat([column, taken])
    assert [shown(kind, twice, everything, row) for row in range(len(messages) + len(rows))] == expected + [
        expected[row] for row in rows
    ]


@examples(300)
@given(written_messages(), st.data())
def test_a_damaged_message_fails_or_is_read_and_harms_no_other(
    made: tuple[Schema, list[Any], list[bytes]], data: st.DataObject
) -> None:
    schema, expected, messages = made
    place = data.draw(st.integers(0, len(messages) - 1))
    good = messages[place]
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    bad = good[:start] + data.draw(st.binary(max_size=12)) + good[end:]
    (kind,) = parse_schema(json.dumps(schema).encode())
    found, starts, everything = side_by_side([*messages[:place], bad, *messages[place + 1 :]])
    column, ends = read(kind, found, starts)
    for row, value in enumerate(expected):
        if row != place:
            assert not found.failed[row]
            assert shown(kind, column, everything, row) == value
    out = io.BytesIO(bad)
    try:
        theirs = fastavro.schemaless_reader(out, fastavro.parse_schema(schema), return_record_name=False)
    except Exception:  # what a second decoder raises of bytes that are no message
        return
    if found.failed[place]:
        return  # stricter: a flag that is neither 0 nor 1, an item without bytes, a number of more than 64 bits
    assert int(ends[place] - starts[place]) == out.tell()
    assert repr(_plain(shown_safely(kind, column, everything, place))) == repr(_plain(theirs)) or _has_odd_text(bad)


def shown_safely(kind: Type, column: Column, data: bytes, row: int) -> Any:
    try:
        return _without_branches(kind, shown(kind, column, data, row))
    except UnicodeDecodeError:
        return None


def _has_odd_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _without_branches(kind: Type, value: Any) -> Any:
    if kind.kind == "union":
        return _without_branches(kind.items[value[0]], value[1])
    if kind.kind == "record":
        return {one.name: _without_branches(one.type, value[one.name]) for one in kind.fields}
    if kind.kind == "array":
        return [_without_branches(kind.items[0], one) for one in value]
    if kind.kind == "map":
        return {key: _without_branches(kind.items[0], one) for key, one in value.items()}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value
