"""The earlier cells that share ids with a window, where messages carry ids.

A message of a table with a key may be a copy of one in another Kafka partition. Of equal messages the first counts by window,
Kafka partition and offset, so a window is compared with itself and with windows before it. Only runs whose ids overlap are
named, so nearly all windows are compared with themselves and the end of the window before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.spans import Cell
from dts_assets.planning.message_lives import PartitionLives
from dts_assets.planning.topic_lineages import Lineages


@dataclass(frozen=True, slots=True)
class _Ids:
    """The least and the greatest id of some messages of a window.

    ``cell`` is None for those of all Kafka partitions.
    """

    first: int
    last: int
    start: datetime
    cell: Cell | None


def cells_with_shared_ids(lives: Iterable[PartitionLives], lineages: Lineages) -> dict[datetime, tuple[Cell, ...]]:
    """Return the earlier cells that may have ids of a window, by its start.

    Windows that share none with earlier ones are left out.
    """
    lives = list(lives)
    if len(lives) < 2:
        return {}
    by_lineage: dict[int, list[_Ids]] = {}
    for mine in lives:
        for part in mine.parts:
            least, most = lineages.of_run(mine.kafka_partition, part.run, epoch=part.epoch)
            ids = _Ids(part.first, part.last, part.cell.window.start, part.cell)
            for number in range(least, most + 1):
                by_lineage.setdefault(number, []).append(ids)
    found: dict[datetime, set[Cell]] = {}
    for some in by_lineage.values():
        for start, cell in _overlapping(some):
            found.setdefault(start, set()).add(cell)
    return {start: tuple(sorted(cells)) for start, cells in found.items()}


def reaches_left_out(lives: Mapping[int, PartitionLives], later: Iterable[IngestWindow], lineages: Lineages) -> bool:
    """Return whether ``later`` windows may have ids of windows that are left out because they are settled."""
    left_out = []
    for partition, mine in lives.items():
        for life in mine.lives:
            if life.left_out is not None and life.last is not None:
                begun = lineages.of_run(partition, life.begin.run, epoch=life.begin.epoch)
                last = lineages.of_run(partition, life.last.run, epoch=life.last.epoch)
                left_out.append((*life.left_out, begun[0], max(begun[1], last[1])))
    for row in later if len(lives) > 1 else ():
        for run in row.runs:
            least, most = lineages.of_run(row.kafka_partition, run, epoch=row.epoch)
            for first, last_id, begun_in, ended_in in left_out:
                shares = run.first.position <= last_id and first <= run.last.position
                if shares and least <= ended_in and begun_in <= most:
                    return True
    return False


def _overlapping(ids: Iterable[_Ids]) -> Iterator[tuple[datetime, Cell]]:
    """Yield the start of each window with each earlier cell whose ids overlap its own.

    One pair may come several times.
    """
    ids = list(ids)
    windows, cells = _Open(), _Open()
    for one in sorted([*ids, *_of_windows(ids)], key=lambda each: each.first):
        if one.cell is None:
            yield from (
                (one.start, other.cell) for other in cells.among(one.first) if other.start < one.start and other.cell
            )
            windows.add(one)
        else:
            yield from ((other.start, one.cell) for other in windows.among(one.first) if one.start < other.start)
            cells.add(one)


def _of_windows(ids: Iterable[_Ids]) -> Iterator[_Ids]:
    """Yield the ids of each window, as few ranges as they make."""
    by_window: dict[datetime, list[_Ids]] = {}
    for one in ids:
        by_window.setdefault(one.start, []).append(one)
    for start, mine in by_window.items():
        mine.sort(key=lambda one: one.first)
        first, last = mine[0].first, mine[0].last
        for one in mine[1:]:
            if one.first > last:
                yield _Ids(first, last, start, None)
                first = one.first
            last = max(last, one.last)
        yield _Ids(first, last, start, None)


class _Open:
    """The ranges that have begun and may not have ended, as ids ascend."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Ids]] = []
        self._count = 0

    def add(self, ids: _Ids) -> None:
        self._count += 1
        heappush(self._heap, (ids.last, self._count, ids))

    def among(self, first: int) -> Iterator[_Ids]:
        """Yield the ranges that have not ended before an id."""
        while self._heap and self._heap[0][0] < first:
            heappop(self._heap)
        for _, _, ids in self._heap:
            yield ids
