"""The frames of records: none, Confluent's five bytes, or an object container with its own schema.

What a frame holds becomes one form that can be read alone: the bytes of a record of the customer's schema, or a container with
one record where the writer's schema is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.formats import Framing
from dts_assets.model.problems import Reason
from dts_assets.wire.avro.containers import (
    MAGIC,
    ContainerError,
    TooMuchError,
    header_of,
    one_record,
    read_container,
    records_of,
)
from dts_assets.wire.avro.field_values import slices_array
from dts_assets.wire.avro.records import RecordSchema, find_record, read_records
from dts_assets.wire.avro.schema import SchemaError, Type, parse_schema, require_bounds
from dts_assets.wire.avro.side_by_side import Ints, Slices
from dts_assets.wire.columns.buffers import Bools, offsets_of
from dts_assets.wire.drs_avro.roles import drs_record
from dts_assets.wire.format import TooLargeError

RECORD_NAME = "Record"
_HEADER = 5
"""Bytes of Confluent's header: a zero, and the number of the schema in four bytes, the greatest first."""

_MOST_KEPT = 64 << 20
"""The most bytes that the containers of a call hold, where they have fewer themselves."""

FALLING = "its ids fall, and a container is of one run of a task"
NO_RECORD = "its bytes are no record of the schema"
AMBIGUOUS = "it is a record both with and without Confluent's header; declare framing:"


@dataclass(frozen=True, slots=True)
class Schemas:
    """A customer's schema file, and the names of fields that were declared by role."""

    content: bytes
    declared: tuple[tuple[str, str], ...] = ()

    def record(self) -> RecordSchema:
        """Return the record of the file with its fields.

        Raises:
            SchemaError: The file is no Avro schema, or its record lacks a role.
        """
        return _record(self.content, self.declared)

    def of_writer(self, content: bytes) -> RecordSchema:
        """Return the record that a container's own schema describes.

        Raises:
            SchemaError: It is no Avro schema, or its record lacks a role.
        """
        return _record(content, self.declared)

    def header(self) -> bytes:
        """Return the header of containers with records of the file."""
        return header_of(self.content)


@lru_cache(maxsize=64)
def _record(content: bytes, declared: tuple[tuple[str, str], ...]) -> RecordSchema:
    record = find_record(parse_schema(content), RECORD_NAME)
    require_bounds(record)
    return drs_record(record, dict(declared))


@dataclass(frozen=True, slots=True, eq=False)
class Framed:
    """Records of one schema.

    ``sets`` has the number of each one's message, ``numbers`` its number in the message, and ``schema_ids`` the number of
    its schema in a registry, -1 without one. ``header`` is that of a container for records of another schema than the file's.
    ``alone`` says that each record is a whole message.
    """

    schema: RecordSchema
    records: pa.Array
    sets: Ints
    numbers: Ints
    schema_ids: Ints
    header: bytes | None = None
    alone: bool = True

    def without(self, sets: Ints) -> Framed:
        """Return the records of all messages but some."""
        rows = np.flatnonzero(~np.isin(self.sets, sets))
        return replace(
            self,
            records=self.records.take(pa.array(rows)),
            sets=self.sets[rows],
            numbers=self.numbers[rows],
            schema_ids=self.schema_ids[rows],
        )

    def payloads(self, schemas: Schemas) -> pa.Array:
        """Return the records in the form that entries keep."""
        if self.header is None:
            odd = np.flatnonzero(_begin_with(self.records, MAGIC))
            if not len(odd):
                return self.records
            header, rows = schemas.header(), frozenset(odd.tolist())
        else:
            header, rows = self.header, frozenset(range(len(self.records)))
        made = enumerate(self.records.to_pylist())
        return pa.array([one_record(header, one) if row in rows else one for row, one in made], pa.binary())


Fault = tuple[int, Reason, str]
"""The number of a message that cannot be used, and why."""


