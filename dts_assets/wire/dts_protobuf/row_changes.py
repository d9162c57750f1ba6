"""DML entries to the row changes of every wanted table (document 571/55396, DMLEvent, RowChange, Data)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.columns.buffers import Bools, numbers_of, offsets_of, run_lengths, valid, with_empty_last
from dts_assets.wire.columns.images import ABSENT, BYTES, NULL, NUMBER, UNSIGNED, Image
from dts_assets.wire.columns.pivot import Reading, pivot
from dts_assets.wire.columns.table_changes import Rejections, beside_images, table_codes
from dts_assets.wire.columns.table_rows import ColumnList, table_rows
from dts_assets.wire.columns.texts import Charsets, charsets_of
from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.described_columns import column_lists, lists_of_bytes
from dts_assets.wire.dts_protobuf.plain_values import LAST_KNOWN, PlainValues, plain_values, plain_values_at
from dts_assets.wire.dts_protobuf.protobuf_parser import BARE_ROWS, PLAIN_ROWS, ROWS, Decoded, decode
from dts_assets.wire.dts_protobuf.unknown_fields import of_bare_rows, of_rows
from dts_assets.wire.dts_protobuf.walk import Described, Events, described_columns, find_events
from dts_assets.wire.dts_protobuf.walked_rows import WalkedRows, walked_rows
from dts_assets.wire.format import DecodedChanges

_UNKNOWN, _NO_EVENT = 3, 4
_OPERATIONS = pa.array(["insert", "update", "delete"])

_UNKNOWN_TYPE = 16

# By DataType: NIL, INT8 to INT64, UINT8 to UINT64, FLOAT32, FLOAT64, BYTES, DECIMAL, STRING, NA, anything newer.
_KINDS = np.array(
    [NULL, *[NUMBER] * 4, *[NUMBER | UNSIGNED] * 4, NUMBER, NUMBER, BYTES, NUMBER, BYTES, ABSENT, _UNKNOWN_TYPE],
    np.uint8,
)


@dataclass(slots=True)
class _Entries:
    """Entries of wanted tables that can be read; ``poison`` are the numbers of the others.

    ``numbers`` are their rows in the batch given, ``lists`` index ``groups``. ``unknown`` counts what the protocol does not have.
    """

    numbers: npt.NDArray[np.int64]
    poison: tuple[int, ...]
    operations: npt.NDArray[np.int32]
    lists: npt.NDArray[np.int64]
    groups: list[ColumnList | None]
    row_offsets: npt.NDArray[np.int32]
    before: Image
    after: Image
    unknown: dict[str, int]


def changes_of(
    entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]], *, engine: Engine | None, reading: Reading
) -> DecodedChanges:
    """Return the row changes of entries, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them.

    ``reading`` types their values.
    """
    wanted, codes = table_codes(entries, tables)
    if np.any(codes[1:] < codes[:-1]):
        # Rows of one table lie side by side then, and their values are found near each other.
        order = np.argsort(codes, kind="stable")
        wanted, codes = wanted[order], codes[order]
    found = _entries(entries["payload"], wanted, codes, engine)
    reject = Rejections(entries, wanted)
    for number in found.poison:
        reject.add(number, Reason.UNDECODABLE_ENTRY, "its bytes are no protobuf message")
    of_table = codes[found.numbers]
    rows, owners = _usable_rows(found, reject)
    chunks = table_rows(tables, of_table, found.lists, found.groups, owners)
    if len(rows) < len(found.before.starts):
        found.before.take_rows(rows)
        found.after.take_rows(rows)
    operations = _OPERATIONS.take(pa.array(found.operations[owners]))
    beside = beside_images(wanted[found.numbers[owners]], rows - found.row_offsets[owners], operations)
    changes, unsigned = pivot(chunks, found.before, found.after, beside, reading=reading)
    counts = Counter(found.unknown) + Counter(found.before.unknown) + Counter(found.after.unknown)
    return DecodedChanges(changes, reject.all(), unsigned, dict(sorted(counts.items())))


def _entries(
    payloads: pa.Array, wanted: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], engine: Engine | None
) -> _Entries:
    """Return the wanted entries among payloads; ``codes`` has the number of each one's table.

    Where all of them are of the usual layout their columns need no parser, and where all values are these need none.
    """
    tables = np.zeros(len(payloads), np.int64)
    tables[wanted] = codes
    events = None if engine == "protobuf" else find_events(payloads)
    described = None if events is None else described_columns(events, tables)
    if events is not None and described is not None:
        found = _without_columns(events, wanted, described, engine)
        if found is not None:
            return found
    if len(wanted) < len(payloads) or np.any(wanted[1:] < wanted[:-1]):
        payloads = payloads.take(pa.array(wanted))
    decoded = decode(payloads, PLAIN_ROWS, engine=engine)
    before, after = (plain_image(lists) for lists in _lists(decoded.batch))
    if before is not None and after is not None:
        return _parsed(decoded, (before, after), of_rows(decoded, PLAIN_ROWS))
    del decoded, before, after
    decoded = decode(payloads, ROWS, engine=engine)
    before, after = (image_of(lists) for lists in _lists(decoded.batch))
    return _parsed(decoded, (before, after), of_rows(decoded, ROWS))


def _without_columns(
    events: Events, wanted: npt.NDArray[np.int64], described: Described, engine: Engine | None
) -> _Entries | None:
    """Return the wanted entries, whose columns are described; None where some cannot be read or values are unusual.

    Where values are large they are not even copied.
    """
    if not described.are_dml[wanted].all():
        return None
    if np.count_nonzero(described.are_dml) == len(wanted) and np.all(wanted[1:] > wanted[:-1]):
        of_wanted = wanted  # what else there is has no rows, and needs no copy of those that have
    else:
        events, described, of_wanted = events.take(wanted), described.take(wanted), np.arange(len(wanted))
    lists, groups = lists_of_bytes(described)
    widths = np.fromiter((0 if one is None else len(one.columns) for one in groups), np.int64, len(groups))
    read = _walked(events, walked_rows(events, described, widths)) or _parsed_rows(events, described, of_wanted, engine)
    if read is None:
        return None
    operations, images, unknown = read
    return _Entries(
        np.arange(len(wanted)),
        (),
        operations[of_wanted],
        lists[of_wanted],
        groups,
        run_lengths(described.rows[of_wanted]),
        *images,
        unknown,
    )


_Read: TypeAlias = tuple[npt.NDArray[np.int32], tuple[Image, Image], dict[str, int]]
"""The operations of entries, the images of all their rows, and what the protocol does not have."""


def _walked(events: Events, walked: WalkedRows | None) -> _Read | None:
    """Return what walked rows hold, beside which nothing stands; None where values are unusual."""
    values = None if walked is None else plain_values_at(events.payloads.buffers()[2], walked.begins, walked.ends)
    if walked is None or values is None:
        return None
    before = _plain_image(values, walked.first, walked.old)
    starts, present = _starts(walked.first + walked.old, walked.new, before.nothing)
    after = replace(before, starts=starts, sizes=walked.new, present=present, unknown={})  # both share all values
    return _known(events.operations), (before, after), {}


def _parsed_rows(
    events: Events, described: Described, of_wanted: npt.NDArray[np.int64], engine: Engine | None
) -> _Read | None:
    """Return what the parser finds in rows; None where some cannot be read or values are unusual."""
    decoded = decode(events.payloads, BARE_ROWS, engine=engine)
    if decoded.poison:
        return None
    before, after = (plain_image(lists) for lists in _lists(decoded.batch))
    if before is None or after is None:
        return None
    unknown = of_bare_rows(decoded, BARE_ROWS, of_wanted, described.sizes[of_wanted])
    return _operations(decoded.batch["event"].field("dmlEvent")), (before, after), unknown


def _lists(batch: pa.RecordBatch) -> tuple[pa.ListArray, pa.ListArray]:
    rows = batch["event"].field("dmlEvent").field("rows").values
    return rows.field("oldColumns"), rows.field("newColumns")


def _parsed(decoded: Decoded, images: tuple[Image, Image], unknown: dict[str, int]) -> _Entries:
    batch = decoded.batch
    dml = batch["event"].field("dmlEvent")
    lists, groups = column_lists(dml.field("columns"))
    operations = np.where(valid(batch["event"]) & valid(dml), _operations(dml), _NO_EVENT)
    offsets = offsets_of(dml.field("rows"))
    return _Entries(decoded.kept, decoded.poison, operations, lists, groups, offsets, *images, unknown)


def _operations(dml: pa.StructArray) -> npt.NDArray[np.int32]:
    return _known(dml.field("dmlEventType").to_numpy())


def _known(operations: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.where((operations < pb.INSERT) | (operations > pb.DELETE), np.int32(_UNKNOWN), operations)


def _usable_rows(found: _Entries, reject: Rejections) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of entries that can be used, and the entry of each row.

    An entry is used whole or not at all.
    """
    counts = np.diff(found.row_offsets)
    owners = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(owners))
    widths = np.fromiter((-1 if one is None else len(one.columns) for one in found.groups), np.int64, len(found.groups))
    entry_widths = widths[found.lists] if len(widths) else np.zeros(0, np.int64)
    ragged = np.bincount(owners[_ragged(found, owners, entry_widths)], minlength=len(counts)) > 0
    unusable = np.zeros(len(counts), np.bool_)
    problems: list[tuple[Bools, Reason, str]] = [
        (found.operations == _NO_EVENT, Reason.UNDECODABLE_ENTRY, "it holds no DML event"),
        (found.operations == _UNKNOWN, Reason.UNKNOWN_OPERATION, "its DML type is not known"),
        (entry_widths < 0, Reason.UNDECODABLE_ENTRY, "its columns cannot be read"),
        (ragged, Reason.RAGGED_ROW, "a row's number of values is not the number of columns"),
    ]
    for wrong, reason, detail in problems:
        if wrong.any():
            for number in np.flatnonzero(wrong).tolist():
                reject.add(int(found.numbers[number]), reason, detail)
            unusable |= wrong
    if unusable.any():
        usable = ~unusable[owners]
        return rows[usable], owners[usable]
    return rows, owners


