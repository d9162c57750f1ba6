"""The pivot: values in the order they were sent become typed columns per table.

It takes one take and one cast per type and hundred thousand values. Cost grows with the number of values, hardly with the number
of tables: the values of all columns of one type, of all tables, are gathered by index, parsed together and handed out as slices
that share the same memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools, bitmap, masked
from dts_assets.wire.columns.casts import arrow_type, parse, two_complement
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.columns.table_changes import ValueNotes, table_changes
from dts_assets.wire.columns.table_rows import ColumnList, TableRows, carried_by, keys_of
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


_NUMBER_TYPES = re.compile(
    r"\s*(tiny|small|medium|big)?int|\s*(integer|decimal|numeric|dec|fixed|float|double|real|bit|year)\b", re.I
)
_BIT = re.compile(r"\s*bit\b", re.I)
_CLOCK = re.compile(r"\s*(datetime|date)\b", re.I)
_UNSIGNED = re.compile(r"unsigned|zerofill", re.I)


UNCARRIED = 1 << 30
"""A position beyond the values of any call, whose bytes end at two gibibytes.

Added to a row's first value it finds no value.
"""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Values that are taken and cast together: one lake type, in one field of their messages.

    ``number_field`` is ``sv``, where numbers are; the other field is ``bv``. ``bits`` marks 64-bit BIT values, whose sign is
    no sign. ``of_bytes`` marks binary columns that are binary at the source too, and not text that is declared to be bytes.
    ``clocks`` marks instants that are wall clocks at the source.
    """

    lake_type: str
    number_field: bool
    bits: bool
    of_bytes: bool
    clocks: bool


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The columns of a table that belong to one bucket.

    ``columns`` are their numbers in the table, ``positions`` (one row per column list, one column per column) their places in the
    event, :data:`UNCARRIED` where the event does not carry them. ``signed`` marks columns whose type text does not say unsigned.
    """

    columns: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    signed: npt.NDArray[np.bool_]

    def parts(self, width: int) -> Iterator[Share]:
        """Yield the share in parts of at most ``width`` columns."""
        if len(self.columns) <= width:
            yield self
            return
        for first in range(0, len(self.columns), width):
            part = slice(first, first + width)
            yield Share(self.columns[part], self.positions[:, part], self.signed[part])


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a table by bucket, the columns that no event carries, and the images' Arrow type.

    ``joined`` are the columns whose values are read by the types of their own events: each has a share for every such type.
    ``keys`` has the primary key that each column list tells, ``carried`` the digest of its columns.
    """

    struct: pa.StructType
    shares: Mapping[Bucket, Share]
    uncarried: tuple[int, ...]
    joined: frozenset[int]
    keys: tuple[tuple[str, ...], ...]
    carried: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1 << 13)
def layout_of(lists: tuple[ColumnList, ...], columns: tuple[Column, ...]) -> Layout:
    """Return the layout of a table whose rows come with some column lists."""
    members: dict[Bucket, list[_Member]] = {}
    uncarried: list[int] = []
    joined: set[int] = set()
    for number, column in enumerate(columns):
        found = [place for one in reversed(lists) if (place := one.place(column)) is not None]
        if not found:
            uncarried.append(number)
            continue
        kinds = {column.own_type(shape.original_type) for _, shape in found} if column.own_types else {column.type}
        if kinds != {column.type}:
            joined.add(number)
        for kind in sorted(kinds):
            originals = [one.original_type for _, one in found if column.own_type(one.original_type) == kind]
            # A type that nobody knows, as a damaged message may have it, says nothing of the other messages.
            original = next((one for one in originals if mysql_type(one) is not None), originals[0])
            member = _Member(number, column, kind, _UNSIGNED.search(original) is None)
            members.setdefault(_bucket(kind, original), []).append(member)
    shares = {}
    for bucket, some in members.items():
        positions = [[one.position(member.column, member.kind) for member in some] for one in lists]
        shares[bucket] = Share(
            np.asarray([member.number for member in some], np.int32),
            np.asarray([[UNCARRIED if at is None else at for at in mine] for mine in positions], np.int32),
            np.asarray([member.signed for member in some]),
        )
    told = keys_of(lists, columns), carried_by(lists)
    return Layout(struct_type(columns), shares, tuple(uncarried), frozenset(joined), *told)


@dataclass(frozen=True, slots=True)
class _Member:
    """A column in a bucket by its number, with the lake type of its values there."""

    number: int
    column: Column
    kind: str
    signed: bool


