"""No wrong row after any failover, reset or re-read: what arrives is kept once and in order, or a doubt is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.gtids import server_and_number
from dts_assets.model.lineages import Break, LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.planning.topic_lineages import Lineages, _Highest, find_lineages
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.stages.entry_lineages import entry_lineages
from tests.ledger_rows import ingest_row
from tests.planning.failovers import (
    SIZES,
    Action,
    Names,
    Shape,
    Stop,
    Story,
    Tell,
    Write,
    has_mixed_sets,
    has_several,
    has_torn_sets,
    in_sets,
    shapes,
    stories,
    story,
)  # fmt: skip
from tests.stages.streams import EPOCH, stored
from tests.stages.test_redelivered_entries import cut, kept_of, runs_of, window
from tests.tiers import examples, times


@dataclass(frozen=True)
class Verdict:
    """What is wrong with the rows of a story, inside a Kafka partition and across them, and whether a doubt is named."""

    lost: bool
    doubled: bool
    disordered: bool
    across: bool
    doubted: bool
    lineages: int

    @property
    def right(self) -> bool:
        return not (self.lost or self.doubled or self.disordered or self.across)

    @property
    def right_in_partitions(self) -> bool:
        return not (self.lost or self.doubled or self.disordered)


def judge(told: Story, borders: Sequence[int] = (), chunk: int = 100) -> Verdict:
    """Return what the rules make of a story whose windows end at some ticks."""
    cells = cut(told.delivered, borders)
    rows = {cell: ingest_row(cell, runs=runs_of(delivered, chunk=chunk)) for cell, delivered in cells.items()}
    found = find_lineages(rows.values(), trust_gtids=True)
    kept = [(key, one) for key, one in sorted(kept_of(cells, found, True, rows), key=lambda pair: pair[0])]
    sent = [event.identity for events in told.events for event in events if event.kind == "DML"]
    mine = [one.event.identity for _, one in kept]
    parts: dict[int, list[tuple[int, int]]] = {}
    for _, one in kept:
        parts.setdefault(one.partition, []).append(one.event.identity)
    return Verdict(
        lost=not set(sent) <= set(mine),
        doubled=len(mine) != len(set(mine)),
        disordered=any(of != sorted(of) for of in parts.values()),
        across=mine != sorted(mine),
        doubted=bool(found.doubts),
        lineages=len(found.all),
    )


def assert_lawful(told: Story, verdict: Verdict, *about: object) -> None:
    """Nothing is wrong without a doubt; with GTIDs nothing in a Kafka partition, and one alone has no doubts.

    Except where a set has what two binlogs told: only numbers tell the entries of a set apart. And where sets have GTIDs of
    several servers, a window may take the binlog for another one that tells what was before the window.
    """
    assert verdict.right or verdict.doubted, about
    if told.shape.gtids:
        assert verdict.right_in_partitions or has_torn_sets(told), about
        assert not verdict.doubted or told.shape.partitions > 1 or has_mixed_sets(told) or has_several(told), about


A, B, C = 0, 1, 2
ONE, TWO = (0,), (0, 1)
WITHOUT = Shape(names="none", bases=(500, 10, 40))
TORN = (Write((0, 0)), Write((0, 0, 0)), Stop(B, lost=(3,)), Write((0,)))
BLIND = (Write(TWO), Stop(B), Write((0,)), Write((0,)), Stop(C), Write((1,)), Write((1,)))
OLD = (Write(ONE), Write(ONE), Stop(B), Write(ONE), Write(ONE), Tell(A, 1, 1), Tell(B, 2, 3), Write(ONE))


@pytest.mark.parametrize("borders", [(), (5,), (7,), (8,), (12,), (5, 8, 12)])
def test_without_gtids_an_old_server_that_is_read_again_is_told_from_the_new_one(borders: tuple[int, ...]) -> None:
    verdict = judge(story(WITHOUT, OLD), borders)
    assert verdict.right
    assert (verdict.lineages, verdict.doubted) == (2, True)


@pytest.mark.parametrize("borders", [(), (3,), (5,), (6,), (9,), (5, 9)])
@pytest.mark.parametrize("bases", [(500, 10, 0), (10, 500, 0), (30, 31, 0)])
def test_a_transaction_torn_by_a_failover_keeps_its_order(borders: tuple[int, ...], bases: tuple[int, ...]) -> None:
    verdict = judge(story(Shape(bases=bases), TORN), borders)
    assert verdict.right
    assert not verdict.doubted


@pytest.mark.parametrize("border", [5, 6, 7, 9])
@pytest.mark.parametrize("names", ["mysql", "mariadb"])
def test_a_transaction_that_a_border_cuts_and_another_server_tells_again_stands_once(names: str, border: int) -> None:
    """Places in it are counted from its BEGIN, which is in the window before."""
    actions = (Write(TWO), Write(ONE), Write((0, 0)), Stop(B, lost=(2, 3)), Stop(B, back=1), Write(TWO))
    shape = Shape(2, "mariadb" if names == "mariadb" else "mysql", broadcast=False, bases=(10, 12, 500))
    told = in_sets(story(shape, actions), [[1, 7], [3, 9]])
    assert judge(told, (border,)).right_in_partitions


@pytest.mark.parametrize("clocks", [(0, 0, 0), (0, 9, 0), (0, 0, -9)])
def test_servers_that_no_kafka_partition_saw_together_are_not_mixed(clocks: tuple[int, ...]) -> None:
    verdict = judge(story(Shape(2, broadcast=False, clocks=clocks), BLIND))
    assert verdict.right_in_partitions
    assert verdict.doubted
    assert verdict.right or clocks != (0, 0, 0)


@pytest.mark.parametrize(
    ("names", "sets", "servers"),
    [
        ("mysql", ("server-0:1", "server-0:1,server-1:1-2"), ["server-0", "server-1", "server-2"]),
        ("mariadb", ("0-0-1", "0-1-3"), None),  # it names the last server alone, and proves nothing of the others
    ],
)
def test_a_checkpoint_tells_which_of_two_servers_came_first(
    names: Names, sets: tuple[str, ...], servers: list[str] | None
) -> None:
    told = story(Shape(2, names, broadcast=False, clocks=(0, 9, 0)), BLIND)
    cells = cut(told.delivered, ())
    marks = tuple(SeenCheckpoint("", 99, SourcePosition(0, 1, 900), one, fake_gtid=False) for one in sets)
    rows = [ingest_row(cell, runs=runs_of(of, chunk=9), checkpoints=marks) for cell, of in cells.items()]
    found = find_lineages(rows, trust_gtids=True)
    assert bool(found.doubts) == (servers is None)
    assert servers in (None, [one.server for one in found.all])


def histories(alphabet: Sequence[Action], length: int) -> Iterator[tuple[Action, ...]]:
    return ((Write((0,)), *rest) for rest in product(alphabet, repeat=length))


@pytest.mark.more(after=1)
@pytest.mark.parametrize("names", ["mysql", "mariadb"])
@pytest.mark.parametrize("bases", [(500, 10, 40), (10, 12, 500)])
def test_every_small_history_of_one_kafka_partition_is_right(names: str, bases: tuple[int, ...]) -> None:
    shape = Shape(names="mariadb" if names == "mariadb" else "mysql", bases=bases)
    several = (
        Write((0, 0)), Stop(back=1), Stop(lost=(2,)), Stop(B, 1), Stop(B, lost=(2,)), Stop(A, 2, (1,)), Stop(C, first_old=True),
    )  # fmt: skip
    for number, actions in enumerate(histories(several, times(2, 4))):
        told = story(shape, [*actions, Write((0,))])
        verdict = judge(told, [(5, 6, 7, 9)[number % 4]] if number % 2 else ())
        assert verdict.right, actions
        assert not verdict.doubted, actions


@pytest.mark.parametrize("broadcast", [True, False])
def test_no_small_history_of_two_kafka_partitions_is_wrong_without_a_doubt(broadcast: bool) -> None:
    several = (
        Write(TWO),
        Write((1,)),
        Stop(back=1, lost=(1, 2)),
        Stop(B, lost=(2, 0)),
        Stop(C, 1),
        Stop(A, lost=(0, 1)),
    )
    for actions in histories(several, times(2, 4)):
        verdict = judge(story(Shape(2, broadcast=broadcast), [*actions, Write((1, 0))]))
        assert verdict.right_in_partitions, actions
        assert verdict.right or verdict.doubted, actions


@pytest.mark.parametrize("size", [3, 6, 9])
def test_a_set_may_hold_the_last_of_one_server_and_the_first_of_the_next(size: int) -> None:
    """Server B tells A's last transaction, which nobody has seen, and its own in one set: found by the stateful test."""
    everything = (Write(TWO), Write(TWO), Stop(B, lost=(3, 3)), Write(TWO))
    verdict = judge(in_sets(story(Shape(2), everything), [[1], [size]]))
    assert verdict.right
    assert not verdict.doubted


