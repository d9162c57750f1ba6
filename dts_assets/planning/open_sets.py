"""The entry sets that each cell has to take over from the cell before it.

A cell finds the heads of its sets by itself, in raw. What it cannot find are sets of which no further fragment comes: those are
known only to the cell that saw them begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from dts_assets.model.open_sets import OpenSet
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window

if TYPE_CHECKING:  # sensors are defined in every process of Dagster, and need no row of the ledger for that
    from dts_assets.model.ledger_rows import IngestWindow, RawWindow

Row = TypeVar("Row", "RawWindow", "IngestWindow")


def open_before(
    rows: Mapping[Cell, Row], left_open: Mapping[Cell, tuple[OpenSet, ...]]
) -> dict[Cell, tuple[OpenSet, ...]]:
    """Return the sets that each cell of ``rows`` has to take over.

    Cells are left out whose predecessor is not in ``left_open``, which has the sets that cells leave unfinished, or whose offsets
    do not follow those of their predecessor.
    """
    return {row.cell: left_open[before.cell] for before, row in _neighbours(rows) if before.cell in left_open}


def with_windows_before(windows: Iterable[Window], rows: Mapping[Cell, RawWindow]) -> set[Window]:
    """Return some windows, and those from which one of their cells may have to take over entry sets.

    So a run reads the marks of its own windows and of their neighbours, however many windows are stored. A window without
    messages passes on what the one before it left.
    """
    wanted = frozenset(windows)
    found = set(wanted)
    passing: set[Cell] = set()
    for before, row in reversed(list(_neighbours(rows))):
        if row.window in wanted or row.cell in passing:
            found.add(before.window)
            if not len(before.offsets):
                passing.add(before.cell)
    return found


def _neighbours(rows: Mapping[Cell, Row]) -> Iterator[tuple[Row, Row]]:
    """Give each row behind the row that its offsets follow, in the same Kafka partition and epoch."""
    ordered = [rows[cell] for cell in sorted(rows, key=lambda cell: (cell.kafka_partition, cell.window))]
    for before, row in pairwise(ordered):
        end = (before.kafka_partition, before.epoch, before.offsets.end)
        if end == (row.kafka_partition, row.epoch, row.offsets.start):
            yield before, row


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
