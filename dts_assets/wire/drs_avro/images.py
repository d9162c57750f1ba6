"""Row images in any form that a schema may give them.

A row is an array of values in the order of the columns, or a map from column names to values, or an array of records of a name
and a value. An array of maps holds several rows. Whatever the form, values are put into the order of their table's columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.avro.column_lists import NAMES
from dts_assets.wire.avro.field_values import branches, slices_array, texts
from dts_assets.wire.avro.images import Values
from dts_assets.wire.avro.records import Records
from dts_assets.wire.avro.schema import Type
from dts_assets.wire.avro.side_by_side import Column, Fields, Ints, Lists
from dts_assets.wire.columns.buffers import Bools, with_empty_last
from dts_assets.wire.columns.clock_texts import AS_NEEDED, DATETIME, clock_code
from dts_assets.wire.columns.image_parts import unknown_charsets
from dts_assets.wire.columns.images import ABSENT, NULL, Image
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import Charsets, charsets_of
from dts_assets.wire.drs_avro.roles import VALUE_NAMES, branches_of, is_pair
from dts_assets.wire.format import MOST_CELLS, TooLargeError

NO_IMAGE = -1


@dataclass(frozen=True, slots=True)
class Items:
    """The values of images in one form, as they stand in the records.

    ``owners`` are the numbers of their records, ``rows`` the number of the row in its record. ``names`` are those of their
    columns, None for values in the order of the columns.
    """

    owners: Ints
    rows: Ints
    names: pa.Array | None
    type: Type
    values: Column


def row_counts(records: Records, role: str) -> Ints:
    """Return the number of rows in each record's image, -1 where it has none. An image without values is none."""
    counts = np.full(len(records), NO_IMAGE, np.int64)
    found = records.column(role)
    for rows, kind, column in () if found is None else branches(*found, len(records)):
        if isinstance(column, Lists):
            several = kind.kind == "array" and _is_map(kind.items[0])
            counts[rows] = np.where(column.counts > 0, column.counts if several else 1, NO_IMAGE)
    return counts


def items_of(records: Records, role: str) -> Iterator[Items]:
    """Yield the values of images, form by form."""
    found = records.column(role)
    for rows, kind, column in () if found is None else branches(*found, len(records)):
        if not isinstance(column, Lists) or not column.counts.any():
            continue
        owners = np.repeat(rows, column.counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(column.counts) - column.counts, column.counts)
        alone, item = np.zeros(len(owners), np.int64), kind.items[0]
        if kind.kind == "map":
            yield Items(owners, alone, _keys(column, records.data), item, column.items)
        elif _is_map(item):
            for places, inner, maps in branches(item, column.items, len(owners)):
                if isinstance(maps, Lists):
                    each = np.repeat(places, maps.counts)
                    yield Items(owners[each], numbers[each], _keys(maps, records.data), inner.items[0], maps.items)
        elif (pair := _pair_of(item)) is not None:
            yield from _named(records, owners, item, column.items, pair)
        else:
            yield Items(owners, alone, None, item, column.items)


def _named(records: Records, owners: Ints, item: Type, column: Column, pair: Type) -> Iterator[Items]:
    name, value = pair.field(*NAMES), pair.field(*VALUE_NAMES)
    for places, kind, inside in branches(item, column, len(owners)):
        if name is not None and value is not None and kind is pair and isinstance(inside, Fields):
            named = texts(name.type, inside.columns[name.name], records.data, len(places))
            none = np.zeros(len(places), np.int64)
            yield Items(owners[places], none, pc.fill_null(named, b""), value.type, inside.columns[value.name])


def _is_map(kind: Type) -> bool:
    return any(one.kind == "map" for one in branches_of(kind))


def _pair_of(kind: Type) -> Type | None:
    """Return the record of a name and a value that all items are, else None."""
    some = branches_of(kind)
    return some[0] if len(some) == 1 and is_pair(some[0]) else None


def _keys(lists: Lists, data: pa.Buffer) -> pa.Array:
    return pa.array([], pa.binary()) if lists.keys is None else slices_array(lists.keys, data)


