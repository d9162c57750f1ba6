"""Rows of the lake compared with rows of a server, both in the form of :mod:`dts_assets.stages.compared_values`.

Rows with a key are matched by it, others as a bag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.differences import Differences, DifferingRow
from dts_assets.stages.compared_values import (
    UNFIT,
    ComparedColumn,
    is_unfit,
    of_lake,
    of_server,
    unfit,
    without_mark,
)
from dts_assets.stages.keys import Hashes, Mask, Numbers, as_mask, hash_keys
from dts_assets.stages.snapshot_in_arrow import text_of

_INVALID = "_invalid"
_TEXTS = pa.map_(pa.string(), pa.string())


def lake_rows(rows: pa.RecordBatch, columns: Sequence[ComparedColumn]) -> pa.Table:
    """Return rows of the lake in the common form, those that did not fit with their mark."""
    made = [_lake_texts(rows, column) for column in columns]
    return _table(made, columns, rows.num_rows)


def _lake_texts(rows: pa.RecordBatch, column: ComparedColumn) -> pa.Array:
    values, kind = rows.column(column.name), column.server.type
    texts = of_lake(values, kind)
    if _INVALID not in rows.schema.names or rows.column(_INVALID).null_count == rows.num_rows:
        return texts
    told = text_of(rows.column(_INVALID).cast(_TEXTS), [column.name])
    return pc.coalesce(texts, unfit(told, values.type, kind))


def without_marks(rows: pa.Table) -> pa.Table:
    """Return rows in the common form in which values that did not fit are texts like all others."""
    return pa.table({name: without_mark(_whole(rows[name])) for name in rows.column_names})


def server_rows(rows: Sequence[Sequence[str | None]], columns: Sequence[ComparedColumn]) -> pa.Table:
    """Return rows of a server in the common form. They have the values of the columns' expressions."""
    texts = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    made = [
        of_server(pa.array(some, pa.string()), column.type, column.server.type)
        for some, column in zip(texts, columns, strict=False)  # rows of no column have a number each
    ]
    return _table(made, columns, len(rows))


def _table(made: Sequence[pa.Array], columns: Sequence[ComparedColumn], rows: int) -> pa.Table:
    if not columns:
        return pa.table({"": pa.nulls(rows, pa.string())})
    return pa.table([one.cast(pa.string()) for one in made], names=[column.name for column in columns])


def text_schema(columns: Sequence[ComparedColumn]) -> pa.Schema:
    """Return the schema of rows in the common form."""
    return pa.schema([(name, pa.string()) for name in [column.name for column in columns] or [""]])


def shares(rows: pa.Table, columns: Sequence[str], count: int) -> Hashes:
    """Return for each row the number of its share, by some columns.

    Rows that may be equal have equal numbers.
    """
    if count == 1 or not rows.num_rows:
        return np.zeros(rows.num_rows, np.uint64)
    return hash_keys([without_mark(_whole(rows[name])) for name in columns]) % np.uint64(count)


def compare_by_key(
    lake: pa.Table,
    server: pa.Table,
    keys: Sequence[str],
    found: Differences,
    *,
    unknown: Collection[str] = (),
    unfilled: Collection[str] = (),
) -> None:
    """Add to ``found`` what differs between rows that have keys.

    ``unknown`` are columns that may be NULL in the lake; of the ``unfilled`` ones among them NULL on both sides is not known.
    """
    mine, theirs = (key_texts(rows, keys) for rows in (lake, server))
    first = _firsts(mine)
    if not first.all():
        # Of several rows with one key the one that the server has is no difference.
        equal = pc.is_in(key_texts(lake, lake.column_names), value_set=key_texts(server, lake.column_names))
        order = pa.array(np.argsort(~as_mask(equal), kind="stable"))
        lake, mine = lake.take(order), mine.take(order)
        first = _firsts(mine)
    found.repeated += int((~first).sum())
    _name_lake(lake, ~first, keys, found, is_repeated=True)
    lake, mine = lake.filter(pa.array(first)), mine.filter(pa.array(first))
    at = pc.index_in(mine, value_set=theirs)
    both = as_mask(at.is_valid())
    alone, missing = ~both, ~as_mask(pc.is_in(theirs, value_set=mine))
    found.only_lake += int(alone.sum())
    found.only_server += int(missing.sum())
    _name_lake(lake, alone, keys, found)
    _name_server(server, missing, keys, found)
    lake, server = lake.filter(pa.array(both)), server.take(at.drop_null())
    differ: dict[str, Mask] = {}
    for name in lake.column_names:
        if name not in keys:
            silent = as_mask(_whole(lake[name]).is_null()) & (name in unknown)
            silent &= as_mask(_whole(server[name]).is_valid()) | (name in unfilled)
            differ[name] = _differ(_whole(lake[name]), _whole(server[name]), name, found, unsaid=silent)
    rows = np.logical_or.reduce([*differ.values(), np.zeros(lake.num_rows, np.bool_)])
    found.changed += int(rows.sum())
    found.columns.update({name: int(mask.sum()) for name, mask in differ.items() if mask.any()})
    numbers = np.flatnonzero(rows)[: found.left]
    for number, mine_row, their_row in zip(numbers, _rows(lake, numbers), _rows(server, numbers), strict=True):
        columns = tuple(name for name, mask in differ.items() if mask[number])
        found.rows.append(DifferingRow({name: mine_row[name] for name in keys}, columns, mine_row, their_row))


