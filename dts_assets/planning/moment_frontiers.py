"""The frontier of a moment: the changes that tables hold as of a source position.

And the stored version of a table from which its rows at that frontier are made: one before it that takes over more changes, or
one behind it, of which changes are taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.snapshot_plans import TableWindow, last_held

_CHANGES_OF_ONE_TAKEN_BACK = 4
"""The number of changes that are taken over in the time in which one is taken back.

To take a change back is to compute its key again from all changes of the key, and to write its row anew (`benchmarks/moments`).
"""


def frontier_at(position: SourcePosition, cuts: Iterable[Cut], reached: Frontier) -> Frontier | None:
    """Return the frontier that holds all changes up to a position and none behind it.

    ``cuts`` are the marks of windows, ``reached`` is the frontier of the tables. None stands for a position in windows that count
    as a whole: nothing says that every change before it has arrived, so such windows have moments at their ends alone.
    """
    last = _last_cut(_reached(cuts, reached))
    return None if last is None or last < position else Frontier(reached.window, None, position)


def why_windows_count_as_a_whole(cuts: Iterable[Cut], reached: Frontier) -> str:
    """Return the reason why :func:`frontier_at` has no frontier of a position that is complete, as a clause."""
    rows = list(_reached(cuts, reached))
    last = _last_cut(rows)
    if last is not None:
        return f"it lies behind the last cut, {last}, and the windows from there on count as a whole"
    if any(row.cut is not None for row in rows):
        return "with consistency: window its windows count as a whole"
    return "its windows have no cut"


def _reached(cuts: Iterable[Cut], reached: Frontier) -> Iterator[Cut]:
    return (row for row in cuts if reached.window is not None and row.window.start <= reached.window)


def _last_cut(rows: Iterable[Cut]) -> SourcePosition | None:
    """Return the greatest cut of some windows, of those that do not count as a whole."""
    return max((row.cut for row in rows if row.consistency is Consistency.CUT and row.cut is not None), default=None)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A stored version of a snapshot: its frontier, and the changelog's version that it was made from."""

    snapshot_id: int
    frontier: Frontier
    changelog_snapshot: int | None


def version_to_begin_from(
    versions: Iterable[StoredVersion], wanted: Frontier, *, changelogs: Collection[int]
) -> StoredVersion | None:
    """Return the version nearest before a frontier; None where no version holds less than it.

    ``versions`` come newest first, and none holds less than an earlier one. ``changelogs`` are the versions of the changelog that
    are still there: the work behind a version is the difference to its own.
    """
    for one in versions:
        if one.changelog_snapshot in changelogs and is_held_by(one.frontier, wanted):
            return one
    return None


def version_to_go_back_from(
    versions: Iterable[StoredVersion], wanted: Frontier, *, changelogs: Collection[int]
) -> StoredVersion | None:
    """Return the version nearest behind a frontier; None where no version holds more than it.

    Arguments are those of :func:`version_to_begin_from`.
    """
    found = None
    for one in versions:
        if not _is_behind(one.frontier, wanted):
            break
        found = one if one.changelog_snapshot in changelogs else found
    return found


def _is_behind(more: Frontier, wanted: Frontier) -> bool:
    """Tell whether a version holds what a frontier does, but perhaps changes that came in later windows."""
    if more.window is None or wanted.window is None:
        return False
    if wanted.cut is not None:
        wanted = replace(wanted, window=min(wanted.window, more.window))
    return is_held_by(wanted, more)


def windows_to_take_back(windows: Iterable[TableWindow], wanted: Frontier, stands: Frontier) -> tuple[TableWindow, ...]:
    """Return the windows whose changes or statements a version may hold and a frontier does not.

    ``stands`` is the version's frontier, ``wanted`` the other one.
    """
    return tuple(
        window
        for window in windows
        if stands.holds(window.window_start, window.first)
        and not wanted.holds(window.window_start, last_held(stands, window))
    )


def is_worth_going_back(windows: Iterable[TableWindow], wanted: Frontier, stands: Frontier) -> bool:
    """Tell whether a version behind a frontier is nearer to it than an empty table is.

    It is not where a statement may have changed the table between: what it did is not taken back. ``windows`` are all windows of
    the table.
    """
    windows = tuple(windows)
    taken_back = windows_to_take_back(windows, wanted, stands)
    if any(window.statements or window.truncations for window in taken_back):
        return False
    taken_over = (one for one in windows if wanted.holds(one.window_start, one.first))
    changes = sum(one.changes for one in taken_over)
    return sum(one.changes for one in taken_back) * _CHANGES_OF_ONE_TAKEN_BACK <= changes


def is_held_by(less: Frontier, more: Frontier) -> bool:
    """Tell whether every change that a frontier holds is surely one that another frontier holds."""
    if less.window is None:
        return True
    if more.window is None or less.window > more.window:
        return False
    if less.whole_until is not None and (more.whole_until is None or less.whole_until > more.whole_until):
        return False
    return less.cut is None or (more.cut is not None and less.cut <= more.cut)
