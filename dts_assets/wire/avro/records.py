"""Messages as records of a customer's own schema: the fields that play a role.

A schema file is an array of schemas in any order, or one schema. Its record is found by name, and so are the record's fields:
the order of fields, and fields that nobody asks for, do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.avro.field_values import (
    branches,
    integers,
    is_scalar,
    lists_of,
    slices_array,
    spread,
    texts,
)
from dts_assets.wire.avro.schema import Field, SchemaError, Type, every_type, named_types
from dts_assets.wire.avro.side_by_side import (
    ROOM,
    Choices,
    Column,
    Fields,
    Ints,
    Messages,
    Nothing,
    Slices,
    Wanted,
    read,
)
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.columns.integers import Integers

BLOCK_BYTES = 4 << 20
"""Bytes of messages that are read at once.

The places of all their values stay in memory until the next block.
"""

Names = Mapping[str, tuple[str, ...]]
"""The names that a field with a role may have, the usual one first: ``{"operation": ("messageType", "operation")}``."""


_NULL = Type("null")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A field of a record, or of a record inside it.

    ``path`` has the fields on the way to it, itself last.
    """

    path: tuple[Field, ...]

    @property
    def name(self) -> str:
        """The names of the fields on the way: ``header.op``."""
        return ".".join(one.name for one in self.path)

    @property
    def type(self) -> Type:
        """The type of the field."""
        return self.path[-1].type


@dataclass(frozen=True, slots=True, eq=False)
class RecordSchema:
    """A record and its fields by role, such as ``id`` and ``after``. Fields without a role are ``others``."""

    record: Type
    fields: Mapping[str, Place]
    others: tuple[Place, ...]


def find_record(types: Iterable[Type], name: str) -> Type:
    """Return the record with a name, or else the only record that is in no other one.

    Raises:
        SchemaError: There is no such record.
    """
    top = tuple(types)
    records = [one for one in named_types(top) if one.kind == "record"]
    named = [one for one in records if one.short_name == name]
    if len(named) == 1:
        return named[0]
    within = {id(inner) for inner in every_type(*(each.type for one in records for each in one.fields))}
    alone = [one for one in records if id(one) not in within]
    if len(alone) != 1:
        raise SchemaError(f"it has no record called {name}")
    return alone[0]


def record_schema(record: Type, names: Names, *, needed: Sequence[str], lists: Sequence[str] = ()) -> RecordSchema:
    """Return a record with the fields that play some roles.

    Raises:
        SchemaError: A role in ``needed`` has no field, or a role that is not in ``lists`` is no text or number.
    """
    found = {role: Place((one,)) for role, some in names.items() if (one := record.field(*some)) is not None}
    missing = [role for role in needed if role not in found]
    if missing:
        looked = "; ".join(f"{role} ({', '.join(names[role])})" for role in missing)
        raise SchemaError(f"its record {record.short_name} has no field for {looked}")
    for role, place in found.items():
        if role not in lists and not is_scalar(place.type):
            raise SchemaError(f"its field {place.name} is no text or number")
    return RecordSchema(record, found, fields_beside(record, found.values()))


def fields_beside(record: Type, places: Iterable[Place]) -> tuple[Place, ...]:
    """Return the fields of a record that are no places.

    Of a record on the way to a place they are its other fields.
    """
    used = {one.path for one in places}
    on_the_way = {path[:length] for path in used for length in range(1, len(path))}
    found: list[Place] = []
    left: list[tuple[Field, ...]] = [(one,) for one in reversed(record.fields)]
    while left:
        path = left.pop()
        if path in on_the_way:
            left += [(*path, one) for one in reversed(fields_of(path[-1].type))]
        elif path not in used:
            found.append(Place(path))
    return tuple(found)


def fields_of(kind: Type) -> tuple[Field, ...]:
    """Return the fields of a record, or of the only record among the branches of a union."""
    records = [one for one in (kind.items if kind.kind == "union" else (kind,)) if one.kind == "record"]
    return records[0].fields if len(records) == 1 else ()


@dataclass(frozen=True, slots=True)
class Records:
    """Messages that were read.

    ``rows`` are their numbers among all messages, ``failed`` those of messages that are no such record.
    """

    schema: RecordSchema
    rows: Ints
    failed: Ints
    fields: Fields
    data: pa.Buffer
    _texts: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Ints) -> Records:
        """Return some of the messages, in this order."""
        taken = {role: found.take(pa.array(rows)) for role, found in self._texts.items()}
        return Records(self.schema, self.rows[rows], self.failed, self.fields.take(rows), self.data, taken)

    def column(self, role: str) -> tuple[Type, Column] | None:
        """Return a role's type and values; None where the schema has no field for it."""
        place = self.schema.fields.get(role)
        return None if place is None else self.at(place)

    def at(self, place: Place) -> tuple[Type, Column]:
        """Return the type and the values of a field.

        A value whose record is null, or another branch of its union, is null.
        """
        first, *inside = place.path
        found = (first.type, self.fields.columns[first.name])
        for one in inside:
            found = _inside(*found, one)
        return found

    def texts(self, role: str) -> pa.Array:
        """Return a role's values as bytes, null where there is none; they are gathered once."""
        made = self._texts.get(role)
        if made is None:
            found = self.column(role)
            made = pa.nulls(len(self), pa.binary()) if found is None else texts(*found, self.data, len(self))
            self._texts[role] = made
        return made

    def integers(self, role: str) -> Integers:
        """Return a role's values as whole numbers."""
        found = self.column(role)
        if found is None:
            nothing = np.zeros(len(self), np.bool_)
            return Integers(np.zeros(len(self), np.int64), nothing, nothing)
        return integers(*found, self.data, len(self))

    def extents(self, role: str) -> pa.Array:
        """Return a role's values as they are encoded; empty where the schema has no field for it."""
        place = self.schema.fields.get(role)
        return pa.repeat(pa.scalar(b""), len(self)) if place is None else self.extents_at(place)

    def extents_at(self, place: Place) -> pa.Array:
        """Return the values of a field as they are encoded; empty where its record is null."""
        found = [
            (rows, slices_array(column, self.data))
            for rows, _, column in branches(*self.at(place), len(self))
            if isinstance(column, Slices)
        ]
        return pc.fill_null(spread([rows for rows, _ in found], [part for _, part in found], len(self)), b"")


