"""Values in the order they were sent to typed columns per table: one take and one cast per type for a whole call.

Cost grows with the number of values, hardly with the number of tables: the values of all columns of one type, of all tables, are
gathered by index, parsed together and handed out as slices that share the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.buffers import Bools, bitmap, masked
from dts_assets.wire.casts import parse, two_complement
from dts_assets.wire.charsets import text_of
from dts_assets.wire.images import ABSENT, BYTES, FIELD, NUMBER, UNSIGNED, Image
from dts_assets.wire.layouts import Bucket, ColumnList, Layout, Share, layout_of
from dts_assets.wire.marks import Marks

IMAGES = ("before", "after")


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows ``start`` to ``end`` of the images are this table's; ``lists`` are the column lists they came with.

    ``list_numbers`` says which of them each row has; None where there is only one.
    """

    table: TableId
    columns: tuple[Column, ...]
    start: int
    end: int
    lists: tuple[ColumnList, ...]
    list_numbers: npt.NDArray[np.int64] | None


@dataclass(slots=True)
class Pivoted:
    """A table's images as struct arrays, and what has to be said beside them."""

    rows: TableRows
    before: pa.StructArray
    after: pa.StructArray
    marks: Marks


@dataclass(slots=True)
class _Table:
    rows: TableRows
    layout: Layout
    marks: Marks
    children: list[list[pa.Array | None]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.rows.end - self.rows.start


@dataclass(frozen=True, slots=True)
class _Segment:
    """The values of a table in a bucket: column after column, from ``start`` on."""

    table: _Table
    share: Share
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.share.columns) * self.table.count


def pivot(tables: Sequence[TableRows], before: Image, after: Image) -> tuple[list[Pivoted], set[tuple[TableId, str]]]:
    """Both images of every table, and the columns whose values were unsigned although their type does not say so.

    ``tables`` have at least one row each and follow one another in the rows of the images.
    """
    work = [_Table(rows, layout_of(rows.lists, rows.columns), Marks(rows.columns)) for rows in tables]
    buckets: dict[Bucket, list[_Segment]] = {}
    for table in work:
        table.children = [[None] * len(table.rows.columns) for _ in IMAGES]
        for bucket, share in table.layout.shares.items():
            segments = buckets.setdefault(bucket, [])
            segments.append(_Segment(table, share, segments[-1].end if segments else 0))
    unsigned: set[tuple[TableId, str]] = set()
    for side, image in enumerate((before, after)):
        for bucket, segments in buckets.items():
            _fill(image, side, bucket, segments)
            if image.has_unsigned and bucket.number_field:
                _note_unsigned(image, segments, unsigned)
    return [
        Pivoted(table.rows, _struct(table, 0, before), _struct(table, 1, after), table.marks) for table in work
    ], unsigned


def _fill(image: Image, side: int, bucket: Bucket, segments: Sequence[_Segment]) -> None:
    """Gather and parse the values of a bucket, and give every table its columns."""
    cells = _cells(image, segments)
    kinds = image.kinds[cells]
    values = _gather(image, cells, kinds, NUMBER if bucket.number_field else BYTES)
    valid: Bools | None = (kinds & FIELD) != 0
    if np.all(valid):
        valid = None
    values = masked(values, pa.binary(), valid)
    typed, bad = _typed(values, bucket, image, cells)
    for segment in segments:
        count, position = segment.table.count, segment.start
        children = segment.table.children[side]
        for column in segment.share.columns.tolist():
            children[column] = typed.slice(position, count)
            position += count
    if bad is not None:
        _mark(np.flatnonzero(bad), segments, side, values)
    if image.has_absent:
        _mark(np.flatnonzero(kinds == ABSENT), segments, side, None)


def _cells(image: Image, segments: Sequence[_Segment]) -> npt.NDArray[np.int32]:
    """The number of every value of a bucket, column after column, table after table."""
    parts = []
    nothing = np.int32(image.nothing)
    for segment in segments:
        rows = segment.table.rows
        starts, positions = image.starts[rows.start : rows.end], segment.share.positions
        if rows.list_numbers is None:
            cells = starts[None, :] + positions[0][:, None]
        else:
            places = positions[rows.list_numbers].T
            cells = np.where(places < 0, nothing, starts + places)
        parts.append(cells.ravel())
    cells = parts[0] if len(parts) == 1 else np.concatenate(parts)
    np.minimum(cells, nothing, out=cells)  # rows without this image start at the last value already
    return cells


def _gather(image: Image, cells: npt.NDArray[np.int32], kinds: npt.NDArray[np.uint8], usual: int) -> pa.Array:
    """The bytes of values. Nearly always all stand in the field that their type makes one expect."""
    taken = pa.array(cells)
    other = (kinds & FIELD) == (FIELD - usual)
    expected = image.sv if usual == NUMBER else image.bv
    if not other.any():
        return expected.take(taken)
    unexpected = image.bv if usual == NUMBER else image.sv
    return pc.if_else(pa.array(other), unexpected.take(taken), expected.take(taken))


def _typed(
    values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32]
) -> tuple[pa.Array, Bools | None]:
    if bucket.lake_type == "binary":
        return values, None
    if bucket.lake_type == "string":
        return text_of(values, image.charsets, cells)
    return parse(two_complement(values) if bucket.bits else values, bucket.lake_type)


def _mark(places: npt.NDArray[np.int64], segments: Sequence[_Segment], side: int, values: pa.Array | None) -> None:
    """Note values that did not fit (with their bytes) or were not sent, in the tables they belong to."""
    bounds = np.searchsorted(places, [segment.start for segment in segments] + [segments[-1].end])
    for segment, first, last in zip(segments, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if first == last:
            continue
        mine = places[first:last]
        column, row = np.divmod(mine - segment.start, segment.table.count)
        columns = segment.share.columns[column]
        if values is None:
            segment.table.marks.absent(side, row, columns)
        else:
            segment.table.marks.invalid(side, row, columns, values.take(pa.array(mine)))


def _note_unsigned(image: Image, segments: Sequence[_Segment], unsigned: set[tuple[TableId, str]]) -> None:
    for segment in segments:
        signed = segment.table.layout.signed
        if signed.isdisjoint(segment.share.columns.tolist()):
            continue
        cells = _cells(image, [segment])
        found = ((image.kinds[cells] & UNSIGNED) != 0).reshape(len(segment.share.columns), -1).any(axis=1)
        for number in segment.share.columns[found].tolist():
            if number in signed:
                unsigned.add((segment.table.rows.table, segment.table.rows.columns[number].name))


def _struct(table: _Table, side: int, image: Image) -> pa.StructArray:
    """The image of a table as one array; a row without it is null."""
    kind = table.layout.struct
    children = table.children[side]
    for number in table.layout.uncarried:
        children[number] = pa.nulls(table.count, kind.field(number).type)
    present = image.present[table.rows.start : table.rows.end]
    validity = None if present.all() else bitmap(present)
    return pa.Array.from_buffers(kind, table.count, [validity], children=children)
