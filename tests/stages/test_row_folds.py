"""Absent columns follow rows, against a model in Python: a table that lives and sends no more than it has to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dts_assets.model.frontier import Frontier
from dts_assets.stages.change_columns import Counted
from dts_assets.stages.row_folds import living_rows
from tests.stages.merging import ALL, EVERYTHING, SHAPE, again, batch, merged, parts_of, shown, stored
from tests.stages.minimal_worlds import MOVES, STAYS, UNSEEN, Minimal, in_world, moved
from tests.stages.worlds import DOINGS, HOUR, START, Change, Key, Shown, World, at, row
from tests.tiers import times

HALVES = pytest.mark.parametrize(("follow_moves", "shares"), [(False, 1), (True, 1), (True, 3)])


def lives(
    seed: int, count: int, doings: tuple[object, ...]
) -> tuple[list[Minimal], list[Shown], list[Change], list[Change]]:
    """Tables, their rows in the middle of their lives, and the changes of both halves. Some first halves are empty."""
    worlds = [Minimal(number, random.Random(seed + number)) for number in range(count)]
    for world in worlds:
        world.live(world.number % 3 * 4, doings)  # type: ignore[arg-type]
    first = [one for world in worlds for one in world.rows.values()]
    counts = [len(world.changes) for world in worlds]
    for world in worlds:
        world.live(10, doings)  # type: ignore[arg-type]
    early = [change for world, number in zip(worlds, counts, strict=True) for change in world.changes[:number]]
    later = [change for world, number in zip(worlds, counts, strict=True) for change in world.changes[number:]]
    return worlds, first, early, later


def end(worlds: list[Minimal]) -> dict[Key, Shown]:
    return {(world.number, number): one for world in worlds for number, one in world.rows.items()}


@HALVES
def test_an_absent_column_keeps_the_value_that_its_row_had(*, follow_moves: bool, shares: int) -> None:
    """The second half of every history, folded onto the rows of the first half, gives the rows at the end."""
    for seed in range(times(4, 40)):
        worlds, first, _, later = lives(1000 * seed, 60, MOVES if follow_moves else STAYS)
        moved = [one for one in later if one.before and one.after and one.absent and one.before[:2] != one.after[:2]]
        assert (len(moved) > 100) == follow_moves
        batches = [batch(later[number::3]) for number in range(3)]
        assert shown(merged(stored(first), batches, fold_absent=True, shares=shares)) == end(worlds)


@HALVES
def test_rows_computed_again_from_all_changes_are_the_same(*, follow_moves: bool, shares: int) -> None:
    """Some keys are computed again from the whole history, all others go on from where they stand."""
    for seed in range(times(4, 40)):
        worlds, first, early, later = lives(7000 * seed, 30, MOVES if follow_moves else STAYS)
        chance = random.Random(seed)
        suspect = chance.sample(early, len(early) // 5) + chance.sample(later, len(later) // 5)
        wrong = [one for one in first if chance.random() < 0.1]
        keys = again(
            [batch(suspect), batch([Change("insert", None, one.row, early[0].position) for one in wrong])],
            whole=[batch(early), batch(later)],
        )
        spoilt = [Shown((*one.row[:2], "spoilt", 7), one.event_time, 9, 9) if one in wrong else one for one in first]
        now = [batch([in_window(one, 0) for one in early]), batch([in_window(one, 1) for one in later])]
        counted = Counted(ALL, Frontier(START, START, None), again=keys, newer=frozenset({START + HOUR}))
        assert shown(merged(stored(spoilt), now, counted, fold_absent=True, shares=shares)) == end(worlds)


def in_window(change: Change, window: int) -> Change:
    return replace(change, window=window)


@pytest.mark.parametrize("shares", [1, 4])
def test_rows_that_were_never_seen_and_odd_histories(shares: int) -> None:
    changes = [in_world(number, one) for number, (cases, _) in enumerate(UNSEEN.values()) for one in cases]
    found = shown(merged(stored([]), [batch(changes)], EVERYTHING, fold_absent=True, shares=shares))
    alive: dict[str, dict[int, str | None]] = {name: {} for name in UNSEEN}
    for (world, number), one in found.items():
        alive[list(UNSEEN)[world]][number] = one.row[2]
    assert alive == {name: expected for name, (_, expected) in UNSEEN.items()}


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        pytest.param([moved(1, 2, 1)], 1, id="a row that moved"),
        pytest.param([moved(1, 2, 1), moved(2, 3, 2), moved(3, 4, 3)], 1, id="a row that moved thrice"),
        pytest.param([moved(1, 2, 1), moved(3, 4, 2)], 2, id="two rows"),
        pytest.param([moved(1, 2, 1), Change("delete", row(0, number=2), None, at(1, 2))], 0, id="deleted"),
        pytest.param([moved(1, 2, 1), Change("read", None, row(0, "copied", 2), at(1, 2))], 0, id="copied behind it"),
        pytest.param([Change("read", None, row(0, "copied", 1), at(1, 0)), moved(1, 2, 1)], 0, id="copied before it"),
        pytest.param(
            [moved(1, 2, 1), Change("update", row(0, number=2), row(0, "told", 2), at(1, 2))], 0, id="told all of"
        ),
        pytest.param(
            [moved(1, 2, 1), Change("update", row(0, number=2), row(0, "told", 2), at(1, 2), absent=("amount",))],
            1,
            id="told a part of",
        ),
    ],
)
def test_rows_that_still_lack_columns_of_a_row_that_nobody_has_seen_are_counted(
    changes: list[Change], rows: int
) -> None:
    (operations,) = parts_of([batch(changes)], hashed=True)
    assert living_rows(operations, SHAPE, fold_absent=True).not_removed.unseen == rows


def test_tables_that_send_everything_fold_alike() -> None:
    """Folding for absent columns gives what the last operations give where every column is sent."""
    worlds = [World(number, random.Random(number)).live(12, DOINGS) for number in range(100)]
    whole = [batch(change for world in worlds for change in world.changes)]
    plain, folded = (shown(merged(stored([]), whole, fold_absent=fold)) for fold in (False, True))
    assert plain == folded
