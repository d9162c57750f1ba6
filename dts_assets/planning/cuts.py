"""The cut and the frontier: up to where all tables of a subscription agree.

The cut of a window is the smallest, over Kafka partitions, of the greatest CHECKPOINT position seen at or before its end: the
vendor adds a CHECKPOINT behind the last committed transaction, so everything up to it has arrived in that partition. Tables
stand at the frontier: the last window before the first one that is not computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.frontier import EMPTY_FRONTIER, Consistency, Frontier
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import ClosedBy, Window, WindowGrid


@dataclass(frozen=True, slots=True)
class WindowCut:
    """The part of one window in the frontier.

    ``still_open`` says that the window had not closed in every Kafka partition when its tables were made: more messages of it
    may come.
    """

    window: Window
    cut: SourcePosition | None
    consistency: Consistency
    still_open: bool = False


def window_cut(row: Cut) -> WindowCut:
    """Return the cut that a mark adds to the frontier."""
    return WindowCut(row.window, row.cut, row.consistency, still_open=bool(row.open_in))


def cut_of_window(
    checkpoints: Sequence[SourcePosition | None], closed_by: Collection[ClosedBy], *, wanted: Consistency
) -> tuple[SourcePosition | None, Consistency]:
    """Return the cut of a window from all its Kafka partitions: ``(SourcePosition(0, 3, 700), Consistency.CUT)``.

    ``checkpoints`` has the greatest CHECKPOINT of each Kafka partition. A partition without a CHECKPOINT in the window, or one
    closed by the end of a complete capture, leaves no common position to stop at: such a window applies all its changes. While
    a window is open it leaves the cut where it was.
    """
    known = [checkpoint for checkpoint in checkpoints if checkpoint is not None]
    cut, common = min(known, default=None), len(known) == len(checkpoints)
    if wanted is Consistency.CUT and ClosedBy.OPEN in closed_by:
        return cut if common else None, Consistency.CUT
    if wanted is Consistency.WINDOW or ClosedBy.END in closed_by or not common:
        return cut, Consistency.WINDOW
    return cut, Consistency.CUT


def frontier(
    cuts: Mapping[datetime, WindowCut],
    grid: WindowGrid,
    *,
    first: datetime | None,
    behind: Frontier = EMPTY_FRONTIER,
) -> Frontier:
    """Return the frontier of all tables, from the cuts of all computed windows (by window start).

    ``first`` is the start of the first window that counts, in which the first message ever seen lies; None if no message was
    seen. The cut only grows: an applied change is never taken back. A window that was made while it was open is the last one of
    the frontier, however far later windows have come: its later messages are not in the changelogs yet. The cuts of windows
    up to the frontier ``behind``, which none of them ends, may be left out.
    """
    if first is None:
        return EMPTY_FRONTIER
    at, whole_until, cut = behind.window, behind.whole_until, behind.cut
    window = grid.of_start(first) if at is None else grid.next(grid.of_start(at))
    while window is not None and window.start in cuts:
        here = cuts[window.start]
        at = window.start
        if here.consistency is Consistency.WINDOW:
            whole_until = window.start
        if here.cut is not None and (cut is None or here.cut > cut):
            cut = here.cut
        window = None if here.still_open else grid.next(window)
    return Frontier(at, whole_until, cut)


def frontier_of_table(
    cuts: Mapping[datetime, WindowCut],
    grid: WindowGrid,
    *,
    first: datetime | None,
    lacking: Collection[datetime],
    behind: Frontier = EMPTY_FRONTIER,
) -> Frontier:
    """Return the frontier of a table that some windows lack.

    It ends before the first of the windows ``lacking`` it, by window start. None of these may stand before the frontier
    ``behind``.
    """
    there = {start: cut for start, cut in cuts.items() if start not in lacking}
    return frontier(there, grid, first=first, behind=behind)


def not_behind(now: Frontier, before: Frontier) -> Frontier:
    """Return ``now``, but never behind ``before``: a snapshot keeps every change that it has applied."""
    if before.window is None:
        return now
    if now.window is None:
        return before
    return Frontier(
        max(now.window, before.window),
        max((start for start in (now.whole_until, before.whole_until) if start is not None), default=None),
        max((cut for cut in (now.cut, before.cut) if cut is not None), default=None),
    )
