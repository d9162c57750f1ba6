"""Changes that their row filter could not judge, judged by the rows at their keys, against a model that knows every row."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from dts_assets.model.frontier import Frontier
from dts_assets.stages.change_columns import Counted, RowShape
from tests.stages import merging, versioning
from tests.stages.judged_worlds import FILTERS, Filter, as_known, changelogs, in_windows, minimal, of_any_kind
from tests.stages.merging import ALL, again, batch, merged, shown, stored
from tests.stages.minimal_worlds import MOVES, STAYS, Minimal
from tests.stages.test_soft_deletes import NOTHING, SOFT, held
from tests.stages.worlds import HOUR, START, Change
from tests.tiers import times

FILTERED = pytest.mark.parametrize("chosen", FILTERS, ids=[one.text for one in FILTERS])
SHARES = pytest.mark.parametrize("shares", [1, 3])


def shape_of(chosen: Filter, of: RowShape = merging.SHAPE) -> RowShape:
    return replace(of, judged=chosen.stored)


def lives(seed: int, count: int = 30, *, whole: bool = False) -> list[Change]:
    """The changes of some tables, cut into windows at random: half of them with minimal images, half with images of any kind.

    With ``whole`` the latter have whole old images.
    """
    chance = random.Random(seed)
    worlds = [Minimal(number, random.Random(seed + number)) for number in range(count)]
    for world in worlds:
        world.live(14, MOVES if world.number % 2 else STAYS)  # type: ignore[arg-type]
    found: list[Change] = []
    for world in worlds:
        sizes = sorted(chance.choices(range(len(world.changes) + 1), k=chance.randint(0, 4)))
        # The rows of an event come together.
        ends = [size for size in sizes if size in (0, len(world.changes)) or _begins(world.changes, size)]
        sent = minimal(world.changes) if world.number % 4 < 2 else of_any_kind(world.changes, chance, whole=whole)
        found += in_windows(sent, ends)
    return found


def _begins(changes: list[Change], at: int) -> bool:
    return changes[at - 1].position != changes[at].position


@FILTERED
@SHARES
def test_rows_are_judged_by_the_stored_row_whatever_a_merge_sees_together(chosen: Filter, shares: int) -> None:
    shape, open_changes = shape_of(chosen), 0
    for seed in range(times(1, 30)):
        changes = lives(9000 * seed)
        windows = changelogs(changes, chosen.rules)
        known, rows = as_known(changes, chosen)
        wanted = shown(merged(stored([]), [batch(known)]))
        assert {one.row for one in wanted.values()} == set(rows.values())
        assert all(rows)
        one_by_one = stored([])
        for window in windows:
            one_by_one = merged(one_by_one, [window], shape=shape, fold_absent=True, shares=shares)
        assert shown(one_by_one) == wanted
        assert shown(merged(stored([]), windows, shape=shape, fold_absent=True, shares=shares)) == wanted
        open_changes += sum(bool({*one.absent} & {*chosen.columns}) for one in changes)
    assert open_changes > 100


@FILTERED
def test_a_filter_of_one_column_leaves_exactly_the_rows_that_pass(chosen: Filter) -> None:
    """An update that brings a row over the border sends the column: so no row is missing, and none is too many."""
    for seed in range(times(1, 30)):
        worlds = [Minimal(number, random.Random(seed + number)) for number in range(30)]
        for world in worlds:
            world.live(14, MOVES)  # type: ignore[arg-type]
        changes = minimal(change for world in worlds for change in world.changes)
        found = shown(merged(stored([]), changelogs(changes, chosen.rules), shape=shape_of(chosen), fold_absent=True))
        passing = {one.row[:2] for world in worlds for one in world.rows.values() if chosen.passes(one.row)}
        if len(chosen.columns) == 1:
            assert found.keys() == passing
        assert found.keys() <= passing
        assert found


@FILTERED
@SHARES
def test_keys_computed_again_have_the_same_rows(chosen: Filter, shares: int) -> None:
    """Some keys are computed again from all windows, as after a window that was made again; all others go on."""
    shape = shape_of(chosen)
    for seed in range(times(1, 30)):
        changes, chance = lives(7000 * seed), random.Random(seed)
        windows = changelogs(changes, chosen.rules)
        wanted = shown(merged(stored([]), windows, shape=shape, fold_absent=True))
        before = merged(stored([]), windows[:-1], shape=shape, fold_absent=True)
        made_again = chance.choice(windows[:-1]) if len(windows) > 1 else windows[0]
        keys = again([made_again], whole=windows, shape=shape)
        reached = START + (len(windows) - 2) * HOUR
        counted = Counted(
            ALL, Frontier(reached, reached, None), again=keys, newer=frozenset({START + (len(windows) - 1) * HOUR})
        )
        found = merged(before, windows, counted, shape=shape, fold_absent=True, shares=shares)
        assert shown(found) == wanted


@FILTERED
@SHARES
def test_versions_end_where_rows_leave_the_filter(chosen: Filter, shares: int) -> None:
    shape = shape_of(chosen, versioning.SHAPE)
    for seed in range(times(1, 30)):
        changes = lives(5000 * seed)
        windows = changelogs(changes, chosen.rules)
        known, _ = as_known(changes, chosen)
        wanted = versions(versioning.advanced(versioning.NOTHING, [batch(known)]))
        one_by_one = versioning.NOTHING
        for window in windows:
            one_by_one = versioning.advanced(one_by_one, [window], shape=shape, fold_absent=True, shares=shares)
        assert versions(one_by_one) == wanted
        assert versions(versioning.advanced(versioning.NOTHING, windows, shape=shape, fold_absent=True)) == wanted


def versions(rows: pa.RecordBatch) -> list[str]:
    """All versions but for their operations: a row comes in by an update, too."""
    return sorted(str([value for name, value in one.items() if name != "_op"]) for one in rows.to_pylist())


@FILTERED
@SHARES
def test_where_deleted_rows_stay_those_that_passed_do(chosen: Filter, shares: int) -> None:
    """A row that leaves the filter is a deleted one with the values that it had; one that never passed leaves nothing."""
    shape = shape_of(chosen, SOFT)
    for seed in range(times(1, 30)):
        changes = lives(3000 * seed, whole=True)
        windows = changelogs(changes, chosen.rules)
        known, _ = as_known(changes, chosen)
        wanted = held(merged(NOTHING, [batch(known)], shape=SOFT))
        assert any(one[-1] is not None for one in wanted)
        one_by_one = NOTHING
        for window in windows:
            one_by_one = merged(one_by_one, [window], shape=shape, fold_absent=True, shares=shares)
        assert held(one_by_one) == wanted
        assert held(merged(NOTHING, windows, shape=shape, fold_absent=True, shares=shares)) == wanted
