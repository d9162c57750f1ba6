"""Protobuf messages to the Arrow batch that the columnar decoder would have made, with protobuf's own parser.

Used where ptars is not installed or refuses a call. It goes through the messages field by field, so it costs what attribute
access costs, and knows nothing of any particular message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from dts_assets.wire.columns.buffers import bitmap, run_lengths
from dts_assets.wire.dts_protobuf.descriptors import message_class

_TYPES = {
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
}


def batch_of(messages: Sequence[Message], descriptor: Descriptor) -> pa.RecordBatch:
    """One row per message, one column per field; a nested message that is not set is a null struct."""
    return pa.RecordBatch.from_struct_array(_structs(messages, descriptor))


def _structs(messages: Sequence[Message], descriptor: Descriptor) -> pa.StructArray:
    return _struct(descriptor, [_field(messages, field) for field in descriptor.fields], len(messages), None)


def _struct(descriptor: Descriptor, arrays: list[pa.Array], count: int, valid: pa.Buffer | None) -> pa.StructArray:
    fields = [
        pa.field(field.name, array.type, nullable=_nullable(field))
        for field, array in zip(descriptor.fields, arrays, strict=True)
    ]
    return pa.Array.from_buffers(pa.struct(fields), count, [valid], children=arrays)


def _optional(messages: Sequence[Message], name: str, descriptor: Descriptor) -> pa.StructArray:
    """A nested message of each message. Only those that are set are gone through: most entries set one event of seven."""
    valid = np.fromiter((message.HasField(name) for message in messages), np.bool_, len(messages))
    rows = np.flatnonzero(valid)
    present = _structs(
        [*(getattr(messages[row], name) for row in rows.tolist()), message_class(descriptor)()], descriptor
    )
    # Those that are not set have the fields of an empty message, the last one.
    places = np.full(len(messages), len(rows))
    places[rows] = np.arange(len(rows))
    taken = pa.array(places)
    arrays = [present.field(number).take(taken) for number in range(len(descriptor.fields))]
    return _struct(descriptor, arrays, len(messages), bitmap(valid))


def _nullable(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_repeated


def _field(messages: Sequence[Message], field: FieldDescriptor) -> pa.Array:
    name, inner = field.name, field.message_type
    if inner is not None and not field.is_repeated:
        return _optional(messages, name, inner)
    values: list[Any] = [getattr(message, name) for message in messages]
    if field.is_repeated:
        lengths = np.fromiter(map(len, values), np.int32, len(values))
        flat = [item for items in values for item in items]
        items = pa.array(flat, _TYPES[field.type]) if inner is None else _structs(flat, inner)
        kind = pa.list_(pa.field("item", items.type, nullable=False))
        return pa.ListArray.from_arrays(pa.array(run_lengths(lengths)), items, type=kind)
    return pa.array(values, _TYPES[field.type])