def compare_bags(
    lake: pa.Table,
    server: pa.Table,
    found: Differences,
    *,
    unknown: Collection[str] = (),
    unfilled: Collection[str] = (),
) -> None:
    """Add to ``found`` what differs between rows without keys: those of which one side has more.

    ``unknown`` are columns that may be NULL in the lake. Among rows that are left on both sides, those of the lake with such a
    value, or with one that did not fit, are equal to rows of the server with the same other values; these values are counted,
    and NULL on both sides is in columns that are ``unfilled``.
    """
    names = lake.column_names
    mine, theirs = (_counted(key_texts(rows, names)) for rows in (lake, server))
    more, less = _rows_of(lake, mine - theirs), _rows_of(server, theirs - mine)
    for name in set(unfilled) & set(names):
        found.unknown[name] += lake[name].null_count - more[name].null_count
    found.unknown = +found.unknown
    patterns: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(more.to_pylist()):
        silent = tuple(name for name in names if _says_nothing(row[name], may_be_null=name in unknown))
        if silent:
            patterns.setdefault(silent, []).append(number)
    matched = set[int]()
    for silent, numbers in patterns.items():
        told = [name for name in names if name not in silent]
        places: dict[str, list[int]] = {}
        for place, key in enumerate(key_texts(less, told).to_pylist()):
            places.setdefault(key, []).append(place)
        keys, gone = key_texts(more, told).to_pylist(), set[int]()
        for number in numbers:
            if places.get(keys[number]):
                gone.add(places[keys[number]].pop())
                matched.add(number)
                for name in silent:
                    counts = found.unknown if more[name][number].as_py() is None else found.unfit
                    counts[name] += 1
        less = less.take(pa.array([place for place in range(less.num_rows) if place not in gone], pa.int64()))
    left = np.ones(more.num_rows, np.bool_)
    left[list(matched)] = False
    found.only_lake += int(left.sum())
    found.only_server += less.num_rows
    _name_lake(more, left, (), found)
    _name_server(less, np.ones(less.num_rows, np.bool_), (), found)


def _rows_of(rows: pa.Table, wanted: Counter[str]) -> pa.Table:
    """Return so many rows of each of some keys over all columns."""
    keys, numbers, left = key_texts(rows, rows.column_names), list[int](), Counter(wanted)
    among = np.flatnonzero(as_mask(pc.is_in(keys, value_set=pa.array([*wanted], pa.string()))))
    for number, key in zip(among.tolist(), keys.take(pa.array(among)).to_pylist(), strict=True):
        if left[key] > 0:
            left[key] -= 1
            numbers.append(number)
    return rows.take(pa.array(numbers, pa.int64()))


def _says_nothing(text: str | None, *, may_be_null: bool) -> bool:
    return may_be_null if text is None else text.startswith(UNFIT)


def _differ(lake: pa.Array, server: pa.Array, name: str, found: Differences, *, unsaid: Mask) -> Mask:
    """Tell which values differ, and count values that say nothing. ``unsaid`` are those that are not known."""
    fits_not = as_mask(is_unfit(lake))
    lake = without_mark(lake)
    equal = as_mask(pc.fill_null(pc.equal(lake, server), False)) | as_mask(pc.and_(lake.is_null(), server.is_null()))
    silent = unsaid
    if fits_not.any():
        unfit = fits_not & ~equal
        found.unfit[name] += int(unfit.sum())
        silent = unfit | unsaid
    found.unknown[name] += int(unsaid.sum())
    found.unfit, found.unknown = +found.unfit, +found.unknown
    return ~equal & ~silent


def key_texts(rows: pa.Table, names: Sequence[str]) -> pa.Array:
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


def _name_lake(
    rows: pa.Table, mask: Mask, keys: Sequence[str], found: Differences, *, is_repeated: bool = False
) -> None:
    for row in _rows(rows, np.flatnonzero(mask)[: found.left]):
        found.rows.append(DifferingRow({name: row[name] for name in keys}, lake=row, is_repeated=is_repeated))


def _name_server(rows: pa.Table, mask: Mask, keys: Sequence[str], found: Differences) -> None:
    for row in _rows(rows, np.flatnonzero(mask)[: found.left]):
        found.rows.append(DifferingRow({name: row[name] for name in keys}, server=row))


def _rows(rows: pa.Table, numbers: Numbers) -> list[dict[str, str | None]]:
    """Return some rows as texts by column."""
    texts: list[dict[str, str | None]] = without_marks(rows.take(pa.array(numbers, pa.int64()))).to_pylist()
    return texts


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
