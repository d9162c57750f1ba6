"""The entry sets that each cell has to take over from the cell before it.

A cell finds the heads of its sets by itself, in raw. What it cannot find are sets of which no further fragment comes: those are
known only to the cell that saw them begin.
"""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.model.ledger_rows import IngestWindow, RawWindow
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy


def open_before(
    rows: Mapping[Cell, RawWindow] | Mapping[Cell, IngestWindow], left_open: Mapping[Cell, tuple[OpenSet, ...]]
) -> dict[Cell, tuple[OpenSet, ...]]:
    """Return the sets that each cell of ``rows`` has to take over.

    Cells are left out whose predecessor is not in ``left_open``, which has the sets that cells leave unfinished, or whose offsets
    do not follow those of their predecessor.
    """
    found: dict[Cell, tuple[OpenSet, ...]] = {}
    before: RawWindow | IngestWindow | None = None
    for cell in sorted(rows, key=lambda cell: (cell.kafka_partition, cell.window)):
        row = rows[cell]
        follows = before is not None and (before.kafka_partition, before.epoch, before.offsets.end) == (
            row.kafka_partition, row.epoch, row.offsets.start,
        )  # fmt: skip
        if before is not None and follows and before.cell in left_open:
            found[cell] = left_open[before.cell]
        before = row
    return found


def left_open_by(entries: Mapping[Cell, IngestWindow]) -> dict[Cell, tuple[OpenSet, ...]]:
    """Return the sets that stored cells leave unfinished.

    Windows that are still open are left out, and marks of an earlier version, which count such sets and do not name them.
    """
    return {
        cell: row.left_open
        for cell, row in entries.items()
        if row.closed_by is not ClosedBy.OPEN
        and sum(len(one.offsets) for one in row.left_open) == row.counts.carried_out
    }


def disagreeing(entries: Mapping[Cell, IngestWindow]) -> frozenset[Cell]:
    """Return the stored cells that took over other sets than the cell before them leaves."""
    expected = open_before(entries, left_open_by(entries))
    return frozenset(cell for cell, sets in expected.items() if entries[cell].taken_over != sets)
