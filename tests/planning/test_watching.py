"""When the watching sensor tells Dagster something."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.loss import OldestSeen
from dts_assets.planning.watching import (
    JUDGE_AGAIN,
    JUDGE_TROUBLE_AGAIN,
    OBSERVE_AGAIN,
    OBSERVE_MOVES,
    WatchCursor,
    WatchTick,
    blind_tick,
    watch_tick,
)

NOW = datetime(2026, 1, 6, 12, tzinfo=UTC)
TICK = timedelta(seconds=30)


def tick(
    cursor: WatchCursor, *, end: int = 5, verdict: str = "safe", trouble: bool = False, after: timedelta = TICK
) -> WatchTick:
    return watch_tick(
        cursor,
        numbers={"p00_end_offset": end},
        verdict=verdict,
        trouble=trouble,
        oldest={},
        now=NOW + after,
        looked_at=NOW,
    )


@pytest.fixture
def told() -> WatchCursor:
    first = tick(WatchCursor(), after=timedelta())
    assert (first.observe, first.judge) == (True, True)
    return first.cursor


def test_what_did_not_move_is_not_told_again(told: WatchCursor) -> None:
    again = tick(told)
    assert (again.observe, again.judge) == (False, False)
    assert again.cursor == told


def test_a_number_that_moves_is_observed_and_a_verdict_that_changes_is_told(told: WatchCursor) -> None:
    moved, judged = tick(told, end=6), tick(told, verdict="warning")
    assert (moved.observe, moved.judge) == (True, False)
    assert (judged.observe, judged.judge) == (True, True)


def test_with_a_pause_what_moves_waits_for_it(told: WatchCursor) -> None:
    def paused(after: timedelta, verdict: str = "safe") -> bool:
        return watch_tick(
            told, numbers={"p00_end_offset": 6}, verdict=verdict, trouble=False, oldest={}, now=NOW + after,
            looked_at=NOW, pause=OBSERVE_MOVES,
        ).observe  # fmt: skip

    assert not paused(TICK)
    assert paused(OBSERVE_MOVES)
    assert paused(TICK, "warning"), "trouble is seen at once"


def test_after_a_while_both_come_again(told: WatchCursor) -> None:
    assert tick(told, after=OBSERVE_AGAIN).observe
    assert not tick(told, after=OBSERVE_AGAIN - TICK).observe
    assert tick(told, after=JUDGE_AGAIN).judge
    assert not tick(told, after=JUDGE_TROUBLE_AGAIN).judge
    assert tick(told, after=JUDGE_TROUBLE_AGAIN, trouble=True).judge


def test_a_quiet_day_is_few_events(told: WatchCursor) -> None:
    at, observed, judged = told, 0, 0
    for number in range(1, 24 * 120 + 1):
        one = tick(at, after=number * TICK)
        at, observed, judged = one.cursor, observed + one.observe, judged + one.judge
    assert (observed, judged) == (144, 24)


def test_a_clock_that_was_set_back_silences_nothing() -> None:
    """Else nobody would hear anything until the clock is where it was."""
    ahead = tick(WatchCursor(), after=timedelta(days=400)).cursor
    now = tick(ahead, after=TICK)
    assert (now.observe, now.judge) == (True, True)
    assert not tick(now.cursor, after=2 * TICK).judge
    assert blind_tick(blind_tick(WatchCursor(), now=NOW + timedelta(days=400)).cursor, now=NOW).judge


def test_blindness_is_told_at_once_and_again_and_so_is_its_end(told: WatchCursor) -> None:
    first = blind_tick(told, now=NOW + TICK)
    assert (first.observe, first.judge) == (False, True)
    at, judged = first.cursor, 0
    for number in range(2, 121):
        one = blind_tick(at, now=NOW + number * TICK)
        at, judged = one.cursor, judged + one.judge
    assert judged == timedelta(hours=1) // JUDGE_TROUBLE_AGAIN - 1, "every ten minutes"
    assert at.looked_at == told.looked_at == NOW
    seen_again = tick(at, after=121 * TICK)
    assert (seen_again.observe, seen_again.judge) == (True, True)


def test_a_look_that_never_succeeded_is_told_too() -> None:
    one = blind_tick(WatchCursor(), now=NOW)
    assert one.judge
    assert one.cursor.looked_at is None


def test_a_cursor_of_an_earlier_version_has_no_last_look(told: WatchCursor) -> None:
    earlier = json.loads(told.to_text())
    del earlier["looked"]
    assert WatchCursor.of_text(json.dumps(earlier)) == replace(told, looked_at=None)


instants = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda one: one.replace(tzinfo=UTC))
seen = st.dictionaries(st.integers(0, 120), st.builds(OldestSeen, st.integers(0, 2**40), instants, st.booleans()))


@given(st.builds(WatchCursor, st.text(), instants, st.text(), instants, seen, instants))
def test_a_cursor_comes_back_from_its_text(cursor: WatchCursor) -> None:
    assert WatchCursor.of_text(cursor.to_text()) == cursor


@pytest.mark.parametrize("text", [None, "", "{}", '{"v": 2}'])
def test_no_cursor_and_one_of_an_unknown_version_begin_again(text: str | None) -> None:
    assert WatchCursor.of_text(text) == WatchCursor()
