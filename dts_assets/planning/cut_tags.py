"""The tags that a commit of a snapshot sets and removes.

A version holds a cut if no change of its table lies between. So most tags cost no commit of their own: those of the cut that a
run stops at, and those of earlier cuts through which the table did not change, come with the commit of the next change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.cut_tags import TagChange, tag_of
from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.cuts import WindowCut
from dts_assets.planning.snapshot_plans import SnapshotPlan, SnapshotState, TableWindow, last_held

TAGGED_UNCHANGED = 100
"""The most tables of a subscription in which tables without a change are tagged, too.

That is a commit of its own for each of them.
"""


@dataclass(frozen=True, slots=True)
class ClosedCut:
    """A closed window with a cut, and the frontier behind it.

    ``since`` is the start of the first window whose mark was read: what earlier windows hold beyond cuts is not in the frontier.
    """

    window: Window
    frontier: Frontier
    since: datetime

    @property
    def tag(self) -> str:
        """The name of the tag."""
        return tag_of(self.window)


def newest_windows(grid: WindowGrid, reached: Frontier, count: int) -> list[Window]:
    """Return the newest windows up to a frontier, the oldest first."""
    found: list[Window] = []
    window = None if reached.window is None else grid.of_start(reached.window)
    while window is not None and len(found) < count:
        found.append(window)
        window = grid.previous(window)
    return found[::-1]


def closed_cuts(cuts: Mapping[datetime, WindowCut], windows: Sequence[Window], *, keep: int) -> tuple[ClosedCut, ...]:
    """Return the newest cuts that are closed, of neighbouring windows with their marks, the oldest first."""
    found: list[ClosedCut] = []
    whole_until: datetime | None = None
    cut: SourcePosition | None = None
    for window in windows:
        here = cuts.get(window.start)
        if here is None:
            found, whole_until, cut = [], None, None  # nothing says what lies between
            continue
        if here.consistency is Consistency.WINDOW:
            whole_until = window.start
        grows = here.cut is not None and (cut is None or here.cut >= cut)
        cut = here.cut if grows else cut
        if here.consistency is Consistency.CUT and not here.still_open and grows:
            found.append(ClosedCut(window, Frontier(window.start, whole_until, cut), windows[0].start))
    return tuple(found[-keep:]) if keep else ()


def tags_of_commit(
    closed: Iterable[ClosedCut],
    reached: Frontier,
    *,
    before: SnapshotState,
    plan: SnapshotPlan,
    windows: Collection[TableWindow],
    stood: bool,
) -> TagChange:
    """Return the tags of a commit that brings a snapshot from a state to that of a plan.

    Args:
        closed: The closed cuts whose tags are kept.
        reached: The frontier of the run.
        before: The state that the snapshot is in; an empty one says that nothing is known of the rows that stand.
        plan: The plan of the commit.
        windows: The counts of the table in all windows with changes that ``before`` does not hold.
        stood: Whether there is a version to which the commit comes.
    """
    known = before.frontier.window is not None
    first = min(plan.replaced, default=None)
    right = [one for one in closed if known and (first is None or one.window.start < first)]
    after = plan.state.frontier
    behind = [one for one in closed if not known or _is_at_or_behind(one, before.frontier)]
    made = [one for one in behind if _is_version_of(one, after, windows, reached)]
    names = {one.tag for one in made}
    earlier = [
        one.tag
        for one in right
        if stood
        and one in behind
        and one.tag not in names
        and _holds_all_of(before.frontier, one, windows, until=after)
    ]
    return TagChange(frozenset(one.tag for one in right), tuple(earlier), tuple(one.tag for one in made))


def tags_of_unchanged(
    closed: Iterable[ClosedCut], stands_at: Frontier, there: Collection[str], until: Frontier
) -> TagChange | None:
    """Return the tags that a table lacks in which nothing has changed between two frontiers.

    None stands for a table that has them. ``there`` are the tags that it has. Others go with the same commit.
    """
    closed = list(closed)
    lacking = [
        one.tag
        for one in closed
        if one.tag not in there
        and until.window is not None
        and one.window.start <= until.window
        and _is_at_or_behind(one, stands_at)
    ]
    return TagChange(frozenset(one.tag for one in closed), tuple(lacking)) if lacking else None


def _is_version_of(closed: ClosedCut, after: Frontier, windows: Iterable[TableWindow], reached: Frontier) -> bool:
    """Return whether rows at a frontier are those of a closed cut at or before it."""
    if after.window is None or closed.window.start > after.window:
        return False
    if closed.window.start == after.window and after == reached:
        return True  # the run stops there
    return all(
        closed.frontier.holds(one.window_start, last_held(after, one))
        for one in windows
        if after.holds(one.window_start, one.first)
    )


def _holds_all_of(before: Frontier, closed: ClosedCut, windows: Iterable[TableWindow], *, until: Frontier) -> bool:
    """Return whether rows at a frontier are those of a later closed cut.

    The counts are known up to the frontier ``until``.
    """
    start = closed.window.start
    if until.window is None or start > until.window:
        return False
    for one in windows:
        if one.window_start > start or before.holds(one.window_start, one.last):
            continue
        if one.window_start < closed.since:
            return False
        if closed.frontier.holds(one.window_start, one.first) and not before.holds(
            one.window_start, last_held(closed.frontier, one)
        ):
            return False
    return True


def _is_at_or_behind(closed: ClosedCut, stands_at: Frontier) -> bool:
    """Return whether a closed cut holds all that rows at a frontier hold."""
    if stands_at.window is None or closed.window.start < stands_at.window:
        return False
    cut = closed.frontier.cut
    return stands_at.cut is None or (cut is not None and stands_at.cut <= cut)


def moved_cuts(before: Iterable[ClosedCut], after: Iterable[ClosedCut]) -> frozenset[str]:
    """Return the tags of closed cuts that now stand elsewhere, or are none any more."""
    now = {one.tag: one.frontier for one in after}
    return frozenset(one.tag for one in before if now.get(one.tag) != one.frontier)
