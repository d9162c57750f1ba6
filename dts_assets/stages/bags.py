"""Tables without a key: a change adds or removes one row among equal ones.

A row is told apart by all its columns, and by the source's texts of values that do not fit; NULL equals NULL. An insert adds a
row, a delete removes one, an update does both. A removal of a row that is not there removes nothing and is *unmatched*. A change
that does not tell all columns of the row that goes is *ambiguous*: it changes nothing, since several rows may be meant. Of equal
rows the one goes whose last change is the earliest by event time, Kafka partition and offset, then by the audit columns that the
snapshot has: so what is left depends on the rows alone, whether a snapshot goes on from where it stood or is made again from all
changes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from dts_assets.model.added_columns import AUDITED
from dts_assets.stages.change_columns import SHOWN
from dts_assets.stages.key_operations import Operations
from dts_assets.stages.keys import Mask, Numbers
from dts_assets.stages.row_places import POSITION


@dataclass(frozen=True, slots=True)
class Counts:
    """The operations whose rows are left, and the removals that found a row, by their numbers.

    ``unmatched`` counts the removals that found none.
    """

    left: Numbers
    removals: Numbers
    unmatched: int


def without_ambiguous(operations: Operations) -> tuple[Operations, int]:
    """Return the operations that tell their rows, and how many removals do not."""
    ambiguous = operations.ambiguous
    if ambiguous is None:
        return operations, 0
    return operations.chosen(~ambiguous), int((ambiguous & ~operations.takes).sum())


def left_rows(operations: Operations, codes: Numbers) -> Counts:
    """Return what is left of equal rows behind all operations; ``codes`` has the number of each one's row."""
    order, firsts = by_row_in_order(operations, codes)
    if not len(order):
        return Counts(order, order, 0)
    adds = operations.takes[order]
    unmatched = unmatched_removals(adds, firsts)
    removes = ~adds & ~unmatched
    starts = np.flatnonzero(firsts)
    ends = np.append(starts[1:], len(order))
    added, removed = (np.add.reduceat(one.astype(np.int64), starts) for one in (adds, removes))
    whole = (removed == 0)[np.cumsum(firsts) - 1] & adds
    some = np.flatnonzero((removed > 0) & (removed < added))
    left = [order[whole], *(_some_left(operations, order[starts[one] : ends[one]]) for one in some)]
    return Counts(np.sort(np.concatenate(left)), np.sort(order[removes]), int(unmatched.sum()))


def unmatched_removals(adds: Mask, firsts: Mask) -> Mask:
    """Return the places of removals that find no row.

    Places are of an order by row in which ``firsts`` begin the groups of equal rows. All that are not in ``adds`` are removals.
    """
    starts, group = np.flatnonzero(firsts), np.cumsum(firsts) - 1
    sums = np.cumsum(np.where(adds, 1, -1))
    sums -= (sums[starts] - np.where(adds[starts], 1, -1))[group]  # of each group alone
    # The least sum so far, of each group alone: each group lies below the one before it.
    apart = group * (2 * len(adds) + 2)
    least = np.minimum(np.minimum.accumulate(sums - apart) + apart, 0)
    before = np.where(firsts, 0, np.append(0, least[:-1]))
    return np.asarray(~adds & (sums < before), np.bool_)


def by_row_in_order(operations: Operations, codes: Numbers) -> tuple[Numbers, Mask]:
    """Return the operations by row and in order, and which of them begin a group."""
    lineage, file, offset, piece, number = (operations.numbers(name) for name in (*POSITION, "piece", "row_number"))
    # Rows of an event follow each other, and an update leaves before it takes. Pieces of an event in several Kafka partitions
    # have no order: where equal rows are in several of them, taking comes first, so that the count is right in every order.
    apart = _in_several_pieces(piece, offset, file, lineage, codes)
    first, second = np.where(apart, ~operations.takes, number), np.where(apart, piece, operations.takes)
    order = np.lexsort((number, second, first, offset, file, lineage, codes))
    ordered = codes[order]
    return order, np.append(np.ones(min(1, len(order)), np.bool_), ordered[1:] != ordered[:-1])


def _in_several_pieces(piece: Numbers, *event: Numbers) -> Mask:
    """Return the operations on a row that has operations in several pieces of one event.

    ``event`` has the numbers that tell the events, and the rows, apart.
    """
    found = np.zeros(len(piece), np.bool_)
    if not len(piece) or (piece == piece[0]).all():
        return found
    order = np.lexsort((piece, *event))
    begins = np.append(True, np.logical_or.reduce([one[order][1:] != one[order][:-1] for one in event]))
    group = np.cumsum(begins) - 1
    others = np.append(False, piece[order][1:] != piece[order][:-1]) & ~begins
    found[order] = (np.bincount(group[others], minlength=int(group[-1]) + 1) > 0)[group]
    return found


def _some_left(operations: Operations, order: Numbers) -> Numbers:
    """Return the operations whose rows are left of one group of equal rows, of which some have gone."""
    row, adds = operations.touches.column("row").take(order), operations.takes[order]
    names = [name for name in (*SHOWN, *AUDITED) if name in operations.rows.schema.names]
    shown = zip(*(map(_comparable, operations.rows.column(name).take(row).to_pylist()) for name in names), strict=True)
    there: list[tuple[object, int]] = []
    for number, is_added, place in zip(order.tolist(), adds.tolist(), shown, strict=True):
        if is_added:
            heapq.heappush(there, (place, number))
        elif there:
            heapq.heappop(there)
    return np.array([number for _, number in there], np.int64)


def _comparable(value: object) -> tuple[bool, object]:
    """Return a value with an order: None comes first, and a struct is compared field by field."""
    return value is not None, tuple(value.values()) if isinstance(value, dict) else value
