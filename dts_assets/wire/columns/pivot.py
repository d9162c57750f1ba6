"""The pivot: values in the order they were sent become typed columns per table.

It takes one take for an image, and one cast per type and hundred thousand values. Cost grows with the number of values, hardly
with the number of tables: the values of all columns of one type, of all tables, are parsed together and handed out as slices that
share the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.taught_types import TaughtType
from dts_assets.wire.columns.buffers import Bools, bitmap, spread
from dts_assets.wire.columns.casts import parse, two_complement
from dts_assets.wire.columns.gathering import Gathered, Work, gathering
from dts_assets.wire.columns.images import ABSENT, UNFIT, UNSIGNED, Image
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.columns.layouts import Bucket, Layout, layout_of
from dts_assets.wire.columns.table_changes import ValueNotes, table_changes
from dts_assets.wire.columns.table_rows import TableRows
from dts_assets.wire.columns.texts import text_of
from dts_assets.wire.columns.unsent_nulls import without_unsent
from dts_assets.wire.format import TableChanges


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
) -> tuple[tuple[TableChanges, ...], frozenset[TaughtType]]:
    """Return the changes of every table, and the types with unexpected unsigned values.

    ``tables`` have at least one row each and follow one another in the rows of the images. In old rows of sources with a schema
    NULL may stand for a value that was not sent.
    """
    made = [_Table(rows, layout_of(rows.lists, rows.columns), ValueNotes(rows.columns), ({}, {})) for rows in tables]
    images = (without_unsent(before, tables), after)
    children: list[Children] = [[[None] * len(rows.columns) for rows in tables] for _ in images]
    unsigned: set[TaughtType] = set()
    if made:
        plan = gathering(tables, [table.layout for table in made], images)
        for side, image in enumerate(images):
            gathered = plan.gather(image)
            for work in plan.works:
                _fill(work, gathered, side, made, children[side], unsigned, reading)
            del gathered  # before the next one is made
    structs = [_structs(made, side, image, children[side]) if made else () for side, image in enumerate(images)]
    changes = tuple(
        table_changes(
            one.rows.table,
            both,
            one.notes,
            beside.slice(one.rows.start, one.count),
            one.rows.told(one.layout.keys),
            one.rows.told(one.layout.carried),
            one.rows.told(one.layout.json),
            one.own(),
        )
        for one, both in zip(made, zip(*structs, strict=True), strict=True)
    )
    return changes, frozenset(unsigned)


def _fill(
    work: Work,
    gathered: Gathered,
    side: int,
    tables: Sequence[_Table],
    children: Children,
    unsigned: set[TaughtType],
    reading: Reading,
) -> None:
    """Parse the values of a bucket, and give every table its columns."""
    values = gathered.of(work)
    typed, bad = reading(values.sent, work.bucket, gathered.image, values.cells)
    if gathered.image.has_unfit and (odd := (gathered.image.kinds[values.cells] & UNFIT) > 0).any():
        typed = pc.if_else(pa.array(odd), pa.scalar(None, typed.type), typed)
        bad = odd if bad is None else bad | odd
    typed = spread(typed, values.are_sent)
    columns = work.columns
    places = zip(
        columns.tables.tolist(), columns.columns.tolist(), work.starts.tolist(), columns.lengths.tolist(), strict=True
    )
    for table, column, start, length in places:
        children[table][column] = typed.slice(start, length)
    for place in np.flatnonzero(columns.joined).tolist():
        table, column = int(columns.tables[place]), int(columns.columns[place])
        mine = typed.slice(int(work.starts[place]), int(columns.lengths[place]))
        tables[table].pieces[side].setdefault(column, []).append(mine)
    if bad is not None:
        unfit = np.flatnonzero(bad)
        _note(np.flatnonzero(values.are_sent)[unfit], work, side, tables, values.sent.take(pa.array(unfit)))
    if gathered.image.has_absent:
        _note(np.flatnonzero(values.kinds == ABSENT), work, side, tables, None)
    if gathered.image.has_unsigned:
        _note_unsigned(work, values.kinds, tables, unsigned)


def _note(
    places: npt.NDArray[np.int64], work: Work, side: int, tables: Sequence[_Table], values: pa.Array | None
) -> None:
    """Note values that did not fit or were not sent, in the tables they belong to.

    Values that did not fit are noted with their bytes: ``values`` has those of all places.
    """
    bounds = np.append(np.searchsorted(places, work.starts), len(places))
    for place in np.flatnonzero(np.diff(bounds)).tolist():
        mine = places[bounds[place] : bounds[place + 1]]
        notes, rows = tables[work.columns.tables[place]].notes, mine - work.starts[place]
        columns = np.repeat(work.columns.columns[place], len(mine))
        if values is None:
            notes.absent(side, rows, columns)
        else:
            notes.invalid(side, rows, columns, values.slice(int(bounds[place]), len(mine)))


def _note_unsigned(
    work: Work, kinds: npt.NDArray[np.uint8], tables: Sequence[_Table], unsigned: set[TaughtType]
) -> None:
    columns = work.columns
    if not columns.signed.any():
        return
    found = columns.signed & np.logical_or.reduceat((kinds & UNSIGNED) != 0, work.starts)
    for place in np.flatnonzero(found).tolist():
        one = tables[columns.tables[place]]
        name, text = one.rows.columns[columns.columns[place]].name, one.layout.texts[columns.numbers[place]]
        unsigned.add(TaughtType(one.rows.table, name, text))


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
