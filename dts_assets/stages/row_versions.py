"""Operations on keys as versions of rows: the states that rows had, and when they had them.

Each has the times and the positions of its begin and end. A version begins with a change that takes its key, and ends with the
next operation on the key, or with a truncation. In a table without a key a removal ends the version of an equal row that began
first.

Times of changes may go back where a server's clock does. The versions of one key do not overlap all the same: a version begins
at no time before the end of its predecessor, and ends at no time before its begin. What ends no version moves no time: so the
times are the same whether a history goes on from where it stood or is made again from all changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dts_assets.model.removals import NotRemoved
from dts_assets.stages.bags import by_row_in_order, unmatched_removals, without_ambiguous
from dts_assets.stages.change_columns import NO_TIME, RowShape, Truncation
from dts_assets.stages.document_updates import with_documents
from dts_assets.stages.judged_changes import judged
from dts_assets.stages.key_operations import Operations, begin_of, eras_of
from dts_assets.stages.keys import Keys, Mask, Numbers, as_mask, as_numbers
from dts_assets.stages.matched_rows import with_matched
from dts_assets.stages.row_folds import Found, MadeRows, by_key_in_order, in_schema, last_sent, values_of
from dts_assets.stages.row_places import POSITION

_OPEN = -1


@dataclass(frozen=True, slots=True)
class _Ends:
    """The end of each operation's version, as a number of an operation, and behind these of a truncation.

    ``order`` has the operations by key and in order, and ``at`` stands in that order; it is -1 of a version that is open, and of
    an operation that makes no version.
    """

    order: Numbers
    at: Numbers
    unmatched: int = 0


def versions_of(
    operations: Operations,
    shape: RowShape,
    *,
    truncations: Sequence[Truncation] = (),
    fold_absent: bool = False,
    expired_before: int = NO_TIME,
) -> MadeRows:
    """Return the versions that operations begin, in the history's schema.

    Versions that stand are among the operations, so that they get their ends; those of them that have ended give times to
    later ones and are not returned. ``truncations`` are in the order of their positions, ``fold_absent`` says that some change
    may lack columns. Versions that ended before ``expired_before``, in microseconds since 1970, are left out.
    """
    operations, missed = with_documents(operations, shape, truncations)
    operations, ambiguous = without_ambiguous(judged(operations, shape, truncations))
    matched = with_matched(operations, shape, truncations)
    operations = matched.operations
    codes = Keys(operations.keys).codes
    eras = eras_of(operations, truncations, shape.shard_keys)
    groups = codes * (len(truncations) + 1) + eras
    ends = (
        _fifo(operations, groups, eras, truncations) if shape.is_bag else _next(operations, groups, eras, truncations)
    )
    order = ends.order
    begin, end = _times(operations, codes, ends, truncations, overlap=shape.is_bag)
    wanted = operations.takes[order] & ((end == NO_TIME) | (end >= expired_before))
    chosen = order[wanted]
    if fold_absent and not shape.is_bag:
        found = last_sent(operations, order, groups, wanted, shape)
    else:
        found = Found(chosen, operations.row_numbers(chosen), {})
    columns = values_of(operations, found, shape)
    columns["_op"] = operations.touches.column("op").take(pa.array(chosen)).cast(shape.schema.field("_op").type)
    columns["_valid_from"] = _as_times(begin[wanted], shape, "_valid_from")
    columns["_valid_to"] = _as_times(end[wanted], shape, "_valid_to")
    places = begin_of(operations)
    columns["_valid_from_position"] = _as_positions(
        [one[chosen] for one in places], None, shape, "_valid_from_position"
    )
    ended_at = ends.at[wanted]
    known = [
        np.append(one, np.array([getattr(cut.position, name) for cut in truncations], np.int64))
        for one, name in zip(places, POSITION, strict=True)
    ]
    columns["_valid_to_position"] = _as_positions(
        [one[ended_at] if len(one) else ended_at for one in known], ended_at == _OPEN, shape, "_valid_to_position"
    )
    not_removed = NotRemoved(ends.unmatched, ambiguous, found.unseen) + missed + matched.not_removed
    return MadeRows(in_schema(columns, shape), not_removed)


def _next(operations: Operations, groups: Numbers, eras: Numbers, truncations: Sequence[Truncation]) -> _Ends:
    """Return the ends of versions in a table with a key.

    ``groups`` tells keys apart, and eras of a key.
    """
    order = by_key_in_order(operations, groups)
    follows = np.append(groups[order][1:] == groups[order][:-1], np.zeros(min(1, len(order)), np.bool_))
    following = np.append(order[1:], np.full(min(1, len(order)), _OPEN))
    emptied = np.where(eras[order] < len(truncations), operations.count + eras[order], _OPEN)
    found = np.where(follows, following, emptied)
    return _Ends(order, np.where(operations.takes[order], found, _OPEN))


def _fifo(operations: Operations, groups: Numbers, eras: Numbers, truncations: Sequence[Truncation]) -> _Ends:
    """Return the ends of versions in a table without a key.

    Of equal rows the one that began first ends first.
    """
    order, firsts = by_row_in_order(operations, groups)
    emptied = np.where(eras[order] < len(truncations), operations.count + eras[order], _OPEN)
    if not len(order):
        return _Ends(order, order)
    adds, starts = operations.takes[order], np.flatnonzero(firsts)
    group = np.cumsum(firsts) - 1
    unmatched = unmatched_removals(adds, firsts)
    removes = ~adds & ~unmatched
    nth_add, nth_removal = (_count_in_group(mask, starts, group) for mask in (adds, removes))
    width = len(order) + 1
    added, removed = np.flatnonzero(adds), np.flatnonzero(removes)
    wanted, there = (group * width + nth_add)[added], (group * width + nth_removal)[removed]
    at = np.searchsorted(there, wanted)
    found = emptied.copy()
    if len(there):
        match = there[np.minimum(at, len(there) - 1)] == wanted
        found[added[match]] = order[removed[at[match]]]
    return _Ends(order, np.where(adds, found, _OPEN), int(unmatched.sum()))


def _count_in_group(mask: Mask, starts: Numbers, group: Numbers) -> Numbers:
    """Return for each place how many places of a mask stand before it in its group."""
    before: Numbers = np.cumsum(mask) - mask
    return before - before[starts][group]


def _times(
    operations: Operations, codes: Numbers, ends: _Ends, truncations: Sequence[Truncation], *, overlap: bool
) -> tuple[Numbers, Numbers]:
    """Return begin and end of each operation's version in microseconds, in order; :data:`NO_TIME` for no end.

    With ``overlap`` versions of equal rows stand side by side, and a version's begin depends on no other one.
    """
    order, takes = ends.order, operations.takes[ends.order]
    told = operations.numbers("time")
    known = np.append(told, np.array([cut.event_time for cut in truncations], np.int64))
    begin = np.where(takes, told[order], NO_TIME)
    end = np.where(ends.at == _OPEN, NO_TIME, known[ends.at] if len(known) else NO_TIME)
    if "ended" in operations.touches.schema.names:
        column = operations.touches.column("ended").take(pa.array(order))
        begin = np.where(as_mask(column.is_valid()), told[order], begin)
        end = np.maximum(end, as_numbers(column.fill_null(NO_TIME)))
    if overlap:
        return begin, np.where(ends.at == _OPEN, NO_TIME, np.maximum(begin, end))
    both = np.stack([begin, end], axis=1).reshape(-1)
    latest = _latest(both, np.repeat(codes[order], 2)).reshape(-1, 2)
    return latest[:, 0], np.where(ends.at == _OPEN, NO_TIME, latest[:, 1])


def _latest(times: Numbers, groups: Numbers) -> Numbers:
    """Return the greatest time of each group so far; groups are numbers that never fall."""
    ranks, each = np.unique(times, return_inverse=True)
    return ranks[np.maximum.accumulate(each.reshape(-1) + groups * len(ranks)) - groups * len(ranks)]


def _as_times(times: Numbers, shape: RowShape, name: str) -> pa.Array:
    return pa.array(times, mask=times == NO_TIME).cast(shape.schema.field(name).type)


def _as_positions(parts: Sequence[Numbers], none: Mask | None, shape: RowShape, name: str) -> pa.Array:
    """Return positions as the structs of a column; null where ``none`` says so."""
    kind = shape.schema.field(name).type
    fields = [pa.array(part).cast(field.type) for part, field in zip(parts, kind, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=None if none is None else pa.array(none))