def _ragged(found: _Entries, owners: npt.NDArray[np.int64], entry_widths: npt.NDArray[np.int64]) -> Bools:
    """Return which rows do not fit their columns or lack the image of their operation."""
    widths, operations = entry_widths[owners], found.operations[owners]
    before, after = found.before.sizes, found.after.sizes
    wrong: Bools = ((before != 0) & (before != widths)) | ((after != 0) & (after != widths))
    wrong |= np.where(operations == pb.DELETE, before == 0, after == 0)
    return wrong


def plain_image(lists: pa.ListArray) -> Image | None:
    """Return the images from lists of ``Data`` messages, if every message is of the usual layout."""
    found, offsets = plain_values(lists.values), offsets_of(lists)
    return None if found is None else _plain_image(found, offsets[:-1], np.diff(offsets))


def _plain_image(values: PlainValues, first: npt.NDArray[np.int32], sizes: npt.NDArray[np.int32]) -> Image:
    charsets = None if values.names is None else charsets_of(values.names)
    return _image(first, sizes, _KINDS.take(values.types), (values.values, values.values), charsets, {})


def image_of(lists: pa.ListArray) -> Image:
    """Return the images from a list of Data structs per row."""
    values = lists.values
    types, sv, bv = numbers_of(values.field("dataType")), values.field("sv"), values.field("bv")
    kinds, unknown = _kinds(types, bv)
    charsets = charsets_of(values.field("charset"))
    fields = with_empty_last(sv), with_empty_last(bv)
    offsets = offsets_of(lists)
    return _image(offsets[:-1], np.diff(offsets), np.append(kinds, np.uint8(NULL)), fields, charsets, unknown)


