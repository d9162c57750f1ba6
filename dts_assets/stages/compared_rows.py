"""Rows of the lake compared with rows of a server, both in the form of :mod:`dts_assets.stages.compared_values`.

Rows with a key are matched by it, others as a bag. The result names keys and columns, and values only where they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.compared_values import UNFIT, is_unfit, without_mark
from dts_assets.stages.keys import Hashes, Mask, as_mask, hash_keys

NAMED = 20
"""The number of rows that differ which are named."""


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row that differs: its key, and for each column that does the lake's and the server's text.

    ``only_in`` says where it is alone, empty for both. A row of a bag has no key.
    """

    key: tuple[tuple[str, str | None], ...]
    columns: tuple[tuple[str, str | None, str | None], ...] = ()
    only_in: str = ""


@dataclass(slots=True)
class Differences:
    """The differences between the rows of two sides, counted; the first rows are named.

    ``columns`` counts rows by column, ``repeated`` the rows of the lake whose key another row has. ``unfit`` and ``unknown``
    count by column the values that say nothing: those that did not fit and are another text on the server, and those that no
    rule of servers tells, which are NULL in the lake alone.
    """

    rows: int = 0
    only_lake: int = 0
    only_server: int = 0
    repeated: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    unfit: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    named: list[NamedRow] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        """True if every row is equal, as far as values can be compared."""
        return not (self.rows or self.only_lake or self.only_server or self.repeated)

    @property
    def total(self) -> int:
        """The number of rows that differ."""
        return self.rows + self.only_lake + self.only_server + self.repeated

    def name(self, row: NamedRow) -> None:
        """Keep a row to be named, if there is room."""
        if len(self.named) < NAMED:
            self.named.append(row)


def shares(rows: pa.Table, columns: Sequence[str], count: int) -> Hashes:
    """Return for each row the number of its share, by some columns.

    Rows that may be equal have equal numbers.
    """
    if count == 1 or not rows.num_rows:
        return np.zeros(rows.num_rows, np.uint64)
    return hash_keys([without_mark(_whole(rows[name])) for name in columns]) % np.uint64(count)


def compare_by_key(
    lake: pa.Table, server: pa.Table, keys: Sequence[str], found: Differences, *, unknown: Collection[str] = ()
) -> None:
    """Add to ``found`` what differs between rows that have keys. ``unknown`` are columns that may be NULL in the lake."""
    mine, theirs = (_keys(rows, keys) for rows in (lake, server))
    first = _firsts(mine)
    found.repeated += int((~first).sum())
    _name_alone(lake, ~first, keys, found, "the lake, twice")
    lake, mine = lake.filter(pa.array(first)), mine.filter(pa.array(first))
    at = pc.index_in(mine, value_set=theirs)
    both = as_mask(at.is_valid())
    alone, missing = ~both, ~as_mask(pc.is_in(theirs, value_set=mine))
    found.only_lake += int(alone.sum())
    found.only_server += int(missing.sum())
    _name_alone(lake, alone, keys, found, "the lake")
    _name_alone(server, missing, keys, found, "the server")
    lake, server = lake.filter(pa.array(both)), server.take(at.drop_null())
    differ: dict[str, Mask] = {}
    for name in lake.column_names:
        if name not in keys:
            differ[name] = _differ(_whole(lake[name]), _whole(server[name]), name, found, may_be_null=name in unknown)
    rows = np.logical_or.reduce([*differ.values(), np.zeros(lake.num_rows, np.bool_)])
    found.rows += int(rows.sum())
    found.columns.update({name: int(mask.sum()) for name, mask in differ.items() if mask.any()})
    for number in np.flatnonzero(rows)[:NAMED].tolist():
        cells = tuple(
            (name, lake[name][number].as_py(), server[name][number].as_py())
            for name, mask in differ.items()
            if mask[number]
        )
        found.name(NamedRow(_key_of(lake, number, keys), cells))


