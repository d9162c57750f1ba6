"""Gathering: the values of all columns are taken out of the images of rows.

The values of a row lie near each other, and those of a column far apart. Gathering them type after type would bring all bytes
into the processor's cache once for each type. So they are gathered for some rows at a time, those of all columns, and the pieces
of a column are joined afterwards.

NULL takes no part: no processor can guess whether the next value is one, and a wrong guess costs more than a value. Measured on
30 columns with one row an event: half the time of gathering, and 15 % of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, run_lengths
from dts_assets.wire.columns.images import BYTES, FIELD, NUMBER, Image
from dts_assets.wire.columns.layouts import Bucket, Layout
from dts_assets.wire.columns.table_rows import TableRows

_Counts: TypeAlias = npt.NDArray[np.int64]
_Cells: TypeAlias = npt.NDArray[np.int32]

_LONG = 256
"""Pieces of so many rows on the average have a numpy call each.

Shorter ones share arrays with a row and a position per value.
"""

_NEAR = 1 << 21
"""The bytes of the rows whose values are gathered together, so that they stay in the processor's cache."""

_LEAST_ROWS = 512
"""Rows that are gathered together at least, since every piece of a column costs a little more."""

_MOST_CELLS = 1 << 17
"""The most values of a type that are cast together, and a column more."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of tables, in the order of their buckets.

    ``tables`` are the numbers of their tables, ``columns`` theirs in the table, ``numbers`` theirs among its layout's buckets.
    ``rows`` are the first rows of their tables, ``lengths`` how many rows these have. ``positions`` are those of the first list.
    """

    tables: _Counts
    columns: _Cells
    numbers: _Counts
    positions: _Cells
    signed: Bools
    joined: Bools
    rows: _Counts
    lengths: _Counts

    def of(self, some: slice | _Counts) -> Columns:
        """Return some of the columns."""
        return Columns(*(getattr(self, one.name)[some] for one in fields(self)))


@dataclass(frozen=True, slots=True)
class Work:
    """The values of a bucket that are cast together, column after column.

    Those of a column begin at one of ``starts``. ``runs`` are the places among all gathered values where they stand, in this
    order.
    """

    bucket: Bucket
    columns: Columns
    starts: _Counts
    runs: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The values of an image in the order of gathering.

    ``kinds`` are those of all values. ``are_sent`` marks values that are not NULL; ``counts`` says how many these are up to each
    place. Their bytes are ``values``, and ``cells`` their numbers in the image.
    """

    image: Image
    kinds: npt.NDArray[np.uint8]
    are_sent: Bools
    counts: _Cells
    values: pa.Array
    cells: _Cells

    def of(self, work: Work) -> Values:
        """Return the values of a work."""
        sent = self.counts[work.runs].tolist()
        runs = work.runs.tolist()
        values = [self.values.slice(begin, end - begin) for begin, end in sent]
        cells = _joined(self.cells, sent)
        found = values[0] if len(values) == 1 else pa.concat_arrays(values)
        if not self.image.has_one_field:
            usual = NUMBER if work.bucket.number_field else BYTES
            other = (self.image.kinds[cells] & FIELD) == (FIELD - usual)
            if other.any():  # nearly always all stand in the field that their type makes one expect
                found = pc.if_else(pa.array(other), self.image.take(cells, FIELD - usual), found)
        return Values(found, cells, _joined(self.kinds, runs), _joined(self.are_sent, runs))


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a work.

    Of those that are not NULL it has the bytes (``sent``) and the numbers in the image; ``kinds`` are those of all.
    """

    sent: pa.Array
    cells: _Cells
    kinds: npt.NDArray[np.uint8]
    are_sent: Bools


_Item = TypeVar("_Item", bound=np.generic)


def _joined(numbers: npt.NDArray[_Item], runs: Sequence[tuple[int, int]]) -> npt.NDArray[_Item]:
    parts = [numbers[begin:end] for begin, end in runs]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Gathering:
    """All values of all columns in the order of gathering.

    The order is the same for the before and the after images. Values are runs of rows of a column, with their first ``rows``,
    their ``lengths`` and the ``positions`` of the column, from ``begins`` on. ``several`` are the runs of tables with several
    column lists, with the position that each row's event has for the column. Up to ``of_bytes`` stand the values of one field of
    messages, behind it those of the other.
    """

    works: tuple[Work, ...]
    rows: _Counts
    lengths: _Counts
    positions: _Cells
    begins: _Counts
    several: tuple[tuple[int, _Cells], ...]
    of_bytes: int

    def gather(self, image: Image) -> Gathered:
        """Return the values of an image."""
        cells = self._cells(image)
        # Rows without this image start at the value that stands for nothing; what lies beyond it is nothing too.
        np.minimum(cells, np.int32(image.nothing), out=cells)
        kinds = image.kinds[cells]
        are_sent = (kinds & FIELD) != 0
        counts = run_lengths(are_sent)
        sent = np.compress(are_sent, cells)  # five times as fast as an index by the mask
        if image.has_one_field:
            values = image.take(sent, NUMBER)
        else:
            of_bytes = int(counts[self.of_bytes])
            values = pa.concat_arrays([image.take(sent[:of_bytes], NUMBER), image.take(sent[of_bytes:], BYTES)])
        return Gathered(image, kinds, are_sent, counts, values, sent)

    def _cells(self, image: Image) -> _Cells:
        size = int(self.lengths.sum())
        if size < _LONG * len(self.lengths):
            rows = np.arange(size, dtype=np.int32)
            rows += np.repeat((self.rows - self.begins).astype(np.int32), self.lengths)
            cells = np.repeat(self.positions, self.lengths)
            for number, of_rows in self.several:
                begin = self.begins[number]
                cells[begin : begin + len(of_rows)] = of_rows
            cells += image.starts[rows]
            return cells
        cells, several = np.empty(size, np.int32), dict(self.several)
        runs = zip(self.begins.tolist(), self.rows.tolist(), self.lengths.tolist(), self.positions, strict=True)
        for number, (begin, row, length, position) in enumerate(runs):
            of_rows = image.starts[row : row + length]
            np.add(of_rows, several.get(number, position), out=cells[begin : begin + length])
        return cells