def test_breaks_in_one_set_are_in_the_order_in_which_it_has_them() -> None:
    """Server A tells the torn transaction again, then B that and its own: both breaks have the offset of the set."""
    torn = (Write((0, 0, 0)), Write((0, 0)), Stop(A, lost=(1,)), Stop(B, lost=(2,), first_old=True), Write((0,)))
    verdict = judge(in_sets(story(Shape(bases=(500, 500, 500)), torn), [[5, 2]]))
    assert verdict.right
    assert (verdict.lineages, verdict.doubted) == (3, False)


@pytest.mark.parametrize("bases", [(500, 10, 0), (10, 500, 0)])
def test_what_the_next_server_tells_again_in_a_set_leaves_the_rest_of_the_set_where_it_was(
    bases: tuple[int, ...],
) -> None:
    everything = (Write(ONE), Write(ONE), Stop(B, back=1), Write(ONE))
    verdict = judge(in_sets(story(Shape(bases=bases), everything), [[12]]))
    assert verdict.right
    assert verdict.doubted  # no stored fact tells that the last transaction of A was whole


@pytest.mark.parametrize("bases", [(100, 10, 10), (10, 100, 10)])
def test_a_set_with_a_transaction_from_two_servers_is_a_doubt(bases: tuple[int, ...]) -> None:
    """The parts of the transaction stand at positions of two binlogs, and no number tells which is which."""
    verdict = judge(in_sets(story(Shape(bases=bases), (Write((0, 0)), Stop(B, lost=(2,)))), [[5]]))
    assert not verdict.lost
    assert not verdict.doubled
    assert verdict.doubted


