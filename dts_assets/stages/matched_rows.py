"""Changes of a table without a key that send a part of their row find it.

The columns that were sent are compared with the rows that are there at its position, change by change in the source's order. If
one row matches, or all that match are equal, the change is about one of these: the columns that it does not send are that row's.
If they differ, the change is *ambiguous* and changes nothing. So is one that none matches, but that may mean some if NULL stands
for values that were not sent. If none matches, a removal removes nothing, and an update adds a row of the columns that it sends.

Then every operation has its whole row, and ``stages/bags.py`` counts equal rows as ever. So it does not matter which changes a
merge has together, as long as it has all rows that may be meant.

Pieces of one event in several Kafka partitions have no order. There each removal first takes one of the rows before the event,
and then, if none matches, one of those that its own piece has brought. One that sends its row whole takes at last an equal row of
another piece, as ``stages/bags.py`` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.stages.change_columns import RowShape, Truncation
from dts_assets.stages.key_operations import Operations, eras_of
from dts_assets.stages.keys import Keys, Mask, Numbers
from dts_assets.stages.row_patterns import by_column, by_marks, of_partial_changes, partial_rows, patterns_of_old_rows
from dts_assets.stages.row_places import POSITION
from dts_assets.stages.sent_columns import (
    CHANGE,
    NULL_OR_UNSENT,
    OFFSET,
    SENT,
    SENT_OR_NULL,
    UNSENT,
    WINDOW,
    Marks,
    change_numbers,
    marks_of,
    nulls_in,
)

Row = tuple[int, ...]
"""A row: the number of truncations before it, then a number for the value of each column."""

AMBIGUOUS = pa.schema(
    [
        ("kafka_partition", pa.int64()), ("window_start", pa.timestamp("us", "UTC")), ("offset", pa.int64()),
        *((name, pa.int64()) for name in (*POSITION, "row_number")), ("removes", pa.bool_()),
    ]
)  # fmt: skip
"""The columns that identify ambiguous changes; ``removes`` is false for an update."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Operations that have their whole rows, and facts about those that sent a part.

    ``ambiguous`` has the changes that may mean several different rows, as :data:`AMBIGUOUS` says; None without any.
    """

    operations: Operations
    ambiguous: pa.RecordBatch | None = None
    not_removed: NotRemoved = ALL_REMOVED


def with_matched(operations: Operations, shape: RowShape, truncations: Sequence[Truncation] = ()) -> Matched:
    """Return operations with the whole rows of changes that send a part of them.

    ``operations`` have all rows that may be meant. ``truncations`` are in the order of their positions.
    """
    marks = marks_of(operations.touches) if shape.is_bag else None
    if marks is None:
        return Matched(operations)
    walk = _Walk.of(operations, marks, eras_of(operations, truncations, shape.shard_keys))
    for event in _events(operations, walk.concerned()):
        walk.follow(event)
    found, kept = walk.found, np.ones(operations.count, np.bool_)
    kept[found.dropped] = False
    whole = Operations(walk.touches(), operations.rows)
    counts = NotRemoved(unmatched=found.unmatched, ambiguous=len(found.ambiguous), unseen=found.unseen)
    ambiguous = _ambiguous_changes(operations, np.array(sorted(found.ambiguous), np.int64)) if found.ambiguous else None
    return Matched(whole if kept.all() else whole.chosen(kept), ambiguous, counts)


@dataclass(slots=True)
class _Found:
    """The finds of a walk: rows of operations, operations that are dropped, ambiguous ones, and counts."""

    rows: dict[int, Row] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    ambiguous: list[int] = field(default_factory=list)
    unmatched: int = 0
    unseen: int = 0


@dataclass(slots=True)
class _Rows:
    """The rows that are there, how often, and the rows by the values of some of their columns.

    ``by_values`` has the rows by the values at each of several lists of places, ``places``. ``nulls`` has the number of NULL in
    each column. ``empties`` counts different rows by their places with NULL.
    """

    places: Sequence[tuple[int, ...]]
    nulls: Sequence[int]
    counts: dict[Row, int] = field(default_factory=dict)
    by_values: dict[tuple[int, ...], dict[Row, set[Row]]] = field(default_factory=dict)
    empties: dict[Row, int] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Let a row be there once more."""
        self.counts[row] = self.counts.get(row, 0) + 1
        if self.counts[row] > 1:
            return
        for places in self.places:
            self.by_values.setdefault(places, {}).setdefault(self._at(row, places), set()).add(row)
        empty = self._empty(row)
        self.empties[empty] = self.empties.get(empty, 0) + 1

    def remove(self, row: Row) -> bool:
        """Take a row away once, if it is there; return whether it was."""
        count = self.counts.get(row, 0)
        if count > 1:
            self.counts[row] = count - 1
        elif count:
            del self.counts[row]
            for places in self.places:
                self.by_values[places][self._at(row, places)].discard(row)
            empty = self._empty(row)
            self.empties[empty] -= 1
            if not self.empties[empty]:
                del self.empties[empty]
        return bool(count)

    def matching(self, row: Row, marks: Marks) -> set[Row]:
        """Return the different rows that match what an operation sends of its row."""
        or_null = np.flatnonzero(marks == SENT_OR_NULL).tolist()
        if or_null:
            return self._with_nulls(row, marks, or_null)
        return self._found(row, _places(marks, SENT, NULL_OR_UNSENT))

    def resembling(self, row: Row, marks: Marks) -> set[Row]:
        """Return the different rows that match if NULL stands for values that were not sent.

        There is none where it never does.
        """
        return self._found(row, _places(marks, SENT)) if (marks == NULL_OR_UNSENT).any() else set()

    def _found(self, row: Row, places: tuple[int, ...]) -> set[Row]:
        return self.by_values.get(places, {}).get(self._at(row, places), set())

    def _with_nulls(self, row: Row, marks: Marks, or_null: Sequence[int]) -> set[Row]:
        """Return the rows that match, where some of their values may have been NULL."""
        if (marks == UNSENT).any():
            found = self._found(row, _places(marks, SENT))
            return {one for one in found if all(one[n + 1] in (row[n + 1], self.nulls[n]) for n in or_null)}
        candidates = {tuple(self._without(row, or_null, empty)) for empty in self.empties}
        return {one for one in candidates if one in self.counts}

    def _without(self, row: Row, or_null: Sequence[int], empty: Row) -> Iterator[int]:
        """Yield the values of a row, of which some are NULL where another row has NULL."""
        yield row[0]
        for number, value in enumerate(row[1:]):
            yield self.nulls[number] if number in or_null and empty[number] else value

    def _empty(self, row: Row) -> Row:
        return tuple(int(value == null) for value, null in zip(row[1:], self.nulls, strict=True))

    @staticmethod
    def _at(row: Row, places: Sequence[int]) -> Row:
        return (row[0], *(row[place + 1] for place in places))