def _image(
    first: npt.NDArray[np.int32],
    sizes: npt.NDArray[np.int32],
    kinds: npt.NDArray[np.uint8],
    fields: tuple[pa.Array, pa.Array],
    charsets: Charsets | None,
    unknown: dict[str, int],
) -> Image:
    """Return the images from the number of each row's first value, and how many it has.

    The last value stands for all that were not sent.
    """
    starts, present = _starts(first, sizes, len(kinds) - 1)
    if charsets is not None:
        for code, count in enumerate(np.bincount(charsets.codes[:-1], minlength=len(charsets.names)).tolist()):
            name = charsets.unknown_name(code)
            if count and name is not None:
                unknown[f"charset {name}"] = count
    combined = int(np.bitwise_or.reduce(kinds))
    return Image(
        starts, sizes, present, kinds, *fields, charsets, bool(combined & UNSIGNED), bool(combined & ABSENT), unknown
    )


def _starts(
    first: npt.NDArray[np.int32], sizes: npt.NDArray[np.int32], nothing: int
) -> tuple[npt.NDArray[np.int32], Bools]:
    """Return the number of each row's first value, and which rows have some.

    A row without values has the number that stands for nothing.
    """
    present = sizes > 0
    return first if present.all() else np.where(present, first, np.int32(nothing)), present


def _kinds(types: npt.NDArray[np.int32], bv: pa.Array) -> tuple[npt.NDArray[np.uint8], dict[str, int]]:
    """Return the kinds of values, and a count per data type that is not known.

    A value of an unknown type is wherever it has bytes.
    """
    known = types.view(np.uint32)
    newest = int(known.max()) if len(known) else 0
    if newest <= LAST_KNOWN:
        return _KINDS.take(types), {}
    kinds = _KINDS.take(np.minimum(known, LAST_KNOWN + 1))
    rows = np.flatnonzero(kinds == _UNKNOWN_TYPE)
    kinds[rows] = np.where(np.diff(offsets_of(bv))[rows] > 0, BYTES, NUMBER)
    names, counts = np.unique(types[rows], return_counts=True)
    return kinds, {f"data type {name}": count for name, count in zip(names.tolist(), counts.tolist(), strict=True)}
