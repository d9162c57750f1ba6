"""Tables without a key: a change adds or removes one row among equal ones.

A row is told apart by all its columns, and by the source's texts of values that do not fit; NULL equals NULL. An insert adds a
row, a delete removes one, an update does both. A removal of a row that is not there removes nothing and is *unmatched*. Of equal
rows the one goes whose last change is the earliest by event time, Kafka partition and offset: so what is left depends on the rows
alone, whether a snapshot goes on from where it stood or is made again from all changes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from dts_assets.stages.change_columns import SHOWN
from dts_assets.stages.key_operations import Operations
from dts_assets.stages.keys import Mask, Numbers


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of the operations whose rows are left, and how many removals found no row."""

    left: Numbers
    unmatched: int


def left_rows(operations: Operations, codes: Numbers) -> Counts:
    """Return what is left of equal rows behind all operations; ``codes`` has the number of each one's row."""
    order, firsts = by_row_in_order(operations, codes)
    if not len(order):
        return Counts(np.zeros(0, np.int64), 0)
    adds = operations.takes[order]
    starts = np.flatnonzero(firsts)
    ends = np.append(starts[1:], len(order)) - 1
    group = np.cumsum(firsts) - 1
    sums = np.cumsum(np.where(adds, 1, -1))
    sums -= (sums[starts] - np.where(adds[starts], 1, -1))[group]  # of each group alone
    least = np.minimum(np.minimum.reduceat(sums, starts), 0)
    alive = sums[ends] - least
    added = np.add.reduceat(adds.astype(np.int64), starts)
    whole = (alive == added)[group] & adds
    some = np.flatnonzero((alive > 0) & (alive < added))
    left = [order[whole], *(_some_left(operations, order[starts[one] : ends[one] + 1]) for one in some)]
    return Counts(np.sort(np.concatenate(left)), int(-least.sum()))


def by_row_in_order(operations: Operations, codes: Numbers) -> tuple[Numbers, Mask]:
    """Return the operations by row and in order, and which of them begin a group."""
    names = ("lineage", "file", "position", "piece", "row_number")
    lineage, file, offset, piece, number = (operations.numbers(name) for name in names)
    # An update leaves before it takes; pieces of one event have no order, and leaving comes first there, too.
    order = np.lexsort((number, piece, operations.takes, offset, file, lineage, codes))
    ordered = codes[order]
    return order, np.append(np.ones(min(1, len(order)), np.bool_), ordered[1:] != ordered[:-1])


def _some_left(operations: Operations, order: Numbers) -> Numbers:
    """Return the operations whose rows are left of one group of equal rows, of which some have gone."""
    row = operations.touches.column("row").take(order)
    shown = list(zip(*(operations.rows.column(name).take(row).to_pylist() for name in SHOWN), strict=True))
    there: list[tuple[object, int]] = []
    for place, number in enumerate(order):
        if row[place].is_valid:
            heapq.heappush(there, (shown[place], int(number)))
        elif there:
            heapq.heappop(there)
    return np.array([number for _, number in there], np.int64)
