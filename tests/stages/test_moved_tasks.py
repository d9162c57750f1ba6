"""DRS: tasks that are made anew while messages move to other Kafka partitions give right rows, or a problem names them."""

from __future__ import annotations

from random import Random

import pytest

from dts_assets.model.problems import ProblemCode
from tests.stages.moved_tasks import MovedTasks
from tests.stages.task_messages import Sent, Topic, named, snapshot
from tests.tiers import times

FOUND = (3, 21, 39, 72, 86, 122, 163, 203, 278, 279)
"""Seeds with wrong rows, or rows that stood twice, without a problem, until these were named."""


@pytest.mark.more
@pytest.mark.parametrize("seed", sorted({*FOUND, *range(times(10, 300))}))
def test_rows_are_right_or_named(seed: int) -> None:
    tasks = MovedTasks.by_seed(seed)
    topic = Topic(tasks.sent, tasks.borders)
    history = topic.in_any_order(Random(seed))
    changes = topic.changes(history)
    assert tasks.unseen or named(history) or not tasks.differs(changes)
    assert changes == Topic(tasks.sent, tasks.borders).changes()


@pytest.mark.parametrize("borders", [(), (6,), (5, 6, 7), (7,)], ids=str)
def test_messages_of_a_new_task_in_two_kafka_partitions_do_not_make_each_other_copies(borders: tuple[int, ...]) -> None:
    """Each Kafka partition took the other one's message for the proof that its own was an old one."""
    old = [Sent(number, f"a{number}", number, number, number % 2, key=1) for number in range(1, 6)]
    new = Sent(1, "new", 50, 6, 0, "UPDATE", key=1)
    for sent in ([new, Sent(1, "new", 50, 7, 1, "UPDATE", key=1)], [Sent(1, "new", 50, 6, 1, "UPDATE", key=1), new]):
        topic = Topic([*old, *sent], borders)
        assert snapshot(topic.changes()) == {1: "new"} or ProblemCode.ID in named(topic.decide())


def test_a_message_that_another_kafka_partition_had_alone_begins_nothing_and_is_named_if_its_time_is_later() -> None:
    """Nobody knows whether ids begin again in the Kafka partition that has few, or whether times do not follow the ids."""
    few, many = [Sent(1, "a1", 1, 1, 0)], [Sent(number, f"a{number}", number, number, 1) for number in range(2, 9)]
    moved = [Sent(4, "x", 50, 10, 0), Sent(4, "x", 50, 11, 1)]
    history = Topic([*few, *many, *moved]).decide()
    assert len(history.lineages.all) == 1
    assert ProblemCode.ID in named(history)


def test_what_was_told_before_a_begin_and_stands_behind_it_is_named() -> None:
    old = [Sent(number, f"a{number}", number, number, key=number) for number in range(1, 6)]
    again = [Sent(1, "a1", 1, 7, key=1)]  # of the task before, right before the new one goes on at a greater id
    new = [Sent(number, f"b{number}", 50 + number, 8 + number, key=number) for number in range(2, 5)]
    topic = Topic([*old, *again, *new])
    history = topic.decide()
    assert [one.note for one in topic.changes(history) if one.key == 1] == ["a1", "a1"]
    assert named(history) == [ProblemCode.ID]
