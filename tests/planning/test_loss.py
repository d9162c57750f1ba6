"""How long unread messages are safe."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.retention import BrokerRetention
from dts_assets.planning.loss import (
    FOR_EVER,
    WARN_BELOW,
    Keeping,
    Loss,
    LossState,
    OldestSeen,
    Unread,
    judge_loss,
    keeping,
    look_at_oldest,
    unread_ranges,
    worst,
)

NOW = datetime(2026, 1, 6, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = Keeping(24 * HOUR, by_size=False)
BY_SIZE = Keeping(24 * HOUR, by_size=True)


def mark(low: int, high: int, *, oldest: float | None = 20) -> Watermark:
    """Offsets, and the age of the first message in hours."""
    return Watermark(low, high, None if oldest is None else NOW - oldest * HOUR, NOW)


def judge(
    unread: list[tuple[int, int]], watermark: Watermark, *, age: float | None, kept: Keeping = DAY, young: bool = False
) -> Loss:
    """``age`` is that of the first unread message, in hours."""
    ranges = tuple(OffsetRange(*one) for one in unread)
    first = None if age is None else NOW - age * HOUR
    seen = OldestSeen(watermark.low, watermark.earliest, young)
    return judge_loss(Unread(ranges, first), watermark, kept=kept, oldest=seen, now=NOW)


@dataclass(frozen=True)
class Case:
    unread: list[tuple[int, int]]
    age: float | None
    kept: Keeping
    young: bool
    state: LossState
    hours: float | None


CASES = {
    "nothing is unread": Case([], None, DAY, False, LossState.NOTHING_UNREAD, None),
    "just written": Case([(90, 100)], 0, DAY, False, LossState.SAFE, 24),
    "half is left": Case([(50, 100)], 12, DAY, False, LossState.SAFE, 12),
    "a little less than half is left": Case([(50, 100)], 12.1, DAY, False, LossState.WARNING, 11.9),
    "overdue, and still there": Case([(20, 100)], 25, DAY, False, LossState.WARNING, 0),
    "the first messages are gone": Case([(5, 100)], 20, DAY, False, LossState.LOST, 4),
    "everything unread is gone": Case([(5, 10)], None, DAY, False, LossState.LOST, None),
    "a recording": Case([(10, 100)], 90, FOR_EVER, False, LossState.SAFE, None),
    "its time is not known: that of the oldest counts": Case([(50, 100)], None, DAY, False, LossState.WARNING, 4),
    "deleted by size, read closely": Case([(90, 100)], 1, BY_SIZE, True, LossState.SAFE, 19),
    "deleted by size, read late": Case([(15, 100)], 19, BY_SIZE, True, LossState.WARNING, 1),
    "kept by size alone": Case([(15, 100)], 19, Keeping(None, by_size=True), True, LossState.WARNING, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_states_and_what_remains(case: Case) -> None:
    loss = judge(case.unread, mark(10, 100), age=case.age, kept=case.kept, young=case.young)
    assert loss.state is case.state
    hours = None if loss.remaining is None else loss.remaining / HOUR
    assert hours == (None if case.hours is None else pytest.approx(case.hours))
    assert loss.by_size == case.young


def test_what_is_lost_is_named_and_the_rest_is_still_timed() -> None:
    loss = judge([(3, 5), (8, 40)], mark(10, 100), age=20)
    assert loss.lost == (OffsetRange(3, 5), OffsetRange(8, 10))
    assert loss.remaining == 4 * HOUR


def test_an_empty_topic_with_nothing_stored_has_nothing_unread() -> None:
    assert judge([], mark(0, 0, oldest=None), age=None).state is LossState.NOTHING_UNREAD


ages = st.floats(0, 60)


@given(ages, ages)
def test_a_message_never_becomes_safer_by_waiting(first: float, later: float) -> None:
    young, old = sorted((first, later))
    before, after = (judge([(10, 100)], mark(10, 100, oldest=old), age=age) for age in (young, old))
    assert before.remaining is not None
    assert after.remaining is not None
    assert after.remaining <= before.remaining
    assert after.state.rank >= before.state.rank
    assert (before.state is LossState.WARNING) == (before.remaining < WARN_BELOW * 24 * HOUR)


# How long messages are kept


def test_the_shorter_age_counts() -> None:
    assert keeping(24 * HOUR, BrokerRetention(12 * HOUR, None)) == Keeping(12 * HOUR, by_size=False)
    assert keeping(6 * HOUR, BrokerRetention(12 * HOUR, 1000)) == Keeping(6 * HOUR, by_size=True)
    assert keeping(24 * HOUR, BrokerRetention(None, None)) == Keeping(24 * HOUR, by_size=False)


def test_a_broker_that_was_not_asked_may_delete_by_size() -> None:
    assert keeping(24 * HOUR, None) == Keeping(24 * HOUR, by_size=True)


# Deletion by size


def look(before: OldestSeen | None, watermark: Watermark, kept: Keeping = BY_SIZE) -> OldestSeen:
    return look_at_oldest(before, watermark, kept=kept, now=NOW)


def test_a_young_message_that_goes_shows_deletion_by_size() -> None:
    before = OldestSeen(5, NOW - 8 * HOUR)
    assert look(before, mark(9, 100, oldest=6)).young
    assert not look(before, mark(5, 100, oldest=8)).young, "nothing was deleted"
    assert not look(None, mark(9, 100, oldest=6)).young, "the first look knows no move"
    assert not look(before, mark(9, 100, oldest=6), DAY).young, "the broker says that it never does"


def test_an_old_message_that_goes_shows_nothing_even_if_the_next_one_is_young() -> None:
    assert not look(OldestSeen(5, NOW - 25 * HOUR), mark(9, 100, oldest=3)).young


def test_it_is_remembered_until_messages_grow_old_again() -> None:
    before = OldestSeen(5, NOW - 8 * HOUR, young=True)
    assert look(before, mark(5, 100, oldest=8)).young
    assert not look(before, mark(5, 100, oldest=24)).young
    assert not look(before, mark(9, 9, oldest=None)).young


# What is unread

ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda one: OffsetRange(one[0], sum(one))))


@given(ranges, st.integers(0, 40), st.integers(0, 80))
def test_unread_is_what_no_stored_range_covers(stored: list[OffsetRange], start: int, high: int) -> None:
    found = unread_ranges(stored, start=start, high=high)
    covered = {offset for one in stored for offset in range(one.start, one.end)}
    assert [offset for one in found for offset in range(one.start, one.end)] == [
        offset for offset in range(start, high) if offset not in covered
    ]


def test_the_worst_state_stands_for_the_topic() -> None:
    assert worst([LossState.SAFE, LossState.LOST, LossState.NOTHING_UNREAD]) is LossState.LOST
    assert worst([]) is LossState.NOTHING_UNREAD
