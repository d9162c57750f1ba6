"""The cut and the frontier: up to where all tables of a subscription agree.

The cut of a window is the smallest, over Kafka partitions, of the greatest CHECKPOINT position seen at or before its end: the
vendor adds a CHECKPOINT behind the last committed transaction, so everything up to it has arrived in that partition. Tables
stand at the frontier: the last window before the first one that is not computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.frontier import EMPTY_FRONTIER, Consistency, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import ClosedBy, Window, WindowGrid


@dataclass(frozen=True, slots=True)
class WindowCut:
    """What one window adds to the frontier. ``still_open``: it had not closed in every Kafka partition when it was made, so that
    more of it may come."""

    window: Window
    cut: SourcePosition | None
    consistency: Consistency
    still_open: bool = False


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """How one Kafka partition stood at a window's end: its greatest CHECKPOINT within the window, if any."""

    kafka_partition: int
    checkpoint: SourcePosition | None
    closed_by: ClosedBy


def cut_of_window(window: Window, ends: Iterable[PartitionEnd], *, wanted: Consistency) -> WindowCut:
    """The cut of a window from all its Kafka partitions.

    A partition without a CHECKPOINT in the window, or one closed by the end of a complete capture, leaves no common position to
    stop at: such a window applies all its changes. While it is open it leaves the cut where it was.
    """
    ends = tuple(ends)
    checkpoints = [end.checkpoint for end in ends if end.checkpoint is not None]
    cut = min(checkpoints, default=None)
    ended = any(end.closed_by is ClosedBy.END for end in ends)
    if wanted is Consistency.CUT and any(end.closed_by is ClosedBy.OPEN for end in ends):
        return WindowCut(window, cut if len(checkpoints) == len(ends) else None, Consistency.CUT, still_open=True)
    if wanted is Consistency.WINDOW or ended or len(checkpoints) < len(ends):
        return WindowCut(window, cut, Consistency.WINDOW)
    return WindowCut(window, cut, Consistency.CUT)


def frontier(cuts: Mapping[datetime, WindowCut], grid: WindowGrid, *, first: datetime | None) -> Frontier:
    """Where tables stand, from the cuts of all computed windows (by window start).

    ``first`` is the start of the first window that counts, the one with the first offset ever seen; None if none was. What was
    applied is never taken back: the cut only grows. A window that was made while it was open is the last one: what came of it
    afterwards is not in the changelogs yet, however far later windows have come.
    """
    if first is None:
        return EMPTY_FRONTIER
    at, whole_until, cut = None, None, None
    window: Window | None = grid.of_start(first)
    while window is not None and window.start in cuts:
        here = cuts[window.start]
        at = window.start
        if here.consistency is Consistency.WINDOW:
            whole_until = window.start
        if here.cut is not None and (cut is None or here.cut > cut):
            cut = here.cut
        window = None if here.still_open else grid.next(window)
    return Frontier(at, whole_until, cut)


def not_behind(now: Frontier, before: Frontier) -> Frontier:
    """``now``, but never behind ``before``: what a snapshot once held stays."""
    if before.window is None:
        return now
    if now.window is None:
        return before
    return Frontier(
        max(now.window, before.window),
        max((start for start in (now.whole_until, before.whole_until) if start is not None), default=None),
        max((cut for cut in (now.cut, before.cut) if cut is not None), default=None),
    )
