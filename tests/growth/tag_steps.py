"""Tags of closed cuts, as windows and the counts of a table become more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.cut_tags import closed_cuts, moved_cuts, newest_windows, tags_of_commit, tags_of_unchanged
from dts_assets.planning.cuts import WindowCut
from dts_assets.planning.snapshot_plans import SnapshotState, TableWindow, plan_snapshot
from tests.growth.ledgers import GRID, windows
from tests.growth.long_histories import Case


def _cuts(count: int) -> dict[datetime, WindowCut]:
    return {one.start: WindowCut(one, _at(n), Consistency.CUT) for n, one in enumerate(windows(count))}


def _at(number: int) -> SourcePosition:
    return SourcePosition(0, 1, 10 * number + 9)


def _tag(cuts: Mapping[datetime, WindowCut]) -> None:
    starts = list(cuts)
    reached = Frontier(starts[-1], None, _at(len(starts) - 1))
    some = newest_windows(GRID, reached, len(cuts))
    closed = closed_cuts(cuts, some, keep=48)
    moved_cuts(closed_cuts(cuts, some, keep=len(cuts)), closed)
    counts = [TableWindow(start, 1, _at(n).previous, _at(n).previous) for n, start in enumerate(starts)]
    before = SnapshotState(Frontier(starts[0], None, _at(0)))
    plan = plan_snapshot(before, reached, changelog_snapshot=1, windows=counts, replaced=())
    tags_of_commit(closed, reached, before=before, plan=plan, windows=counts, stood=True)
    tags_of_unchanged(closed, before.frontier, (), reached)


TAG_STEPS: dict[str, Case] = {"windows whose cuts have tags": (_cuts, _tag)}
"""By kind: what makes a list, and what is done with it."""
