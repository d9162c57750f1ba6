"""The stored cells before a cell, in which the head of an entry set may lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import WindowGrid


@dataclass(frozen=True, slots=True)
class EarlierCells:
    """The cells before a cell whose raw is stored without a hole.

    ``beyond`` is the first cell that is not stored, if any; one whose messages retention has removed is none. The cells are the
    first ``count`` of ``chain``, ascending: all cells of a run share it, because a tuple for each of a thousand windows would be
    half a million cells.
    """

    chain: Sequence[Cell]
    count: int
    beyond: Cell | None

    def nearest(self, most: int | None) -> tuple[Cell, ...]:
        """Return the last ``most`` cells, nearest first; all cells for None."""
        first = 0 if most is None else max(0, self.count - most)
        return tuple(reversed(self.chain[first : self.count]))


def find_earlier_cells(
    span: Span, raw: Mapping[Cell, RawWindow], grid: WindowGrid, *, since: Mapping[int, datetime] = {}
) -> dict[Cell, EarlierCells]:
    """Return the earlier cells of each stored cell of a span.

    The stored windows of a Kafka partition are gone through once. ``since`` has the starts of the first windows whose messages
    retention has left, by Kafka partition: what it has removed is like what the topic has forgotten.
    """
    wanted = frozenset(span.windows)
    found: dict[Cell, EarlierCells] = {}
    for kafka_partition in span.kafka_partitions:
        chain: list[Cell] = []
        beyond: Cell | None = None
        first = since.get(kafka_partition, grid.start)
        mine = (row.cell for row in raw.values() if row.kafka_partition == kafka_partition)
        for cell in sorted(cell for cell in mine if cell.window.start >= first):
            previous = grid.previous(cell.window)
            if not (chain and previous == chain[-1].window and raw[chain[-1]].offsets.end == raw[cell].offsets.start):
                chain = []
                gone = previous is None or previous.start < first
                beyond = None if previous is None or gone else Cell(kafka_partition, previous)
            if cell.window in wanted:
                found[cell] = EarlierCells(chain, len(chain), beyond)
            chain.append(cell)
    return found
