"""Windows for a topic of which only the times are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.windows import WindowGrid
from dts_assets.planning.suggested_windows import suggest_windows
from dts_assets.settings.values import divides_a_day, is_aligned
from tests.tiers import examples

MORNING = datetime(2026, 1, 5, 8, 1, tzinfo=UTC)
TIMES = st.datetimes(datetime(1960, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("span", "every"),
    [
        (timedelta(0), timedelta(minutes=5)),
        (timedelta(hours=1), timedelta(minutes=5)),
        (timedelta(hours=8), timedelta(minutes=30)),
        (timedelta(hours=23), timedelta(hours=1)),
        (timedelta(days=400), timedelta(days=1)),
    ],
)
def test_a_recording_has_some_windows_and_not_many(span: timedelta, every: timedelta) -> None:
    found = suggest_windows(MORNING, MORNING + span, goes_on=False)
    assert found.every == every
    assert found.end is not None
    assert found.start <= MORNING <= MORNING + span < found.end


def test_a_topic_that_goes_on_has_no_end_and_hours_at_least() -> None:
    found = suggest_windows(MORNING, MORNING, goes_on=True)
    assert (found.every, found.start, found.end) == (timedelta(hours=1), MORNING.replace(minute=0), None)


def test_messages_without_a_time_do_not_begin_windows_in_1970() -> None:
    found = suggest_windows(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), MORNING, goes_on=True)
    assert found.early
    assert found.start.year == 2000


def test_a_topic_of_messages_without_a_time_has_a_window_for_them() -> None:
    none = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    found = suggest_windows(none, none, goes_on=False)
    assert not found.early
    assert found.start <= none < (found.end or none)


@given(TIMES, TIMES, st.booleans())
@example(MORNING, MORNING - timedelta(days=1), False)
@examples(300)
def test_every_answer_is_one_that_the_configuration_takes(first: datetime, last: datetime, goes_on: bool) -> None:
    found = suggest_windows(first, last, goes_on=goes_on)
    assert divides_a_day(found.every) == found.every
    assert is_aligned(found.start, found.every)
    grid = WindowGrid(found.every, found.start, found.end)
    if found.end is not None:
        assert is_aligned(found.end, found.every)
        inside = [instant for instant in (first, last) if instant.year >= 2000 and first <= last]
        assert all(grid.containing(instant) is not None for instant in inside)
    assert found.early == (first.year < 2000 <= last.year)