@dataclass(slots=True)
class Store:
    """The values of all images of a call, in the order of their tables' columns, block by block.

    ``cells`` and ``size`` are the values that were announced, and the bytes of their messages.
    """

    values: list[pa.Array] = field(default_factory=list)
    kinds: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    charsets: list[pa.Array | None] = field(default_factory=list)
    bare: list[Bools] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    end: int = 0
    cells: int = 0
    size: int = 0

    def add(self, records: Records, role: str, codes: Ints, lists: Sequence[ColumnList | None]) -> Side:
        """Add the images of a block of records, and return where they are.

        ``codes`` are the numbers of the records' columns among ``lists``.

        Raises:
            TooLargeError: There are far more cells than bytes.
        """
        counts = row_counts(records, role)
        widths = np.asarray([0 if one is None else len(one.columns) for one in lists], np.int64)[codes]
        cells = np.where(counts > 0, counts * widths, 0)
        self.cells += int(cells.sum())
        if self.cells > MOST_CELLS and self.cells > self.size:
            raise TooLargeError(f"its rows and columns make {self.cells} cells of {self.size} bytes")
        side = Side(counts, self.end + np.cumsum(cells) - cells, *(np.zeros(len(records), np.bool_) for _ in range(2)))
        block = _Block(records, side, np.cumsum(cells) - cells, widths, int(cells.sum()))
        for items in items_of(records, role):
            block.add(items, codes, lists)
        self._take(block)
        self.end += block.count
        return side

    def _take(self, block: _Block) -> None:
        values, kinds, charsets, bare = block.result()
        self.values.append(values)
        self.kinds.append(kinds)
        self.charsets.append(charsets)
        self.bare.append(bare)
        self.unknown.update(block.unknown)

    def images(self, sides: Sequence[tuple[Ints, Ints, Bools]]) -> tuple[tuple[Image, ...], Bools]:
        """Return images that lie in the store, and which of its values are bare texts.

        A bare text stands in no record of a kind. Each image is given by the number of its rows' first value, their widths, and
        which rows have it.
        """
        values = (
            self.values[0] if len(self.values) == 1 else pa.concat_arrays([pa.array([], pa.binary()), *self.values])
        )
        kinds = np.concatenate([*self.kinds, np.full(1, NULL, np.uint8)])
        charsets = self._charsets()
        self.unknown.update(unknown_charsets(charsets))
        # Two objects: one alone would have marks between its values.
        fields = with_empty_last(values), with_empty_last(values)
        is_absent = bool((kinds == ABSENT).any())
        found = []
        for starts, widths, present in sides:
            first = np.where(present, starts, len(values)).astype(np.int32)
            sizes = np.where(present, widths, 0).astype(np.int32)
            found.append(Image(first, sizes, present, kinds, *fields, charsets, False, is_absent, {}))
        return tuple(found), np.concatenate([*self.bare, np.zeros(1, np.bool_)])

    def _charsets(self) -> Charsets | None:
        """Return the character sets of all values; None where no value names one, as in nearly every stream."""
        if all(one is None for one in self.charsets):
            return None
        pairs = zip(self.charsets, self.values, strict=True)
        named = [pa.repeat(pa.scalar(b""), len(values)) if one is None else one for one, values in pairs]
        return charsets_of(pa.concat_arrays(named))


@dataclass(frozen=True, slots=True)
class Side:
    """The images of a block in the store.

    ``counts`` has the rows of each record, -1 without an image, and ``firsts`` the number of the first value. ``ragged`` marks
    records with values that fit no column, ``strange`` those with a value of a kind that nobody knows.
    """

    counts: Ints
    firsts: Ints
    ragged: Bools
    strange: Bools


