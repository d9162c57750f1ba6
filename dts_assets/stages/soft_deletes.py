"""Operations on keys folded to rows that live and rows that were deleted: soft deletes.

The rows that live are those of any other snapshot (``stages/row_folds.py``). A key that was left last has the row that it was
left with, as the old image of the change says; a column that the image lacks has its last value before. A row that moves to
another key is deleted under the old key, as connectors of Debezium say it. In a table without a key each delete that finds a
row leaves a deleted row, and an update leaves none. A truncation deletes all rows that live at its position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.removals import NotRemoved
from dts_assets.stages.bags import left_rows, without_ambiguous
from dts_assets.stages.change_columns import RowShape, Truncation
from dts_assets.stages.key_operations import Operations, eras_of
from dts_assets.stages.keys import Keys, Mask, Numbers, as_mask
from dts_assets.stages.matched_rows import with_matched
from dts_assets.stages.row_folds import (
    NOWHERE,
    Found,
    MadeRows,
    by_key_in_order,
    ends_of,
    in_schema,
    last_sent,
    starts_of,
    values_of,
)


def rows_with_deleted(
    operations: Operations, shape: RowShape, *, truncations: Sequence[Truncation] = (), fold_absent: bool = False
) -> MadeRows:
    """Return the rows that live behind all operations and those that were deleted, in the snapshot's schema.

    Deleted rows have the time of the change that deleted them in ``_deleted_at``. ``truncations`` are in the order of their
    positions, ``fold_absent`` says that some change may lack columns.
    """
    operations, ambiguous = without_ambiguous(operations)
    matched = with_matched(operations, shape, truncations)
    operations = matched.operations
    codes, eras, unmatched = Keys(operations.keys).codes, eras_of(operations, truncations, shape.shard_keys), 0
    groups = codes * (len(truncations) + 1) + eras
    if shape.is_bag:
        counts = left_rows(operations, groups)
        deletes = as_mask(operations.touches.column("row").is_valid())
        chosen = np.sort(np.concatenate([counts.left, counts.removals[deletes[counts.removals]]]))
        found, unmatched = Found(chosen, operations.row_numbers(chosen), {}), counts.unmatched
    else:
        order = by_key_in_order(operations, groups)
        order = order[~operations.marked("void")[order]]
        lasts = ends_of(order, codes)
        chosen = order[lasts]
        sent, unseen = _sent(operations, order, groups, lasts, shape) if fold_absent else ({}, 0)
        found = Found(chosen, operations.row_numbers(chosen), sent, unseen)
    emptied = operations.takes[chosen] & (eras[chosen] < len(truncations))
    columns = values_of(operations, found, shape, deleted=~operations.takes[chosen] | emptied)
    columns |= {name: operations.rows.column(name).take(pa.array(found.rows)) for name in (*shape.shown, DELETED_AT)}
    if truncations:
        times = np.array([one.event_time for one in truncations], np.int64)
        ends = pa.array(times[np.minimum(eras[chosen], len(truncations) - 1)]).cast(columns[DELETED_AT].type)
        columns[DELETED_AT] = pc.if_else(pa.array(emptied), ends, columns[DELETED_AT])
    not_removed = NotRemoved(unmatched, ambiguous, found.unseen) + matched.not_removed
    return MadeRows(in_schema(columns, shape), not_removed, matched.ambiguous)


def _sent(
    operations: Operations, order: Numbers, groups: Numbers, lasts: Mask, shape: RowShape
) -> tuple[dict[int, Numbers], int]:
    """Return the rows with the values of columns that some change did not send, by column.

    The count of updates that found no row stands beside it. The rows are those of the last operations on all keys. ``order``
    has all operations by key and in order, ``groups`` the number of each one's key and era, ``lasts`` the places of the last
    operations.
    """
    takes = operations.takes[order]
    lived = np.append(np.zeros(min(1, len(order)), np.bool_), takes[:-1]) & ~starts_of(order, groups)
    left = lasts & ~takes & lived
    base = lasts & takes
    base[np.flatnonzero(left) - 1] = True  # a row is left as the operation before made it
    before = last_sent(operations, order, groups, base, shape)
    number = np.cumsum(base) - 1
    at = np.flatnonzero(lasts)
    mine = np.where(takes[at], number[at], np.where(left[at], number[np.maximum(at - 1, 0)], NOWHERE))
    own = operations.row_numbers(order[at])
    found: dict[int, Numbers] = {}
    for place, rows in before.sent.items():
        absent = as_mask(operations.rows.column(f"a{place}").fill_null(False).take(pa.array(own)))
        earlier = np.where(mine >= 0, rows[np.maximum(mine, 0)] if len(rows) else NOWHERE, NOWHERE)
        found[place] = np.where(takes[at] | absent, earlier, own)
    return found, before.unseen
