"""Where messages carry ids: a look behind the past tells what a look over all windows tells, or says that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.windows import Window
from dts_assets.planning.settled_ids import ids_after, ids_reach_back
from dts_assets.planning.settled_past import NO_PAST, Past
from dts_assets.planning.topic_marks import TopicMarks
from tests.stages.task_messages import TABLES, Sent, Topic
from tests.tiers import examples

TRIES = ((1, 0), (1, 2), (3, 2), (1 << 20, 2))


@dataclass
class Task:
    """A task that sends messages with growing ids, is restarted, and is made anew."""

    partitions: int
    sent: list[Sent] = field(default_factory=list)
    lives: list[list[Sent]] = field(default_factory=lambda: [[]])
    number: int = 0
    es: int = 0
    tick: int = 0

    def write(self, partition: int, kind: str, table: str, *, gap: int = 1, said: str = "") -> None:
        self.number += gap
        self.es += 1
        text = f"CREATE TABLE {table} (id INT)" if "DDL" in kind else said or f"{len(self.lives)}/{self.number}"
        one = Sent(self.number, text, self.es, self.tick, partition, kind, table)
        self.lives[-1].append(one)
        self._send([one])

    def restart(self, back: int, count: int, moved: int = 0) -> None:
        """Tell some of the last messages again, perhaps in another Kafka partition."""
        mine = self.lives[-1]
        some = mine[max(0, len(mine) - back) :][:count]
        self._send([replace(one, partition=(one.partition + moved) % self.partitions) for one in some])

    def retell(self, life: int, start: int, count: int) -> None:
        """Tell a part of an older life again."""
        self._send(self.lives[life % len(self.lives)][start : start + count])

    def made_anew(self, number: int) -> None:
        self.lives.append([])
        self.number = number
        self.es += 5

    def _send(self, some: Sequence[Sent]) -> None:
        for one in some:
            self.sent.append(replace(one, tick=self.tick))
            self.tick += 1


KINDS = st.sampled_from(["INSERT"] * 8 + ["INIT", "INIT_DDL", "DDL"])
NAMES = st.sampled_from(["orders", "orders", "bag"])


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Histories of a task that mostly goes on, as it does in a year."""
    task = Task(draw(st.integers(1, 2)))
    for _ in range(draw(st.integers(4, 16))):
        what = draw(st.sampled_from(["write"] * 6 + ["restart", "restart", "anew", "retell", "short"]))
        if what == "restart":
            task.restart(draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 1])))
        elif what == "anew":
            task.made_anew(draw(st.sampled_from([0, 0, 2, 7, 40])))
        elif what == "retell":
            task.retell(draw(st.integers(0, 3)), draw(st.integers(0, 6)), draw(st.integers(1, 6)))
        for _ in range(draw(st.integers(1, 2 if what == "short" else 7))):
            partition, gap = draw(st.integers(0, task.partitions - 1)), draw(st.sampled_from([1, 1, 1, 0, 3]))
            task.write(partition, draw(KINDS), draw(NAMES), gap=gap if task.number else 1)
    return task


