"""Fields that the protocol does not have, noticed by the bytes that known fields leave over.

A parser passes over a field that it does not know. It may be a field that the vendor has added since, or a known field whose
tag was damaged on the way, so that its value is silently gone. The fields that were decoded are counted up, in columns, to
the size that a producer gives them; only payloads of another size are parsed once more, and protobuf names the fields. A
payload written in another way than producers write (a default value sent all the same) has another size, too, and turns out
to hold nothing unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.columns.buffers import Bools, numbers_of, offsets_of, varints
from dts_assets.wire.dts_protobuf.protobuf_parser import ENTRY_SET, HEADS, Decoded

MOST_PARSED = 256
"""The most payloads of a call that are parsed once more; further ones are counted only."""

_Sizes = npt.NDArray[np.int32]
_Rows = npt.NDArray[np.int64]


def sizes_of(columns: pa.StructArray, descriptor: Descriptor, *, without: str = "") -> _Sizes:
    """Return how many bytes a producer writes for each row's known fields.

    Rows that are null count as if they were empty; a field ``without`` counts is left out.
    """
    found: list[_Sizes] = []
    for field in descriptor.fields:
        column = columns.field(field.name)
        if field.name != without and column.null_count < max(1, len(column)):
            found.append(_of_field(column, field))
    return np.sum(found, axis=0, dtype=np.int32) if found else np.zeros(len(columns), np.int32)


def framed(lengths: _Sizes, tag_size: int = 1) -> _Sizes:
    """Return sizes with tag and length before them."""
    found: _Sizes = lengths + np.int32(tag_size + 1)
    long = np.flatnonzero(lengths >= 0x80)
    if len(long):
        found[long] += _varint_sizes(lengths[long].astype(np.uint64)) - np.int32(1)
    return found


def header_sizes(payloads: pa.Array, rows: _Rows | None = None) -> _Sizes:
    """Return the size of the header, the first field of each entry; -1 where it is not first.

    ``rows`` chooses entries.
    """
    offsets = offsets_of(payloads).astype(np.int64)
    buffer = payloads.buffers()[2]
    data = np.zeros(1, np.uint8) if buffer is None or not buffer.size else np.frombuffer(buffer, np.uint8)
    at, ends = (offsets[:-1], offsets[1:]) if rows is None else (offsets[rows], offsets[rows + 1])
    fits = (at < ends) & (data.take(at, mode="clip") == _HEADER_TAG)
    size, _, endless = varints(data, at + 1, fits, most=_MOST_LENGTH_BYTES)
    return np.where(fits & ~endless, size, -1).astype(np.int32)


def of_sets(decoded: Decoded) -> dict[str, int]:
    """Count fields beside the entries in entry sets."""
    rows = np.flatnonzero(np.diff(offsets_of(decoded.payloads)) != sizes_of(decoded.batch.to_struct_array(), ENTRY_SET))
    return _counted(decoded.payloads, rows, pb.Entries, _itself)


def of_heads(payloads: pa.Array, batch: pa.RecordBatch, is_dml: Bools, descriptor: Descriptor) -> dict[str, int]:
    """Count unknown fields in entries, given their heads in some form; rows of DML events are read later."""
    header = sizes_of(batch["header"], _HEADER)
    wrong = np.diff(offsets_of(payloads)) != framed(header) + framed(
        sizes_of(batch["event"], _message_in(descriptor, "event"), without="dmlEvent")
    )
    dml = np.flatnonzero(is_dml)
    wrong[dml] = header_sizes(payloads, dml) != header[dml]
    return _counted(payloads, np.flatnonzero(wrong), pb.Entry, _of_head)


def of_rows(decoded: Decoded, descriptor: Descriptor) -> dict[str, int]:
    """Count unknown fields in the events of DML entries and beside them, given their PLAIN_ROWS or ROWS."""
    payloads, event = decoded.payloads, sizes_of(decoded.batch["event"], _message_in(descriptor, "event"))
    wrong = np.diff(offsets_of(payloads)) != framed(header_sizes(payloads)) + framed(event)
    return _counted(payloads, np.flatnonzero(wrong), pb.Entry, _of_event)


def of_bare_rows(decoded: Decoded, descriptor: Descriptor, rows: _Rows, columns: _Sizes) -> dict[str, int]:
    """Count unknown fields in the events of some DML entries, given their BARE_ROWS.

    ``columns`` is how many bytes of each are columns. Beside these events nothing stands.
    """
    dml = _message_in(_message_in(descriptor, "event"), "dmlEvent")
    sizes = sizes_of(decoded.batch["event"].field("dmlEvent"), dml)[rows] + columns
    wrong = np.diff(offsets_of(decoded.payloads))[rows] != framed(header_sizes(decoded.payloads, rows)) + framed(
        framed(sizes)
    )
    return _counted(decoded.payloads, rows[wrong], pb.Entry, _of_event)


def _message_in(descriptor: Descriptor, name: str) -> Descriptor:
    inner = descriptor.fields_by_name[name].message_type
    assert inner is not None
    return inner


_HEADER = _message_in(HEADS, "header")
_HEADER_TAG = pb.Entry.DESCRIPTOR.fields_by_name["header"].number << 3 | 2
_MOST_LENGTH_BYTES = 4


def _of_field(column: pa.Array, field: FieldDescriptor) -> _Sizes:
    tag = 1 if field.number < 16 else 2
    if field.is_repeated:
        return _summed(column, framed(_lengths(column.values, field), tag))
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        sizes = framed(_lengths(column, field), tag)
        return sizes if column.null_count == 0 else sizes * np.asarray(column.is_valid())
    if field.type == FieldDescriptor.TYPE_BYTES:
        lengths = np.diff(offsets_of(column))
        return framed(lengths, tag) * (lengths > 0)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return np.asarray(column).astype(np.int32) * np.int32(tag + 1)
    numbers = numbers_of(column)
    if not numbers.any():
        return np.zeros(len(numbers), np.int32)
    wide = numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers
    found: _Sizes = (_varint_sizes(wide) + np.int32(tag)) * (numbers != 0)
    return found


def _summed(lists: pa.ListArray, each: _Sizes) -> _Sizes:
    """Return the sum of each list's items."""
    if not len(each):
        return np.zeros(len(lists), np.int32)
    sums = np.zeros(len(each) + 1, np.int32)
    np.cumsum(each, out=sums[1:])  # what wraps around is right again in the differences
    found: _Sizes = np.diff(sums[offsets_of(lists)])
    return found


