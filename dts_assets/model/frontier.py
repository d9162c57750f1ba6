"""The frontier: the changes that all snapshots of a subscription hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dts_assets.model.positions import SourcePosition


class Consistency(StrEnum):
    """The changes of a window that a snapshot holds.

    ``cut``: those up to the cut, so that no transaction is torn. ``window``: all of them.
    """

    CUT = "cut"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Frontier:
    """The changes that snapshots hold.

    They hold every change of the windows up to ``whole_until`` (the start of a window; None: no window), and the changes at or
    before ``cut`` of the later windows up to ``window``.
    """

    window: datetime | None
    whole_until: datetime | None
    cut: SourcePosition | None

    def holds(self, window_start: datetime, position: SourcePosition) -> bool:
        """Return whether a change of a window at a position is part of the snapshots."""
        if self.window is None or window_start > self.window:
            return False
        if self.whole_until is not None and window_start <= self.whole_until:
            return True
        return self.cut is not None and position <= self.cut


EMPTY_FRONTIER = Frontier(None, None, None)
