"""Which closed cuts a version of a snapshot holds exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.cut_tags import TagChange, is_cut_tag, tag_of
from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.cut_tags import (
    ClosedCut,
    closed_cuts,
    moved_cuts,
    newest_windows,
    tags_of_commit,
    tags_of_unchanged,
)
from dts_assets.planning.cuts import WindowCut
from dts_assets.planning.snapshot_plans import EMPTY_STATE, SnapshotState, TableWindow, plan_snapshot

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
HOURS = [GRID.at(number) for number in range(10)]


def at(place: int) -> SourcePosition:
    return SourcePosition(0, 1, place)


def reached(hour: int) -> Frontier:
    """Behind a window, whose cut is at 100 times its end."""
    return Frontier(HOURS[hour].start, None, at(100 * hour + 100))


def cut(hour: int, **other: object) -> WindowCut:
    return replace(WindowCut(HOURS[hour], at(100 * hour + 100), Consistency.CUT), **other)  # type: ignore[arg-type]


def closed(last: int, *, keep: int = 48) -> tuple[ClosedCut, ...]:
    return closed_cuts({HOURS[n].start: cut(n) for n in range(last + 1)}, HOURS[: last + 1], keep=keep)


def changed(hour: int, first: int, last: int | None = None) -> TableWindow:
    return TableWindow(HOURS[hour].start, 1, at(first), at(first if last is None else last))


def tags(*hours: int) -> tuple[str, ...]:
    return tuple(tag_of(HOURS[hour]) for hour in hours)


def of_commit(before: int, after: int, *windows: TableWindow, replaced: tuple[int, ...] = ()) -> TagChange:
    state, starts = SnapshotState(reached(before)), [HOURS[one].start for one in replaced]
    plan = plan_snapshot(state, reached(after), changelog_snapshot=1, windows=windows, replaced=starts)
    return tags_of_commit(closed(after), reached(after), before=state, plan=plan, windows=windows, stood=True)


def test_the_version_of_before_holds_the_cuts_up_to_the_next_change() -> None:
    found = of_commit(1, 5, changed(4, 410))
    assert found.before == tags(1, 2, 3)
    assert found.after == tags(4, 5)
    assert found.stay == {*tags(0, 1, 2, 3, 4, 5)}


def test_a_change_behind_the_cut_of_its_window_belongs_to_the_next_cut() -> None:
    assert of_commit(1, 4, changed(2, 305)).before == tags(1, 2)
    assert of_commit(1, 4, changed(2, 305)).after == tags(3, 4)
    assert of_commit(1, 4, changed(2, 295, 305)).before == tags(1)
    assert of_commit(1, 4, changed(2, 295, 305)).after == tags(3, 4)


def test_tags_behind_a_window_that_was_made_again_go() -> None:
    found = of_commit(6, 7, changed(3, 310), changed(7, 710), replaced=(3,))
    assert found.stay == {*tags(0, 1, 2)}
    assert found.before == ()
    assert found.after == tags(7)


def test_a_window_that_is_empty_now_brings_no_tag_of_an_earlier_cut() -> None:
    """Changes of windows that stay are in the version, and the plan has not read their counts."""
    assert of_commit(6, 6, replaced=(3,)).after == tags(6)


def test_a_table_that_is_made_anew_keeps_no_tag() -> None:
    windows = [changed(1, 110), changed(3, 310)]
    plan = plan_snapshot(EMPTY_STATE, reached(5), changelog_snapshot=1, windows=windows, replaced=(), anew=True)
    found = tags_of_commit(closed(5), reached(5), before=EMPTY_STATE, plan=plan, windows=windows, stood=True)
    assert found == TagChange(frozenset(), (), tags(3, 4, 5))


def test_a_truncation_is_no_reason_to_forget_earlier_cuts() -> None:
    found = of_commit(1, 2, replace(changed(2, 210), truncations=1))
    assert found == TagChange(frozenset(tags(0, 1, 2)), tags(1), tags(2))


def test_open_windows_and_windows_without_a_cut_have_no_tag() -> None:
    cuts = {HOURS[n].start: cut(n) for n in range(5)}
    cuts[HOURS[1].start] = cut(1, consistency=Consistency.WINDOW)
    cuts[HOURS[2].start] = cut(2, cut=at(150))  # a cut before that of an earlier window
    cuts[HOURS[4].start] = cut(4, still_open=True)
    assert [one.tag for one in closed_cuts(cuts, HOURS[:5], keep=48)] == [*tags(0, 3)]
    found = closed_cuts(cuts, HOURS[:5], keep=1)
    assert found == (ClosedCut(HOURS[3], Frontier(HOURS[3].start, HOURS[1].start, at(400)), HOURS[0].start),)
    assert closed_cuts(cuts, HOURS[:5], keep=0) == ()


def test_windows_behind_one_without_a_mark_begin_anew() -> None:
    cuts = {HOURS[n].start: cut(n) for n in (0, 1, 3)}
    assert [one.tag for one in closed_cuts(cuts, HOURS[:4], keep=48)] == [*tags(3)]


def test_a_change_before_the_marks_that_were_read_leaves_no_tag() -> None:
    state = SnapshotState(reached(0))
    windows = (changed(1, 9999),)
    plan = plan_snapshot(state, reached(5), changelog_snapshot=1, windows=windows, replaced=())
    known = closed_cuts({HOURS[n].start: cut(n) for n in (3, 4, 5)}, HOURS[3:6], keep=48)
    assert tags_of_commit(known, reached(5), before=state, plan=plan, windows=windows, stood=True).before == ()


@pytest.mark.parametrize(("stands_at", "there", "lacking"), [(2, (), (2, 3, 4)), (2, (2, 3), (4,)), (4, (4,), ())])
def test_a_table_without_a_change_gets_what_it_lacks(stands_at: int, there: tuple[int, ...], lacking: object) -> None:
    found = tags_of_unchanged(closed(4), reached(stands_at), tags(*there), reached(4))
    assert (found.before if found is not None else ()) == tags(*lacking)  # type: ignore[misc]


def test_a_table_that_stands_behind_a_cut_is_not_tagged_with_it() -> None:
    beyond = Frontier(HOURS[4].start, None, at(505))
    assert tags_of_unchanged(closed(4), beyond, (), beyond) is None


def test_cuts_that_stand_elsewhere_are_named() -> None:
    before = closed(3)
    later = closed_cuts(
        {HOURS[n].start: cut(n, **({"cut": at(250)} if n == 1 else {})) for n in range(4)}, HOURS[:4], keep=9
    )
    assert moved_cuts(before, later) == {*tags(1)}
    assert moved_cuts(before, before[:2]) == {*tags(2, 3)}
    assert moved_cuts(before, before) == frozenset()


def test_newest_windows_end_with_the_frontier_and_begin_with_the_grid() -> None:
    assert newest_windows(GRID, reached(4), 3) == HOURS[2:5]
    assert newest_windows(GRID, reached(1), 3) == HOURS[:2]
    assert newest_windows(GRID, Frontier(None, None, None), 3) == []


def test_names_of_other_people_are_no_tags_of_ours() -> None:
    assert is_cut_tag(tag_of(HOURS[3]))
    assert not any(is_cut_tag(name) for name in ("main", "cut-mine", "cut-2026-01-05", "xcut-2026-01-05-03:00"))
