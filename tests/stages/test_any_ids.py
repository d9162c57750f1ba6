"""Any history of ids that fall, and of copies in other Kafka partitions, against a model in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.id_lineages import lineage_of
from dts_assets.planning.topic_marks import TopicHistory
from tests.stages.task_messages import Sent, Topic, window
from tests.tiers import times


@dataclass
class Model:
    """What is kept of one Kafka partition, by the rule and nothing else: the whole stream at hand, message by message.

    ``elsewhere`` are the messages of other Kafka partitions. Windows begin at the ticks of ``borders``.
    """

    stream: Sequence[Sent]
    elsewhere: Sequence[Sent] = ()
    borders: Sequence[int] = ()

    def kept(self) -> list[tuple[int, Sent]]:
        """The life of every message that is kept, in order."""
        lives: list[list[tuple[int, int, Sent]]] = []  # stretch, place among equal ones, message
        latest: list[int] = []
        present = 0
        for number, stretch in enumerate(self.stretches()):
            placed = [
                (number, sum(one.number == other.number and one.said == other.said for other in stretch[:at]), one)
                for at, one in enumerate(stretch)
                if not repeats_neighbour(stretch, at)
            ]
            if not lives:
                lives.append(placed)
                latest.append(max(one.es for one in stretch))
                continue
            greatest = max(one.number for _, _, one in lives[present])
            told = [one for one in stretch if one.number <= greatest]
            ids = {one.number for _, _, one in lives[present]}
            said = [{(one.number, one.said) for _, _, one in some} for some in lives]
            first = {(one.number, one.said): one.es for _, _, one in reversed(lives[present])}
            times = {(id_, es) for (id_, _), es in first.items() if es}
            until = next((one for one in stretch if one.number > greatest), stretch[-1])
            elsewhere = self._told_elsewhere(window(told[0].tick, self.borders), window(until.tick, self.borders))
            other = any(
                (one.number, one.said) not in said[present] and (one.number, one.es) not in times
                if one.number in ids
                else one.es > latest[present]
                for one in told
                if one.number < greatest and (one.number, one.said) not in elsewhere
            )
            target = present
            if other:
                older = [
                    k for k in range(present - 1, -1, -1)
                    if max(one.es for one in told) <= latest[present] and all((one.number, one.said) in said[k] for one in told)
                ]  # fmt: skip
                target = older[0] if older else len(lives)
            if target == len(lives):
                lives.append(placed)
                latest.append(max(one.es for one in stretch))
                present = target
                continue
            latest[present] = max(latest[present], *(one.es for one in stretch))
            for one in placed:
                beyond = one[2].number > greatest
                told_before = any(
                    (other[1], other[2].number, other[2].said) == (one[1], one[2].number, one[2].said)
                    for other in lives[target]
                    if other[0] < number
                )
                if beyond or not told_before:
                    lives[present if beyond else target].append(one)
        return [
            (place, one)
            for place, some in enumerate(lives)
            for _, _, one in sorted(some, key=lambda each: each[2].number)
        ]

    def _told_elsewhere(self, since: Window, until: Window) -> set[tuple[int, str]]:
        """What other Kafka partitions said of tables with a key up to a window, at ids that they had not passed since one."""
        found: set[tuple[int, str]] = set()
        for partition in {one.partition for one in self.elsewhere}:
            mine = [one for one in self.elsewhere if one.partition == partition]
            passed, before = -1, -1  # up to the stretch of growing ids, and to the message before
            for at, one in enumerate(mine):
                here = window(one.tick, self.borders)
                last = mine[at - 1].number if at else -1
                if here >= since and (not at or window(mine[at - 1].tick, self.borders) < since):
                    passed = before = last
                elif one.number < last or (at and window(mine[at - 1].tick, self.borders) != here):
                    passed = before
                if one.table != "bag" and here <= until and (here < since or one.number > passed):
                    found.add((one.number, one.said))
                before = max(before, one.number)
        return found

    def stretches(self) -> list[list[Sent]]:
        """What comes between two falls."""
        found: list[list[Sent]] = []
        for one in self.stream:
            if not found or one.number < found[-1][-1].number:
                found.append([])
            found[-1].append(one)
        return found


def repeats_neighbour(stretch: Sequence[Sent], at: int) -> bool:
    """Where a table has a key, a message that says what one before it with its id said was sent twice."""
    one = stretch[at]
    return one.table != "bag" and any((one.number, one.said) == (other.number, other.said) for other in stretch[:at])


def table_of(number: int) -> str:
    """All pieces of an event are of one table; one table has no key."""
    return "bag" if number % 3 == 0 else "orders"


@st.composite
def streams(draw: st.DrawFn, *, partitions: int) -> list[Sent]:
    """What tasks send into Kafka partitions: lives, pieces, re-reads of the present life or an older one, stray messages."""
    sent: list[Sent] = []
    tick = 0
    random = Random(draw(st.integers(0, 1 << 30)))
    lives: list[list[Sent]] = []
    clock = 0
    for number in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, 3))
        mine: list[Sent] = []
        clock = clock + 5 if draw(st.booleans()) else max(0, clock - 10)
        same = draw(st.booleans())
        for _ in range(draw(st.integers(1, 12))):
            at += random.choice([0, 1, 1, 1, 2])
            clock = max(0, clock + random.choice([0, 1, 1, 3, -2]))
            said = random.choice("ab") if same else f"{number}{random.choice('ab')}"
            mine.append(Sent(at, said, clock, tick, random.randrange(partitions), table=table_of(at)))
            tick += 1
            sent.append(mine[-1])
            what = random.random()
            if what < 0.15:
                source = mine if what < 0.1 or not lives else random.choice(lives)
                begin = random.randrange(len(source))
                copies = source[begin : begin + random.randint(1, 6)] if what < 0.05 else source[begin:]
                late = random.choice([0, 0, 0, 7])
                moved = random.randrange(partitions) if random.random() < 0.4 else 0
                sent += [
                    replace(one, tick=tick + step, es=one.es + late, partition=(one.partition + moved) % partitions)
                    for step, one in enumerate(copies)
                ]
                tick += len(copies)
            elif what < 0.18:
                stray = random.randint(0, at)
                sent.append(
                    Sent(stray, "stray", max(0, clock - 3), tick, random.randrange(partitions), table=table_of(stray))
                )
                tick += 1
        lives.append(mine)
    return sent


BORDERS = st.lists(st.integers(1, 90), max_size=6).map(sorted)


@pytest.mark.more
@settings(max_examples=times(10, 300))
@given(streams(partitions=2), BORDERS, st.sampled_from([1, 3, 1000]), st.randoms(use_true_random=False))
def test_any_history_is_told_as_the_rule_says(sent: list[Sent], borders: list[int], chunk: int, random: Random) -> None:
    topic = Topic(sent, borders, chunk=chunk)
    history = topic.in_any_order(random)
    changes = topic.changes(history)
    # A Kafka partition passes what others saw begin by times alone.
    by_clock = any("only times tell" in one.detail for one in history.lineages.doubts)
    copies = copies_elsewhere(topic, history, sent, borders)
    for partition in topic.partitions:
        mine = [one for one in changes if one.partition == partition]
        own, others = ([one for one in sent if (one.partition == partition) is here] for here in (True, False))
        expected = [(life, one) for life, one in Model(own, others, borders).kept() if one.tick not in copies]
        told, wanted = [(one.at[1], one.note) for one in mine], [(one.number, one.said) for _, one in expected]
        if by_clock:
            assert sorted(told, key=str) == sorted(wanted, key=str)
            continue
        assert told == wanted
        pairs = zip(pairwise(life for life, _ in expected), pairwise(one.at[0] for one in mine), strict=True)
        assert all((a < b) == (c < d) for (a, b), (c, d) in pairs)
    assert changes == Topic(sent, borders).changes(), "the order in which windows come changes nothing"


def copies_elsewhere(topic: Topic, history: TopicHistory, sent: Sequence[Sent], borders: Sequence[int]) -> set[int]:
    """The ticks of the messages that are copies of one in another Kafka partition, or follow such a copy."""
    equal: dict[tuple[int, int, str], list[Sent]] = {}
    offsets = Counter[int]()
    for one in sent:
        row = topic.rows[Cell(one.partition, window(one.tick, borders))]
        time = datetime.fromtimestamp(one.es, UTC)
        lineage = lineage_of(history.lineages, row, offset=offsets[one.partition], time=time)
        offsets[one.partition] += 1
        if one.table != "bag":
            equal.setdefault((lineage, one.number, one.said), []).append(one)
    found = set[int]()
    for some in equal.values():
        if len({one.partition for one in some}) > 1:
            _, *others = sorted(some, key=lambda one: (window(one.tick, borders), one.partition, one.tick))
            found |= {one.tick for one in others}
    return found
