"""DML entries to the row changes of every table asked for: which entries and rows there are, and in what order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2
from dts_assets.wire.columns.buffers import (
    Bools,
    binary_array,
    empty_lists,
    empty_maps,
    numbers_of,
    offsets_of,
    with_empty_last,
)
from dts_assets.wire.columns.charsets import Charsets, charsets_of
from dts_assets.wire.columns.images import ABSENT, BYTES, NULL, NUMBER, UNSIGNED, Image
from dts_assets.wire.columns.layouts import ColumnList
from dts_assets.wire.columns.pivot import TableRows, pivot
from dts_assets.wire.columns.table_changes import Beside, Rejections, table_changes, table_codes
from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.descriptors import PLAIN_ROWS, ROWS
from dts_assets.wire.dts_protobuf.plain_values import plain_values
from dts_assets.wire.dts_protobuf.protobuf_parser import Decoded, decode
from dts_assets.wire.dts_protobuf.unknown_fields import fields_beside, of_rows
from dts_assets.wire.format import DecodedChanges

INSERT, UPDATE, DELETE, _UNKNOWN, _NO_EVENT = 0, 1, 2, 3, 4
OPERATIONS = pa.array(["insert", "update", "delete"])

_UNKNOWN_TYPE = 16
_LAST_KNOWN = 14

# By DataType: NIL, INT8 to INT64, UINT8 to UINT64, FLOAT32, FLOAT64, BYTES, DECIMAL, STRING, NA, anything newer.
_KINDS = np.array(
    [NULL, *[NUMBER] * 4, *[NUMBER | UNSIGNED] * 4, NUMBER, NUMBER, BYTES, NUMBER, BYTES, ABSENT, _UNKNOWN_TYPE],
    np.uint8,
)


@dataclass(slots=True)
class _Entries:
    """Decoded entries. ``numbers`` are their rows in the batch given, ``tables`` index ``names``, ``lists`` index ``groups``."""

    numbers: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int32]
    lists: npt.NDArray[np.int64]
    groups: list[ColumnList | None]
    row_offsets: npt.NDArray[np.int32]
    before: Image
    after: Image


def changes_of(
    entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]], *, engine: Engine | None
) -> DecodedChanges:
    """The row changes of ``entries`` as :meth:`dts_assets.wire.format.WireFormat.changes` promises them."""
    names = list(tables)
    wanted, codes = table_codes(entries, {table: number for number, table in enumerate(names)})
    payloads = entries["payload"]
    if len(wanted) < entries.num_rows:
        payloads = payloads.take(pa.array(wanted))
    decoded, images, unknown = _decoded(payloads, engine)
    del payloads  # a copy where not all entries are wanted
    reject = Rejections(entries, wanted)
    for number in decoded.poison:
        reject.add(number, Reason.UNDECODABLE_ENTRY, "its bytes are no protobuf message")
    kept = np.arange(len(wanted)) if decoded.kept is None else decoded.kept
    found = _entries(decoded.batch, images, kept, codes[kept])
    del decoded, images  # the columns' bytes are not needed any more
    rows, owners = _usable_rows(found, reject)
    chunks = _tables(found, owners, names, tables)
    order = np.argsort(found.tables[owners], kind="stable") if len(chunks) > 1 else None
    if order is not None:
        rows, owners = rows[order], owners[order]
    if order is not None or len(rows) < len(found.before.starts):
        found.before.take_rows(rows)
        found.after.take_rows(rows)
    pivoted, unsigned = pivot(chunks, found.before, found.after)
    beside = Beside(
        pa.array(wanted[found.numbers[owners]].astype(np.int32)),
        pa.array((rows - found.row_offsets[owners]).astype(np.int32)),
        OPERATIONS.take(pa.array(found.operations[owners])),
        empty_lists(len(rows)),
        empty_maps(len(rows)),
    )
    changes = tuple(table_changes(one, beside) for one in pivoted)
    return DecodedChanges(
        changes, reject.all(), frozenset(unsigned), _sums(unknown, _sums(found.before.unknown, found.after.unknown))
    )


def _decoded(payloads: pa.Array, engine: Engine | None) -> tuple[Decoded, tuple[Image, Image], dict[str, int]]:
    """The entries, their images (without a parser for values where they are of the usual layout), and unknown fields."""
    decoded = decode(payloads, PLAIN_ROWS, engine=engine)
    before, after = (plain_image(lists) for lists in _lists(decoded.batch))
    if before is not None and after is not None:
        return decoded, (before, after), _unknown_fields(payloads, decoded, PLAIN_ROWS)
    del decoded, before, after
    decoded = decode(payloads, ROWS, engine=engine)
    before, after = (image_of(lists) for lists in _lists(decoded.batch))
    return decoded, (before, after), _unknown_fields(payloads, decoded, ROWS)


def _unknown_fields(payloads: pa.Array, decoded: Decoded, descriptor: Descriptor) -> dict[str, int]:
    kept = payloads if decoded.kept is None else payloads.take(pa.array(decoded.kept))
    return of_rows(kept, decoded.batch, descriptor)


def _lists(batch: pa.RecordBatch) -> tuple[pa.ListArray, pa.ListArray]:
    rows = batch["event"].field("dmlEvent").field("rows").values
    return rows.field("oldColumns"), rows.field("newColumns")


def _entries(
    batch: pa.RecordBatch,
    images: tuple[Image, Image],
    numbers: npt.NDArray[np.int64],
    tables: npt.NDArray[np.int64],
) -> _Entries:
    dml = batch["event"].field("dmlEvent")
    rows = dml.field("rows")
    lists, groups = column_lists(dml.field("columns"))
    operations = dml.field("dmlEventType").to_numpy()
    operations = np.where((operations < INSERT) | (operations > DELETE), _UNKNOWN, operations)
    operations = np.where(_is_set(batch["event"], dml), operations, _NO_EVENT)
    return _Entries(numbers, tables, operations, lists, groups, offsets_of(rows), *images)


def _is_set(*structs: pa.StructArray) -> Bools:
    found = np.ones(len(structs[0]), np.bool_)
    for struct in structs:
        if struct.null_count:
            found &= np.asarray(struct.is_valid())
    return found


def column_lists(columns: pa.ListArray) -> tuple[npt.NDArray[np.int64], list[ColumnList | None]]:
    """The number of each entry's column list, and the distinct lists (None: one that cannot be read).

    Entries are told apart by all bytes of their columns and where each column begins, compared and not only hashed, so that
    no two tables can ever be taken for one.
    """
    bounds, starts = offsets_of(columns), offsets_of(columns.values)
    joined = binary_array(pa.binary(), starts[bounds], columns.values.buffers()[2], None)
    lengths = pa.py_buffer(np.ascontiguousarray(np.diff(starts), np.int32))
    sizes = binary_array(pa.binary(), bounds * np.int32(4), lengths, None)
    by_bytes, by_sizes = joined.dictionary_encode(), sizes.dictionary_encode()
    combined = by_bytes.indices.to_numpy().astype(np.int64) * max(1, len(by_sizes.dictionary))
    combined += by_sizes.indices.to_numpy()
    encoded = pa.array(combined).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    groups = [
        column_list(tuple(columns.values.slice(start, end - start).to_pylist()))
        for start, end in zip(bounds[first].tolist(), bounds[first + 1].tolist(), strict=True)
    ]
    return codes, groups


def _usable_rows(found: _Entries, reject: Rejections) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows of entries that can be used, and which entry each is of. An entry is used whole or not at all."""
    counts = np.diff(found.row_offsets)
    owners = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(owners))
    widths = np.fromiter((-1 if one is None else len(one.columns) for one in found.groups), np.int64, len(found.groups))
    entry_widths = widths[found.lists] if len(widths) else np.zeros(0, np.int64)
    unusable = np.zeros(len(counts), np.bool_)
    problems: list[tuple[Bools, Reason, str]] = [
        (found.operations == _NO_EVENT, Reason.UNDECODABLE_ENTRY, "it holds no DML event"),
        (found.operations == _UNKNOWN, Reason.UNKNOWN_OPERATION, "its DML type is not known"),
        (entry_widths < 0, Reason.UNDECODABLE_ENTRY, "its columns cannot be read"),
    ]
    ragged = np.zeros(len(counts), np.bool_)
    ragged[owners[_ragged(found, owners, entry_widths)]] = True
    problems.append((ragged, Reason.RAGGED_ROW, "a row's number of values is not the number of columns"))
    for wrong, reason, detail in problems:
        if wrong.any():
            for number in np.flatnonzero(wrong & ~unusable).tolist():
                reject.add(int(found.numbers[number]), reason, detail)
            unusable |= wrong
    if unusable.any():
        usable = ~unusable[owners]
        return rows[usable], owners[usable]
    return rows, owners


