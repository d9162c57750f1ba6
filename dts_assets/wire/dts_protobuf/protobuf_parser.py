"""The parser of ``subscribe.proto``: payloads to Arrow, by ptars in one call or by protobuf's own parser.

The messages are reshaped at run time into one form per purpose; the same bytes decode with each form. A reshaped message has
only the fields that its purpose needs, so that a decoder passes over the rest without building it, and

- every text is ``bytes``: one value that is not UTF-8 would else fail the whole call it is decoded in;
- every enum is a plain number: values that this version does not know come through as they are;
- a field of a message that the purpose does not look into is that message's own bytes.

Numbers and types come from the generated module, so ``subscribe.proto`` stays the one place that states them.

ptars fails a whole call without saying which payload it could not read. Then each payload is parsed alone, payloads that protobuf
refuses as well are set aside by number, and the rest is decoded again. Where ptars is not installed, protobuf's messages are
turned into the same batch, field by field.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from dts_assets.protocol import subscribe_pb2
from dts_assets.wire.columns.buffers import bitmap, run_lengths
from dts_assets.wire.dts_protobuf import Engine

try:
    import ptars
except ImportError:  # no wheel for this platform
    ptars = None  # type: ignore[assignment]

BEST_ENGINE: Engine = "protobuf" if ptars is None else "ptars"

_Field = descriptor_pb2.FieldDescriptorProto


def reshaped(purpose: str, keep: Mapping[str, tuple[str, ...] | None]) -> Descriptor:
    """Return the descriptor of the first message of ``keep`` in a pool of its own.

    ``keep`` names the messages that are looked into and the fields that are kept of each (None: all of them).
    """
    file = descriptor_pb2.FileDescriptorProto()
    subscribe_pb2.DESCRIPTOR.CopyToProto(file)
    messages = [message for message in file.message_type if message.name in keep]
    for message in messages:
        wanted = keep[message.name]
        fields = [field for field in message.field if wanted is None or field.name in wanted]
        for field in fields:
            _reshape_field(field, purpose, keep)
        del message.field[:]
        message.field.extend(fields)
    package = f"reshaped.{purpose}"
    shaped = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    shaped.message_type.extend(messages)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(shaped)
    descriptor: Descriptor = pool.FindMessageTypeByName(f"{package}.{next(iter(keep))}")
    return descriptor


def _reshape_field(
    field: descriptor_pb2.FieldDescriptorProto, purpose: str, keep: Mapping[str, tuple[str, ...] | None]
) -> None:
    if field.type == _Field.TYPE_STRING:
        field.type = _Field.TYPE_BYTES
    elif field.type == _Field.TYPE_ENUM:
        field.type = _Field.TYPE_INT32
        field.ClearField("type_name")
    elif field.type == _Field.TYPE_MESSAGE:
        name = field.type_name.rpartition(".")[2]
        if name in keep:
            field.type_name = f".reshaped.{purpose}.{name}"
        else:
            field.type = _Field.TYPE_BYTES
            field.ClearField("type_name")


def message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class that protobuf's own parser fills for a descriptor."""
    return message_factory.GetMessageClass(descriptor)


ENVELOPE = reshaped("envelope", {"Envelope": ("version", "total", "index", "data")})
"""A Kafka message's value."""

ENTRY_SET = reshaped("entry_set", {"Entries": None})
"""An entry set, each entry as its own bytes."""

_HEADS: Mapping[str, tuple[str, ...] | None] = {
    "Entry": None,
    "Header": None,
    "Event": None,
    "BeginEvent": None,
    "DMLEvent": None,
    "CommitEvent": None,
    "DDLEvent": None,
    "RollbackEvent": None,
    "HeartbeatEvent": None,
    "CheckpointEvent": None,
    "RowChange": (),
    "KVPair": None,
}

HEADS = reshaped("heads", _HEADS)
"""An entry without its values: columns as their own bytes, rows as messages without a field.

So rows are only counted. Measured with rows as bytes instead: 0.9 times the speed of a plain loop at 500 rows per event, for
copies nobody reads.
"""

HEADS_OF_ANY_ROWS = reshaped("heads_of_any_rows", {name: kept for name, kept in _HEADS.items() if name != "RowChange"})
"""As :data:`HEADS`, with rows as bytes.

Damage inside of a row is the business of the step that reads values.
"""

BARE_HEADS = reshaped("bare_heads", {**_HEADS, "DMLEvent": ("dmlEventType",)})
"""As :data:`HEADS`, without columns and rows.

It is for entries whose columns are compared as bytes, and whose rows are counted in them.
"""

USUAL_HEADS = reshaped(
    "usual_heads", {**_HEADS, "Event": ("beginEvent", "commitEvent", "dmlEvent"), "DMLEvent": ("dmlEventType",)}
)
"""As :data:`BARE_HEADS`, for entries with no other events.

Columns that all are empty took a quarter of the time.
"""

_DML: Mapping[str, tuple[str, ...] | None] = {
    "Entry": ("event",),
    "Event": ("dmlEvent",),
    "DMLEvent": None,
    "RowChange": ("oldColumns", "newColumns"),
}

ROWS = reshaped("rows", {**_DML, "Data": None})
"""The rows of an entry: columns as their own bytes, the fields of each value."""

PLAIN_ROWS = reshaped("plain_rows", _DML)
"""As :data:`ROWS`, each value as its own bytes: for values that need no parser."""