class _Block:
    """The values of one block, gathered form by form: each value has its cell."""

    def __init__(self, records: Records, side: Side, firsts: Ints, widths: Ints, count: int) -> None:
        self.count = count
        self.unknown: Counter[str] = Counter()
        self._records, self._side = records, side
        self._firsts, self._widths = firsts, widths
        self._cells: list[Ints] = []
        self._parts: list[tuple[pa.Array, npt.NDArray[np.uint8], pa.Array, Bools]] = []

    def add(self, items: Items, codes: Ints, lists: Sequence[ColumnList | None]) -> None:
        """Add values; those that fit no column make their record ragged."""
        owners, widths = items.owners, self._widths[items.owners]
        if items.names is None:
            starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])[: len(owners)])
            lengths = np.diff(np.append(starts, len(owners)))
            places = np.arange(len(owners)) - np.repeat(starts, lengths)
            self._side.ragged[owners[starts[lengths != widths[starts]]]] = True
        else:
            places = _places(items.names, codes[owners], lists)
            self._side.ragged[owners[places < 0]] = True
        found = Values(self._records.data, owners, _clocks(codes[owners], places, lists))
        found.read(items.type, items.values)
        values, kinds, charsets = found.result()
        self._side.strange[owners[found.unusable]] = True
        self.unknown.update(found.unknown)
        good = ~self._side.ragged[owners]
        cells = (self._firsts[owners] + items.rows * widths + places)[good]
        if not good.all():
            rows = pa.array(np.flatnonzero(good))
            values, charsets, kinds = values.take(rows), charsets.take(rows), kinds[good]
        self._cells.append(cells)
        self._parts.append((values, kinds, charsets, found.bare[good]))

    def result(self) -> tuple[pa.Array, npt.NDArray[np.uint8], pa.Array | None, Bools]:
        """Return the values of all cells: bytes, kinds, names of character sets, and which are bare texts.

        There are no character sets where no value names one. A record that gives a cell twice is ragged.
        """
        cells = np.concatenate([np.zeros(0, np.int64), *self._cells])
        values = pa.concat_arrays([pa.array([], pa.binary()), *(part[0] for part in self._parts)])
        kinds = np.concatenate([np.zeros(0, np.uint8), *(part[1] for part in self._parts)])
        charsets = pa.concat_arrays([pa.array([], pa.binary()), *(part[2] for part in self._parts)])
        bare = np.concatenate([np.zeros(0, np.bool_), *(part[3] for part in self._parts)])
        named = None if not len(charsets) or pc.max(pc.binary_length(charsets)).as_py() == 0 else charsets
        if len(cells) == self.count and bool((cells == np.arange(self.count)).all()):
            return values, kinds, named, bare
        twice = np.flatnonzero(np.bincount(cells, minlength=self.count) > 1)
        self._side.ragged[np.searchsorted(self._firsts, twice, side="right") - 1] = True
        source = np.full(self.count, -1, np.int32)
        source[cells] = np.arange(len(cells), dtype=np.int32)
        taken = pa.array(source, mask=source < 0)
        sent, plain = np.full(self.count, ABSENT, np.uint8), np.zeros(self.count, np.bool_)
        sent[cells], plain[cells] = kinds, bare
        return values.take(taken), sent, None if named is None else pc.fill_null(named.take(taken), b""), plain


def _places(names: pa.Array, codes: Ints, lists: Sequence[ColumnList | None]) -> Ints:
    """Return the place of each name among the columns of its list, -1 for another name."""
    encoded = names.dictionary_encode()
    distinct = len(encoded.dictionary)
    pairs = pa.array(codes * distinct + encoded.indices.to_numpy()).dictionary_encode()
    spelled = [name.decode(errors="surrogateescape") for name in encoded.dictionary.to_pylist()]
    known = []
    for pair in pairs.dictionary.to_pylist():
        columns = lists[pair // distinct]
        known.append(-1 if columns is None else columns.positions.get(spelled[pair % distinct], -1))
    found: Ints = np.asarray(known, np.int64)[pairs.indices.to_numpy()] if len(names) else np.zeros(0, np.int64)
    return found


def _clocks(codes: Ints, places: Ints, lists: Sequence[ColumnList | None]) -> Ints:
    """Return the form of times of each value's column."""
    forms = [[] if one is None else [clock_code(column.original_type) for column in one.columns] for one in lists]
    widths = np.asarray([len(one) for one in forms], np.int64)
    joined = np.asarray([form for one in forms for form in one], np.int64)
    if not len(joined):
        return np.full(len(codes), DATETIME * 8 + AS_NEEDED)
    firsts = np.cumsum(widths) - widths
    within = np.clip(places, 0, np.maximum(widths[codes] - 1, 0))
    found: Ints = joined[np.minimum(firsts[codes] + within, len(joined) - 1)]
    return found
