"""The window grid: numbers, keys and neighbours are three ways to say the same window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.windows import Window, WindowGrid

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
LENGTHS = [timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 360, 1440)]

grids = st.builds(
    lambda every, windows: WindowGrid(every, START, None if windows is None else START + windows * every),
    st.sampled_from(LENGTHS),
    st.none() | st.integers(1, 500),
)
instants = st.timedeltas(timedelta(days=-2), timedelta(days=400)).map(lambda passed: START + passed)


@given(grids, st.integers(0, 20_000))
def test_a_window_comes_back_from_its_number_its_key_and_its_start(grid: WindowGrid, number: int) -> None:
    window = grid.at(number)
    assert grid.number(window.start) == number
    assert grid.of_start(window.start) == window
    assert window.end - window.start == grid.every
    if grid.end is None or window.end <= grid.end:
        assert grid.of_key(window.key) == window


@given(grids, instants)
def test_an_instant_is_in_the_one_window_that_contains_it(grid: WindowGrid, instant: datetime) -> None:
    window = grid.containing(instant)
    if window is None:
        assert instant < grid.start or (grid.end is not None and instant >= grid.end)
    else:
        assert window.start <= instant < window.end
        assert (window.start - grid.start) % grid.every == timedelta(0)


@given(grids, st.integers(0, 499))
def test_neighbours_meet_and_lead_back(grid: WindowGrid, number: int) -> None:
    window = grid.at(number)
    after, before = grid.next(window), grid.previous(window)
    if after is not None:
        assert after.start == window.end
        assert grid.previous(after) == window
    else:
        assert grid.end is not None
        assert window.end >= grid.end
    assert (before is None) == (number == 0)
    if before is not None:
        assert before.end == window.start


@given(grids, st.timedeltas(timedelta(days=-2), timedelta(hours=30)).map(lambda passed: START + passed))
def test_ended_windows_are_those_that_end_at_or_before_the_instant(grid: WindowGrid, instant: datetime) -> None:
    ended = list(grid.until(instant))
    assert ended == sorted(ended)
    assert all(one.end == other.start for one, other in pairwise(ended))
    if ended:
        assert ended[0].start == grid.start
        assert ended[-1].end <= instant
    following = grid.next(ended[-1]) if ended else grid.at(0)
    assert following is None or following.end > instant


@pytest.mark.parametrize("key", ["2026-01-05-05:30", "2026-01-04-23:00", "2026-01-06-00:00"])
def test_a_key_between_before_or_behind_the_windows_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        WindowGrid(HOUR, START, START + 24 * HOUR).of_key(key)


@pytest.mark.parametrize("key", ["", "2026-01-05", "p00|2026-01-05-05:00"])
def test_a_text_that_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"does not match|unconverted"):
        WindowGrid(HOUR, START).of_key(key)


def test_keys_are_in_utc_whatever_the_zone_of_the_instant() -> None:
    shanghai = timezone(8 * HOUR)
    window = Window(datetime(2026, 1, 5, 13, tzinfo=shanghai), datetime(2026, 1, 5, 14, tzinfo=shanghai))
    assert window.key == str(window) == "2026-01-05-05:00"
    assert WindowGrid(HOUR, START).of_key(window.key) == window
