"""What the sensors ask for at one tick, and the cursor they leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.latches import Latch
from dts_assets.planning.ticks import LONGEST_RUN, MOST_REQUESTS, Cursor, IngestTick, Runs, ingest_tick, tables_tick
from dts_assets.planning.work import Work

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
GRID = WindowGrid(HOUR, START)


def cells(numbers: Iterable[int], partitions: Iterable[int] = (0,)) -> list[Cell]:
    windows = [GRID.at(number) for number in numbers]
    return [Cell(partition, window) for partition in partitions for window in windows]


def tick(
    cursor: Cursor, missing: Iterable[Cell], *, stale: Iterable[Cell] = (), end: int = 100, text: str = "i1"
) -> IngestTick:
    missing, stale = list(missing), list(stale)
    inputs = {cell: (text,) for cell in stale}
    work = Work(tuple(missing), tuple(stale), (), ends=dict.fromkeys(missing, end), entries_inputs=inputs)
    return ingest_tick(cursor, work)


def asked(one: IngestTick) -> list[Cell]:
    return sorted(cell for request in one.requests for cell in request.span.cells())


def cursor(**marks: int) -> Cursor:
    return Cursor({int(key[1:]): START + hours * HOUR for key, hours in marks.items()})


# The cursor table


@dataclass(frozen=True)
class Case:
    before: Cursor
    missing: list[Cell]
    asked: list[Cell]
    after: Cursor
    requests: int


CASES = {
    "empty": Case(Cursor(), [], [], Cursor(), 0),
    "nothing new": Case(cursor(p00=3), [], [], cursor(p00=3), 0),
    "asked for already, not there yet": Case(cursor(p00=3), cells([1, 2]), [], cursor(p00=3), 0),
    "one new": Case(cursor(p00=3), cells([3]), cells([3]), cursor(p00=4), 1),
    "all new": Case(Cursor(), cells([0, 1, 2], [0, 1]), cells([0, 1, 2], [0, 1]), cursor(p00=3, p01=3), 1),
    "one partition is late": Case(
        cursor(p00=3, p01=1), cells([1, 2, 3], [1]) + cells([3]), cells([3]) + cells([1, 2, 3], [1]),
        cursor(p00=4, p01=4), 2,
    ),
    "a partition that is new": Case(cursor(p00=3), cells([0, 1], [1]), cells([0, 1], [1]), cursor(p00=3, p01=2), 1),
    "rewound by hand": Case(cursor(p00=1), cells([1, 2]), cells([1, 2]), cursor(p00=3), 1),
    "forgotten": Case(Cursor(), cells([5]), cells([5]), cursor(p00=6), 1),
    "a hole that was asked for before": Case(cursor(p00=6), cells([2, 6]), cells([6]), cursor(p00=7), 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_cursor_table(case: Case) -> None:
    one = tick(case.before, case.missing)
    assert asked(one) == sorted(case.asked)
    assert len(one.requests) == case.requests
    assert one.cursor.next == case.after.next
    assert tick(one.cursor, case.missing).requests == (), "the next tick asks again"


def test_too_many_are_asked_for_tick_by_tick_without_losing_one() -> None:
    missing = cells(range(0, 4 * MOST_REQUESTS, 2))  # every other window, so that each is a run of its own
    ticks, at = [], Cursor()
    while (one := tick(at, missing)).requests:
        ticks.append(one)
        at = one.cursor
    assert [len(one.requests) for one in ticks] == [MOST_REQUESTS] * 2
    assert [cell for one in ticks for cell in asked(one)] == missing


def test_a_long_outage_is_runs_of_a_day() -> None:
    one = tick(Cursor(), cells(range(60), range(4)))
    assert [len(request.span.windows) for request in one.requests] == [LONGEST_RUN, LONGEST_RUN, 60 - 2 * LONGEST_RUN]
    assert all(request.span.kafka_partitions == (0, 1, 2, 3) for request in one.requests)


missing_cells = st.lists(st.builds(Cell, st.integers(0, 3), st.integers(0, 70).map(GRID.at)), max_size=80)


@given(missing_cells)
def test_ticks_ask_for_every_missing_cell_exactly_once(missing: list[Cell]) -> None:
    found: list[Cell] = []
    at = Cursor()
    for _ in range(1 + len(missing)):
        one = tick(at, missing)
        found += asked(one)
        at = Cursor.of_text(one.cursor.to_text())
    assert sorted(found) == sorted(set(missing))


# Looking back: a request that Dagster remembers may have come to nothing


def at_minute(minute: float, before: Cursor, missing: Iterable[Cell], **runs: Any) -> IngestTick:
    missing = list(missing)
    work = Work(tuple(missing), (), (), ends=dict.fromkeys(missing, 100))
    return ingest_tick(before, work, runs=Runs(now=START + minute * MINUTE, **runs))


def test_a_cell_whose_run_came_to_nothing_is_asked_for_again_half_an_hour_later() -> None:
    first = at_minute(0, Cursor(), cells([0, 1]))
    assert asked(first) == cells([0, 1])
    at, tried = first.cursor, [key(first)]
    for minute in range(1, 95):
        one = at_minute(minute, Cursor.of_text(at.to_text()), cells([1]))  # the other one was made
        assert bool(one.requests) == (minute % 30 == 0)
        if one.requests:
            assert asked(one) == cells([1])
            tried.append(key(one))
        at = one.cursor
    assert len(tried) == len(set(tried)) == 4


def test_nothing_is_asked_for_again_that_a_run_works_on_or_a_latch_holds() -> None:
    latch = Latch(1, "run", START, START + 90 * MINUTE)
    cursor = at_minute(0, Cursor(), cells([0, 1, 2])).cursor
    one = at_minute(31, cursor, cells([0, 1, 2]), unfinished=frozenset(cells([0])), latches={cells([1])[0]: latch})
    assert asked(one) == cells([2])


def test_a_clock_that_was_set_back_does_not_end_looking_back() -> None:
    ahead = at_minute(10_000, Cursor(), cells([0])).cursor
    assert asked(at_minute(0, ahead, cells([0]))) == cells([0])


def test_a_tick_that_is_repeated_asks_under_the_same_keys() -> None:
    """Dagster repeats a tick whose daemon was killed before it had stored the cursor."""
    cursor = at_minute(0, Cursor(), cells([0])).cursor
    assert key(at_minute(31, cursor, cells([0]))) == key(at_minute(32, cursor, cells([0])))


def test_looking_back_goes_on_until_everything_was_asked_for() -> None:
    lost = cells(range(0, 4 * MOST_REQUESTS, 2))
    at, found = Cursor({0: lost[-1].window.end}, START), list[Cell]()
    for minute in (30, 31, 32):
        one = at_minute(minute, at, [cell for cell in lost if cell not in found])
        found += asked(one)
        at = one.cursor
    assert found == lost
    assert asked(at_minute(33, at, lost)) == []


@pytest.mark.parametrize("entries", [True, False], ids=["entries", "tables"])
def test_what_was_changed_back_and_forth_is_asked_for_under_another_key_each_time(entries: bool) -> None:
    """Dagster never makes a run for a key that it has seen."""
    keys, at = list[str](), Cursor({0: START}, START)
    for hour, text in enumerate(["a", "b", "a", "b"], start=1):
        now = START + hour * HOUR
        (cell,) = cells([0])
        work = Work((), (cell,), (cell.window,), entries_inputs={cell: (text,)}, tables_inputs={START: (text,)})
        if entries:
            one = ingest_tick(at, work, runs=Runs(now=now))
            keys.append(key(one))
            at = one.cursor
        else:
            keys += [request.run_key for request in tables_tick(work, now=now)]
    assert len(keys) == len(set(keys)) == 4


def test_tables_are_asked_for_once_in_half_an_hour_for_the_same_reason() -> None:
    work = Work((), (), (GRID.at(0),), tables_inputs={START: ("i",)})
    keys = [tables_tick(work, now=START + minute * MINUTE)[0].run_key for minute in range(90)]
    assert len(set(keys)) == 3


# Stale entries


def test_stale_entries_are_asked_for_alone_whatever_the_cursor_says() -> None:
    one = tick(cursor(p00=9), [], stale=cells([2, 3]))
    (request,) = one.requests
    assert request.entries_only
    assert asked(one) == cells([2, 3])
    assert one.cursor.next == cursor(p00=9).next


def test_new_cells_come_before_stale_ones() -> None:
    one = tick(Cursor(), cells(range(0, 4 * MOST_REQUESTS, 2)), stale=cells([1]))
    assert len(one.requests) == MOST_REQUESTS
    assert not any(request.entries_only for request in one.requests)


# Run keys: Dagster remembers them for ever


def key(one: IngestTick) -> str:
    (request,) = one.requests
    return request.run_key


VARIATIONS: dict[str, Callable[[], str]] = {
    "as it is": lambda: key(tick(Cursor(), cells([0, 1], [0, 1]))),
    "other end offsets": lambda: key(tick(Cursor(), cells([0, 1], [0, 1]), end=101)),
    "fewer windows": lambda: key(tick(Cursor(), cells([0], [0, 1]))),
    "fewer partitions": lambda: key(tick(Cursor(), cells([0, 1]))),
    "other partitions": lambda: key(tick(Cursor(), cells([0, 1], [1, 2]))),
    "entries alone": lambda: key(tick(Cursor(), [], stale=cells([0, 1], [0, 1]))),
    "entries alone, other inputs": lambda: key(tick(Cursor(), [], stale=cells([0, 1], [0, 1]), text="i2")),
    "entries alone, other cells": lambda: key(tick(Cursor(), [], stale=cells([0], [0, 1]))),
    "tables": lambda: tables([0, 1]),
    "tables, other inputs": lambda: tables([0, 1], text="i2"),
    "tables, fewer windows": lambda: tables([0]),
}


def tables(numbers: Iterable[int], text: str = "i1") -> str:
    windows = [GRID.at(number) for number in numbers]
    (request,) = tables_tick(Work((), (), tuple(windows), tables_inputs={window.start: (text,) for window in windows}))
    return request.run_key


def test_run_keys_differ_where_the_result_would_and_nowhere_else() -> None:
    keys = {name: make() for name, make in VARIATIONS.items()}
    assert len(set(keys.values())) == len(keys), keys
    assert keys == {name: make() for name, make in VARIATIONS.items()}


# The tables


def ready(windows: Iterable[Window]) -> Mapping[datetime, tuple[str, ...]]:
    return {window.start: (window.key,) for window in windows}


@given(st.lists(st.integers(0, 200), unique=True, max_size=60))
def test_requests_for_tables_follow_time_and_hold_contiguous_windows(numbers: list[int]) -> None:
    windows = [GRID.at(number) for number in numbers]
    requests = tables_tick(Work((), (), tuple(windows), tables_inputs=ready(windows)))
    found = [window for request in requests for window in request.windows]
    assert found == sorted(windows)[: len(found)]
    assert len(requests) <= MOST_REQUESTS
    if len(requests) < MOST_REQUESTS:
        assert len(found) == len(windows)
    for request in requests:
        assert len(request.windows) <= LONGEST_RUN
        assert request.windows[-1].end - request.windows[0].start == len(request.windows) * HOUR


def test_no_ready_window_is_no_request() -> None:
    assert tables_tick(Work((), (), ())) == ()


# The cursor as Dagster stores it


@given(st.dictionaries(st.integers(0, 120), st.integers(0, 9000).map(lambda hours: START + hours * HOUR)))
def test_a_cursor_comes_back_from_its_text(marks: dict[int, datetime]) -> None:
    assert Cursor.of_text(Cursor(marks).to_text()) == Cursor(marks)
    assert Cursor.of_text(Cursor(marks, START).to_text()) == Cursor(marks, START)


def test_a_cursor_is_small_versioned_json() -> None:
    assert json.loads(cursor(p10=2, p00=1).to_text()) == {
        "v": 1, "next": {"p00": "2026-01-05T01:00:00+00:00", "p10": "2026-01-05T02:00:00+00:00"},
    }  # fmt: skip


@pytest.mark.parametrize("text", [None, "", "{}", '{"v": 2, "next": {"p00": "2026-01-05T01:00:00+00:00"}}'])
def test_no_cursor_and_one_of_an_unknown_version_begin_again(text: str | None) -> None:
    assert Cursor.of_text(text) == Cursor()