@dataclass
class Settling:
    """Windows that are stored, decided, made and settled one after the other, as the flows do it with days."""

    topic: Topic
    windows: Sequence[Window]
    pasts: list[Past] = field(default_factory=list)
    made: dict[datetime, tuple[str, ...]] = field(default_factory=dict)
    left_out: int = 0

    def run(self) -> None:
        for count in range(1, len(self.windows) + 1):
            self.topic.decide([cell for cell in self.topic.rows if cell.window in self.windows[:count]])
            everything = self.marks(self.rows(0, count))
            self.assert_law(everything, count)
            for one in self.windows[len(self.pasts) : count]:
                self.made[one.start] = everything.mark(one).inputs
            while len(self.pasts) < count and self._settles(count):
                pass

    def rows(self, begin: int, end: int) -> list[IngestWindow]:
        return [row for one in self.windows[begin:end] for cell, row in self.topic.rows.items() if cell.window == one]

    def marks(self, rows: Sequence[IngestWindow], past: Past = NO_PAST, judged: Past = NO_PAST) -> TopicMarks:
        return TopicMarks.of(
            rows, TABLES, kafka_partitions=range(2), consistency=Consistency.WINDOW,
            order=ChangeOrder.MESSAGE_ID, settings="s", comparisons=self.topic.comparisons.values(), past=past, judged=judged,
        )  # fmt: skip

    def look(self, known: int, to: int) -> TopicMarks | None:
        """The look behind the past that leaves out all but ``known`` of the settled windows; None if it cannot tell."""
        settled = len(self.pasts)
        begin = max(0, settled - known)
        past, judged = (self.pasts[at - 1] if at else NO_PAST for at in (begin, settled))
        marks = self.marks(self.rows(begin, to), past, judged)
        if settled:
            told = marks.history.lineages.all[: len(judged.lineages)]
            if told != judged.lineages or ids_reach_back(
                past.ids, judged.ids, until=self.windows[settled].start, rows=self.rows(begin, to), seen=marks.history.ids
            ):  # fmt: skip
                return None
        return marks

    def _settles(self, count: int) -> bool:
        place = len(self.pasts)
        one, until = self.windows[place], self.windows[place].end
        for known, ahead in TRIES:
            to = min(count, place + 1 + ahead)
            marks = self.look(known, to)
            if marks is None or set(marks.mark(one).inputs) != set(self.made[one.start]):
                continue
            begin = max(0, place - known)
            ids = ids_after(
                self.pasts[begin - 1].ids if begin else NO_PAST.ids, self.rows(begin, place + 1), until=until,
                seen=marks.history.ids, comparisons=self.topic.comparisons.values(),
            )  # fmt: skip
            if ids is None:
                continue
            before = self.pasts[-1] if self.pasts else NO_PAST
            proofs = marks.proven_behind(before.proofs, self.rows(place, place + 1))
            past = Past(until, proofs=proofs, lineages=marks.history.lineages.all[: ids.lineages], ids=ids)
            self.pasts.append(Past.of_bytes(past.to_bytes()))
            return True
        return False

    def assert_law(self, everything: TopicMarks, count: int) -> None:
        settled = len(self.pasts)
        for known in (1, 3):
            look = self.look(known, count) if settled < count else None
            if look is None:
                continue
            self.left_out = max(self.left_out, settled - known)
            for one in self.windows[:settled]:
                assert set(everything.mark(one).inputs) == set(self.made[one.start]), "a settled window is stale"
            for one in self.windows[settled:count]:
                assert look.mark(one) == everything.mark(one)
                for row in self.rows(self.windows.index(one), self.windows.index(one) + 1):
                    self._assert_cell(look, everything, row)
            assert look.history.lineages.all == everything.history.lineages.all
            assert look.proven == everything.proven
            for mine, other in zip(look.history.ids.lives.values(), everything.history.ids.lives.values(), strict=True):
                assert (mine.undecided and mine.undecided.inputs) == (other.undecided and other.undecided.inputs)

    def _assert_cell(self, look: TopicMarks, everything: TopicMarks, row: IngestWindow) -> None:
        cell, (mine, other) = row.cell, (look.history, everything.history)
        assert mine.suspicions.get(cell) == other.suspicions.get(cell)
        assert mine.statements.get(cell) == other.statements.get(cell)
        assert mine.stretches(cell) == other.stretches(cell)
        assert mine.loads.get(cell) == other.loads.get(cell)
        assert mine.shared.get(cell.window.start) == other.shared.get(cell.window.start)
        for run in row.runs:
            assert len({one.lineages.of_run(cell.kafka_partition, run, epoch=row.epoch) for one in (mine, other)}) == 1


def settled(task: Task, every: int) -> Settling:
    borders = range(every, task.tick + every, every)
    topic = Topic(task.sent, borders)
    found = Settling(topic, sorted({cell.window for cell in topic.rows}))
    found.run()
    return found


