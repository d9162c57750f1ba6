"""The cut of a window, and the frontier: up to where all tables agree, and never back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.frontier import EMPTY_FRONTIER, Consistency, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.cuts import WindowCut, cut_of_window, frontier, not_behind

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
GRID = WindowGrid(HOUR, START)
CUT, WINDOW = Consistency.CUT, Consistency.WINDOW


def position(number: int) -> SourcePosition:
    return SourcePosition(0, 1 + number // 10, number % 10)


def at(hour: int) -> datetime:
    return START + hour * HOUR


# The cut of one window


@dataclass(frozen=True)
class Case:
    checkpoints: tuple[int | None, ...]
    cut: int | None
    consistency: Consistency
    closed_by: tuple[ClosedBy, ...] = ()
    wanted: Consistency = CUT


CASES = {
    "the smallest of the greatest CHECKPOINTs": Case((31, 25, 40), 25, CUT),
    "compared as numbers over files": Case((9, 10), 9, CUT),
    "closed by grace but with a CHECKPOINT": Case((31, 25), 25, CUT, (ClosedBy.MESSAGE, ClosedBy.GRACE)),
    "one partition gave no CHECKPOINT": Case((31, None), 31, WINDOW),
    "no partition gave one": Case((None, None), None, WINDOW),
    "one partition was closed by the end": Case((31, 25), 25, WINDOW, (ClosedBy.MESSAGE, ClosedBy.END)),
    "whole windows are wanted": Case((31, 25), 25, WINDOW, wanted=WINDOW),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_cut_of_a_window(case: Case) -> None:
    closed_by = case.closed_by or (ClosedBy.MESSAGE,) * len(case.checkpoints)
    checkpoints = [None if checkpoint is None else position(checkpoint) for checkpoint in case.checkpoints]
    expected = None if case.cut is None else position(case.cut)
    assert cut_of_window(checkpoints, closed_by, wanted=case.wanted) == (expected, case.consistency)
    assert cut_of_window(checkpoints[::-1], closed_by[::-1], wanted=case.wanted) == (expected, case.consistency)


# The frontier


def cut(hour: int, number: int | None, consistency: Consistency = CUT) -> WindowCut:
    return WindowCut(GRID.at(hour), None if number is None else position(number), consistency)


def reached(*cuts: WindowCut, first: int | None = 0, grid: WindowGrid = GRID) -> Frontier:
    start = None if first is None else at(first)
    return frontier({one.window.start: one for one in cuts}, grid, first=start)


def test_before_anything_was_seen_or_computed_the_frontier_holds_nothing() -> None:
    assert reached(cut(0, 5), first=None) == EMPTY_FRONTIER
    assert reached() == EMPTY_FRONTIER
    assert reached(cut(1, 5)) == EMPTY_FRONTIER


def test_the_frontier_stops_before_the_first_window_that_is_missing() -> None:
    assert reached(cut(0, 5), cut(1, 9), cut(3, 30)) == Frontier(at(1), None, position(9))
    assert reached(cut(0, 5), cut(1, 9), cut(2, 20), cut(3, 30)) == Frontier(at(3), None, position(30))


def test_windows_before_the_first_message_do_not_count() -> None:
    assert reached(cut(2, 20), cut(3, 30), first=2) == Frontier(at(3), None, position(30))


def test_a_window_that_applies_all_its_changes_holds_the_earlier_ones_whole() -> None:
    assert reached(cut(0, 5), cut(1, None, WINDOW), cut(2, 9)) == Frontier(at(2), at(1), position(9))
    assert reached(cut(0, 5), cut(1, 7, WINDOW)) == Frontier(at(1), at(1), position(7))


def test_a_cut_that_goes_back_takes_nothing_back() -> None:
    assert reached(cut(0, 9), cut(1, 5)) == Frontier(at(1), None, position(9))


def test_the_frontier_ends_with_the_grid() -> None:
    two = WindowGrid(HOUR, START, START + 2 * HOUR)
    assert reached(cut(0, 5), cut(1, 9), grid=two) == Frontier(at(1), None, position(9))


cuts = st.dictionaries(
    st.integers(0, 6), st.tuples(st.none() | st.integers(0, 60), st.sampled_from(Consistency)), max_size=7
).map(lambda found: [cut(hour, number, consistency) for hour, (number, consistency) in found.items()])
frontiers = st.builds(reached, first=st.none() | st.integers(0, 3)) | cuts.map(lambda found: reached(*found))
changes = st.tuples(st.integers(0, 7), st.integers(0, 60)).map(lambda pair: (at(pair[0]), position(pair[1])))


@given(cuts, cuts, changes)
def test_computing_more_windows_never_takes_a_change_back(
    some: list[WindowCut], more: list[WindowCut], change: tuple[datetime, SourcePosition]
) -> None:
    have = {one.window.start for one in some}
    grown = [*some, *(one for one in more if one.window.start not in have)]
    if reached(*some).holds(*change):
        assert reached(*grown).holds(*change)


@given(frontiers, frontiers, changes)
def test_what_a_snapshot_held_stays_and_what_is_reached_is_held(
    now: Frontier, before: Frontier, change: tuple[datetime, SourcePosition]
) -> None:
    after = not_behind(now, before)
    if now.holds(*change) or before.holds(*change):
        assert after.holds(*change)
    assert not_behind(after, before) == after
    assert not_behind(after, now) == after


@given(frontiers)
def test_a_frontier_is_not_behind_itself_nor_behind_nothing(now: Frontier) -> None:
    assert not_behind(now, now) == not_behind(now, EMPTY_FRONTIER) == not_behind(EMPTY_FRONTIER, now) == now


def test_a_window_that_was_made_while_it_was_open_is_the_last_one() -> None:
    grid = WindowGrid(timedelta(hours=1), datetime(2026, 3, 1, tzinfo=UTC))
    first, second, third = (grid.at(number) for number in range(3))
    made = {
        window.start: WindowCut(window, SourcePosition(0, 1, number), Consistency.CUT, still_open=window == second)
        for number, window in enumerate((first, second, third))
    }
    found = frontier(made, grid, first=first.start)
    assert (found.window, found.cut) == (second.start, SourcePosition(0, 1, 1))
    made[second.start] = replace(made[second.start], still_open=False)
    assert frontier(made, grid, first=first.start).window == third.start
