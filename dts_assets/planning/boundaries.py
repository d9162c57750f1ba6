"""The boundaries of windows in offsets: found once, stored, and shared by both neighbours.

A boundary at an instant is the offset of the first message dated at or after it. Once a window's row is stored, its two
offsets hold: its neighbours take them over, a replay reads the same offsets, and a clock that jumps cannot move them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window


@dataclass(frozen=True, slots=True)
class Closing:
    """The rule by which windows of a subscription close."""

    complete: bool
    grace: timedelta
    now: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with its offsets; ``stored`` if they were in the ledger already.

    ``behind_open`` says that the window before has not closed either, so that the first offset of this cell is not known yet.
    """

    cell: Cell
    offsets: OffsetRange
    closed_by: ClosedBy
    stored: bool
    behind_open: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """The boundaries of one Kafka partition that stored rows give.

    The offset of a boundary comes from either neighbour, ``closed_by`` from the earlier one alone; ``read_to`` says how far
    an open window was read.
    """

    offsets: dict[datetime, int]
    closed_by: dict[datetime, ClosedBy]
    instants: list[datetime]
    read_to: dict[datetime, int]

    def between(self, instant: datetime, offset: int) -> int:
        """Return ``offset``, moved between the stored boundaries around an instant.

        It never lies before what was read already: a message that was dated too far ahead to count may do so now.
        """
        offset = max(offset, self.read_to.get(instant, 0))
        after = bisect_left(self.instants, instant)
        if after:
            offset = max(offset, self.offsets[self.instants[after - 1]])
        if after < len(self.instants):
            offset = min(offset, self.offsets[self.instants[after]])
        return offset


_UNKNOWN = _Known({}, {}, [], {})


def instants_to_find(cells: Iterable[Cell], stored: Iterable[RawWindow]) -> frozenset[tuple[int, datetime]]:
    """Return the (Kafka partition, instant) pairs to ask the source for.

    They are the borders at which no stored window has closed.
    """
    known = _known(stored)
    return frozenset(
        (partition, instant)
        for partition, instant in _borders(cells)
        if instant not in known.get(partition, _UNKNOWN).closed_by
    )


def plan_cells(
    cells: Iterable[Cell],
    stored: Iterable[RawWindow],
    *,
    found: Mapping[tuple[int, datetime], int | None],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> tuple[PlannedCell, ...]:
    """Return every cell with its offsets.

    A cell that nothing has closed yet comes back as ``open``, up to the high watermark.
    """
    cells, stored = tuple(cells), tuple(stored)
    known = _known(stored)
    rows = {row.cell for row in stored if row.closed_by is not ClosedBy.OPEN}
    boundaries = _boundaries(cells, known, found=found, watermarks=watermarks, closing=closing)
    planned = []
    for cell in cells:
        start, before = boundaries[cell.kafka_partition, cell.window.start]
        end, closed_by = boundaries[cell.kafka_partition, cell.window.end]
        behind_open = before is ClosedBy.OPEN
        planned.append(PlannedCell(cell, OffsetRange(start, end), closed_by, cell in rows, behind_open))
    return tuple(planned)


def closed_windows(
    kafka_partition: int, windows: Iterable[Window], *, watermark: Watermark, closing: Closing
) -> tuple[Window, ...]:
    """Return the windows that have closed in a Kafka partition, judged by its greatest message time.

    A message that is dated too far ahead makes windows look closed that are not; :func:`plan_cells` gives the true boundaries.
    """
    return tuple(window for window in windows if _closed_by_time(window.end, watermark, closing) is not ClosedBy.OPEN)


def _known(stored: Iterable[RawWindow]) -> dict[int, _Known]:
    known: dict[int, _Known] = {}
    for row in stored:
        here = known.setdefault(row.cell.kafka_partition, _Known({}, {}, [], {}))
        here.offsets.setdefault(row.cell.window.start, row.offsets.start)
        if row.closed_by is not ClosedBy.OPEN:
            here.offsets[row.cell.window.end] = row.offsets.end
            here.closed_by[row.cell.window.end] = row.closed_by
        else:
            here.read_to[row.cell.window.end] = row.offsets.end
    for one in known.values():
        one.instants.extend(sorted(one.offsets))
    return known


def _borders(cells: Iterable[Cell]) -> set[tuple[int, datetime]]:
    return {(cell.kafka_partition, instant) for cell in cells for instant in (cell.window.start, cell.window.end)}


def _boundaries(
    cells: Iterable[Cell],
    known: Mapping[int, _Known],
    *,
    found: Mapping[tuple[int, datetime], int | None],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> dict[tuple[int, datetime], tuple[int, ClosedBy]]:
    """Return offset and ``closed_by`` at the borders of cells; offsets of a Kafka partition never go back.

    A partition closed by grace may get messages of an earlier time afterwards: what the source finds then lies behind what is
    stored of a later window. And messages may arrive between two questions. Stored numbers win over both.
    """
    boundaries = {}
    least: dict[int, int] = {}
    for partition, instant in sorted(_borders(cells)):
        here, offset = known.get(partition, _UNKNOWN), found.get((partition, instant))
        closed_by = _closed_by_silence(instant, closing) if offset is None else ClosedBy.MESSAGE
        if instant in here.offsets:
            least[partition] = here.offsets[instant]
        else:
            at = here.between(instant, watermarks[partition].high if offset is None else offset)
            least[partition] = max(least.get(partition, 0), at)
        boundaries[partition, instant] = least[partition], here.closed_by.get(instant, closed_by)
    return boundaries


def _closed_by_silence(instant: datetime, closing: Closing) -> ClosedBy:
    if closing.complete:
        return ClosedBy.END
    if closing.now is not None and closing.now - instant >= closing.grace:
        return ClosedBy.GRACE
    return ClosedBy.OPEN


def _closed_by_time(instant: datetime, watermark: Watermark, closing: Closing) -> ClosedBy:
    if watermark.latest is not None and watermark.latest >= instant:
        return ClosedBy.MESSAGE
    return _closed_by_silence(instant, closing)