@pytest.mark.more
@examples(300)
@given(tasks(), st.integers(2, 12))
def test_a_look_behind_the_past_tells_the_same(task: Task, every: int) -> None:
    event(f"windows left out: {min(max(0, settled(task, every).left_out), 5)}")


def going_on(task: Task, count: int) -> Task:
    for _ in range(count):
        task.write(0, "INSERT", "orders")
    return task


def test_a_kafka_partition_that_was_silent_in_a_life_shows_where_it_began() -> None:
    task = Task(2)
    for partition in (0, 0, 0, 0, 0, 0, 0, 1):
        task.write(partition, "INSERT", "orders")
    task.made_anew(0)
    task.write(1, "INSERT", "orders")
    task.write(1, "INSERT", "orders")
    task.made_anew(0)
    task.write(1, "INSERT", "orders")
    for _ in range(4):
        task.write(0, "INSERT", "orders")
    settled(task, 3)


def test_where_ids_only_grow_all_windows_but_the_last_are_settled() -> None:
    found = settled(going_on(Task(1), 40), 4)
    assert (len(found.windows), len(found.pasts), found.left_out) == (10, 10, 8)


def test_a_restart_keeps_nothing_from_being_settled_once_the_ids_are_passed() -> None:
    task = going_on(Task(1), 22)
    task.restart(3, 3)  # tells the last three messages again, inside a window
    found = settled(going_on(task, 20), 5)
    assert len(found.pasts) == len(found.windows)


def test_a_restart_at_the_border_of_a_day_is_settled_with_the_next_day() -> None:
    """Where ids fall at the end of a window, what they mean is told by the next one too."""
    task = going_on(Task(1), 14)
    task.restart(6, 6)  # ticks 14 to 19, of which 14 stands in the window before the others
    found = settled(going_on(task, 20), 5)
    assert len(found.pasts) == len(found.windows)
    assert any(past.ids.crossing for past in found.pasts)


def test_a_task_made_anew_is_settled_and_goes_on() -> None:
    task = going_on(Task(1), 20)
    task.made_anew(0)
    found = settled(going_on(task, 40), 5)
    assert len(found.pasts) == len(found.windows)
    assert [len(past.ids.lives[0].lives) for past in found.pasts][-1] == 2


def test_messages_of_a_life_that_is_left_out_are_compared_by_a_look_over_all_windows() -> None:
    task = going_on(Task(1), 20)
    task.made_anew(0)
    going_on(task, 25)
    task.retell(0, 2, 3)  # from the first life, which has ended five windows ago
    found = settled(going_on(task, 3), 5)
    assert len(found.pasts) == len(found.windows)
    found.pasts = found.pasts[:9]  # as they were before the windows in which it is told
    assert found.look(1, len(found.windows)) is None
    assert found.look(1 << 20, len(found.windows)) is not None


def test_the_past_stays_small_however_many_windows_it_has() -> None:
    few, many = (len(settled(going_on(Task(1), count), 4).pasts[-1].to_bytes()) for count in (40, 160))
    assert many < 1.2 * few


def in_turn(task: Task, count: int) -> Task:
    """Messages into one Kafka partition and the other."""
    for number in range(count):
        task.write(number % 2, "INSERT", "orders")
    return task


def test_kafka_partitions_that_share_no_old_ids_are_settled_and_left_out() -> None:
    found = settled(in_turn(Task(2), 40), 4)
    assert (len(found.windows), len(found.pasts), found.left_out) == (10, 10, 8)


def test_copies_of_old_messages_in_another_kafka_partition_are_found_by_a_look_over_all_windows() -> None:
    task = in_turn(Task(2), 30)
    task.restart(24, 3, 1)
    found = settled(in_turn(task, 8), 5)
    assert len(found.pasts) == len(found.windows)
    found.pasts = found.pasts[:6]  # as they were before the window of the copies
    assert found.look(1, len(found.windows)) is None
    assert found.look(1 << 20, len(found.windows)) is not None