def _bucket(kind: str, original: str) -> Bucket:
    bits = kind == "decimal(20,0)" and _BIT.match(original) is not None
    of_bytes = kind == "binary" and mysql_type(original) == "binary"
    clocks = kind == "timestamp" and _CLOCK.match(original) is not None
    return Bucket(kind, _NUMBER_TYPES.match(original) is not None, bits, of_bytes, clocks)


@lru_cache(maxsize=1 << 13)
def struct_type(columns: tuple[Column, ...]) -> pa.StructType:
    """Return the Arrow type of a row image."""
    return pa.struct([pa.field(column.name, arrow_type(column.type)) for column in columns])


_FEW_TABLES = 8
"""The most tables for which one numpy call per table is quicker than flat arrays.

Flat arrays have a row and a position per value.
"""


_MOST_CELLS = 1 << 17
"""The most values of a type that are gathered and cast together.

More would leave the processor's cache, and take memory for nothing.
"""


@dataclass(slots=True)
class _Table:
    """A table at work; ``children`` are the columns of its before and after images, filled bucket by bucket.

    ``pieces`` has the values of joined columns instead, an array for each of their own types.
    """

    rows: TableRows
    layout: Layout
    notes: ValueNotes
    count: int
    children: tuple[list[pa.Array | None], list[pa.Array | None]]
    pieces: tuple[dict[int, list[pa.Array]], dict[int, list[pa.Array]]] = field(default_factory=lambda: ({}, {}))

    def own(self) -> dict[str, tuple[pa.Array, ...]]:
        """Return the values of joined columns by image and name: ``{"after.n": ...}``."""
        return {
            f"{image}.{self.rows.columns[number].name}": tuple(values)
            for image, found in zip(("before", "after"), self.pieces, strict=True)
            for number, values in found.items()
        }


@dataclass(frozen=True, slots=True)
class _Segment:
    """The values of a table in a bucket: column after column, from ``start`` on."""

    table: _Table
    share: Share
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.share.columns) * self.table.count


