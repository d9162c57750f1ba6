"""Unequal tables narrowed to the rows and columns that differ.

Both sides add up parts of the rows, then list the hashes of keys and rows in the parts that differ, and at last show the rows of
the keys that differ. Nothing else is moved.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.compared_tables import ComparedTable
from dts_assets.sources.live_database import SourceMoment
from dts_assets.stages.row_sums import SummedColumn, Sums, is_free, row_sums, value_texts
from dts_assets.stages.sum_sql import (
    Buckets,
    bucket_statement,
    hashes_statement,
    rows_statement,
)

ROWS_OF_PART = 2000
_MOST_PARTS = 1 << 16
PARTS_AT_ONCE = 100
"""The parts whose rows are listed.

A table that differs in more parts is listed in the first of them alone.
"""

MOST_ROWS = 1000
_RANGED = frozenset({"int", "bigint"})
_FLOAT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that differs: its key as texts, the columns that differ, and both rows.

    A side that lacks the row has None, and no column differs then. ``source`` has values as the driver gives them: they are what
    a repair would write. In a table without a key ``key`` is empty.
    """

    key: Mapping[str, str | None]
    columns: tuple[str, ...]
    source: Mapping[str, Any] | None
    lake: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Differences:
    """The rows that differ; ``more`` says that others differ beside them."""

    rows: tuple[DifferingRow, ...]
    more: bool = False


def differing_rows(moment: SourceMoment, table: ComparedTable, rows: int) -> Differences:
    """Return the rows that differ between a snapshot and its table at the source.

    There are about so many ``rows`` in all.
    """
    buckets = _buckets(moment, table, rows)
    parts = _differing_parts(moment, table, buckets)
    chosen = parts[:PARTS_AT_ONCE]
    keys, more = _differing_keys(moment, table, buckets, chosen)
    found = _shown(moment, table, buckets, chosen, keys)
    return Differences(found, more or len(parts) > len(chosen))


