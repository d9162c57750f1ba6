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

from dts_assets.wire.buffers import run_lengths

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
    return pa.RecordBatch.from_struct_array(_structs(messages, descriptor, valid=None))


def _structs(messages: Sequence[Message], descriptor: Descriptor, *, valid: list[bool] | None) -> pa.StructArray:
    arrays = [_field(messages, field) for field in descriptor.fields]
    fields = [
        pa.field(field.name, array.type, nullable=_nullable(field))
        for field, array in zip(descriptor.fields, arrays, strict=True)
    ]
    bits = None if valid is None else pa.array(valid, pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(pa.struct(fields), len(messages), [bits], children=arrays)


def _nullable(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_repeated


def _field(messages: Sequence[Message], field: FieldDescriptor) -> pa.Array:
    name, inner = field.name, field.message_type
    values: list[Any] = [getattr(message, name) for message in messages]
    if field.is_repeated:
        lengths = np.fromiter(map(len, values), np.int32, len(values))
        flat = [item for items in values for item in items]
        items = pa.array(flat, _TYPES[field.type]) if inner is None else _structs(flat, inner, valid=None)
        kind = pa.list_(pa.field("item", items.type, nullable=False))
        return pa.ListArray.from_arrays(pa.array(run_lengths(lengths)), items, type=kind)
    if inner is not None:
        return _structs(values, inner, valid=[message.HasField(name) for message in messages])
    return pa.array(values, _TYPES[field.type])