def framed(messages: pa.Array, framing: Framing, schemas: Schemas) -> tuple[list[Framed], list[Fault]]:
    """Return the records of messages by their schemas, and the messages that are in no frame.

    With ``Framing.AUTO`` each message tells its frame: one that begins as a container is one; another is a bare record, or
    else, if it begins with a zero, a record behind Confluent's header. A message that is both is refused: any choice might make a
    wrong row.

    Raises:
        TooLargeError: Containers hold far more than their bytes.
    """
    found: list[Framed] = []
    faults: list[Fault] = []
    everything = np.arange(len(messages))
    contained = _begin_with(messages, MAGIC)
    zero = _begin_with(messages, b"\0") & (pc.binary_length(messages).to_numpy() > _HEADER)
    if framing is Framing.CONTAINER:
        faults += _faults(~contained, "it is no container")
        _add_containers(messages, np.flatnonzero(contained), schemas, found, faults)
    elif framing is Framing.CONFLUENT:
        faults += _faults(~zero, "it does not begin with Confluent's header")
        found.append(_confluent(messages, np.flatnonzero(zero), schemas.record()))
    elif framing is Framing.RAW:
        found.append(_bare(messages, everything, schemas.record()))
    else:
        schema = schemas.record()
        bare, behind, both = _told_apart(messages, zero & ~contained, schema)
        faults += _faults(both, AMBIGUOUS)
        _add_containers(messages, np.flatnonzero(contained), schemas, found, faults)
        found.append(_bare(messages, np.flatnonzero(~contained & ~behind & ~both | bare), schema))
        found.append(_confluent(messages, np.flatnonzero(behind), schema))
    return [one for one in found if len(one.sets)], faults


def _told_apart(messages: pa.Array, zero: Bools, schema: RecordSchema) -> tuple[Bools, Bools, Bools]:
    """Return which messages that begin with a zero are bare records, stand behind Confluent's header, or are both."""
    bare, behind, both = (np.zeros(len(messages), np.bool_) for _ in range(3))
    rows = np.flatnonzero(zero)
    if len(rows):
        some = messages.take(pa.array(rows))
        whole = are_records(schema, some)
        behind[rows[~whole]] = True
        bare[rows[whole]] = True
        again = rows[whole]
        if len(again):
            two = again[are_records(schema, _part(messages.take(pa.array(again)), _HEADER))]
            both[two], bare[two] = True, False
    return bare, behind, both


def are_records(schema: RecordSchema, messages: pa.Array) -> Bools:
    """Return which messages are records of a schema, from the first byte to the last."""
    found = np.zeros(len(messages), np.bool_)
    for records in read_records(schema, messages, {}):
        found[records.rows] = True
    return found


def _faults(where: Bools, detail: str) -> Iterator[Fault]:
    return ((row, Reason.UNDECODABLE_ENTRIES, detail) for row in np.flatnonzero(where).tolist())


def _begin_with(messages: pa.Array, start: bytes) -> Bools:
    if not len(messages):
        return np.zeros(0, np.bool_)
    return np.asarray(pc.equal(_part(messages, 0, len(start)), pa.scalar(start, pa.binary())))


def _part(messages: pa.Array, start: int, end: int | None = None) -> pa.Array:
    """Return the bytes of each message from ``start`` to ``end``; Arrow's own slice fails on some lengths."""
    offsets = offsets_of(messages).astype(np.int64)
    starts, ends = offsets[:-1] + start, offsets[1:]
    if end is not None:
        ends = np.minimum(ends, offsets[:-1] + end)
    slices = Slices(np.minimum(starts, ends), ends)
    return slices_array(slices, messages.buffers()[2] or pa.py_buffer(b""))


def _bare(messages: pa.Array, rows: Ints, schema: RecordSchema) -> Framed:
    records = messages if len(rows) == len(messages) else messages.take(pa.array(rows))
    return Framed(schema, records, rows, np.zeros(len(rows), np.int64), np.full(len(rows), -1))


def _confluent(messages: pa.Array, rows: Ints, schema: RecordSchema) -> Framed:
    some = messages.take(pa.array(rows))
    heads = b"".join(_part(some, 1, _HEADER).to_pylist())
    numbers = np.frombuffer(heads, ">u4").astype(np.int64)
    return Framed(schema, _part(some, _HEADER), rows, np.zeros(len(rows), np.int64), numbers)