def _places(marks: Marks, *wanted: int) -> tuple[int, ...]:
    """Return the numbers of the columns that have one of some marks."""
    return tuple(np.flatnonzero(np.isin(marks, wanted)).tolist())


@dataclass(slots=True)
class _Walk:
    """The operations on rows that may be meant, one after another.

    ``codes`` has the row of each operation, ``marks`` its marks, ``changes`` the number of its change. ``old_rows`` has the rows
    that partial changes were found to mean, None for ambiguous ones; ``unknown_of`` has by column the operations whose
    value no rule of servers tells, ``unknown`` such columns of rows.
    """

    operations: Operations
    columns: list[list[pa.Array]]
    codes: Numbers
    marks: Marks
    takes: Mask
    changes: list[int]
    rows: _Rows
    unknown_of: list[Mask]
    found: _Found = field(default_factory=_Found)
    old_rows: dict[int, Row | None] = field(default_factory=dict)
    unknown: dict[Row, tuple[bool, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: Operations, marks: Marks, eras: Numbers) -> _Walk:
        """Return a walk that begins without a row."""
        columns, takes = by_column(operations.keys), operations.takes
        numbers = [Keys(column).codes for column in columns]
        nulls = [_first(nulls_in(column), codes) for column, codes in zip(columns, numbers, strict=True)]
        places = {
            places
            for mark, _ in by_marks(marks, partial_rows(marks) & ~takes)
            for places in (_places(mark, SENT), _places(mark, SENT, NULL_OR_UNSENT))
        }
        changes, codes = change_numbers(operations.touches).tolist(), np.stack([eras, *numbers], axis=1)
        rows = _Rows(sorted(places), nulls)
        unknown = [operations.marked(f"n{number}") for number in range(len(columns))]
        return cls(operations, columns, codes, marks, takes, changes, rows, unknown)

    def concerned(self) -> Mask:
        """Return the operations on rows that may be meant, and those of changes that send a part."""
        touches, keys = self.operations.touches, self.operations.keys
        patterns = patterns_of_old_rows(touches, keys, ~self.takes)
        stands = self.operations.numbers("lineage") < 0
        found = (of_partial_changes(touches, self.marks) | patterns.fits(keys)) & ~(stands & ~self.takes)
        return np.asarray(found, np.bool_)

    def follow(self, event: Sequence[Sequence[int]]) -> None:
        """Let the operations of an event happen, which come in pieces without an order."""
        if len(event) == 1:
            for number in event[0]:
                self._take(number) if self.takes[number] else self._leave(number)
            return
        leaving = [number for piece in event for number in piece if not self.takes[number]]
        in_order = self._of_one_piece(event)
        waiting = {number for number in leaving if number in in_order or not self._leave(number, waits=True)}
        brought, late, touched = list[Row](), list[tuple[int, Row]](), list[set[Row]]()
        for place, piece in enumerate(event):
            mine = list[Row]()
            for number in piece:
                if self.takes[number]:
                    mine += self._take(number)
                elif number in waiting and not self._leave(number, waits=not self.marks[number].any()):
                    late.append((place, self._row(number)))
            touched.append({*mine, *self._left_by(piece)})
            brought += [row for row in mine if self.rows.remove(row)]  # no other piece finds them
        for row in brought:
            self.rows.add(row)
        for place, row in late:
            if any(row in rows for other, rows in enumerate(touched) if other != place):
                self.rows.remove(row)

    def _of_one_piece(self, event: Sequence[Sequence[int]]) -> frozenset[int]:
        """Return the operations on rows that an event's partial changes may mean, if one piece has them.

        These have an order; there is none if several pieces have some. So it does not matter which operations on other rows
        a merge walks over.
        """
        numbers = np.array([number for piece in event for number in piece], np.int64)
        touches = self.operations.touches.take(pa.array(numbers))
        keys = Operations(touches, self.operations.rows).keys
        meant = patterns_of_old_rows(touches, keys, ~self.takes[numbers]).fits(keys)
        some = frozenset(numbers[meant | of_partial_changes(touches, self.marks[numbers])].tolist())
        return some if sum(not some.isdisjoint(piece) for piece in event) == 1 else frozenset()

    def _left_by(self, piece: Sequence[int]) -> Iterator[Row]:
        """Yield the rows that operations leave, but for those that send a part and find none."""
        for number in piece:
            if not self.takes[number]:
                row = self.found.rows.get(number) if self.marks[number].any() else self._row(number)
                if row is not None:
                    yield row

    def touches(self) -> pa.RecordBatch:
        """Return what the operations touch, with the whole rows that were found."""
        touches, rows = self.operations.touches, self.found.rows
        at, found = np.fromiter(rows, np.int64, len(rows)), np.array(list(rows.values()), np.int64)
        for number in range(len(self.columns) if rows else 0):
            values, firsts = np.unique(self.codes[:, number + 1], return_index=True)
            source = np.arange(len(self.codes))
            source[at] = firsts[np.searchsorted(values, found[:, number + 1])]
            for name in (f"k{number}", f"u{number}"):
                touches = _set(touches, name, touches.column(name).take(pa.array(source)))
            if f"n{number}" in touches.schema.names:
                mask = self.operations.marked(f"n{number}").copy()
                mask[at] = [self.unknown[row][number] for row in rows.values()]
                touches = _set(touches, f"n{number}", pa.array(mask))
        return touches.drop_columns([*(f"x{number}" for number in range(len(self.columns))), CHANGE, OFFSET, WINDOW])

    def _leave(self, number: int, *, waits: bool = False) -> bool:
        """Let the row go that an operation means; False if none matches and it ``waits``."""
        row, marks, change = self._row(number), self.marks[number], self.changes[number]
        if not marks.any():
            return self.rows.remove(row) or not waits
        found = self.rows.matching(row, marks)
        if not found and waits:
            return False
        if len(found) == 1:
            (one,) = found
            self.rows.remove(one)
            self.found.rows[number] = self.old_rows[change] = one
            return True
        self.found.dropped.append(number)
        if found or self.rows.resembling(row, marks):
            self.found.ambiguous.append(number)
            self.old_rows[change] = None
        else:
            self.found.unmatched += 1
        return True

    def _take(self, number: int) -> list[Row]:
        """Let the row come that an operation makes, and return it; none comes of an ambiguous change."""
        row, marks = self._row(number), self.marks[number]
        old = self.old_rows.get(self.changes[number], _NOT_FOUND)
        if old:
            row = (row[0], *(o if m == UNSENT else r for r, o, m in zip(row[1:], old[1:], marks, strict=True)))
        if old is None:
            self.found.dropped.append(number)
            return []
        if marks.any():
            self.found.rows[number] = row
            self.found.unseen += not old
        self.rows.add(row)
        self.unknown[row] = self._unknown(number, old)
        return [row]

    def _unknown(self, number: int, old: Row) -> tuple[bool, ...]:
        """Return which values of the row that an operation makes are told by no rule of servers."""
        marks, earlier = self.marks[number], self.unknown.get(old, ())
        mine = [bool(self.unknown_of[one][number]) for one in range(len(marks))]
        return tuple(
            earlier[one] if mark == UNSENT and earlier else own
            for one, (mark, own) in enumerate(zip(marks, mine, strict=True))
        )

    def _row(self, number: int) -> Row:
        return tuple(self.codes[number].tolist())


_NOT_FOUND: Row = ()
"""The old row of a change that sends all of it, or that matches none."""


def _set(touches: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return touches.set_column(touches.schema.get_field_index(name), name, values)


def _first(mask: Mask, codes: Numbers) -> int:
    """Return the number of the one value that the rows of a mask have; -1 without a row."""
    at = np.flatnonzero(mask)
    return int(codes[at[0]]) if len(at) else -1


def _events(operations: Operations, concerned: Mask) -> Iterator[list[list[int]]]:
    """Yield some operations event by event in the source's order, each event in pieces."""
    some = np.flatnonzero(concerned)
    if not len(some):
        return
    lineage, file, offset, piece, number = (
        operations.numbers(name)[some] for name in (*POSITION, "piece", "row_number")
    )
    changes = change_numbers(operations.touches)[some]
    order = np.lexsort((operations.takes[some], changes, number, piece, offset, file, lineage))
    parts = [one[order] for one in (lineage, file, offset)]
    begins = np.append(True, np.logical_or.reduce([one[1:] != one[:-1] for one in parts]))
    pieces = np.append(True, begins[1:] | (piece[order][1:] != piece[order][:-1]))
    bounds = [*np.flatnonzero(begins).tolist(), len(some)]
    cuts = np.flatnonzero(pieces)
    for start, end in pairwise(bounds):
        inside = [*cuts[np.searchsorted(cuts, start) : np.searchsorted(cuts, end)].tolist(), end]
        yield [some[order[one:other]].tolist() for one, other in pairwise(inside)]


def _ambiguous_changes(operations: Operations, chosen: Numbers) -> pa.RecordBatch:
    """Return the changes of some operations that leave rows, as :data:`AMBIGUOUS` says."""
    touches, changes = operations.touches.take(pa.array(chosen)), change_numbers(operations.touches)
    removes = ~np.isin(changes[chosen], changes[operations.takes])
    columns = [
        touches.column("piece"), touches.column(WINDOW).cast(pa.timestamp("us", "UTC")), touches.column(OFFSET),
        *(touches.column(name) for name in (*POSITION, "row_number")), pa.array(removes),
    ]  # fmt: skip
    arrays = [column.cast(kind) for column, kind in zip(columns, AMBIGUOUS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=AMBIGUOUS)