@dataclass(slots=True)
class _Work:
    """The values of a bucket: the places of every table's columns.

    For many tables, ``flat`` has the row and the position of every value.
    """

    bucket: Bucket
    segments: list[_Segment] = field(default_factory=list)
    flat: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None

    def add(self, table: _Table, share: Share) -> None:
        self.segments.append(_Segment(table, share, self.segments[-1].end if self.segments else 0))

    def cells(self, image: Image) -> npt.NDArray[np.int32]:
        """Return the number of every value in the image, column after column, table after table."""
        if len(self.segments) > _FEW_TABLES:
            if self.flat is None:
                self.flat = self._flat()
            rows, positions = self.flat
            cells = image.starts[rows]
            cells += positions
        else:
            parts = [_table_cells(image, segment).ravel() for segment in self.segments]
            cells = parts[0] if len(parts) == 1 else np.concatenate(parts)
        # Rows without this image start at the value that stands for nothing; what lies beyond it is nothing too.
        np.minimum(cells, np.int32(image.nothing), out=cells)
        return cells

    def of_pairs(self, numbers: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return a number of each segment for every pair of its table and a column."""
        return np.repeat(np.asarray(numbers, np.int64), [len(segment.share.columns) for segment in self.segments])

    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return where the values of each pair of table and column begin, and how many they are."""
        lengths = self.of_pairs([segment.table.count for segment in self.segments])
        return np.cumsum(lengths) - lengths, lengths

    def _flat(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        starts, lengths = self.pairs()
        firsts = self.of_pairs([segment.table.rows.start for segment in self.segments])
        shift = (firsts - starts).astype(np.int32)
        rows = np.arange(self.segments[-1].end, dtype=np.int32)
        rows += np.repeat(shift, lengths)
        positions = np.repeat(np.concatenate([segment.share.positions[0] for segment in self.segments]), lengths)
        for segment in self.segments:
            numbers = segment.table.rows.list_numbers
            if numbers is not None:
                positions[segment.start : segment.end] = segment.share.positions[numbers].T.ravel()
        return rows, positions


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
    made: list[_Table] = []
    buckets: dict[Bucket, list[_Work]] = {}
    for rows in tables:
        width, layout = len(rows.columns), layout_of(rows.lists, rows.columns)
        table = _Table(rows, layout, ValueNotes(rows.columns), rows.end - rows.start, ([None] * width, [None] * width))
        made.append(table)
        for bucket, share in layout.shares.items():
            works = buckets.setdefault(bucket, [])
            for part in share.parts(max(1, _MOST_CELLS // table.count)):
                if not works or works[-1].segments[-1].end >= _MOST_CELLS:
                    works.append(_Work(bucket))
                works[-1].add(table, part)
    unsigned: set[tuple[TableId, str]] = set()
    for work in (work for works in buckets.values() for work in works):
        for side, image in enumerate((before, after)):
            _fill(work, image, side, unsigned, reading)
        work.flat = None
    changes = tuple(
        table_changes(
            one.rows.table,
            (_struct(one, 0, before), _struct(one, 1, after)),
            one.notes,
            beside.slice(one.rows.start, one.count),
            one.rows.told(one.layout.keys),
            one.rows.told(one.layout.carried),
            one.own(),
        )
        for one in made
    )
    return changes, frozenset(unsigned)


def _fill(work: _Work, image: Image, side: int, unsigned: set[tuple[TableId, str]], reading: Reading) -> None:
    """Gather and parse the values of a bucket, and give every table its columns."""
    cells = work.cells(image)
    kinds = image.kinds[cells]
    values = _gather(image, cells, kinds, NUMBER if work.bucket.number_field else BYTES)
    valid = (kinds & FIELD) != 0
    values = masked(values, pa.binary(), None if valid.all() else valid)
    typed, bad = reading(values, work.bucket, image, cells)
    for segment in work.segments:
        count, position = segment.table.count, segment.start
        children, joined = segment.table.children[side], segment.table.layout.joined
        for column in segment.share.columns.tolist():
            mine = typed.slice(position, count)
            if column in joined:
                segment.table.pieces[side].setdefault(column, []).append(mine)
            else:
                children[column] = mine
            position += count
    if bad is not None:
        _note(np.flatnonzero(bad), work.segments, side, values)
    if image.has_absent:
        _note(np.flatnonzero(kinds == ABSENT), work.segments, side, None)
    if image.has_unsigned:
        _note_unsigned(work, kinds, unsigned)


def _table_cells(image: Image, segment: _Segment) -> npt.NDArray[np.int32]:
    rows, positions = segment.table.rows, segment.share.positions
    starts = image.starts[rows.start : rows.end]
    places = positions[0][:, None] if rows.list_numbers is None else positions[rows.list_numbers].T
    cells: npt.NDArray[np.int32] = starts[None, :] + places
    return cells


def _gather(image: Image, cells: npt.NDArray[np.int32], kinds: npt.NDArray[np.uint8], usual: int) -> pa.Array:
    """Return the bytes of values; nearly always all stand in the field that their type makes one expect."""
    other = (kinds & FIELD) == (FIELD - usual)
    if image.sv is image.bv or not other.any():
        return image.take(cells, usual)
    return pc.if_else(pa.array(other), image.take(cells, FIELD - usual), image.take(cells, usual))


def _note(places: npt.NDArray[np.int64], segments: Sequence[_Segment], side: int, values: pa.Array | None) -> None:
    """Note values that did not fit or were not sent, in the tables they belong to.

    Values that did not fit are noted with their bytes.
    """
    bounds = np.searchsorted(places, [segment.start for segment in segments] + [segments[-1].end])
    for segment, first, last in zip(segments, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if first == last:
            continue
        mine = places[first:last]
        column, row = np.divmod(mine - segment.start, segment.table.count)
        columns = segment.share.columns[column]
        if values is None:
            segment.table.notes.absent(side, row, columns)
        else:
            segment.table.notes.invalid(side, row, columns, values.take(pa.array(mine)))


def _note_unsigned(work: _Work, kinds: npt.NDArray[np.uint8], unsigned: set[tuple[TableId, str]]) -> None:
    signed = np.concatenate([segment.share.signed for segment in work.segments])
    if not signed.any():
        return
    found = signed & np.logical_or.reduceat((kinds & UNSIGNED) != 0, work.pairs()[0])
    if not found.any():
        return
    tables = [segment.table.rows for segment in work.segments for _ in segment.share.columns]
    columns = np.concatenate([segment.share.columns for segment in work.segments])
    for pair in np.flatnonzero(found).tolist():
        unsigned.add((tables[pair].table, tables[pair].columns[columns[pair]].name))


def _struct(table: _Table, side: int, image: Image) -> pa.StructArray:
    """Return the image of a table as one array; a row without it is null."""
    kind, children = table.layout.struct, table.children[side]
    for number in table.layout.uncarried:
        children[number] = pa.nulls(table.count, kind.field(number).type)
    for number, pieces in table.pieces[side].items():
        children[number] = pc.coalesce(*(held_as(piece, kind.field(number).type) for piece in pieces))
    present = image.present[table.rows.start : table.rows.end]
    validity = None if present.all() else bitmap(present)
    return pa.Array.from_buffers(kind, table.count, [validity], children=children)
