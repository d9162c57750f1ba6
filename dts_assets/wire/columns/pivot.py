"""The pivot: values in the order they were sent become typed columns per table.

It takes one take and one cast per type and hundred thousand values. Cost grows with the number of values, hardly with the number
of tables: the values of all columns of one type, of all tables, are gathered by index, parsed together and handed out as slices
that share the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools, bitmap, masked
from dts_assets.wire.columns.casts import parse, two_complement
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.columns.layouts import Bucket, Layout, layout_of
from dts_assets.wire.columns.table_changes import ValueNotes, table_changes
from dts_assets.wire.columns.table_rows import TableRows
from dts_assets.wire.columns.texts import Charsets, text_of
from dts_assets.wire.format import TableChanges

NULL, NUMBER, BYTES, UNSIGNED, ABSENT = 0, 1, 2, 4, 8
"""Kinds of a value: NULL, text in ``sv``, bytes in ``bv``, unsigned (beside NUMBER), not sent."""

FIELD = NUMBER | BYTES


@dataclass(slots=True)
class Image:
    """The before or the after images of all rows.

    Value ``nothing`` is one more than were sent, empty and NULL. ``starts`` holds the number of each row's first value,
    ``nothing`` for a row without this image; ``sizes`` holds how many values it has. Where ``sv`` and ``bv`` are one object,
    it has two elements for each value: the bytes before the value, and the value.
    """

    starts: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int32]
    present: Bools
    kinds: npt.NDArray[np.uint8]
    sv: pa.Array
    bv: pa.Array
    charsets: Charsets | None
    has_unsigned: bool
    has_absent: bool
    unknown: dict[str, int]

    @property
    def nothing(self) -> int:
        """The number of the value that stands for every value that was not sent."""
        return len(self.kinds) - 1

    def take(self, cells: npt.NDArray[np.int32], usual: int) -> pa.Array:
        """Return the bytes of values from the field of a kind, NUMBER or BYTES."""
        if self.sv is self.bv:
            cells = cells * np.int32(2)
            cells += np.int32(1)
        return (self.sv if usual == NUMBER else self.bv).take(pa.array(cells))

    def take_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep these rows, in this order."""
        self.starts, self.sizes, self.present = self.starts[rows], self.sizes[rows], self.present[rows]


_LONG = 256
"""Columns of so many rows have a numpy call each.

Shorter ones share arrays with a row and a position per value.
"""


_NO_FIXED_BYTES = frozenset({"string", "binary", "boolean"})

_MOST_CELLS = 1 << 17
"""The most values of a type that are gathered and cast together, and a column more.

More would leave the processor's cache, and take memory for nothing.
"""


@dataclass(slots=True)
class _Table:
    """A table at work.

    ``pieces`` has the values of joined columns, an array for each of their own types.
    """

    rows: TableRows
    layout: Layout
    notes: ValueNotes
    pieces: tuple[dict[int, list[pa.Array]], dict[int, list[pa.Array]]]

    @property
    def count(self) -> int:
        return self.rows.end - self.rows.start

    def own(self) -> dict[str, tuple[pa.Array, ...]]:
        """Return the values of joined columns by image and name: ``{"after.n": ...}``."""
        return {
            f"{image}.{self.rows.columns[number].name}": tuple(values)
            for image, found in zip(("before", "after"), self.pieces, strict=True)
            for number, values in found.items()
        }


@dataclass(frozen=True, slots=True)
class _Shares:
    """Columns of tables, in the order of their buckets.

    ``tables`` are the numbers of their tables, ``columns`` theirs in the table, ``numbers`` theirs among its layout's buckets.
    ``rows`` are the first rows of their tables, ``lengths`` how many rows these have. ``positions`` are those of the first list.
    """

    tables: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32]
    signed: Bools
    joined: Bools
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def of(self, some: slice | npt.NDArray[np.int64]) -> _Shares:
        """Return some of the columns."""
        return _Shares(*(getattr(self, one.name)[some] for one in fields(self)))


@dataclass(frozen=True, slots=True)
class _Block:
    """The columns of a table whose values are gathered and parsed row by row.

    The values of a row lie near each other in the message, so that they are found in the processor's cache.
    """

    start: int
    rows: int
    columns: int

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + self.rows * self.columns)


_Item = TypeVar("_Item", bound=np.generic)


