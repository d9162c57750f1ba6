"""The frontier of a moment: the changes that tables hold as of a source position.

And the stored version of a table from which its rows at that frontier are made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.positions import SourcePosition


def frontier_at(position: SourcePosition, cuts: Iterable[Cut], reached: Frontier) -> Frontier | None:
    """Return the frontier that holds all changes up to a position and none behind it.

    ``cuts`` are the marks of windows, ``reached`` is the frontier of the tables. None stands for a position in windows that count
    as a whole: nothing says that every change before it has arrived, so such windows have moments at their ends alone.
    """
    held = (
        row
        for row in cuts
        if reached.window is not None
        and row.window.start <= reached.window
        and row.consistency is Consistency.CUT
        and row.cut is not None
        and row.cut >= position
    )
    if next(held, None) is None:
        return None
    return Frontier(reached.window, None, position)


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


def is_held_by(less: Frontier, more: Frontier) -> bool:
    """Tell whether every change that a frontier holds is surely one that another frontier holds."""
    if less.window is None:
        return True
    if more.window is None or less.window > more.window:
        return False
    if less.whole_until is not None and (more.whole_until is None or less.whole_until > more.whole_until):
        return False
    return less.cut is None or (more.cut is not None and less.cut <= more.cut)
