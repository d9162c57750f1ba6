"""The part of the source that is read for each cell, and the gaps that its mark names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.boundaries import PlannedCell

_NAMED_OFFSETS = 5


@dataclass(frozen=True, slots=True)
class RawRead:
    """The reading of a cell in ``parts``, each with a generation of its own.

    ``appends_to`` is the stored row that the parts are appended to, None where the whole cell is read.
    """

    plan: PlannedCell
    parts: tuple[OffsetRange, ...]
    appends_to: RawWindow | None = None

    @property
    def offsets(self) -> OffsetRange:
        """All offsets that are read."""
        return OffsetRange(self.parts[0].start, self.parts[-1].end)

    def still_there(self, watermark: Watermark) -> OffsetRange:
        """Return the offsets that the source still has; the row names the others as a gap."""
        return OffsetRange(max(self.offsets.start, watermark.low), self.offsets.end)


def plan_read(plan: PlannedCell, row: RawWindow | None, *, low: int = 0) -> RawRead:
    """Return the reading of a cell, by its stored row and the first offset at the source.

    An open cell is read on from its end; one of another code version is read whole, unless the source has forgotten its begin. A
    cell that has closed is read again in the parts in which it was read first, so that it gets the same generation again.
    """
    if row is None or not row.refreshes:
        return RawRead(plan, (plan.offsets,))
    is_of_now = row.code_version == CODE_VERSION
    is_open = row.closed_by is ClosedBy.OPEN and row.offsets.start == plan.offsets.start
    if not is_of_now and not (is_open and low > row.offsets.start):
        return RawRead(plan, (plan.offsets,))
    if is_open:
        return RawRead(plan, (OffsetRange(row.offsets.end, max(plan.offsets.end, row.offsets.end)),), row)
    ends = [one.end_offset for one in row.refreshes if one.end_offset < plan.offsets.end]
    return RawRead(plan, tuple(map(OffsetRange, [plan.offsets.start, *ends], [*ends, plan.offsets.end])))


def is_gone(plan: PlannedCell, watermark: Watermark) -> bool:
    """Return whether a stored cell can no longer be read again in full.

    Its stored messages then stay.
    """
    return plan.stored and bool(len(plan.offsets)) and watermark.low > plan.offsets.start


def gap_of(offsets: OffsetRange, watermark: Watermark) -> list[Problem]:
    """Return the gap of a reading: offsets that the source has forgotten before they were stored."""
    lost = OffsetRange(offsets.start, min(watermark.low, offsets.end))
    if not len(lost):
        return []
    detail = f"the source no longer has offsets {lost}; they were never stored"
    return [Problem(ProblemCode.GAP, lost.start, lost.end - 1, detail)]


def gap_before(plan: PlannedCell, before: RawWindow, watermark: Watermark) -> list[Problem]:
    """Return the gap at the end of the window before, if it may hold messages of this window.

    Lost messages have no times. If the oldest message that is still there is not dated after the start of this window, all lost
    ones were of earlier windows.
    """
    if watermark.earliest is not None and watermark.earliest <= plan.cell.window.start:
        return []
    return [
        Problem(
            ProblemCode.GAP,
            one.first_offset,
            one.last_offset,
            "messages of this window may be among those that are lost",
        )
        for one in before.problems
        if one.code is ProblemCode.GAP and one.last_offset == plan.offsets.start - 1
    ]


def problems_of_read(
    read: RawRead, watermark: Watermark, *, row_before: RawWindow | None, skewed: Sequence[int]
) -> tuple[Problem, ...]:
    """Return the problems of a reading: gaps, and messages dated beyond now.

    Args:
        read: The reading.
        watermark: The watermark of its Kafka partition.
        row_before: The mark of raw of the window before. A gap at its end counts where a window is read from its start.
        skewed: The offsets read whose message time lies too far ahead, ascending.
    """
    problems = gap_of(read.offsets, watermark)
    if skewed:
        named = ", ".join(str(offset) for offset in skewed[:_NAMED_OFFSETS])
        detail = f"{len(skewed)} messages are dated beyond now and were read past: offsets {named}"
        problems.append(Problem(ProblemCode.CLOCK, skewed[0], skewed[-1], detail))
    if read.appends_to is None and row_before is not None:
        problems = gap_before(read.plan, row_before, watermark) + problems
    return tuple(problems)
