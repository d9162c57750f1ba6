"""Sorted parts of rows merged in columns.

Rows can be given that stand at or before the last row that each part has shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.keys import Mask, as_numbers

SORT_COLUMNS = ("lineage", "file", "position", "kind", "row_number", "kafka_partition", "kafka_offset")
"""The columns that rows are sorted by, all numbers without nulls."""


def sorted_rows(rows: pa.Table) -> pa.Table:
    """Return rows in their order; equal ones stay in the order in which they came."""
    order = np.lexsort([as_numbers(rows[name]) for name in reversed(SORT_COLUMNS)])
    return rows.take(pa.array(order))


@dataclass(slots=True)
class SortedPart:
    """Sorted rows that are read a batch at a time.

    ``head`` are those that were read and not given yet.
    """

    batches: Iterator[pa.Table]
    head: pa.Table = field(init=False)
    ended: bool = False

    def __post_init__(self) -> None:
        """Read the first batch."""
        self.head = next(self.batches)
        self._fill()

    def _fill(self) -> None:
        """Read on while the head is empty."""
        while not self.ended and not self.head.num_rows:
            found = next(self.batches, None)
            if found is None:
                self.ended = True
            else:
                self.head = found

    def take(self, count: int) -> pa.Table:
        """Return the first rows of the head, and read on behind them."""
        taken, self.head = self.head.slice(0, count), self.head.slice(count)
        self._fill()
        return taken

    @property
    def is_empty(self) -> bool:
        """True if all rows were given."""
        return self.ended and not self.head.num_rows


def merged(parts: Sequence[SortedPart], *, before: SourcePosition | None = None) -> Iterator[pa.Table]:
    """Yield the rows of all parts before a position, in their order; None stands for all rows.

    The others stay in the parts.
    """
    while True:
        open_parts = [part for part in parts if not part.is_empty]
        if not open_parts:
            return
        # Nothing behind a head is before the head's last row, so the least of these bounds what is complete.
        bound = min(tuple(part.head[name][-1].as_py() for name in SORT_COLUMNS) for part in open_parts)
        taken = [part.take(_until(part.head, bound, before)) for part in open_parts]
        given = [one for one in taken if one.num_rows]
        if not given:
            return
        yield sorted_rows(pa.concat_tables(given)) if len(given) > 1 else given[0]


def _until(rows: pa.Table, bound: tuple[int, ...], before: SourcePosition | None) -> int:
    """Return how many of the first rows stand at or before a bound, and before a position."""
    inside: Mask = np.ones(rows.num_rows, np.bool_)
    for name, value in zip(reversed(SORT_COLUMNS), reversed(bound), strict=True):
        numbers = as_numbers(rows[name])
        inside = np.asarray((numbers < value) | ((numbers == value) & inside), np.bool_)
    if before is not None:
        earlier: Mask = np.zeros(rows.num_rows, np.bool_)
        for name, value in (("position", before.position), ("file", before.file), ("lineage", before.lineage)):
            numbers = as_numbers(rows[name])
            earlier = np.asarray((numbers < value) | ((numbers == value) & earlier), np.bool_)
        inside &= earlier
    return int(np.count_nonzero(inside))