def _buckets(moment: SourceMoment, table: ComparedTable, rows: int) -> Buckets:
    """Return the parts of a table.

    They are ranges of its key if that is one whole number, else parts by hashes.
    """
    count = min(_MOST_PARTS, max(1, rows // ROWS_OF_PART))
    key = table.key or table.pairs
    if len(table.key) == 1 and table.key[0].column.type in _RANGED and not table.key[0].narrows:
        name = f"{table.key[0].text}"
        ((least, most),) = moment.rows(f"SELECT MIN({name}), MAX({name}) FROM {table.rows}")
        if least is not None and rows and (int(most) - int(least)) < (1 << 62):
            width = max(1, -(-(int(most) - int(least) + 1) // count))
            return Buckets(key, count, int(least), width)
    return Buckets(key, count)


def _differing_parts(moment: SourceMoment, table: ComparedTable, buckets: Buckets) -> list[int]:
    theirs = {
        int(part): (int(count), int(summed))
        for part, count, summed in moment.rows(bucket_statement(table.rows, table.pairs, buckets))
    }
    ours: dict[int, tuple[int, int]] = {}
    columns = [one.column for one in table.pairs]
    for batch in table.batches([one.name for one in columns]):
        numbers, sums = _parts_of(batch, buckets), row_sums(batch, columns)
        values, groups = np.unique(numbers, return_inverse=True)
        counts, added = np.bincount(groups, minlength=len(values)), _added(sums, groups, len(values))
        for value, count, summed in zip(values.tolist(), counts.tolist(), added, strict=True):
            before = ours.get(value, (0, 0))
            ours[value] = (before[0] + count, before[1] + summed)
    return sorted(part for part in theirs.keys() | ours.keys() if theirs.get(part) != ours.get(part))


def _added(sums: Sums, groups: np.ndarray[Any, np.dtype[np.intp]], count: int) -> list[int]:
    """Return the exact sums of sums of rows by their groups."""
    high, low = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(high, groups, sums >> 32)
    np.add.at(low, groups, sums & 0xFFFFFFFF)
    return [(one << 32) + other for one, other in zip(high.tolist(), low.tolist(), strict=True)]


def _parts_of(rows: pa.RecordBatch, buckets: Buckets) -> Sums:
    """Return the number of each row's part."""
    columns = [one.column for one in buckets.key]
    if buckets.least is None:
        return row_sums(rows, columns) % buckets.count
    # A key that is damaged in a file may be NULL there, or far off: any number does, as the part differs then.
    values = rows.column(columns[0].name).cast(pa.int64()).fill_null(buckets.least - 1).to_numpy(zero_copy_only=False)
    parts: Sums = np.floor_divide(values - buckets.least, buckets.width)
    return parts


def _differing_keys(
    moment: SourceMoment, table: ComparedTable, buckets: Buckets, parts: Sequence[int]
) -> tuple[list[int], bool]:
    """Return the hashes of the keys of rows that only one side has in some parts.

    Whether there are more of them stands beside.
    """
    if not parts:
        return [], False
    columns = [one.column for one in table.pairs]
    statement = hashes_statement(table.rows, table.pairs, buckets, parts)
    theirs = Counter((int(key), int(row)) for key, row in moment.rows(statement))
    ours: Counter[tuple[int, int]] = Counter()
    for batch in _in_parts(table, buckets, parts):
        keys = row_sums(batch, [one.column for one in buckets.key])
        ours.update(zip(keys.tolist(), row_sums(batch, columns).tolist(), strict=True))
    keys_apart = sorted({key for key, _ in (theirs - ours) + (ours - theirs)})
    return keys_apart[:MOST_ROWS], len(keys_apart) > MOST_ROWS


def _in_parts(table: ComparedTable, buckets: Buckets, parts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    wanted = np.asarray(parts, np.int64)
    for batch in table.batches([one.column.name for one in table.pairs] + list(table.looked_at)):
        mine = batch.filter(pa.array(np.isin(_parts_of(batch, buckets), wanted)))
        if mine.num_rows:
            yield mine


def _shown(
    moment: SourceMoment, table: ComparedTable, buckets: Buckets, parts: Sequence[int], keys: Sequence[int]
) -> tuple[DifferingRow, ...]:
    """Return the rows of both sides with some hashes of keys, where they differ."""
    if not keys:
        return ()
    theirs = dict[int, list[_Row]]()
    others = tuple(table.looked_at.values())
    statement = rows_statement(table.rows, table.pairs, buckets, numbers=parts, keys=keys, others=others)
    names = [one.column.name for one in table.pairs]
    for key, *told in moment.rows(statement):
        texts = [_bytes(one) for one in told[: len(names)]]
        values = dict(zip([*names, *table.looked_at], told[len(names) :], strict=True))
        theirs.setdefault(int(key), []).append(_Row(tuple(texts), values))
    ours, wanted = dict[int, list[_Row]](), np.asarray(keys, np.int64)
    for batch in _in_parts(table, buckets, parts):
        hashes = row_sums(batch, [one.column for one in buckets.key])
        mask = np.isin(hashes, wanted)
        mine = batch.filter(pa.array(mask))
        columns = [_texts(mine, one.column) for one in table.pairs]
        for key, mine_texts, row in zip(
            hashes[mask].tolist(),
            zip(*columns, strict=True),
            mine.select([*names, *table.looked_at]).to_pylist(),
            strict=True,
        ):
            ours.setdefault(key, []).append(_Row(mine_texts, row))
    found = list[DifferingRow]()
    for key in keys:
        found += _apart(table, theirs.get(key, []), ours.get(key, []))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Row:
    texts: tuple[bytes | None, ...]
    values: Mapping[str, Any]


def _apart(table: ComparedTable, theirs: Sequence[_Row], ours: Sequence[_Row]) -> Iterator[DifferingRow]:
    """Yield the rows of one key that differ. Rows without a key are only there or not."""
    missing, extra = Counter(one.texts for one in theirs), Counter(one.texts for one in ours)
    missing, extra = missing - extra, extra - missing
    by_texts = {one.texts: one.values for one in (*ours, *theirs)}
    at_source = [(texts, by_texts[texts]) for texts in missing.elements()]
    in_lake = [(texts, next(one.values for one in ours if one.texts == texts)) for texts in extra.elements()]
    if table.key and len(at_source) == len(in_lake) == 1:
        ((texts, theirs_values),), ((others, ours_values),) = at_source, in_lake
        names = [one.column.name for one in table.pairs]
        columns = [name for name, one, other in zip(names, texts, others, strict=True) if one != other]
        columns += [name for name in table.looked_at if not alike(theirs_values[name], ours_values[name])]
        yield DifferingRow(_key(table, texts), tuple(columns), theirs_values, ours_values)
        return
    for texts, values in at_source:
        yield DifferingRow(_key(table, texts), (), values, None)
    for texts, values in in_lake:
        yield DifferingRow(_key(table, texts), (), None, values)


def _key(table: ComparedTable, texts: Sequence[bytes | None]) -> Mapping[str, str | None]:
    names = {one.column.name for one in table.key}
    pairs = ((one.column.name, text) for one, text in zip(table.pairs, texts, strict=True))
    return {
        name: None if text is None else text.decode("utf-8", "backslashreplace")
        for name, text in pairs
        if name in names
    }


def _texts(rows: pa.RecordBatch, column: SummedColumn) -> list[bytes | None]:
    values = rows.column(column.name)
    texts = values if is_free(values.type) else value_texts(values)
    found: list[bytes | None] = pc.cast(texts, pa.binary()).to_pylist()
    return found


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def alike(one: Any, other: Any) -> bool:
    """Tell whether two values of a column that is in no sum are equal."""
    if one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(float(one), float(other), rel_tol=10.0**-_FLOAT_DIGITS, abs_tol=1e-44)
    if isinstance(one, str) and isinstance(other, str) and one != other:
        try:
            return bool(json.loads(one) == json.loads(other))
        except ValueError:
            return False
    return bool(one == other)
