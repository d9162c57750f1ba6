"""Which offsets a window is: boundaries found once, stored, and shared by both neighbours.

A boundary at an instant is the offset of the first message dated at or after it. Once a window's row is stored, its two
numbers are the truth: neighbours take them over, a replay reads the same offsets, and a clock that jumps cannot move them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window


class ClosedBy(StrEnum):
    """What ended a window: a later message, the declared grace, the end of a complete capture; ``open`` if nothing did."""

    MESSAGE = "message"
    GRACE = "grace"
    END = "end"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class StoredCell:
    """The offsets of a cell as its raw row holds them."""

    cell: Cell
    offsets: OffsetRange
    closed_by: ClosedBy


@dataclass(frozen=True, slots=True)
class Closing:
    """How windows of a subscription close."""

    complete: bool
    grace: timedelta
    now: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with its offsets; ``stored`` if they were in the ledger already."""

    cell: Cell
    offsets: OffsetRange
    closed_by: ClosedBy
    stored: bool


@dataclass(frozen=True, slots=True)
class _Boundary:
    offset: int
    closed_by: ClosedBy


def instants_to_find(cells: Iterable[Cell], stored: Iterable[StoredCell]) -> frozenset[tuple[int, datetime]]:
    """The (Kafka partition, instant) pairs whose offset no stored row knows: what to ask the source for."""
    known = _known(stored)
    wanted = {(cell.kafka_partition, instant) for cell in cells for instant in (cell.window.start, cell.window.end)}
    return frozenset(wanted - known.keys())


def plan_cells(
    cells: Iterable[Cell],
    stored: Iterable[StoredCell],
    *,
    found: Mapping[tuple[int, datetime], int | None],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> tuple[PlannedCell, ...]:
    """The offsets of every cell; a cell that nothing has closed yet comes back as ``open``, up to the high watermark."""
    stored = tuple(stored)
    known = _known(stored)
    rows = {row.cell for row in stored if row.closed_by is not ClosedBy.OPEN}
    planned = []
    for cell in cells:
        start = _boundary(cell.kafka_partition, cell.window.start, known, found, watermarks, closing)
        end = _boundary(cell.kafka_partition, cell.window.end, known, found, watermarks, closing)
        start_offset = max(start.offset, _floor(cell.kafka_partition, cell.window.start, known))
        offsets = OffsetRange(start_offset, max(start_offset, end.offset))
        planned.append(PlannedCell(cell, offsets, end.closed_by, cell in rows))
    return tuple(planned)


def closed_windows(
    kafka_partition: int,
    windows: Iterable[Window],
    *,
    watermark: Watermark,
    closing: Closing,
) -> tuple[Window, ...]:
    """Those of ``windows`` that have closed in a Kafka partition, judged by its greatest message time alone."""
    return tuple(window for window in windows if _closed_by_time(window.end, watermark, closing) is not ClosedBy.OPEN)


def _known(stored: Iterable[StoredCell]) -> dict[tuple[int, datetime], _Boundary]:
    known: dict[tuple[int, datetime], _Boundary] = {}
    for row in stored:
        known.setdefault(
            (row.cell.kafka_partition, row.cell.window.start), _Boundary(row.offsets.start, ClosedBy.MESSAGE)
        )
        if row.closed_by is not ClosedBy.OPEN:
            known[row.cell.kafka_partition, row.cell.window.end] = _Boundary(row.offsets.end, row.closed_by)
    return known


def _boundary(
    kafka_partition: int,
    instant: datetime,
    known: Mapping[tuple[int, datetime], _Boundary],
    found: Mapping[tuple[int, datetime], int | None],
    watermarks: Mapping[int, Watermark],
    closing: Closing,
) -> _Boundary:
    if stored := known.get((kafka_partition, instant)):
        return stored
    offset = found.get((kafka_partition, instant))
    if offset is not None:
        return _Boundary(offset, ClosedBy.MESSAGE)
    watermark = watermarks[kafka_partition]
    return _Boundary(watermark.high, _closed_by_silence(instant, closing))


def _closed_by_silence(instant: datetime, closing: Closing) -> ClosedBy:
    if closing.complete:
        return ClosedBy.END
    if closing.now is not None and closing.now >= instant + closing.grace:
        return ClosedBy.GRACE
    return ClosedBy.OPEN


def _closed_by_time(instant: datetime, watermark: Watermark, closing: Closing) -> ClosedBy:
    if watermark.latest is not None and watermark.latest >= instant:
        return ClosedBy.MESSAGE
    return _closed_by_silence(instant, closing)


def _floor(kafka_partition: int, instant: datetime, known: Mapping[tuple[int, datetime], _Boundary]) -> int:
    """A window never begins before the end of an earlier one: a partition closed by grace may hold late messages."""
    return max(
        (
            boundary.offset
            for (partition, known_instant), boundary in known.items()
            if partition == kafka_partition and known_instant <= instant
        ),
        default=0,
    )
