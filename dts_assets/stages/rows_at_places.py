"""The numbers of rows whose entries share a place in the log of their source.

They go on from entry to entry. In PostgreSQL's log that is usual; in a binlog the events of a compressed transaction share a
place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.entry_columns import file_numbers, filled
from dts_assets.wire.columns.buffers import Bools

Cell: TypeAlias = tuple[object, object]


@dataclass(slots=True)
class RowsAtPlaces:
    """Counts the rows at each place. Feed it all DML entries of a cell in offset order.

    ``last`` is the place of the last entry in its cell: file, position, and in PostgreSQL's log the time; ``count`` are the rows
    that came there.
    """

    cell: Cell | None = None
    last: tuple[int, int, int] = (-1, -1, -1)
    count: int = 0

    def before(self, cell: Cell, entries: pa.RecordBatch, fresh: Bools) -> npt.NDArray[np.int32]:
        """Return how many rows came before each entry at its place.

        Only ``fresh`` entries count, and nothing came before others.
        """
        found = np.zeros(len(entries), np.int32)
        rows = np.flatnonzero(fresh)
        if not len(rows):
            return found
        mine = entries.take(pa.array(rows))
        places = _places(mine)
        goes_on = self.cell == cell and self.last == tuple(int(one[0]) for one in places)
        begins = np.append(not goes_on, np.logical_or.reduce([one[1:] != one[:-1] for one in places]))
        sizes = pc.fill_null(mine["rows"], 0).to_numpy().astype(np.int64)
        passed = np.cumsum(sizes) - sizes
        numbers = passed - np.maximum.accumulate(np.where(begins, passed, -self.count if goes_on else 0))
        found[rows] = numbers
        self.cell, self.count = cell, int(numbers[-1] + sizes[-1])
        self.last = (int(places[0][-1]), int(places[1][-1]), int(places[2][-1]))
        return found


def is_place_split(entries: pa.RecordBatch, at: int) -> bool:
    """Return whether the change in a row of ``entries`` and the one before it share a place."""
    pair = entries.slice(at - 1, 2)
    return 0 < at < len(entries) and all(one[0] == one[1] for one in _places(pair))


def _places(entries: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], ...]:
    """Return file, position, and in PostgreSQL's log the time of entries."""
    in_log = np.asarray(entries["schema"].is_valid())
    times = np.where(in_log, filled(entries["event_time"].view(pa.int64())), 0)
    return file_numbers(entries["file_name"]).to_numpy(), filled(entries["position"]), times
