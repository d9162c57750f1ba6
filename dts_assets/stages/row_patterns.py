"""Patterns of rows: what changes that send a part of their row say of it.

A row that no pattern fits is meant by none of these changes. Of the rows that fit some may be meant by none either: columns are
compared by hashes, and each pattern stands for all changes that send the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import BoundsOf, Hashes, Mask, Numbers, among_sorted, hash_keys
from dts_assets.stages.sent_columns import SENT, SENT_OR_NULL, Marks, change_numbers, marks_of, nulls_in


def by_column(keys: Sequence[pa.Array]) -> list[list[pa.Array]]:
    """Return the arrays of keys column by column: values, and texts of those that do not fit."""
    count = len(keys) // 2
    return [list(keys[number::count]) for number in range(count)]


@dataclass(slots=True)
class _Pattern:
    """A pattern of the rows of all changes that send the same columns.

    The columns ``sent`` are equal in a row that fits; those in ``or_null`` are equal or NULL. ``hashes`` has a sum of the hashes
    of the columns sent for each change, ``others`` the hashes of each column in ``or_null``. ``values`` has the different values
    of both, by the number of the column, if bounds are to be compared. ``wanted`` has the sums of rows that fit, sorted, by the
    columns in ``or_null`` that are NULL there.
    """

    sent: tuple[int, ...]
    or_null: tuple[int, ...]
    hashes: Hashes
    others: npt.NDArray[np.uint64]
    values: Mapping[int, pa.Array]
    wanted: dict[bytes, Hashes] = field(default_factory=dict)

    def fits(self, columns: Sequence[Sequence[pa.Array]], hash_of: Callable[[int], Hashes], count: int) -> Mask:
        """Tell which of so many rows fit, whose hashes of a column ``hash_of`` gives."""
        mine = _sum(map(hash_of, self.sent), count)
        if not self.or_null:
            return among_sorted(mine, self._wanted(np.zeros(0, np.bool_)))
        found = np.zeros(count, np.bool_)
        empty = np.stack([nulls_in(columns[number]) for number in self.or_null], axis=1)
        others = np.stack([hash_of(number) for number in self.or_null], axis=1)
        for nulls in np.unique(empty, axis=0):
            rows = np.flatnonzero((empty == nulls).all(axis=1))
            sums = mine[rows] + others[rows][:, ~nulls].sum(axis=1, dtype=np.uint64)
            found[rows] = among_sorted(sums, self._wanted(nulls))
        return found

    def _wanted(self, nulls: Mask) -> Hashes:
        found = self.wanted.get(nulls.tobytes())
        if found is None:
            found = np.unique(self.hashes + self.others[:, ~nulls].sum(axis=1, dtype=np.uint64))
            self.wanted[nulls.tobytes()] = found
        return found

    def reaches(self, bounds_of: BoundsOf) -> bool:
        """Tell whether a row within bounds may fit."""
        for number, values in self.values.items():
            bounds = bounds_of(number)
            if bounds is None or (bounds.may_be_null and number in self.or_null):
                continue
            if not bounds.reach(values):
                return False
        return True


@dataclass(frozen=True, slots=True)
class RowPatterns:
    """The patterns of some changes; none where all send their rows whole."""

    patterns: tuple[_Pattern, ...] = ()

    def fits(self, keys: Sequence[pa.Array]) -> Mask:
        """Tell which rows fit a pattern, by the columns that tell rows apart and their texts."""
        columns, count = by_column(keys), len(keys[0])
        hash_of = cache(lambda number: _column_hashes(columns[number], number))
        found = np.zeros(count, np.bool_)
        for pattern in self.patterns:
            found |= pattern.fits(columns, hash_of, count)
        return found

    def reach(self, bounds_of: BoundsOf) -> bool:
        """Tell whether a row within bounds may fit a pattern."""
        return any(pattern.reaches(bounds_of) for pattern in self.patterns)

    @classmethod
    def joined(cls, several: Iterable[RowPatterns]) -> RowPatterns:
        """Return several patterns as one."""
        by_columns: dict[tuple[tuple[int, ...], tuple[int, ...]], list[_Pattern]] = {}
        for pattern in (pattern for one in several for pattern in one.patterns):
            by_columns.setdefault((pattern.sent, pattern.or_null), []).append(pattern)
        return cls(tuple(some[0] if len(some) == 1 else _joined(some) for some in by_columns.values()))


NO_PATTERNS = RowPatterns()


def patterns_of_old_rows(touches: pa.RecordBatch, keys: Sequence[pa.Array], leaves: Mask) -> RowPatterns:
    """Return the patterns of the old rows of which changes send a part, with values for bounds.

    ``keys`` are the columns that tell rows apart, and their texts; ``leaves`` are the operations that leave a row.
    """
    marks = marks_of(touches)
    return NO_PATTERNS if marks is None else _patterns(keys, marks, partial_rows(marks) & leaves, with_values=True)


def patterns_of_changes(touches: pa.RecordBatch, keys: Sequence[pa.Array]) -> RowPatterns:
    """Return the patterns of old and new rows of all changes that send a part of their row.

    ``keys`` are the columns that tell rows apart, and their texts.
    """
    marks = marks_of(touches)
    if marks is None:
        return NO_PATTERNS
    return _patterns(keys, marks, of_partial_changes(touches, marks), with_values=False)


def partial_rows(marks: Marks) -> Mask:
    """Return the operations that send a part of their row."""
    return np.asarray((marks != SENT).any(axis=1), np.bool_)


def of_partial_changes(touches: pa.RecordBatch, marks: Marks) -> Mask:
    """Return the operations of changes that send a part of a row, those with the other row, too."""
    changes = change_numbers(touches)
    return np.isin(changes, changes[partial_rows(marks)]) & (changes >= 0)


def by_marks(marks: Marks, chosen: Mask) -> Iterator[tuple[Marks, Numbers]]:
    """Yield the different marks of some operations, with the numbers of the operations that have them."""
    some = np.flatnonzero(chosen)
    if not len(some):
        return
    distinct, codes = np.unique(marks[some], axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    for number, one in enumerate(distinct):
        yield one, some[codes == number]


def _patterns(keys: Sequence[pa.Array], marks: Marks, chosen: Mask, *, with_values: bool) -> RowPatterns:
    columns, found = by_column(keys), []
    for mark, rows in by_marks(marks, chosen):
        sent, or_null = (tuple(np.flatnonzero(mark == one).tolist()) for one in (SENT, SENT_OR_NULL))
        mine = {number: [array.take(pa.array(rows)) for array in columns[number]] for number in (*sent, *or_null)}
        hashes = {number: _column_hashes(column, number) for number, column in mine.items()}
        others = np.stack([hashes[one] for one in or_null], axis=1) if or_null else np.zeros((len(rows), 0), np.uint64)
        values = {number: pc.unique(column[0]) for number, column in mine.items()} if with_values else {}
        found.append(_Pattern(sent, or_null, _sum((hashes[one] for one in sent), len(rows)), others, values))
    return RowPatterns(tuple(found))


def _joined(patterns: Sequence[_Pattern]) -> _Pattern:
    first = patterns[0]
    values = {number: pc.unique(pa.concat_arrays([one.values[number] for one in patterns])) for number in first.values}
    hashes, others = (np.concatenate(some) for some in ([o.hashes for o in patterns], [o.others for o in patterns]))
    return _Pattern(first.sent, first.or_null, hashes, others, values)


def _column_hashes(column: Sequence[pa.Array], number: int) -> Hashes:
    """Return a hash of each row's value in a column, other than that in another column."""
    with np.errstate(over="ignore"):
        return np.asarray(hash_keys(column) * np.uint64(2 * number + 1), np.uint64)


def _sum(hashes: Iterable[Hashes], count: int) -> Hashes:
    return sum(hashes, np.zeros(count, np.uint64))