def gathering(tables: Sequence[TableRows], layouts: Sequence[Layout], images: Sequence[Image]) -> Gathering:
    """Return how the values of tables are gathered.

    ``tables`` follow one another in the rows of the images.
    """
    buckets, columns, of_bucket = _columns(tables, layouts)
    bounds = _bounds(tables, images)
    first = np.searchsorted(bounds, columns.rows, side="right") - 1
    counts = np.searchsorted(bounds, columns.rows + columns.lengths, side="left") - first
    owners = np.repeat(np.arange(len(counts)), counts)
    group = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts) + first[owners]
    rows = np.maximum(columns.rows[owners], bounds[group])
    lengths = np.minimum((columns.rows + columns.lengths)[owners], bounds[group + 1]) - rows
    are_bytes = np.asarray([not bucket.number_field for bucket in buckets], np.bool_)[of_bucket][owners]
    if all(one.has_one_field for one in images):
        are_bytes[:] = False
    order = np.lexsort((group, are_bytes))
    begins = np.empty(len(owners), np.int64)
    begins[order] = np.cumsum(lengths[order]) - lengths[order]
    works = tuple(_works(buckets, columns, of_bucket, owners, begins, lengths))
    owner, begin = owners[order], begins[order]
    several = tuple(_several(tables, layouts, columns, owner, rows[order], lengths[order]))
    of_bytes = int(lengths[~are_bytes].sum())
    return Gathering(works, rows[order], lengths[order], columns.positions[owner], begin, several, of_bytes)


def _columns(tables: Sequence[TableRows], layouts: Sequence[Layout]) -> tuple[list[Bucket], Columns, _Counts]:
    """Return the buckets of tables, their columns bucket by bucket, and the number of each one's bucket."""
    numbers: dict[Bucket, int] = {}
    bucket_numbers = [numbers.setdefault(bucket, len(numbers)) for layout in layouts for bucket in layout.buckets]
    widths = [len(layout.buckets) for layout in layouts]
    of_table = np.repeat(np.arange(len(tables)), widths)
    order = np.argsort(bucket_numbers, kind="stable")
    columns = Columns(
        of_table,
        np.concatenate([layout.columns for layout in layouts]),
        np.arange(len(of_table)) - np.repeat(np.cumsum(widths) - widths, widths),
        np.concatenate([layout.positions[0] for layout in layouts]),
        np.concatenate([layout.signed for layout in layouts]),
        np.concatenate([layout.joined for layout in layouts]),
        np.asarray([table.start for table in tables])[of_table],
        np.asarray([table.end - table.start for table in tables])[of_table],
    ).of(order)
    return list(numbers), columns, np.asarray(bucket_numbers, np.int64)[order]


def _bounds(tables: Sequence[TableRows], images: Sequence[Image]) -> _Counts:
    """Return where rows begin that are gathered together, and the end of all."""
    begin, end = tables[0].start, tables[-1].end
    rows = max(_LEAST_ROWS, _NEAR // max(1, *(one.bytes_of_row for one in images)))
    return np.append(np.arange(begin, end, rows), end)


def _works(
    buckets: Sequence[Bucket], columns: Columns, of_bucket: _Counts, owners: _Counts, begins: _Counts, lengths: _Counts
) -> Iterator[Work]:
    """Yield the values of all tables by bucket, as many at a time as are cast together.

    ``owners`` are the numbers of the columns that runs belong to, ``begins`` and ``lengths`` their places among gathered values.
    """
    starts = np.cumsum(columns.lengths) - columns.lengths
    first = np.searchsorted(of_bucket, of_bucket)  # the first column of the same bucket
    part = (starts - starts[first]) // _MOST_CELLS
    cuts = np.flatnonzero((np.diff(of_bucket, prepend=-1) != 0) | (np.diff(part, prepend=0) != 0))
    follows = np.append(False, begins[1:] == begins[:-1] + lengths[:-1])
    for begin, end in pairwise([*cuts.tolist(), len(of_bucket)]):
        low, high = np.searchsorted(owners, (begin, end)).tolist()
        heads = np.flatnonzero(~follows[low:high] | (np.arange(low, high) == low)) + low
        tails = np.append(heads[1:], high) - 1
        runs = np.stack([begins[heads], (begins + lengths)[tails]], axis=1)
        yield Work(buckets[of_bucket[begin]], columns.of(slice(begin, end)), starts[begin:end] - starts[begin], runs)


def _several(
    tables: Sequence[TableRows],
    layouts: Sequence[Layout],
    columns: Columns,
    owners: _Counts,
    rows: _Counts,
    lengths: _Counts,
) -> Iterator[tuple[int, _Cells]]:
    """Yield the runs of tables with several column lists, with each row's position of the column."""
    are_several = np.asarray([table.list_numbers is not None for table in tables])
    for place in np.flatnonzero(are_several[columns.tables[owners]]).tolist():
        owner = owners[place]
        table = tables[columns.tables[owner]]
        of_rows = layouts[columns.tables[owner]].positions[:, columns.numbers[owner]]
        begin = int(rows[place]) - table.start
        assert table.list_numbers is not None
        yield place, of_rows[table.list_numbers[begin : begin + int(lengths[place])]]