def _lengths(column: pa.Array, field: FieldDescriptor) -> _Sizes:
    if field.message_type is not None:
        return sizes_of(column, field.message_type)
    return np.diff(offsets_of(column))


def _varint_sizes(numbers: npt.NDArray[Any]) -> _Sizes:
    """Return the bytes that unsigned numbers take, seven bits in each."""
    least, largest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    found = np.ones(len(numbers), np.int32)
    for bits in range(7, 64, 7):
        if largest < 1 << bits:
            break
        found += True if least >= 1 << bits else numbers >= numbers.dtype.type(1 << bits)
    return found


def _counted(payloads: pa.Array, rows: _Rows, message: Any, unknown: Callable[[Any], Iterator[str]]) -> dict[str, int]:
    """Return how often each unknown field stands in some of the payloads, by its name for people."""
    found: Counter[str] = Counter()
    for row in rows[:MOST_PARSED].tolist():
        with suppress(DecodeError):  # text that is no UTF-8; what becomes of it is decided elsewhere
            found.update(unknown(message.FromString(payloads[row].as_py())))
    if found and len(rows) > MOST_PARSED:
        found["entries of another size than their known fields, not looked at"] = len(rows) - MOST_PARSED
    return dict(found)


def _itself(message: Message) -> Iterator[str]:
    for one in cast(Iterable[Any], UnknownFieldSet(message)):
        yield f"field {one.field_number} of {message.DESCRIPTOR.name}"


def fields_beside(message: Message) -> Iterator[str]:
    """Yield names of all unknown fields of a message and of the messages inside it."""
    yield from _itself(message)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from fields_beside(inner)


def _of_head(entry: Any) -> Iterator[str]:
    yield from fields_beside(entry.header)
    if entry.header.messageType != pb.DML:
        yield from _of_event(entry)


def _of_event(entry: Any) -> Iterator[str]:
    yield from _itself(entry)  # a damaged length of the header leaves its last fields beside it
    yield from fields_beside(entry.event)
