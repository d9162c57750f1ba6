"""Which offsets a window is. The laws: neighbours share one number whatever the clock did, and what is stored never moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning.boundaries import (
    Closing,
    PlannedCell,
    closed_windows,
    instants_to_find,
    plan_cells,
)
from tests.ledger_rows import raw_row
from tests.tiers import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
GRID = WindowGrid(HOUR, START)
GRACE, SKEW = 10 * MINUTE, 5 * MINUTE
WINDOWS = 6


def at(hours: float) -> datetime:
    return START + hours * HOUR


@dataclass
class Topic:
    """Messages of some Kafka partitions as (offset, time), a clock, and the rows that runs stored."""

    now: datetime = START
    complete: bool = False
    messages: dict[int, list[tuple[int, datetime]]] = field(default_factory=dict)
    stored: dict[Cell, RawWindow] = field(default_factory=dict)
    first_offset: int = 0

    def send(self, kafka_partition: int, *times: datetime) -> None:
        mine = self.messages.setdefault(kafka_partition, [])
        for time in times:
            mine.append((mine[-1][0] + 1 if mine else self.first_offset, time))

    def find(self, kafka_partition: int, instant: datetime) -> int | None:
        limit = self.now + SKEW
        return next((o for o, time in self.messages.get(kafka_partition, []) if instant <= time <= limit), None)

    def watermark(self, kafka_partition: int) -> Watermark:
        mine = self.messages.get(kafka_partition, [])
        if not mine:
            return Watermark(self.first_offset, self.first_offset, None, None)
        return Watermark(mine[0][0], mine[-1][0] + 1, mine[0][1], max(time for _, time in mine))

    @property
    def closing(self) -> Closing:
        return Closing(self.complete, GRACE, self.now)

    def plan(self, cells: Iterable[Cell]) -> tuple[PlannedCell, ...]:
        cells = list(cells)
        rows = list(self.stored.values())
        partitions = {cell.kafka_partition for cell in cells}
        return plan_cells(
            cells,
            rows,
            found={(partition, instant): self.find(partition, instant)
                   for partition, instant in instants_to_find(cells, rows)},
            watermarks={partition: self.watermark(partition) for partition in partitions},
            closing=self.closing,
        )  # fmt: skip

    def run(self, cells: Iterable[Cell]) -> tuple[PlannedCell, ...]:
        """Plan, and store what has closed, as the first flow does."""
        planned = self.plan(cells)
        for plan in planned:
            if plan.closed_by is not ClosedBy.OPEN:
                self.stored[plan.cell] = raw_row(plan.cell, plan.offsets, plan.closed_by)
        return planned


def cells(*numbers: int, partition: int = 0) -> list[Cell]:
    return [Cell(partition, GRID.at(number)) for number in numbers]


def assert_partitioned(planned: Sequence[PlannedCell]) -> None:
    """Ascending cells of one Kafka partition meet exactly."""
    for plan in planned:
        assert plan.offsets.start <= plan.offsets.end
    for earlier, later in pairwise(planned):
        assert earlier.offsets.end == later.offsets.start, f"{earlier} and {later} do not meet"


# Laws

minutes = st.integers(0, WINDOWS * 60 - 1)
skewed = st.integers(WINDOWS * 60, WINDOWS * 600)
clocks = st.lists(minutes | minutes | minutes | skewed, max_size=14).map(
    lambda times: [START + minute * MINUTE for minute in times]
)
"""Message times in sending order: the clock jumps back at will, and some are dated far into the future."""


@dataclass(frozen=True)
class Step:
    """Time passes, messages arrive that are dated so far from now, and some windows are run."""

    passed: timedelta
    ages: list[timedelta]
    windows: list[int]


HALF = 30 * MINUTE
steps = st.builds(
    Step,
    st.sampled_from([HALF, 3 * HALF, 5 * HALF]),
    st.lists(st.integers(-5, 0) | st.integers(-5, 5), max_size=3).map(lambda ages: [age * HALF for age in ages]),
    st.lists(st.integers(0, WINDOWS - 1), unique=True, max_size=2),
)


@examples(120)
@given(clocks, st.integers(0, 2**32).map(random.Random), st.booleans(), st.integers(0, 2))
def test_any_order_and_any_rectangles_give_the_same_offsets(
    times: list[datetime], chance: random.Random, backwards: bool, lost: int
) -> None:
    def topic() -> Topic:
        one = Topic(now=at(WINDOWS), complete=True)
        one.send(0, *times)
        one.messages[0] = one.messages[0][lost:]
        return one

    everything = cells(*range(WINDOWS))
    at_once = topic().run(everything)
    assert_partitioned(at_once)
    one_by_one, in_pieces = topic(), topic()
    for cell in reversed(everything) if backwards else everything:
        one_by_one.run([cell])
    while len(in_pieces.stored) < WINDOWS:
        in_pieces.run(chance.sample(everything, chance.randint(1, WINDOWS)))
    expected = {plan.cell: raw_row(plan.cell, plan.offsets, plan.closed_by) for plan in at_once}
    assert one_by_one.stored == expected
    assert in_pieces.stored == expected


@examples(200)
@given(st.sampled_from([0, 7]), st.lists(steps, min_size=1, max_size=5))
def test_neighbours_meet_whatever_arrives_between_runs_in_whatever_order(first_offset: int, taken: list[Step]) -> None:
    topic = Topic(first_offset=first_offset, messages={0: []})
    for step in taken:
        topic.now += step.passed
        topic.send(0, *(topic.now + age for age in step.ages))
        before = dict(topic.stored)
        planned = {plan.cell: plan for plan in topic.run(cells(*step.windows))}
        for cell, row in before.items():
            assert topic.stored[cell] == row, "a stored cell moved"
            assert cell not in planned or planned[cell].stored
    topic.complete, topic.now = True, at(4 * WINDOWS)
    finished = topic.plan(cells(*range(4 * WINDOWS)))
    assert_partitioned(finished)
    for plan in finished:
        if plan.cell in topic.stored:
            row = topic.stored[plan.cell]
            assert (plan.offsets, plan.closed_by) == (row.offsets, row.closed_by)
    times = [time for _, time in topic.messages[0]]
    too_far_ahead = any(age > SKEW for step in taken for age in step.ages)
    if not too_far_ahead and all(time >= START for time in times):
        covered = OffsetRange(finished[0].offsets.start, finished[-1].offsets.end)
        assert len(covered) == len(times), "messages are in no window"


@examples(80)
@given(clocks, st.integers(0, WINDOWS * 60), st.booleans())
def test_time_alone_says_which_windows_have_closed(times: list[datetime], minute: int, complete: bool) -> None:
    now = max([START + minute * MINUTE, *times])  # as of a capture, whose clock is its greatest message
    topic = Topic(now=now, complete=complete)
    topic.send(0, *times)
    everything = cells(*range(WINDOWS))
    planned = [plan.cell.window for plan in topic.plan(everything) if plan.closed_by is not ClosedBy.OPEN]
    closed = closed_windows(
        0, [cell.window for cell in everything], watermark=topic.watermark(0), closing=topic.closing
    )
    assert list(closed) == planned


# What closes a window


@dataclass(frozen=True)
class Ending:
    """A partition with a message at 0:30, and what came of the window from 0:00 to 1:00."""

    closed_by: ClosedBy
    offsets: tuple[int, int]
    then: Callable[[Topic], None]
    complete: bool = False


def nothing(topic: Topic) -> None:
    """Nothing more happens."""


def a_message(hours: float, now: float) -> Callable[[Topic], None]:
    def then(topic: Topic) -> None:
        topic.send(0, at(hours))
        topic.now = at(now)

    return then


def only_the_clock(now: float) -> Callable[[Topic], None]:
    def then(topic: Topic) -> None:
        topic.now = at(now)

    return then


ENDINGS = {
    "a later message": Ending(ClosedBy.MESSAGE, (0, 1), a_message(1.5, 1.5)),
    "a message exactly at the end": Ending(ClosedBy.MESSAGE, (0, 1), a_message(1, 1)),
    "a last message just before the end": Ending(ClosedBy.OPEN, (0, 2), a_message(0.99, 0.99)),
    "silence, grace not over": Ending(ClosedBy.OPEN, (0, 1), only_the_clock(1 + 9 / 60)),
    "silence, grace over": Ending(ClosedBy.GRACE, (0, 1), only_the_clock(1 + 10 / 60)),
    "the end of a complete capture": Ending(ClosedBy.END, (0, 1), nothing, complete=True),
    "a message dated too far ahead": Ending(ClosedBy.OPEN, (0, 2), a_message(9, 0.5)),
    "a message dated a little ahead": Ending(ClosedBy.MESSAGE, (0, 1), a_message(1.02, 0.95)),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_what_closes_a_window(ending: Ending) -> None:
    topic = Topic(now=at(0.5), complete=ending.complete)
    topic.send(0, at(0.5))
    ending.then(topic)
    (plan,) = topic.plan(cells(0))
    assert (plan.closed_by, plan.offsets) == (ending.closed_by, OffsetRange(*ending.offsets))
    assert not plan.stored


def test_a_message_dated_too_far_ahead_is_read_past_and_belongs_to_the_window_around_it() -> None:
    topic = Topic(now=at(1.5))
    topic.send(0, at(0.2), at(40), at(0.4), at(1.2), at(1.4))
    assert [plan.offsets for plan in topic.plan(cells(0, 1))] == [OffsetRange(0, 3), OffsetRange(3, 5)]


def test_an_empty_partition_has_empty_windows_once_they_close() -> None:
    topic = Topic(now=at(0.5))
    assert [plan.closed_by for plan in topic.plan(cells(0, partition=3))] == [ClosedBy.OPEN]
    topic.now = at(2)
    (plan,) = topic.plan(cells(0, partition=3))
    assert (plan.closed_by, plan.offsets) == (ClosedBy.GRACE, OffsetRange(0, 0))


def test_nothing_has_closed_while_nothing_was_ever_seen() -> None:
    (plan,) = plan_cells(
        cells(0), [], found={}, watermarks={0: Watermark(0, 0, None, None)}, closing=Closing(False, GRACE, None)
    )
    assert plan.closed_by is ClosedBy.OPEN


# What is stored


def test_messages_that_come_after_grace_go_into_the_next_window() -> None:
    topic = Topic(now=at(1.5))
    topic.send(0, at(0.5))
    (first,) = topic.run(cells(0))
    assert (first.closed_by, first.offsets) == (ClosedBy.GRACE, OffsetRange(0, 1))
    topic.send(0, at(0.7), at(0.8), at(2.5))
    topic.now = at(2.5)
    again, second = topic.run(cells(0, 1))
    assert (again.offsets, again.closed_by, again.stored) == (first.offsets, ClosedBy.GRACE, True)
    assert (second.offsets, second.closed_by) == (OffsetRange(1, 3), ClosedBy.MESSAGE)


def test_messages_that_come_after_grace_never_stretch_an_earlier_window_over_a_stored_one() -> None:
    topic = Topic(now=at(3.5))
    topic.send(0, at(0.5), at(0.6))
    (third,) = topic.run(cells(2))
    assert (third.closed_by, third.offsets) == (ClosedBy.GRACE, OffsetRange(2, 2))
    topic.send(0, at(0.7), at(0.8), at(3.6))  # the first message at or after 1:00 has offset 4
    topic.now = at(3.6)
    planned = topic.run(cells(0, 1, 2, 3))
    assert_partitioned(planned)
    assert [plan.offsets for plan in planned[:3]] == [OffsetRange(0, 2), OffsetRange(2, 2), OffsetRange(2, 2)]
    assert topic.run(cells(3))[0].offsets.start == 2


def test_stored_numbers_win_over_what_the_source_says_now() -> None:
    row = raw_row(Cell(0, GRID.at(1)), OffsetRange(10, 20), ClosedBy.GRACE)
    topic = Topic(now=at(9))
    topic.send(0, *[at(0.5)] * 4, *[at(2.5)] * 30)
    topic.stored[row.cell] = row
    planned = topic.plan(cells(0, 1, 2))
    assert [plan.offsets for plan in planned] == [OffsetRange(0, 10), OffsetRange(10, 20), OffsetRange(20, 34)]
    assert [plan.stored for plan in planned] == [False, True, False]
    assert [plan.closed_by for plan in planned] == [ClosedBy.MESSAGE, ClosedBy.GRACE, ClosedBy.GRACE]


def test_a_number_taken_over_from_the_later_neighbour_does_not_say_that_a_message_closed_the_window() -> None:
    topic = Topic(now=at(3), complete=True)
    topic.send(0, at(0.5))
    topic.run(cells(2))
    topic.run(cells(1))
    topic.run(cells(0))
    assert {row.closed_by for row in topic.stored.values()} == {ClosedBy.END}


def test_an_open_window_gives_its_start_and_not_its_end() -> None:
    row = raw_row(Cell(0, GRID.at(1)), OffsetRange(3, 5), ClosedBy.OPEN)
    topic = Topic(now=at(2.5))
    topic.send(0, *[at(0.5)] * 3, *[at(1.5)] * 4, at(2.2))
    topic.stored[row.cell] = row
    first, second = topic.plan(cells(0, 1))
    assert first.offsets == OffsetRange(0, 3)
    assert (second.offsets, second.closed_by, second.stored) == (OffsetRange(3, 7), ClosedBy.MESSAGE, False)


def test_the_source_is_asked_only_for_boundaries_at_which_no_stored_window_has_closed() -> None:
    stored = [raw_row(Cell(0, GRID.at(1)), OffsetRange(3, 5), ClosedBy.MESSAGE)]
    assert instants_to_find(cells(0, 1, 2), stored) == {(0, at(0)), (0, at(1)), (0, at(3))}
    assert instants_to_find(cells(1, partition=1), stored) == {(1, at(1)), (1, at(2))}
    assert instants_to_find([], stored) == frozenset()


def test_kafka_partitions_know_nothing_of_each_other() -> None:
    topic = Topic(now=at(1.5))
    topic.send(0, at(0.5), at(1.5))
    topic.send(1, *[at(0.5)] * 9)
    topic.run(cells(0))
    one, other = topic.plan([*cells(0), *cells(0, partition=1)])
    assert (one.offsets, one.closed_by) == (OffsetRange(0, 1), ClosedBy.MESSAGE)
    assert (other.offsets, other.closed_by) == (OffsetRange(0, 9), ClosedBy.GRACE)


def test_windows_of_a_topic_that_forgot_its_beginning_start_at_what_is_left() -> None:
    topic = Topic(now=at(3), complete=True, first_offset=50)
    topic.send(0, at(1.5), at(2.5))
    assert [plan.offsets for plan in topic.run(cells(0, 1, 2))] == [
        OffsetRange(50, 50), OffsetRange(50, 51), OffsetRange(51, 52),
    ]  # fmt: skip


def test_closed_windows_of_a_silent_and_of_a_busy_partition() -> None:
    windows: list[Window] = [GRID.at(number) for number in range(4)]
    closing = Closing(False, GRACE, at(2.1))
    busy = closed_windows(0, windows, watermark=Watermark(0, 9, at(0), at(2)), closing=closing)
    silent = closed_windows(0, windows, watermark=Watermark(0, 1, at(0), at(0)), closing=closing)
    assert (busy, silent) == (tuple(windows[:2]), tuple(windows[:1]))
    ended = closed_windows(0, windows, watermark=Watermark(0, 1, at(0), at(0)), closing=Closing(True, GRACE, at(0)))
    assert ended == tuple(windows)
