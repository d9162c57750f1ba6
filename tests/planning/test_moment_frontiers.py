"""The version of a table that a moment is made from: before it, behind it, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.moment_frontiers import (
    StoredVersion,
    is_worth_going_back,
    version_to_begin_from,
    version_to_go_back_from,
    windows_to_take_back,
)
from dts_assets.planning.snapshot_plans import TableWindow

START = datetime(2026, 3, 1, 10, tzinfo=UTC)


def hour(number: int) -> datetime:
    return START + timedelta(hours=number)


def at(place: int) -> SourcePosition:
    return SourcePosition(0, 1, place)


def version(number: int, *, log: int = 1) -> StoredVersion:
    """The version behind window `number`, whose cut stands at its end: 100 for window 0."""
    return StoredVersion(number, Frontier(hour(number), None, at(100 * (number + 1))), log)


def window(number: int, *, changes: int = 10, truncations: int = 0, statements: int = 0) -> TableWindow:
    first, last = at(100 * number + 1), at(100 * number + 100)
    return TableWindow(hour(number), changes, first, last, truncations=truncations, statements=statements)


def moment(place: int, *, reached: int = 5) -> Frontier:
    """A position in a lake whose last complete window is `reached`."""
    return Frontier(hour(reached), None, at(place))


NEWEST_FIRST = [version(5), version(4), version(2)]


@pytest.mark.parametrize(
    ("place", "before", "behind"), [(250, None, 2), (300, 2, 2), (301, 2, 4), (500, 4, 4), (600, 5, 5), (601, 5, None)]
)
def test_versions_before_and_behind_a_position(place: int, before: int | None, behind: int | None) -> None:
    found = version_to_begin_from(NEWEST_FIRST, moment(place), changelogs={1})
    assert (found and found.snapshot_id) == before
    found = version_to_go_back_from(NEWEST_FIRST, moment(place), changelogs={1})
    assert (found and found.snapshot_id) == behind


def test_a_version_whose_changelog_has_expired_is_passed_over() -> None:
    versions = [version(5), version(4, log=0), version(2, log=0)]
    found = version_to_go_back_from(versions, moment(250), changelogs={1})
    assert found is not None
    assert found.snapshot_id == 5
    assert version_to_go_back_from([version(4, log=0)], moment(250), changelogs={1}) is None


def test_the_end_of_a_window_that_counts_as_a_whole_has_versions_behind_it() -> None:
    versions = [StoredVersion(number, Frontier(hour(number), hour(number), None), 1) for number in (5, 3)]
    wanted = Frontier(hour(2), hour(2), None)
    found = version_to_go_back_from(versions, wanted, changelogs={1})
    assert found is not None
    assert found.snapshot_id == 3
    assert version_to_go_back_from(versions, EMPTY_FRONTIER, changelogs={1}) is None


def test_windows_are_taken_back_as_far_as_the_version_reaches() -> None:
    """The window that the moment lies in is among them, and one that came late with an old position is not."""
    windows = [window(number) for number in range(6)]
    late = TableWindow(hour(4), 3, at(20), at(30))
    taken_back = windows_to_take_back([*windows, late], moment(250), version(3).frontier)
    assert [one.window_start for one in taken_back] == [hour(2), hour(3)]
    assert windows_to_take_back(windows, moment(400), version(3).frontier) == ()


@pytest.mark.parametrize(
    ("windows", "worth"),
    [
        ([window(0, changes=80), window(1, changes=20)], True),
        ([window(0, changes=79), window(1, changes=20)], False),
        ([window(0, changes=80), window(1, changes=20, statements=1)], False),
        ([window(0, changes=80), window(1, changes=20, truncations=1)], False),
        ([window(0, changes=80, statements=1), window(1, changes=20)], True),
        ([window(1, changes=20)], False),
        ([], True),
    ],
)
def test_going_back_is_worth_it_for_few_changes_without_a_statement(windows: list[TableWindow], worth: bool) -> None:
    assert is_worth_going_back(windows, moment(100), version(1).frontier) is worth
