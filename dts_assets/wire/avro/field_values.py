"""Fields of Avro records as Arrow and numpy columns, whichever of its types a schema gives a field.

A name may be ``string`` in one schema file and ``["null", "string"]`` in another, and a time ``int`` or ``long``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.avro.logical_types import decimal_texts, number_texts
from dts_assets.wire.avro.schema import Type
from dts_assets.wire.avro.side_by_side import Choices, Column, Ints, Lists, Numbers, Slices
from dts_assets.wire.columns.buffers import binary_array, run_lengths
from dts_assets.wire.columns.integers import Integers, whole_numbers
from dts_assets.wire.columns.texts import readable

SCALARS = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})

_FLAGS = pa.array([b"false", b"true"])


def is_scalar(kind: Type) -> bool:
    """Return whether every value of a type is a text, a number or null."""
    return all(is_scalar(one) for one in kind.items) if kind.kind == "union" else kind.kind in SCALARS


def holds_bytes(kind: Type) -> bool:
    """Return whether a type has values whose bytes may be no UTF-8: a number has none."""
    return any(map(holds_bytes, kind.items)) if kind.kind == "union" else kind.kind in ("bytes", "string", "fixed")


def branches(kind: Type, column: Column, count: int) -> Iterator[tuple[Ints, Type, Column]]:
    """Yield the values of each type in a column: their numbers, the type, and themselves."""
    if isinstance(column, Choices):
        for place, inside in column.columns.items():
            rows = np.flatnonzero(column.branches == place)
            for numbers, type_of, found in branches(kind.items[place], inside, len(rows)):
                yield rows[numbers], type_of, found
    else:
        yield np.arange(count), kind, column


def lists_of(kind: Type, column: Column, count: int) -> tuple[Ints, Type, Lists] | None:
    """Return the rows that hold an array, the type of its items, and the arrays.

    None stands for a column without arrays.
    """
    for rows, found, inside in branches(kind, column, count):
        if found.kind == "array" and isinstance(inside, Lists):
            return rows, found.items[0], inside
    return None


def texts(kind: Type, column: Column, data: pa.Buffer, count: int) -> pa.Array:
    """Return a scalar column as bytes: texts as they are, numbers in digits, symbols by name."""
    rows: list[Ints] = []
    parts: list[pa.Array] = []
    for numbers, found, inside in branches(kind, column, count):
        part = _texts(found, inside, data)
        if part is not None:
            rows.append(numbers)
            parts.append(part)
    return spread(rows, parts, count)


def spread(rows: list[Ints], parts: list[pa.Array], count: int) -> pa.Array:
    """Return one array of ``count`` values with the values of each part in its rows, and null elsewhere."""
    if len(parts) == 1 and len(rows[0]) == count:
        return parts[0]
    source, base = np.full(count, -1, np.int64), 0
    for numbers, part in zip(rows, parts, strict=True):
        source[numbers] = base + np.arange(len(part))
        base += len(part)
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
    return joined.take(pa.array(source, mask=source < 0))


def integers(kind: Type, column: Column, data: pa.Buffer, count: int) -> Integers:
    """Return a scalar column as whole numbers; 0 where there is none."""
    values, sent, bad = np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for rows, found, inside in branches(kind, column, count):
        if isinstance(inside, Numbers) and found.kind in ("boolean", "int", "long"):
            values[rows], sent[rows] = inside.values, True
        elif (part := _texts(found, inside, data)) is not None:
            whole = whole_numbers(part)
            values[rows], sent[rows], bad[rows] = whole.values, whole.sent, whole.bad
    return Integers(values, sent, bad)


def pairs(kind: Type, column: Column, data: pa.Buffer, count: int) -> pa.ListArray | None:
    """Return the maps of a column as lists of key and value in UTF-8.

    None stands for a column without maps.
    """
    for rows, found, inside in branches(kind, column, count):
        if found.kind != "map" or not isinstance(inside, Lists) or inside.keys is None or not is_scalar(found.items[0]):
            continue
        size = int(inside.counts.sum())
        if size:
            keys = slices_array(inside.keys, data)
            values = pc.fill_null(texts(found.items[0], inside.items, data, size), b"")
            fields = [pc.cast(readable(part), pa.binary()) for part in (keys, values)]
            counts = np.zeros(count, np.int64)
            counts[rows] = inside.counts
            structs = pa.StructArray.from_arrays(fields, ["key", "value"])
            return pa.ListArray.from_arrays(pa.array(run_lengths(counts)), structs)
    return None


def slices_array(slices: Slices, data: pa.Buffer) -> pa.Array:
    """Return slices of some bytes as a binary array."""
    count = len(slices.starts)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[::2], bounds[1::2] = slices.starts, slices.ends
    if (bounds[1:] < bounds[:-1]).any():
        order = np.argsort(slices.starts, kind="stable")
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return slices_array(slices.take(order), data).take(pa.array(back))
    # What lies between two values is an element of its own, so that the bytes need not be copied one by one.
    return binary_array(pa.binary(), bounds, data, None).take(pa.array(np.arange(0, 2 * count, 2)))


def _texts(kind: Type, column: Column, data: pa.Buffer) -> pa.Array | None:
    """Return values of one type as bytes; None for nulls, and for types that are no scalars."""
    if isinstance(column, Slices):
        found = slices_array(column, data)
        return decimal_texts(kind, found) if kind.logical == "decimal" and kind.kind in ("bytes", "fixed") else found
    if not isinstance(column, Numbers):
        return None
    if kind.kind == "enum":
        return pa.array([one.encode() for one in kind.symbols], pa.binary()).take(pa.array(column.values))
    if kind.kind == "boolean":
        return _FLAGS.take(pa.array(column.values.astype(np.int64)))
    if kind.logical and kind.kind in ("int", "long") and (told := number_texts(kind, column.values)) is not None:
        return told
    return pc.cast(pc.cast(pa.array(column.values), pa.string()), pa.binary())