def compare_bags(lake: pa.Table, server: pa.Table, found: Differences, *, unknown: Collection[str] = ()) -> None:
    """Add to ``found`` what differs between rows without keys: those of which one side has more.

    ``unknown`` are columns that may be NULL in the lake. Among rows that are left on both sides, those of the lake with such a
    value, or with one that did not fit, are equal to rows of the server with the same other values; these values are counted.
    """
    names = lake.column_names
    mine, theirs = (_counted(_keys(rows, names)) for rows in (lake, server))
    more, less = _rows_of(lake, mine - theirs), _rows_of(server, theirs - mine)
    patterns: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(more.to_pylist()):
        silent = tuple(name for name in names if _says_nothing(row[name], may_be_null=name in unknown))
        if silent:
            patterns.setdefault(silent, []).append(number)
    matched = set[int]()
    for silent, numbers in patterns.items():
        told = [name for name in names if name not in silent]
        places: dict[str, list[int]] = {}
        for place, key in enumerate(_keys(less, told).to_pylist()):
            places.setdefault(key, []).append(place)
        keys, gone = _keys(more, told).to_pylist(), set[int]()
        for number in numbers:
            if places.get(keys[number]):
                gone.add(places[keys[number]].pop())
                matched.add(number)
                for name in silent:
                    counts = found.unknown if more[name][number].as_py() is None else found.unfit
                    counts[name] += 1
        less = less.take(pa.array([place for place in range(less.num_rows) if place not in gone], pa.int64()))
    for count, side in ((more.num_rows - len(matched), "the lake"), (less.num_rows, "the server")):
        for _ in range(min(count, NAMED)):
            found.name(NamedRow((), (), side))
    found.only_lake += more.num_rows - len(matched)
    found.only_server += less.num_rows


def _rows_of(rows: pa.Table, wanted: Counter[str]) -> pa.Table:
    """Return so many rows of each of some keys over all columns."""
    keys, numbers, left = _keys(rows, rows.column_names), list[int](), Counter(wanted)
    among = np.flatnonzero(as_mask(pc.is_in(keys, value_set=pa.array([*wanted], pa.string()))))
    for number, key in zip(among.tolist(), keys.take(pa.array(among)).to_pylist(), strict=True):
        if left[key] > 0:
            left[key] -= 1
            numbers.append(number)
    return rows.take(pa.array(numbers, pa.int64()))


def _says_nothing(text: str | None, *, may_be_null: bool) -> bool:
    return may_be_null if text is None else text.startswith(UNFIT)


def _differ(lake: pa.Array, server: pa.Array, name: str, found: Differences, *, may_be_null: bool) -> Mask:
    """Tell which values differ, and count values that say nothing."""
    fits_not = as_mask(is_unfit(lake))
    lake = without_mark(lake)
    equal = as_mask(pc.fill_null(pc.equal(lake, server), False)) | as_mask(pc.and_(lake.is_null(), server.is_null()))
    silent = np.zeros(len(lake), np.bool_)
    if fits_not.any():
        silent = fits_not & ~equal
        found.unfit[name] += int(silent.sum())
    if may_be_null:
        unsaid = as_mask(pc.and_(lake.is_null(), server.is_valid()))
        found.unknown[name] += int(unsaid.sum())
        silent = silent | unsaid
    found.unfit, found.unknown = +found.unfit, +found.unknown
    return ~equal & ~silent


def _keys(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return a text for each row that is equal exactly where all of some columns are."""
    parts = []
    for name in names:
        texts = without_mark(_whole(rows[name]))
        lengths = pc.binary_length(texts).cast(pa.string())
        parts.append(pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":"), "n"))
    return pc.binary_join_element_wise(*parts, "") if parts else pa.array([""] * rows.num_rows)


def _firsts(keys: pa.Array) -> Mask:
    """Tell which keys no row before has."""
    firsts = np.zeros(len(keys), np.bool_)
    indices = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    firsts[np.unique(indices, return_index=True)[1]] = True
    return firsts


def _counted(keys: pa.Array) -> Counter[str]:
    counts = pc.value_counts(keys)
    return Counter(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)))


def _name_alone(rows: pa.Table, mask: Mask, keys: Sequence[str], found: Differences, side: str) -> None:
    for number in np.flatnonzero(mask)[:NAMED].tolist():
        found.name(NamedRow(_key_of(rows, number, keys), (), side))


def _key_of(rows: pa.Table, number: int, keys: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, rows[name][number].as_py()) for name in keys)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