def lineages_of_checkpoints(told: Story, partition: int, offsets: Sequence[int]) -> list[int]:
    """The lineages of CHECKPOINTs that have no GTID set, at some offsets, beside the base of their Kafka partition."""
    rows = [ingest_row(cell, runs=runs_of(of, chunk=100)) for cell, of in cut(told.delivered, ()).items()]
    found = find_lineages(rows, trust_gtids=True)
    marks = [SeenCheckpoint("", offset, SourcePosition(0, 1, 900), None, fake_gtid=False) for offset in offsets]
    return [found.of_checkpoint(partition, mark, {}) - found.rule(partition, "").base for mark in marks]


def test_a_checkpoint_without_gtids_is_of_the_next_server_behind_a_set_that_has_both() -> None:
    told = in_sets(story(Shape(2), (Write(TWO), Write(TWO), Stop(B, lost=(3, 3)), Write(TWO))), [[1], [6]])
    (both, _) = sorted({one.offset for one in told.delivered if one.partition == 1})
    assert lineages_of_checkpoints(told, 1, [both, both + 1]) == [0, 1]


def test_a_checkpoint_without_gtids_is_behind_a_break_from_where_all_entries_surely_are() -> None:
    """Its Kafka partition did not see the break, so that it has no offset, and a CHECKPOINT without GTIDs no number."""
    unseen = Break(1, (("server-0", 5),), EPOCH, None, by_gtid=True, surely=10)
    found = Lineages((), {(0, ""): LineageRule(0, (unseen,))}, {})
    marks = [SeenCheckpoint("", at, SourcePosition(0, 1, 900), None, fake_gtid=False) for at in (9, 10)]
    assert [found.of_checkpoint(0, mark, {}) for mark in marks] == [0, 1]
    assert found.of_checkpoint(0, marks[1], {"server-0": 5}) == 0  # its numbers tell more than its offset


def test_a_server_from_before_the_topic_does_not_tell_that_a_checkpoint_is_behind_a_break() -> None:
    """Its transactions stand in every GTID set, on either side."""
    seen = Break(1, (("server-0", 5),), EPOCH, 10, by_gtid=True)
    found = Lineages((), {(0, ""): LineageRule(0, (seen,))}, {})
    mark = SeenCheckpoint("", 9, SourcePosition(0, 1, 900), None, fake_gtid=False)
    assert [found.of_checkpoint(0, mark, {"server-0": at, "server-9": 700}) for at in (5, 6)] == [0, 1]
    later = replace(mark, offset=10)
    assert [found.of_checkpoint(0, at, {"server-9": 700}) for at in (mark, later)] == [0, 1]


SETS = ([[2], [5]], [[3], [1]], [[5], [2]], [[8], [8]], [[4, 1], [1]], [[1, 7], [3, 9]])
"""Sizes of sets in each of two Kafka partitions, over and over."""


