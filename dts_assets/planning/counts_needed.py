"""The counts of ``window_tables`` that the plans of snapshots need: of few windows, however many a subscription has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from dts_assets.planning.snapshot_plans import EMPTY_STATE, SnapshotState


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The facts about one snapshot that say which counts its plan needs.

    ``replaced`` are the windows whose changelog rows were replaced since. ``lacked_nothing`` says that it held all changes before
    the run, ``is_new`` that the changelog has rows of windows of the run alone.
    """

    state: SnapshotState
    replaced: frozenset[datetime]
    lacked_nothing: bool = False
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class CountsNeeded:
    """The windows whose counts are needed: those ``starts``, and all that start at ``since`` or later.

    ``since`` is None where the starts are enough. ``all`` stands for the windows of all time.
    """

    starts: frozenset[datetime] = frozenset()
    since: datetime | None = None
    all: bool = False


def counts_needed(snapshots: Iterable[StoredSnapshot], *, run: Collection[datetime]) -> CountsNeeded:
    """Return the windows whose counts the plans of some snapshots need.

    A snapshot that lacked nothing needs those of the run alone, any other those of the windows that it had not taken over whole.

    Args:
        snapshots: The snapshots.
        run: The starts of the windows of the run.
    """
    starts, since = set[datetime](), list[datetime]()
    for one in snapshots:
        starts |= one.replaced
        known = one.is_new if one.state == EMPTY_STATE else one.state.waits_from is None
        if one.lacked_nothing and known:
            starts.update(run)
        elif one.state.reads_from is None:
            return CountsNeeded(all=True)
        else:
            since.append(one.state.reads_from)
    least = min(since, default=None)
    return CountsNeeded(frozenset(start for start in starts if least is None or start < least), least)