BARE_ROWS = reshaped("bare_rows", {**_DML, "DMLEvent": ("dmlEventType", "rows")})
"""As :data:`PLAIN_ROWS`, without columns: for entries whose columns are compared as bytes."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One row per payload that could be read, in order.

    ``payloads`` are those payloads, ``kept`` their numbers, ``poison`` the numbers of the others.
    """

    batch: pa.RecordBatch
    payloads: pa.Array
    kept: npt.NDArray[np.int64]
    poison: tuple[int, ...]


def decode(payloads: pa.Array, descriptor: Descriptor, *, engine: Engine | None = None) -> Decoded:
    """Decode a binary array without nulls as one message each."""
    engine = engine or BEST_ENGINE
    if engine == "ptars":
        batch = _in_one_call(payloads, descriptor)
        if batch is not None:
            return Decoded(batch, payloads, np.arange(len(payloads)), ())
    messages, poison = _parsed(payloads, descriptor)
    kept = np.setdiff1d(np.arange(len(payloads)), poison)
    batch = None
    if poison:
        payloads = payloads.take(pa.array(kept))
        batch = _in_one_call(payloads, descriptor) if engine == "ptars" else None
    if batch is None:
        batch = pa.RecordBatch.from_struct_array(_structs(messages, descriptor))
    return Decoded(batch, payloads, kept, tuple(poison))


@cache
def _handler(descriptor: Descriptor) -> Any:
    keep_freed_memory()
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


def _in_one_call(payloads: pa.Array, descriptor: Descriptor) -> pa.RecordBatch | None:
    try:
        return _handler(descriptor).array_to_record_batch(payloads)
    except ValueError:
        return None
    except BaseException as panic:
        # A panic of a Rust extension is a BaseException of its own, so that nobody catches it by accident.
        if type(panic).__name__ != "PanicException":
            raise
        return None


def _parsed(payloads: pa.Array, descriptor: Descriptor) -> tuple[list[Message], list[int]]:
    """Return the messages of payloads that can be read, and the numbers of the others."""
    parse = message_class(descriptor).FromString
    messages: list[Message] = []
    poison: list[int] = []
    for number, payload in enumerate(payloads):
        try:
            messages.append(parse(payload.as_py()))
        except DecodeError:
            poison.append(number)
    return messages, poison


_ARROW_TYPES = {
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
}


def _structs(messages: Sequence[Message], descriptor: Descriptor) -> pa.StructArray:
    """Return one row per message, one column per field; a nested message that is not set is null."""
    columns = [_field_array(messages, field) for field in descriptor.fields]
    return _struct_array(descriptor, columns, len(messages), None)


def _struct_array(
    descriptor: Descriptor, arrays: list[pa.Array], count: int, valid: pa.Buffer | None
) -> pa.StructArray:
    fields = [
        pa.field(field.name, array.type, nullable=field.message_type is not None and not field.is_repeated)
        for field, array in zip(descriptor.fields, arrays, strict=True)
    ]
    return pa.Array.from_buffers(pa.struct(fields), count, [valid], children=arrays)


def _optional_array(messages: Sequence[Message], name: str, descriptor: Descriptor) -> pa.StructArray:
    """Return a nested message of each message.

    Only messages that set it are gone through: most entries set one event of seven.
    """
    valid = np.fromiter((message.HasField(name) for message in messages), np.bool_, len(messages))
    rows = np.flatnonzero(valid)
    nested = [getattr(messages[row], name) for row in rows.tolist()]
    # Those that are not set have the fields of an empty message, the last one.
    present = _structs([*nested, message_class(descriptor)()], descriptor)
    places = np.full(len(messages), len(rows))
    places[rows] = np.arange(len(rows))
    taken = pa.array(places)
    arrays = [present.field(number).take(taken) for number in range(len(descriptor.fields))]
    return _struct_array(descriptor, arrays, len(messages), bitmap(valid))


def _field_array(messages: Sequence[Message], field: FieldDescriptor) -> pa.Array:
    name, inner = field.name, field.message_type
    if inner is not None and not field.is_repeated:
        return _optional_array(messages, name, inner)
    values: list[Any] = [getattr(message, name) for message in messages]
    if field.is_repeated:
        lengths = np.fromiter(map(len, values), np.int32, len(values))
        flat = [item for items in values for item in items]
        items = pa.array(flat, _ARROW_TYPES[field.type]) if inner is None else _structs(flat, inner)
        kind = pa.list_(pa.field("item", items.type, nullable=False))
        return pa.ListArray.from_arrays(pa.array(run_lengths(lengths)), items, type=kind)
    return pa.array(values, _ARROW_TYPES[field.type])


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_KEPT = 256 << 20
"""Bytes at the end of the heap that are kept."""
_FROM_HEAP = 96 << 20
"""The size up to which buffers come from the heap.

A buffer grows by doubling, so that one for 33 MB takes 64. Larger ones belong to an unusual event and go back to the kernel.
"""


@cache
def keep_freed_memory() -> bool:
    """Let this process keep a chunk's memory when it is freed; return False where it cannot.

    The decoder allocates a chunk's worth of buffers in a call and frees them after it. As set up, glibc takes each from the
    kernel and gives it back, so that every page is zeroed and mapped again at every call: measured, 20 to 30 % of the time of
    16 MB. A process that decodes keeps what it has freed instead, up to bounds that a chunk needs anyway.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # no glibc
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _FROM_HEAP)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))
