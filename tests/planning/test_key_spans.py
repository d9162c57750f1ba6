"""Plans over changes of a primary key: each change finds its row by the key that it told."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hypothesis import assume, given
from hypothesis import strategies as st

from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import KeyPeriod, KeySpan
from dts_assets.planning.snapshot_plans import EMPTY_STATE, TableWindow, plan_snapshot
from tests.model import test_key_periods as told
from tests.planning.test_snapshot_plans import HELD_TWO, HOUR, START, at, known, plan
from tests.tiers import examples


def keyed(number: int, *keys: tuple[int, int, str]) -> TableWindow:
    """A window of changes that told these keys between two positions: ``(1, 10, "id")``; none where the text is empty."""
    told = tuple(KeyPeriod(at(first), at(last), (key,) if key else ()) for first, last, key in keys)
    return replace(known(number, keys[0][0], keys[-1][1]), keys=told)


BY_ID = replace(HELD_TWO, keys=(KeyPeriod(at(1), at(20), ("id",)),))
THREE = Frontier(START + 2 * HOUR, START + 2 * HOUR, at(30))


def test_changes_find_their_rows_by_the_key_that_they_told() -> None:
    assert plan([keyed(2, (21, 30, "id"))], THREE, before=BY_ID).spans == (KeySpan(("id",)),)
    work = plan([keyed(2, (21, 30, ""))], THREE, before=BY_ID)
    assert work.spans == (KeySpan((), since=at(20)),), "the table has lost its key before"
    work = plan([keyed(2, (21, 25, "id"), (27, 30, ""))], THREE, before=BY_ID)
    assert work.spans == (KeySpan(("id",), until=at(26)), KeySpan((), since=at(26)))
    assert work.state.keys == (KeyPeriod(at(1), at(25), ("id",)), KeyPeriod(at(27), at(30), ()))
    assert not work.rebuilds


def test_a_key_that_comes_behind_the_frontier_is_no_step_yet() -> None:
    after = Frontier(START + 2 * HOUR, None, at(25))
    assert plan([keyed(2, (21, 25, "id"), (27, 30, ""))], after, before=BY_ID).spans == (
        KeySpan(("id",), until=at(26)),
    )


def test_where_the_key_has_changed_nothing_is_computed_again_by_one_key() -> None:
    before = replace(HELD_TWO, keys=(KeyPeriod(at(1), at(9), ()), KeyPeriod(at(10), at(20), ("id",))))
    late = plan([keyed(2, (5, 30, "id"))], THREE, before=before)
    again = plan([keyed(1, (11, 20, "id"))], HELD_TWO.frontier, before=before, replaced=[1])
    assert late.rebuilds
    assert again.rebuilds
    assert again.spans == (KeySpan((), until=at(9)), KeySpan(("id",), since=at(9)))
    assert not plan([keyed(1, (11, 20, "id"))], HELD_TWO.frontier, before=BY_ID, replaced=[1]).rebuilds
    assert not plan([keyed(2, (21, 30, "id"))], THREE, before=before).rebuilds


@examples(300)
@given(told.told_keys(groups=8), st.permutations(range(4)))
def test_whatever_the_order_of_windows_each_change_that_is_looked_at_is_found_by_its_key(
    made: tuple[list[tuple[int, tuple[str, ...]]], list[int]], order: list[int]
) -> None:
    changes = {number: list[tuple[int, tuple[str, ...]]]() for number in range(4)}
    windows: dict[int, TableWindow] = {}
    periods: dict[int, list[KeyPeriod]] = {number: [] for number in range(4)}
    for group in range(8):  # each window in two Kafka partitions
        mine = [point for point, number in zip(*made, strict=True) if number == group]
        changes[group % 4] += mine
        periods[group % 4] += told.seen(mine)
    assume(not told.is_open([one for some in periods.values() for one in some]))
    state, there = EMPTY_STATE, list[int]()
    for number in order:
        if not changes[number]:
            continue
        places = [told.at(place) for place, _ in changes[number]]
        windows[number] = TableWindow(
            START + number * HOUR, len(places), min(places), max(places), keys=tuple(periods[number])
        )
        late = [number] if there and number < max(there) else []
        there.append(number)
        last = START + max(there) * HOUR
        planned = partial(
            plan_snapshot, state, Frontier(last, last, None), changelog_snapshot=1, windows=[windows[number]],
            replaced=[START + one * HOUR for one in late],
        )  # fmt: skip
        work = planned()
        if work.doubts_keys:
            work = planned(told=[one for some in there for one in windows[some].keys])
        looked_at = [one for some in (there if work.rebuilds else [number]) for one in changes[some]]
        for place, key in looked_at:
            assert told.key_of(work.spans, told.at(place)) == [key]
        state = work.state


def test_what_joined_periods_hide_is_asked_of_all_windows() -> None:
    before = replace(HELD_TWO, keys=(KeyPeriod(at(1), at(20), ("id",)),))  # of changes at 1 and at 20
    late = keyed(2, (10, 30, ""))
    doubted = plan([late], THREE, before=before)
    assert doubted.doubts_keys
    everything = [*(KeyPeriod(at(place), at(place), ("id",)) for place in (1, 20)), *late.keys]
    work = plan_snapshot(before, THREE, changelog_snapshot=2, windows=[late], replaced=[], told=everything)
    assert [(span.columns, span.until) for span in work.spans] == [
        (("id",), at(9)), ((), at(19)), (("id",), at(20)), ((), None),
    ]  # fmt: skip
    assert not work.doubts_keys
    assert not plan([keyed(2, (21, 30, "id"))], THREE, before=replace(before, keys=(
        KeyPeriod(at(1), at(9), ()), KeyPeriod(at(10), at(20), ("id",)),
    ))).doubts_keys  # fmt: skip