def _ragged(found: _Entries, owners: npt.NDArray[np.int64], entry_widths: npt.NDArray[np.int64]) -> Bools:
    """Rows whose images do not fit their columns, or that lack the image that their operation is about."""
    widths, operations = entry_widths[owners], found.operations[owners]
    before, after = found.before.sizes, found.after.sizes
    wrong: Bools = ((before != 0) & (before != widths)) | ((after != 0) & (after != widths))
    wrong |= np.where(operations == DELETE, before == 0, after == 0)
    return wrong


def _tables(
    found: _Entries,
    owners: npt.NDArray[np.int64],
    names: list[TableId],
    tables: Mapping[TableId, tuple[Column, ...]],
) -> list[TableRows]:
    """How many rows each table has, in the order that the rows are about to be sorted in."""
    of_row = found.tables[owners]
    counts = np.bincount(of_row, minlength=len(names))
    pairs = of_row * len(found.groups) + found.lists[owners]
    by_table: dict[int, list[int]] = {}
    for pair in np.unique(pairs).tolist():
        by_table.setdefault(pair // len(found.groups), []).append(pair % len(found.groups))
    chunks, start = [], 0
    for number in np.flatnonzero(counts).tolist():
        groups = by_table[number]
        numbers = None
        if len(groups) > 1:
            numbers = np.searchsorted(np.asarray(groups), found.lists[owners[of_row == number]])
        lists = tuple(one for group in groups if (one := found.groups[group]) is not None)
        end = start + int(counts[number])
        chunks.append(TableRows(names[number], tables[names[number]], start, end, lists, numbers))
        start = end
    return chunks


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {what: one.get(what, 0) + other.get(what, 0) for what in sorted(one.keys() | other.keys())}


@lru_cache(maxsize=1 << 16)
def _column(data: bytes) -> tuple[ColumnShape, tuple[str, ...]]:
    column = subscribe_pb2.Column.FromString(data)
    return ColumnShape(column.name, column.originalType, column.isKey), tuple(fields_beside(column))


@lru_cache(maxsize=1 << 14)
def column_list(data: tuple[bytes, ...]) -> ColumnList | None:
    """The columns that some serialized ``Column`` messages describe; None if one of them cannot be read."""
    try:
        read = [_column(column) for column in data]
    except DecodeError:
        return None
    columns = tuple(column for column, _ in read)
    positions: dict[str, int] = {}
    for number, column in enumerate(columns):
        positions.setdefault(column.name, number)
    return ColumnList(columns, positions, tuple(what for _, unknown in read for what in unknown))


def plain_image(lists: pa.ListArray) -> Image | None:
    """The images from a list of ``Data`` messages per row, if every one is of the usual layout."""
    found = plain_values(lists.values)
    if found is None:
        return None
    charsets = None if found.names is None else charsets_of(found.names)
    return _image(lists, _KINDS.take(found.types), (found.values, found.values), charsets, {})


def image_of(lists: pa.ListArray) -> Image:
    """The images from a list of Data structs per row."""
    values = lists.values
    types, sv, bv = numbers_of(values.field("dataType")), values.field("sv"), values.field("bv")
    kinds, unknown = _kinds(types, bv)
    charsets = charsets_of(values.field("charset"))
    fields = with_empty_last(sv), with_empty_last(bv)
    return _image(lists, np.append(kinds, np.uint8(NULL)), fields, charsets, unknown)


def _image(
    lists: pa.ListArray,
    kinds: npt.NDArray[np.uint8],
    fields: tuple[pa.Array, pa.Array],
    charsets: Charsets | None,
    unknown: dict[str, int],
) -> Image:
    offsets = offsets_of(lists)
    sizes = np.diff(offsets)
    present = sizes > 0
    starts = offsets[:-1] if present.all() else np.where(present, offsets[:-1], np.int32(len(kinds) - 1))
    if charsets is not None:
        for code, count in enumerate(np.bincount(charsets.codes[:-1], minlength=len(charsets.names)).tolist()):
            name = charsets.unknown_name(code)
            if count and name is not None:
                unknown[f"charset {name}"] = count
    combined = int(np.bitwise_or.reduce(kinds))
    return Image(
        starts, sizes, present, kinds, *fields, charsets, bool(combined & UNSIGNED), bool(combined & ABSENT), unknown
    )


def _kinds(types: npt.NDArray[np.int32], bv: pa.Array) -> tuple[npt.NDArray[np.uint8], dict[str, int]]:
    """The kinds of values, and a count per data type that is not known. A value of such a type is wherever it has bytes."""
    known = types.view(np.uint32)
    newest = int(known.max()) if len(known) else 0
    if newest <= _LAST_KNOWN:
        return _KINDS.take(types), {}
    kinds = _KINDS.take(np.minimum(known, _LAST_KNOWN + 1))
    rows = np.flatnonzero(kinds == _UNKNOWN_TYPE)
    kinds[rows] = np.where(np.diff(offsets_of(bv))[rows] > 0, BYTES, NUMBER)
    names, counts = np.unique(types[rows], return_counts=True)
    return kinds, {f"data type {name}": count for name, count in zip(names.tolist(), counts.tolist(), strict=True)}