@pytest.mark.more(after=1)
@pytest.mark.parametrize("names", ["mysql", "mariadb"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_every_small_history_in_sets_is_lawful(names: str, partitions: int) -> None:
    one = (Write((0, 0)), Stop(back=1), Stop(lost=(2, 1)), Stop(B, 1), Stop(B, lost=(2, 3)), Stop(C, first_old=True))
    two = (Write((1,)), Stop(A, lost=(0, 1))) if partitions == 2 else (Stop(A, 2, (1,)),)
    for number, actions in enumerate(histories((*one, *two), times(2, 3))):
        shape = Shape(
            partitions, "mariadb" if names == "mariadb" else "mysql", broadcast=number % 2 == 0,
            bases=((500, 10, 40), (10, 12, 500))[number % 3 // 2],
        )  # fmt: skip
        everywhere = Write(tuple(range(partitions)))
        for sizes in SETS[number % len(SETS) :][: times(1, len(SETS))]:
            told = in_sets(story(shape, [everywhere, *actions, everywhere]), sizes[:partitions])
            assert_lawful(told, judge(told, [(5, 6, 7, 9)[number % 4]] if number % 5 == 0 else ()), actions, sizes)


PASSED = (*(Write((0,)),) * 3, Write((0, 0)), Stop(B, lost=(0, 0, 1)), Write((0, 0, 0), A), Write((0, 0), A))


@pytest.mark.parametrize("border", [25, 28, 29, 30, 33, 36])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("bases", [(10, 1, 1), (10, 2, 1), (10, 4, 1)])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_another_server_that_goes_on_above_the_last_position_is_known_by_what_it_tells_again(
    border: int, partitions: int, bases: tuple[int, ...], back: int
) -> None:
    """Server B is a replica of A, and the task goes over to it: all GTIDs are A's.

    Its window knows nothing of the window before, and its run begins below the highest position and ends above it.
    """
    actions = [replace(one, back=back) if isinstance(one, Stop) else one for one in PASSED]
    told = story(Shape(partitions, bases=bases), actions)
    verdict = judge(told, (border,))
    assert verdict.right
    assert verdict.lineages > 1
    assert not (verdict.doubted and partitions == 1)


@pytest.mark.parametrize("last", range(7))
@pytest.mark.parametrize("partitions", [1, 2])
def test_transactions_that_come_again_without_those_behind_them_are_of_the_same_binlog(
    last: int, partitions: int
) -> None:
    """A producer sends some messages again, and then new ones; the window may begin with the first message that comes again."""
    written = (Write(tuple(range(partitions))),) * 7
    for first in range(last + 1):
        told = story(Shape(partitions), (*written, Tell(A, first, last), *written))
        border = story(Shape(partitions), written).tick + 1
        for borders in ((), (border,), (border + 2,)):
            verdict = judge(told, borders)
            assert verdict.right, (first, borders)
            assert (verdict.lineages, verdict.doubted) == (1, False), (first, borders)


@pytest.mark.parametrize(
    ("shape", "actions", "borders", "sizes"),
    [
        pytest.param(
            Shape(2, bases=(12, 30, 30), clocks=(0, -3, 3), earlier=7),
            (
                Write((1, 0)), Stop(C, 2, (3, 0)), Write((1,)), Write((1, 0, 1)), Stop(A, 0, (4, 2)), Stop(C, 1, (3, 0)),
                Write((0, 1, 1)),
            ),
            (), (), id="the rest of a torn transaction comes from the old server, its begin from the new one",
        ),
        pytest.param(
            Shape(2, "mariadb", broadcast=False, bases=(4, 100, 16), clocks=(0, 3, 0), slow=2, earlier=7),
            (
                Write((0, 0, 0)), Write((0, 0, 1)), Write((0, 0)), Stop(C, 2, (0, 1)), Write((1, 0)), Stop(A, 3, (2, 0)),
                Stop(None, 3, (0, 4), first_old=True), Write((0, 0, 1)),
            ),
            (), (), id="one Kafka partition passes a break by number that another one alone has seen",
        ),
        pytest.param(
            Shape(1, broadcast=False, bases=(16, 8, 10), clocks=(0, 3, -3), slow=2),
            (
                Write((0, 0, 0), 1), Write((0,), 1), Write((0, 0)), Write((0, 0, 0)), Write((0,)), Write((0, 0, 0)),
                Write((0, 0, 0)), Write((0,)), Write((0, 0, 0)), Stop(C, 2, (2,)), Write((0, 0), 1),
            ),
            (30,), ([7, 5],), id="the set in which another server begins goes on from a run with greater numbers",
        ),
        pytest.param(
            Shape(3, "mariadb", broadcast=False, bases=(12, 30, 1), clocks=(0, -3, 0), slow=3),
            (
                Write((0, 2, 2)), Write((0, 2), 2), Stop(None, 2, (2, 4, 2)), Write((0, 2, 1)), Write((0,), 1),
                Write((2, 0, 0)), Write((1,)), Write((0,), 0), Stop(A, 0, (1, 0, 0)), Stop(None, 2, (0, 0, 2)),
                Write((0, 2, 1)),
            ),
            (3, 16, 45), ([6, 2, 1], [7, 6], [9, 8]), id="a run of two servers passes a break that its partition did not see",
        ),
    ],
)  # fmt: skip
def test_no_order_is_wrong_without_a_doubt_where(
    shape: Shape, actions: Sequence[Action], borders: Sequence[int], sizes: Sequence[Sequence[int]]
) -> None:
    told = story(shape, actions)
    told = in_sets(told, sizes) if sizes else told
    for chunk in (1, 3, 100):
        assert_lawful(told, judge(told, borders, chunk))


BORDERS = st.lists(st.integers(1, 60), max_size=3).map(sorted)


@examples(600)
@given(stories(gtids=True), BORDERS, st.sampled_from([1, 3, 100]))
def test_with_gtids_nothing_is_lost_doubled_or_out_of_order(told: Story, borders: list[int], chunk: int) -> None:
    assert_lawful(told, judge(told, borders, chunk))


@pytest.mark.more
@examples(400)
@given(stories(gtids=False), BORDERS, st.sampled_from([1, 3, 100]))
def test_without_gtids_nothing_is_wrong_without_a_doubt(told: Story, borders: list[int], chunk: int) -> None:
    assert_lawful(told, judge(told, borders, chunk))


@examples(150)
@given(
    shapes(gtids=True),
    st.lists(st.one_of(st.just(Write((0,))), st.builds(Stop, back=st.integers(0, 3))), max_size=9),
    BORDERS,
    SIZES,
)
def test_a_server_that_is_only_read_again_leaves_no_doubt(
    shape: Shape, actions: list[Action], borders: list[int], sizes: list[int]
) -> None:
    told = in_sets(story(shape, [Write((0,)), *actions]), [sizes] * shape.partitions)
    verdict = judge(told, borders)
    assert verdict.right
    assert (verdict.lineages, verdict.doubted) == (1, False)


@examples(100)
@given(st.one_of(stories(gtids=True), stories(gtids=False)), BORDERS)
def test_columns_and_single_entries_get_the_same_lineage(told: Story, borders: list[int]) -> None:
    cells = cut(told.delivered, borders)
    rows = [ingest_row(cell, runs=runs_of(delivered, chunk=7)) for cell, delivered in cells.items()]
    found = find_lineages(rows, trust_gtids=True)
    for cell, delivered in cells.items():
        rule = found.rule(cell.kafka_partition, "")
        in_order = sorted(delivered, key=lambda one: one.place)
        (batch,) = stored(delivered).combine_chunks().to_batches()
        one_by_one = []
        for one in in_order:
            server, number = server_and_number(one.gtid or "") or (None, -1)
            one_by_one.append(rule.lineage(offset=one.offset, server=server, number=number, time=one.time))
        assert entry_lineages(batch, {"": rule}).tolist() == one_by_one


def test_a_statement_that_another_server_tells_again_counts_once() -> None:
    cells = [Cell(0, window(0)), Cell(0, window(1))]
    first = SeenStatement("", 1, SourcePosition(0, 3, 500), "server-0:7", EPOCH)
    again = replace(first, offset=9, position=SourcePosition(0, 1, 40))
    rows = [ingest_row(cell, statements=(one,)) for cell, one in zip(cells, (first, again), strict=True)]
    history = TopicHistory.of(rows, (), order=ChangeOrder.BINLOG_POSITION)
    assert history.statements == {cells[0]: frozenset({1})}


def test_where_nothing_tells_a_copy_every_statement_counts() -> None:
    cells = [Cell(0, window(0)), Cell(1, window(0)), Cell(0, window(1))]
    same = SeenStatement("", 1, SourcePosition(0, 3, 500), "server-0:7", EPOCH)
    rows = [ingest_row(cell, statements=(same, replace(same, offset=2))) for cell in cells]
    history = TopicHistory.of(rows, (), order=ChangeOrder.ARRIVAL)
    assert history.statements == dict.fromkeys(cells, frozenset({1, 2}))
    assert (history.suspicions, history.lineages, history.lives) == ({}, Lineages((), {}, {}), {})


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_two_kafka_partitions_tell_what_all_others_have(places: list[tuple[int, int]]) -> None:
    found, greatest = _Highest(), dict[int, int]()
    for partition, place in places:
        at = SourcePosition(0, 1, place)
        others = any(place < other for known, other in greatest.items() if known != partition)
        assert found.of_others(partition, at) is others
        found.see(partition, at)
        greatest[partition] = max(place, greatest.get(partition, place))
