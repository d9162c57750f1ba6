"""Windows with nothing but a statement about a table: new work for its snapshot, in which no row is read again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.frontier import Frontier
from dts_assets.planning.snapshot_plans import TableWindow
from tests.planning.test_snapshot_plans import HELD_TWO, HOUR, START, at, known, plan
from tests.tiers import examples


@st.composite
def bounds_of_windows(draw: st.DrawFn) -> list[TableWindow]:
    """Windows with changes, and of several Kafka partitions positions that overlap."""
    bounds = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)
    made = draw(st.lists(bounds, min_size=4, max_size=4))
    return [
        replace(known(number, *some), changes=draw(st.integers(0, 2)), truncations=draw(st.sampled_from([0, 0, 0, 1])))
        for number, some in enumerate(made)
    ]


@given(
    bounds_of_windows(), st.lists(st.integers(0, 40), min_size=4, max_size=4), st.sets(st.integers(0, 3)), st.booleans(),
    st.sampled_from([Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30)), Frontier(START + 3 * HOUR, START + 2 * HOUR, at(20))]),
)  # fmt: skip
@examples(500)
def test_statements_alone_are_held_and_waited_for_and_compute_nothing_again(
    windows: list[TableWindow], places: list[int], replaced: set[int], truncated: bool, after: Frontier
) -> None:
    """A window with nothing but a statement is new work, but work without any row."""
    before = replace(HELD_TWO, truncated=truncated)
    told = [
        one if one.has_rows else replace(one, statements=1, first=at(place), last=at(place))
        for one, place in zip(windows, places, strict=True)
    ]
    without = plan(windows, after, before=before, replaced=replaced)
    work = plan(told, after, before=before, replaced=replaced)
    alone = [one for one in told if one.statements]
    come = {one.window_start for one in alone if after.holds(one.window_start, one.last)}
    old = {one.window_start for one in alone if before.frontier.holds(one.window_start, one.last)}
    touched = {START + number * HOUR for number in replaced if number < 2}
    assert set(work.newer) == {*without.newer, *(come - old - touched)}
    assert (work.rebuilds, work.suspect_until, work.replaced) == (
        without.rebuilds,
        without.suspect_until,
        without.replaced,
    )
    waiting = {one.window_start for one in alone} - come
    assert work.state.waits_from == min({*waiting, *filter(None, [without.state.waits_from])}, default=None)
