"""Unequal tables narrowed to the rows and columns that differ.

Both sides add up parts of the rows, then list the hashes of keys and rows in the parts that differ. At last the rows of the keys
that differ are compared value by value, as ``stages/compared_rows.py`` does. Nothing else is moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dts_assets.flows.compared_snapshots import rows_that_live
from dts_assets.flows.compared_tables import ComparedTable
from dts_assets.model.differences import Differences
from dts_assets.sources.live_database import SourceMoment
from dts_assets.stages.compared_rows import (
    compare_bags,
    compare_by_key,
    lake_rows,
    server_rows,
    text_schema,
    without_marks,
)
from dts_assets.stages.row_sums import Sums, row_sums
from dts_assets.stages.sum_sql import Buckets, bucket_statement, hashes_statement, rows_statement

ROWS_OF_PART = 2000
_MOST_PARTS = 1 << 16
PARTS_AT_ONCE = 100
"""The parts whose rows are listed.

A table that differs in more parts is listed in the first of them alone.
"""

MOST_ROWS = 1000
_RANGED = frozenset({"int", "bigint"})


def differing_rows(moment: SourceMoment, table: ComparedTable, rows: int) -> Differences:
    """Return the rows that differ between a snapshot and its table at the source.

    There are about so many ``rows`` in all.
    """
    buckets = _buckets(moment, table, rows)
    parts = _differing_parts(moment, table, buckets)
    chosen = parts[:PARTS_AT_ONCE]
    keys, more = _differing_keys(moment, table, buckets, chosen)
    found = _by_value(moment, table, buckets, chosen, keys)
    # Texts of one value may differ, as 10:00:00.5 and 10:00:00.50 do: their sums differ, and no row is named.
    found.more = more or len(parts) > len(chosen) or (bool(keys) and found.nothing)
    return found


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
    for batch in rows_that_live(table.snapshot, [one.name for one in columns]):
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
    for batch in rows_that_live(table.snapshot, [one.name for one in table.by_value]):
        mine = batch.filter(pa.array(np.isin(_parts_of(batch, buckets), wanted)))
        if mine.num_rows:
            yield mine


def _by_value(
    moment: SourceMoment, table: ComparedTable, buckets: Buckets, parts: Sequence[int], keys: Sequence[int]
) -> Differences:
    """Return what differs in the rows of both sides with some hashes of keys."""
    found = Differences(room=MOST_ROWS)
    if not keys:
        return found
    proven = {one.column.name for one in table.pairs}
    # Whole rows are matched by what has to be equal.
    columns = [one for one in table.by_value if table.key or one.name in proven]
    asked = [one.expression for one in columns] or ["1"]
    server = server_rows(moment.rows(rows_statement(table.rows, asked, buckets, numbers=parts, keys=keys)), columns)
    wanted, mine = np.asarray(keys, np.int64), [text_schema(columns).empty_table()]
    for batch in _in_parts(table, buckets, parts):
        hashes = row_sums(batch, [one.column for one in buckets.key])
        mine.append(lake_rows(batch.filter(pa.array(np.isin(hashes, wanted))), columns))
    lake = without_marks(pa.concat_tables(mine))  # the source itself has the text of what did not fit
    if table.key:
        compare_by_key(lake, server, [one.column.name for one in table.key], found)
    else:
        compare_bags(lake, server, found)
    return found