def _add_containers(messages: pa.Array, rows: Ints, schemas: Schemas, found: list[Framed], faults: list[Fault]) -> None:
    """Add the records of containers, those of one schema together; a container with any damage is refused whole.

    Raises:
        TooLargeError: They unfold to far more bytes than they have, or so many records would keep a schema of their own.
    """
    groups: dict[bytes, list[tuple[bytes, int, int]]] = {}
    kept = 0
    for row in rows.tolist():
        try:
            container = read_container(messages[row].as_py())
            record = schemas.of_writer(container.schema).record
            mine = list(records_of(container, record))
            kept += sum(len(data) for _, data in container.blocks)
            if not _is_one_layout(record, schemas.record().record):
                kept += len(mine) * len(container.schema)
        except TooMuchError as error:
            faults.append((row, Reason.TOO_LARGE, str(error)))
        except ContainerError as error:
            faults.append((row, Reason.UNDECODABLE_ENTRIES, str(error)))
        except SchemaError as error:
            faults.append((row, Reason.UNDECODABLE_ENTRIES, f"its own schema cannot be used: {error}"))
        else:
            if not mine:
                faults.append((row, Reason.UNDECODABLE_ENTRIES, "it holds no record"))
            groups.setdefault(container.schema, []).extend((one, row, place) for place, one in enumerate(mine))
        if kept > _MOST_KEPT and kept > messages.nbytes:
            raise TooLargeError(f"its containers hold {kept} bytes")
    for content, records in groups.items():
        group = _of_writer(content, records, schemas)
        falling = _with_falling_ids(group)
        faults += [(row, Reason.UNDECODABLE_ENTRIES, FALLING) for row in falling.tolist()]
        found.append(group.without(falling) if len(falling) else group)


def _with_falling_ids(group: Framed) -> Ints:
    """Return the messages in which an id is below one before it.

    Where ids fall a task was resumed or made anew, and records are told apart by their messages' offsets alone.
    """
    sets, ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for records in read_records(group.schema, group.records, {"id": None}):
        told = records.integers("id")
        sets.append(group.sets[records.rows[told.sent]])
        ids.append(told.values[told.sent])
    of_set, numbers = np.concatenate(sets), np.concatenate(ids)
    found: Ints = np.unique(of_set[1:][(of_set[1:] == of_set[:-1]) & (numbers[1:] < numbers[:-1])])
    return found


def _of_writer(content: bytes, records: list[tuple[bytes, int, int]], schemas: Schemas) -> Framed:
    values, sets, numbers = ([one[part] for one in records] for part in range(3))
    schema = schemas.of_writer(content)
    own = _is_one_layout(schema.record, schemas.record().record)
    return Framed(
        schemas.record() if own else schema,
        pa.array(values, pa.binary()),
        np.asarray(sets, np.int64),
        np.asarray(numbers, np.int64),
        np.full(len(sets), -1),
        None if own else header_of(content),
        alone=False,
    )


def unframed(payloads: pa.Array, schemas: Schemas) -> Iterator[tuple[RecordSchema, Ints, pa.Array]]:
    """Yield the records that entries keep, by schema: the schema, their numbers among the payloads, and their bytes.

    Raises:
        SchemaError: A payload was no entry's: its own schema cannot be used.
    """
    odd = _begin_with(payloads, MAGIC)
    bare = np.flatnonzero(~odd)
    if len(bare):
        yield schemas.record(), bare, payloads if len(bare) == len(payloads) else payloads.take(pa.array(bare))
    groups: dict[bytes, list[tuple[int, bytes]]] = {}
    for row in np.flatnonzero(odd).tolist():
        content, record = _only_record(payloads[row].as_py())
        groups.setdefault(content, []).append((row, record))
    for content, some in groups.items():
        schema = schemas.of_writer(content) if content else schemas.record()
        yield schema, np.asarray([row for row, _ in some]), pa.array([one for _, one in some], pa.binary())


def _only_record(payload: bytes) -> tuple[bytes, bytes]:
    """Return a container's schema and its only record; no schema and the payload itself if it has none."""
    try:
        container = read_container(payload)
    except ContainerError:
        return b"", payload
    return (container.schema, container.blocks[0][1]) if len(container.blocks) == 1 else (b"", payload)


def _is_one_layout(one: Type, other: Type) -> bool:
    """Tell whether two types encode every value in the same bytes, with the same names."""
    seen: set[tuple[int, int]] = set()
    left = [(one, other)]
    while left:
        first, second = left.pop()
        if (id(first), id(second)) in seen:
            continue
        seen.add((id(first), id(second)))
        if _shape(first) != _shape(second):
            return False
        left += zip(first.items, second.items, strict=True)
        left += zip((f.type for f in first.fields), (f.type for f in second.fields), strict=True)
    return True


def _shape(kind: Type) -> tuple[object, ...]:
    name = kind.short_name if kind.kind in ("record", "enum") else ""
    fields = tuple((field.name, field.aliases) for field in kind.fields)
    return kind.kind, name, kind.symbols, kind.size, len(kind.items), fields