def _inside(kind: Type, column: Column, field: Field) -> tuple[Type, Column]:
    """Return the type and the values of a field.

    The records that have it may be the branch of a union.
    """
    if isinstance(column, Fields):
        return field.type, column.columns[field.name]
    if isinstance(column, Choices):
        for branch, inside in column.columns.items():
            if any(one is field for one in fields_of(kind.items[branch])):
                type_of, values = _inside(kind.items[branch], inside, field)
                there = (column.branches == branch).astype(np.int64)
                return Type("union", items=(_NULL, type_of)), Choices(there, {1: values})
    return _NULL, Nothing()


def read_records(
    schema: RecordSchema, messages: pa.Array, wanted: Mapping[str, Wanted], *, others: Wanted | bool = False
) -> Iterator[Records]:
    """Yield messages (a binary array without nulls) as records, block by block, with some roles.

    ``wanted`` says of each role what is asked for. ``others`` says so of all fields without a role, False that they are passed
    over.
    """
    asked: dict[str, Any] = {}
    for role, place in schema.fields.items():
        if role in wanted:
            _ask(asked, place, wanted[role])
    if not isinstance(others, bool):
        for place in schema.others:
            _ask(asked, place, others)
    offsets = offsets_of(messages)
    start = 0
    while start < len(messages):
        end = int(np.searchsorted(offsets, int(offsets[start]) + BLOCK_BYTES, side="right")) - 1
        end = min(max(end, start + 1), len(messages))
        yield _block(schema, messages, (start, end), asked)
        start = end


def _ask(asked: dict[str, Any], place: Place, wanted: Wanted) -> None:
    for one in place.path[:-1]:
        asked = asked.setdefault(one.name, {})
    asked[place.path[-1].name] = wanted


def _block(schema: RecordSchema, messages: pa.Array, block: tuple[int, int], asked: Wanted) -> Records:
    start, end = block
    offsets = offsets_of(messages)[start : end + 1].astype(np.int64)
    data, buffer = _with_room(messages.buffers()[2], int(offsets[0]), int(offsets[-1]))
    bounds = offsets - offsets[0]
    reading = Messages(data, bounds[1:])
    column, ends = read(schema.record, reading, bounds[:-1], asked)
    failed = reading.failed | (ends != bounds[1:])
    rows = np.flatnonzero(~failed)
    if not isinstance(column, Fields):
        raise TypeError("a record is read as fields")
    fields = column.take(rows) if len(rows) < len(failed) else column
    return Records(schema, rows + start, np.flatnonzero(failed) + start, fields, buffer)


def _with_room(buffer: pa.Buffer | None, first: int, last: int) -> tuple[np.ndarray, pa.Buffer]:
    """Return bytes from ``first`` to ``last``, with room behind them."""
    if buffer is None:
        return np.zeros(ROOM, np.uint8), pa.py_buffer(b"")
    if buffer.size >= last + ROOM:
        part = buffer.slice(first, last - first + ROOM)
        return np.frombuffer(part, np.uint8), part
    data = np.zeros(last - first + ROOM, np.uint8)
    data[: last - first] = np.frombuffer(buffer, np.uint8, count=last - first, offset=first)
    return data, pa.py_buffer(data)


def read_alone(kind: Type, raw: bytes) -> tuple[Column, pa.Buffer] | None:
    """Return the value that ``raw`` is, with its bytes; None if it is none of the type."""
    data = np.frombuffer(raw + bytes(ROOM), np.uint8)
    reading = Messages(data, np.array([len(raw)]))
    column, ends = read(kind, reading, np.zeros(1, np.int64))
    return None if reading.failed[0] or int(ends[0]) != len(raw) else (column, pa.py_buffer(data))


def texts_alone(kind: Type, raw: bytes) -> list[bytes] | None:
    """Return an array of texts, encoded alone; None if it is no such array, or null."""
    found = read_alone(kind, raw)
    if found is None:
        return None
    arrays = lists_of(kind, found[0], 1)
    if arrays is None:
        return None
    _, item, lists = arrays
    return [one for one in texts(item, lists.items, found[1], int(lists.counts.sum())).to_pylist() if one is not None]
