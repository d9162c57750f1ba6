"""Plans over changes of a primary key: each change finds its row by the key that it told."""

from __future__ import annotations

from dataclasses import replace

from dts_assets.model.frontier import Frontier
from dts_assets.model.key_periods import KeyPeriod, KeySpan
from dts_assets.planning.snapshot_plans import TableWindow
from tests.planning.test_snapshot_plans import HELD_TWO, HOUR, START, at, known, plan


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
