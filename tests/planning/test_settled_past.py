"""A look behind the past tells what a look over all windows tells, or says that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.settled_past import NO_PAST, Past, past_after, reaches_back
from dts_assets.planning.topic_marks import TopicMarks
from tests.ledger_rows import ingest_row
from tests.planning.failovers import SIZES, Action, Shape, Stop, Story, Write, in_sets, shapes, stops, story, writes
from tests.stages.streams import Delivered
from tests.stages.test_redelivered_entries import runs_of, window
from tests.tiers import examples

TABLES = (TableId("shopdb", "", "orders"),)


def rows_of(told: Story, every: int) -> list[list[IngestWindow]]:
    """The marks of a story's windows, each of so many ticks, with CHECKPOINTs and statements."""
    last = max((one.tick for one in told.delivered), default=0)
    found: list[list[IngestWindow]] = []
    earlier = told.shape.earlier if told.shape.names == "mysql" else 0
    counted = {f"server-{number}": earlier for number in range(len(told.shape.bases)) if earlier}
    for number in range(last // every + 1):
        inside = [one for one in told.delivered if one.tick // every == number]
        for one in inside:
            if one.gtid is not None:
                source, _, reached = one.gtid.rpartition("-" if told.shape.names == "mariadb" else ":")
                counted[source] = max(counted.get(source, 0), int(reached))
        joint = "-{}" if told.shape.names == "mariadb" else ":1-{}"
        synced = ",".join(f"{source}{joint.format(reached)}" for source, reached in sorted(counted.items()))
        found.append(
            [
                _row(
                    Cell(partition, window(number)),
                    [one for one in inside if one.partition == partition],
                    OffsetRange(number * every, (number + 1) * every),
                    synced,
                )
                for partition in range(told.shape.partitions)
            ]
        )
    return found


def _row(cell: Cell, delivered: Sequence[Delivered], offsets: OffsetRange, synced: str) -> IngestWindow:
    in_order = sorted(delivered, key=lambda one: one.place)
    statements = [
        SeenStatement("", one.offset, SourcePosition(0, one.file, one.position), one.gtid, one.time)
        for one in in_order
        if one.event.kind == "COMMIT" and one.event.identity[0] % 3 == 0
    ]
    checkpoints = [
        SeenCheckpoint("", one.offset, SourcePosition(0, one.file, one.position), synced or None, fake_gtid=False)
        for one in in_order[-1:]
    ]
    return ingest_row(
        cell, offsets, generation=f"g{cell}", runs=runs_of(in_order, chunk=100), statements=tuple(statements),
        checkpoints=tuple(checkpoints),
    )  # fmt: skip


def marks_of(rows: Sequence[IngestWindow], partitions: int, past: Past = NO_PAST, judged: Past = NO_PAST) -> TopicMarks:
    return TopicMarks.of(
        rows, TABLES, kafka_partitions=range(partitions), consistency=Consistency.CUT,
        order=ChangeOrder.BINLOG_POSITION, settings="s", past=past, judged=judged,
    )  # fmt: skip


def told_of(marks: TopicMarks, one: Window) -> Cut:
    return marks.mark(one)


@dataclass
class Settling:
    """Windows that are settled one after the other, as the flow settles days.

    ``made`` are the marks that the windows have; those that would be others now are stale, and their days are not settled.
    """

    windows: Sequence[Sequence[IngestWindow]]
    made: TopicMarks
    pasts: list[Past] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place in range(len(self.windows)):
            if not self._settles(place):
                break

    @property
    def partitions(self) -> int:
        return len(self.windows[0])

    def look(self, known: int, to: int) -> TopicMarks | None:
        """The look behind the past that leaves out all but ``known`` of the settled windows; None if it cannot tell."""
        begin = max(0, len(self.pasts) - known)
        past = self.pasts[begin - 1] if begin else NO_PAST
        before = [row for some in self.windows[begin : len(self.pasts)] for row in some]
        later = [row for some in self.windows[len(self.pasts) : to] for row in some]
        judged = self.pasts[-1] if self.pasts else NO_PAST
        marks = marks_of([*before, *later], self.partitions, past, judged)
        back = reaches_back(past, before, later, judged=judged, lineages=marks.history.lineages)
        return None if back else marks

    def _settles(self, place: int) -> bool:
        mine = self.windows[place]
        one = mine[0].window
        for known, ahead in ((1, 0), (1, 2), (3, 2)):
            marks = self.look(known, place + 1 + ahead)
            if marks is not None and set(marks.mark(one).inputs) == set(self.made.mark(one).inputs):
                break
        else:
            return False
        before = self.pasts[-1] if self.pasts else NO_PAST
        past = past_after(
            before, mine, until=one.end, proofs=marks.proven_behind(before.proofs, mine), lineages=marks.history.lineages,
            frontier=replace(before.frontier, window=one.start),
        )  # fmt: skip
        self.pasts.append(Past.of_bytes(past.to_bytes()))
        return True


@st.composite
def long_stories(draw: st.DrawFn, *, gtids: bool) -> Story:
    """Histories of many transactions with few stops, some of whose sets hold several events."""
    shape = draw(shapes(gtids=gtids))
    written = writes(shape.partitions, gtids=gtids)
    stop = stops(shape.partitions, gtids=gtids)
    actions: list[Action] = [draw(written)]
    for _ in range(draw(st.integers(1, 4))):
        actions += draw(st.lists(written, min_size=2, max_size=9))
        if draw(st.booleans()):
            actions.append(draw(stop))
    several = st.lists(SIZES, min_size=shape.partitions, max_size=shape.partitions)
    return in_sets(story(shape, actions), draw(st.one_of(st.just([[1]] * shape.partitions), several)))


def assert_law(told: Story, every: int) -> int:
    """Compare the last look behind the past with a look over all windows, and return the windows that it left out."""
    windows = rows_of(told, every)
    everything = marks_of([row for some in windows for row in some], told.shape.partitions)
    settling = Settling(windows, everything)
    settled = len(settling.pasts)
    for known in (1, 3):
        look = settling.look(known, len(windows))
        if look is None:
            continue
        for some in windows[settled:]:
            start = some[0].window
            assert look.mark(start) == everything.mark(start)
            assert look.beside(start) == everything.beside(start)
            for row in some:
                assert look.history.rules(row.cell) == everything.history.rules(row.cell)
                assert look.history.suspicions.get(row.cell) == everything.history.suspicions.get(row.cell)
                assert look.history.statements.get(row.cell) == everything.history.statements.get(row.cell)
        assert look.history.lineages.all == everything.history.lineages.all
        assert look.proven == everything.proven
        return max(0, settled - known)
    return 0


def assert_no_stale_window_is_missed(told: Story, every: int, count: int) -> bool:
    """Settle the first windows, add the others, and return whether a look behind the settled ones was possible.

    If so, no settled window is stale: a look over all windows finds the inputs that it was made with.
    """
    windows = rows_of(told, every)
    settling = Settling(
        windows[:count], marks_of([row for some in windows[:count] for row in some], told.shape.partitions)
    )
    settling.windows = windows
    if not settling.pasts or settling.look(1, len(windows)) is None:
        return False
    everything = marks_of([row for some in windows for row in some], told.shape.partitions)
    for some in windows[: len(settling.pasts)]:
        assert everything.mark(some[0].window).inputs == settling.made.mark(some[0].window).inputs
    return True


@pytest.mark.more
@examples(1500)
@given(long_stories(gtids=True), st.integers(4, 12), st.integers(2, 12))
def test_with_gtids_no_settled_window_that_a_later_one_changes_is_missed(told: Story, every: int, count: int) -> None:
    event(f"behind the settled windows: {assert_no_stale_window_is_missed(told, every, count)}")


@pytest.mark.more
@examples(1000)
@given(long_stories(gtids=False), st.integers(4, 12), st.integers(2, 12))
def test_without_gtids_no_settled_window_that_a_later_one_changes_is_missed(
    told: Story, every: int, count: int
) -> None:
    event(f"behind the settled windows: {assert_no_stale_window_is_missed(told, every, count)}")


@pytest.mark.more
@examples(1500)
@given(long_stories(gtids=True), st.integers(4, 12))
def test_with_gtids_a_look_behind_the_past_tells_the_same(told: Story, every: int) -> None:
    event(f"windows left out: {min(assert_law(told, every), 5)}")


@pytest.mark.more
@examples(1000)
@given(long_stories(gtids=False), st.integers(4, 12))
def test_without_gtids_a_look_behind_the_past_tells_the_same(told: Story, every: int) -> None:
    event(f"windows left out: {min(assert_law(told, every), 5)}")


def test_gtids_that_are_made_up_from_the_first_window_on_are_no_reason_to_look_at_all() -> None:
    windows = rows_of(story(Shape(), [Write((0,))] * 9), 6)
    fake = [
        [replace(row, checkpoints=tuple(replace(one, fake_gtid=True) for one in row.checkpoints)) for row in some]
        for some in windows
    ]
    everything = marks_of([row for some in fake for row in some], 1)
    assert len(Settling(fake, everything).pasts) == len(fake) > 3
    turned = [*windows[:-1], fake[-1]]
    assert Settling(windows, marks_of([row for some in windows for row in some], 1)).look(1, len(windows)) is not None
    settling = Settling(windows[:-1], marks_of([row for some in windows[:-1] for row in some], 1))
    settling.windows = turned
    assert settling.look(1, len(turned)) is None


def test_a_failover_leaves_the_inputs_of_the_windows_of_earlier_failovers() -> None:
    some: list[Action] = [Write((0,))] * 9
    told = story(Shape(bases=(10, 500, 9_000)), [*some, Stop(1, back=1), *some, Stop(2, back=1), *some])
    windows = rows_of(told, 10)
    until = [marks_of([row for of in windows[:count] for row in of], 1) for count in range(1, len(windows) + 1)]
    lineages = [len(marks.history.lineages.all) for marks in until]
    second = lineages.index(lineages[-1])
    assert 1 < lineages[second - 1] < lineages[-1]
    inputs = [[marks.mark(of[0].window).inputs for of in windows[:second]] for marks in until[second - 1 :]]
    assert len(inputs) > 1
    assert any("lineages:" in text for text in inputs[0][lineages.index(lineages[second - 1])])
    assert all(one == inputs[0] for one in inputs)


def test_a_look_begins_earlier_if_an_old_checkpoint_turns_out_to_lie_behind_a_break() -> None:
    """CHECKPOINTs counted transactions of a server that are told only later."""
    some: list[Action] = [Write((0,))] * 6
    told = story(Shape(bases=(500, 10, 40), earlier=5), [*some, Stop(reset=True), *some, Write((0,), 1), *some])
    windows = rows_of(replace(told, shape=replace(told.shape, earlier=7)), 9)
    new = next(count for count, of in enumerate(windows) if any("server-1" in repr(row.runs) for row in of))
    before = marks_of([row for of in windows[:new] for row in of], 1)
    settling = Settling(windows[:new], before)
    settling.windows = windows
    first = windows[0][0].window
    assert settling.pasts
    assert marks_of([row for of in windows for row in of], 1).mark(first).inputs != before.mark(first).inputs
    assert settling.look(1, new) is not None
    assert settling.look(1, len(windows)) is None


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_look_behind_the_past_is_possible_when_the_server_before_a_failover_writes_again(partitions: int) -> None:
    """Only then is the last of its transactions before the failover known, which changes nothing about those windows."""
    both = tuple(range(partitions))
    some: list[Action] = [Write(both)] * 6
    told = story(Shape(partitions, bases=(10, 500, 40)), [*some, Stop(1), *some, Write(both, 0), *some])
    windows = rows_of(told, 9)
    new = max(count for count, of in enumerate(windows) if any("server-0" in repr(row.runs) for row in of))
    until = [marks_of([row for of in windows[:count] for row in of], partitions) for count in (new, len(windows))]
    assert len(until[0].history.lineages.all) == 2
    for of in windows[:new]:
        assert until[0].mark(of[0].window).inputs == until[1].mark(of[0].window).inputs
    settling = Settling(windows[:new], until[0])
    settling.windows = windows
    assert len(settling.pasts) > 2
    assert settling.look(1, len(windows)) is not None


def test_a_cut_stays_when_a_server_that_only_checkpoints_named_is_seen() -> None:
    """The binlog is reset, and the sets of CHECKPOINTs name a server that told its part before the topic began."""
    some: list[Action] = [Write((0,))] * 6
    told = story(Shape(bases=(500, 10, 40), earlier=7), [*some, Stop(reset=True), *some, Write((0,), 1), *some])
    windows = rows_of(told, 9)
    until = [marks_of([row for of in windows[:count] for row in of], 1) for count in range(1, len(windows) + 1)]
    starts = [of[0].window.start for of in windows]
    for count, marks in enumerate(until, 1):
        assert [marks.cuts[start] for start in starts[:count]] == [until[-1].cuts[start] for start in starts[:count]]
    lineages = [cut.lineage for cut, _, _ in until[-1].cuts.values() if cut is not None]
    assert lineages == sorted(lineages)
    assert lineages[0] < lineages[-1]
