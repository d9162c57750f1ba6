"""The latch that failed runs leave: it grows, it ends, and it ends at once where somebody has changed something."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.latches import LONGEST_PAUSE, Failure, Latch, Trouble, latch_after, pause_after

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
LASTING, PASSING, UNKNOWN = Trouble.LASTING, Trouble.PASSING, Trouble.UNKNOWN


def failure(minute: float, trouble: Trouble = LASTING) -> Failure:
    """A run that began at a minute and failed some seconds later."""
    return Failure(f"{minute:g}", START + minute * MINUTE, START + minute * MINUTE + 5 * SECOND, trouble)


def latch(failures: Iterable[Failure], *, minute: float = 500, changed: datetime | None = None) -> Latch:
    found = latch_after(failures, changed=changed, now=START + minute * MINUTE)
    assert found is not None
    return found


def pauses(trouble: Trouble, count: int = 8) -> list[float]:
    return [pause_after(number, trouble) / MINUTE for number in range(1, count + 1)]


def test_pauses_grow_up_to_half_an_hour() -> None:
    assert pauses(LASTING) == [1, 2, 4, 8, 16, 30, 30, 30]
    assert pauses(UNKNOWN) == [0, 0, 1, 2, 4, 8, 16, 30]
    assert pauses(PASSING) == [0, 0, 1, 2, 2, 2, 2, 2]
    assert pause_after(10**6, LASTING) == LONGEST_PAUSE


def test_nothing_that_failed_is_no_latch() -> None:
    assert latch_after([], changed=None, now=START) is None


def test_a_subscription_that_nobody_mends_is_looked_at_for_ever() -> None:
    """As the sensor does: it asks when the latch lets it, and the run fails again."""
    now, failures, tried = START, [failure(0)], []
    while now < START + timedelta(days=1):
        now = latch(failures, minute=(failures[-1].ended - START) / MINUTE).until
        failures.append(failure((now - START) / MINUTE))
        tried.append((now - START) / MINUTE)
    assert len(tried) > 45
    assert max(after - before for before, after in pairwise(tried)) < 30.2


@pytest.mark.parametrize(
    ("failures", "count"),
    [
        ([failure(0)], 1),
        ([failure(0), failure(1), failure(3)], 3),
        ([failure(3), failure(0), failure(1)], 3),
        ([failure(0), failure(1), failure(300)], 1),
        ([failure(0), failure(59), failure(118)], 3),
    ],
    ids=["one", "in a row", "in any order", "after a long time without one", "at the longest pauses"],
)
def test_failures_in_a_row_are_counted(failures: list[Failure], count: int) -> None:
    found = latch(failures)
    assert found.failures == count
    latest = max(failures, key=lambda one: one.ended)
    assert (found.run, found.ended) == (latest.run, latest.ended)
    assert found.until == found.ended + pause_after(count, LASTING)


def test_the_latest_failure_says_what_kind_of_trouble_it_is() -> None:
    assert latch([failure(0), failure(1, PASSING)]).until == failure(1).ended
    assert latch([failure(0, PASSING), failure(1)]).until == failure(1).ended + 2 * MINUTE


def test_a_changed_configuration_is_tried_at_once_and_counts_anew() -> None:
    many = [failure(number) for number in range(5)]
    changed = START + 10 * MINUTE
    assert latch(many, changed=changed, minute=10).until <= changed
    again = latch([*many, failure(11)], changed=changed, minute=11.5)
    assert (again.failures, again.until) == (1, failure(11).ended + MINUTE)
    # The run had read the old configuration before it was changed, and failed after.
    slow = Failure("slow", START, START + 20 * MINUTE, LASTING)
    assert not latch([slow], changed=changed, minute=20).holds(START + 20 * MINUTE)


@pytest.mark.parametrize("ahead", [MINUTE, timedelta(days=400)])
def test_a_clock_that_was_set_back_latches_nothing(ahead: timedelta) -> None:
    future = Failure("future", START + ahead, START + ahead + SECOND, LASTING)
    found = latch_after([future], changed=None, now=START)
    assert found is not None
    assert not found.holds(START)


def test_a_failure_from_the_future_hides_none_that_came_since() -> None:
    """Else each try would be asked for under the key of the one before, which Dagster never runs again."""
    future = Failure("future", START + timedelta(days=400), START + timedelta(days=400, seconds=5), LASTING)
    found = latch([failure(0), future, failure(1)], minute=2)
    assert (found.run, found.failures) == ("1", 2)
    assert found.holds(START + 2 * MINUTE)


failure_lists = st.lists(
    st.builds(failure, st.floats(-1e6, 1e6, allow_nan=False), st.sampled_from(Trouble)), min_size=1, max_size=30
)


@given(failure_lists, st.floats(-1e6, 1e6), st.none() | st.floats(-1e6, 1e6))
def test_no_latch_holds_for_longer_than_the_longest_pause(
    failures: list[Failure], minute: float, changed: float | None
) -> None:
    now = START + minute * MINUTE
    found = latch_after(failures, changed=None if changed is None else START + changed * MINUTE, now=now)
    assert found is not None
    assert found.until - now <= LONGEST_PAUSE