@dataclass(slots=True)
class _Work:
    """The values of a bucket: those of one column after the other, from ``starts`` on.

    ``several`` are the columns of tables with several column lists, by their places among the shares, with the position that
    each row's event has for them. ``blocks`` are the tables whose columns are gathered row by row.
    """

    bucket: Bucket
    shares: _Shares
    starts: npt.NDArray[np.int64]
    several: list[tuple[int, npt.NDArray[np.int32]]]
    blocks: tuple[_Block, ...]
    flat: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None

    @property
    def size(self) -> int:
        return int(self.starts[-1] + self.shares.lengths[-1])

    def cells(self, image: Image) -> npt.NDArray[np.int32]:
        """Return the number of every value in the image, in the order of gathering.

        That is column after column, table after table, but for the blocks, of which row comes after row.
        """
        if not _are_long(self.starts, self.size):
            if self.flat is None:
                self.flat = self._flat()
            rows, positions = self.flat
            cells = image.starts[rows]
            cells += positions
        else:
            cells = self._long(image)
        # Rows without this image start at the value that stands for nothing; what lies beyond it is nothing too.
        np.minimum(cells, np.int32(image.nothing), out=cells)
        return cells

    def _long(self, image: Image) -> npt.NDArray[np.int32]:
        cells, several = np.empty(self.size, np.int32), dict(self.several)
        shares, starts = self.shares, self.starts.tolist()
        places = zip(starts, shares.rows.tolist(), shares.lengths.tolist(), shares.positions, strict=True)
        for number, (start, row, length, position) in enumerate(places):
            of_rows = image.starts[row : row + length]
            np.add(of_rows, several.get(number, position), out=cells[start : start + length])
        for one in self.blocks:
            cells[one.place] = cells[one.place].reshape(one.columns, one.rows).T.ravel()
        return cells

    def by_columns(self, gathered: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
        """Return what was gathered, column after column."""
        found = gathered.copy()
        for one in self.blocks:
            found[one.place] = gathered[one.place].reshape(one.rows, one.columns).T.ravel()
        return found

    def _flat(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        shares = self.shares
        rows = np.arange(self.size, dtype=np.int32)
        rows += np.repeat((shares.rows - self.starts).astype(np.int32), shares.lengths)
        positions = np.repeat(shares.positions, shares.lengths)
        for number, of_rows in self.several:
            start = self.starts[number]
            positions[start : start + len(of_rows)] = of_rows
        return rows, positions


def _works(tables: Sequence[_Table]) -> Iterator[_Work]:
    """Yield the values of all tables by bucket, as many at a time as are gathered together."""
    layouts = [table.layout for table in tables]
    numbers: dict[Bucket, int] = {}
    bucket_numbers = [numbers.setdefault(bucket, len(numbers)) for layout in layouts for bucket in layout.buckets]
    widths = [len(layout.buckets) for layout in layouts]
    of_table = np.repeat(np.arange(len(tables)), widths)
    order = np.argsort(bucket_numbers, kind="stable")
    shares = _Shares(
        of_table,
        np.concatenate([layout.columns for layout in layouts]),
        np.arange(len(of_table)) - np.repeat(np.cumsum(widths) - widths, widths),
        np.concatenate([layout.positions[0] for layout in layouts]),
        np.concatenate([layout.signed for layout in layouts]),
        np.concatenate([layout.joined for layout in layouts]),
        np.asarray([table.rows.start for table in tables])[of_table],
        np.asarray([table.count for table in tables])[of_table],
    ).of(order)
    of_bucket = np.asarray(bucket_numbers, np.int64)[order]
    starts = np.cumsum(shares.lengths) - shares.lengths
    first = np.searchsorted(of_bucket, of_bucket)  # the first share of the same bucket
    part = (starts - starts[first]) // _MOST_CELLS
    cuts = np.flatnonzero((np.diff(of_bucket, prepend=-1) != 0) | (np.diff(part, prepend=0) != 0))
    buckets, several = list(numbers), np.asarray([table.rows.list_numbers is not None for table in tables])
    for begin, end in pairwise([*cuts.tolist(), len(order)]):
        mine, bucket, places = (
            shares.of(slice(begin, end)),
            buckets[of_bucket[begin]],
            starts[begin:end] - starts[begin],
        )
        yield _Work(bucket, mine, places, _several(tables, several, mine), _blocks(bucket, mine, places))


def _are_long(starts: npt.NDArray[np.int64], size: int) -> bool:
    return size >= _LONG * len(starts)


def _blocks(bucket: Bucket, shares: _Shares, starts: npt.NDArray[np.int64]) -> tuple[_Block, ...]:
    """Return the columns that are gathered row by row: long ones, of values of some bytes each."""
    if bucket.lake_type in _NO_FIXED_BYTES or not _are_long(starts, int(starts[-1] + shares.lengths[-1])):
        return ()
    first = np.flatnonzero(np.diff(shares.tables, prepend=-1))
    columns = np.diff(first, append=len(shares.tables))
    places = zip(starts[first].tolist(), shares.lengths[first].tolist(), columns.tolist(), strict=True)
    return tuple(_Block(start, rows, count) for start, rows, count in places if count > 1)


def _several(tables: Sequence[_Table], are_several: Bools, shares: _Shares) -> list[tuple[int, npt.NDArray[np.int32]]]:
    found = []
    for place in np.flatnonzero(are_several[shares.tables]).tolist():
        table = tables[shares.tables[place]]
        found.append((place, table.layout.positions[table.rows.list_numbers, shares.numbers[place]]))
    return found


def typed_values(
    values: pa.Array, bucket: Bucket, image: Image, cells: npt.NDArray[np.int32], *, zone: str | None = None
) -> tuple[pa.Array, Bools | None]:
    """Return the values of a bucket as DTS Protobuf sends them, typed, and which do not fit.

    The mask is None where all fit. ``zone`` (``+08:00``) is that of wall clocks that are declared to be instants.
    """
    if bucket.lake_type == "binary":
        return values, None
    if bucket.lake_type == "string":
        return text_of(values, image.charsets, cells)
    zone = zone if bucket.clocks else None
    return parse(two_complement(values) if bucket.bits else values, bucket.lake_type, zone=zone)


Children: TypeAlias = list[list[pa.Array | None]]
"""The columns of an image of every table, filled bucket by bucket."""

Reading: TypeAlias = Callable[[pa.Array, Bucket, Image, npt.NDArray[np.int32]], tuple[pa.Array, Bools | None]]
"""The way in which a format's values become typed.

From their bytes, the bucket, the image and their numbers in it follows a result as of :func:`typed_values`.
"""


def pivot(
    tables: Sequence[TableRows], before: Image, after: Image, beside: pa.RecordBatch, *, reading: Reading = typed_values
) -> tuple[tuple[TableChanges, ...], frozenset[tuple[TableId, str]]]:
    """Return the changes of every table, and the columns with unexpected unsigned values.

    Those are columns whose type does not say that it is unsigned. ``tables`` have at least one row each and follow one another in
    the rows of the images.
    """
    made = [_Table(rows, layout_of(rows.lists, rows.columns), ValueNotes(rows.columns), ({}, {})) for rows in tables]
    images = (before, after)
    children: list[Children] = [[[None] * len(rows.columns) for rows in tables] for _ in images]
    unsigned: set[tuple[TableId, str]] = set()
    for work in _works(made) if made else ():
        for side, image in enumerate(images):
            _fill(work, image, side, made, children[side], unsigned, reading)
    structs = [_structs(made, side, image, children[side]) if made else () for side, image in enumerate(images)]
    changes = tuple(
        table_changes(
            one.rows.table,
            both,
            one.notes,
            beside.slice(one.rows.start, one.count),
            one.rows.told(one.layout.keys),
            one.rows.told(one.layout.carried),
            one.own(),
        )
        for one, both in zip(made, zip(*structs, strict=True), strict=True)
    )
    return changes, frozenset(unsigned)


def _fill(
    work: _Work,
    image: Image,
    side: int,
    tables: Sequence[_Table],
    children: Children,
    unsigned: set[tuple[TableId, str]],
    reading: Reading,
) -> None:
    """Gather and parse the values of a bucket, and give every table its columns."""
    cells = work.cells(image)
    kinds = image.kinds[cells]
    values = _gather(image, cells, kinds, NUMBER if work.bucket.number_field else BYTES)
    valid = (kinds & FIELD) != 0
    values = masked(values, pa.binary(), None if valid.all() else valid)
    typed, bad = reading(values, work.bucket, image, cells)
    if work.blocks:
        typed, kinds = _by_columns(typed, work), work.by_columns(kinds)
        if bad is not None:
            bad, values = work.by_columns(bad), values.take(pa.array(work.by_columns(np.arange(len(values)))))
    shares = work.shares
    of_shares = zip(
        shares.tables.tolist(), shares.columns.tolist(), work.starts.tolist(), shares.lengths.tolist(), strict=True
    )
    for table, column, start, length in of_shares:
        children[table][column] = typed.slice(start, length)
    for place in np.flatnonzero(shares.joined).tolist():
        table, column = int(shares.tables[place]), int(shares.columns[place])
        mine = typed.slice(int(work.starts[place]), int(shares.lengths[place]))
        tables[table].pieces[side].setdefault(column, []).append(mine)
    if bad is not None:
        _note(np.flatnonzero(bad), work, side, tables, values)
    if image.has_absent:
        _note(np.flatnonzero(kinds == ABSENT), work, side, tables, None)
    if image.has_unsigned:
        _note_unsigned(work, kinds, tables, unsigned)


def _by_columns(typed: pa.Array, work: _Work) -> pa.Array:
    """Return values of some bytes each, column after column."""
    width = typed.type.byte_width
    data = np.frombuffer(typed.buffers()[1], f"V{width}", count=len(typed), offset=typed.offset * width)
    validity = bitmap(work.by_columns(np.asarray(typed.is_valid()))) if typed.null_count else None
    return pa.Array.from_buffers(typed.type, len(typed), [validity, pa.py_buffer(work.by_columns(data))])


def _gather(image: Image, cells: npt.NDArray[np.int32], kinds: npt.NDArray[np.uint8], usual: int) -> pa.Array:
    """Return the bytes of values; nearly always all stand in the field that their type makes one expect."""
    other = (kinds & FIELD) == (FIELD - usual)
    if image.sv is image.bv or not other.any():
        return image.take(cells, usual)
    return pc.if_else(pa.array(other), image.take(cells, FIELD - usual), image.take(cells, usual))


def _note(
    places: npt.NDArray[np.int64], work: _Work, side: int, tables: Sequence[_Table], values: pa.Array | None
) -> None:
    """Note values that did not fit or were not sent, in the tables they belong to.

    Values that did not fit are noted with their bytes.
    """
    bounds = np.append(np.searchsorted(places, work.starts), len(places))
    for share in np.flatnonzero(np.diff(bounds)).tolist():
        mine = places[bounds[share] : bounds[share + 1]]
        notes, rows = tables[work.shares.tables[share]].notes, mine - work.starts[share]
        columns = np.repeat(work.shares.columns[share], len(mine))
        if values is None:
            notes.absent(side, rows, columns)
        else:
            notes.invalid(side, rows, columns, values.take(pa.array(mine)))


def _note_unsigned(
    work: _Work, kinds: npt.NDArray[np.uint8], tables: Sequence[_Table], unsigned: set[tuple[TableId, str]]
) -> None:
    shares = work.shares
    if not shares.signed.any():
        return
    found = shares.signed & np.logical_or.reduceat((kinds & UNSIGNED) != 0, work.starts)
    for share in np.flatnonzero(found).tolist():
        rows = tables[shares.tables[share]].rows
        unsigned.add((rows.table, rows.columns[shares.columns[share]].name))


def _structs(tables: Sequence[_Table], side: int, image: Image, children: Children) -> Iterator[pa.StructArray]:
    """Yield the image of every table as one array; a row without it is null."""
    for table, mine, validity in zip(tables, children, _validity(tables, image.present), strict=True):
        kind = table.layout.struct
        for number in table.layout.uncarried:
            mine[number] = pa.nulls(table.count, kind.field(number).type)
        for number, pieces in table.pieces[side].items():
            mine[number] = pc.coalesce(*(held_as(piece, kind.field(number).type) for piece in pieces))
        yield pa.Array.from_buffers(kind, table.count, [validity], children=mine)


def _validity(tables: Sequence[_Table], present: Bools) -> list[pa.Buffer | None]:
    """Return the validity bits of every table's rows, None where all are there.

    All are packed at once; those of a table begin at a word of their own.
    """
    starts, counts = np.asarray([table.rows.start for table in tables]), np.asarray([table.count for table in tables])
    sizes = (counts + 63) // 64 * 8
    ends = np.cumsum(sizes)
    bits = np.zeros(8 * int(ends[-1]), np.bool_)
    bits[np.arange(len(present)) + np.repeat(8 * (ends - sizes) - starts, counts)] = present
    packed, whole = bitmap(bits), np.logical_and.reduceat(present, starts)
    places = zip((ends - sizes).tolist(), sizes.tolist(), whole.tolist(), strict=True)
    return [None if all_there else packed.slice(begin, size) for begin, size, all_there in places]
