"""Keys that are computed again: a file is read only if it may hold a change at or behind the first one that decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.snapshot_plans import may_reach
from dts_assets.stages.change_columns import Counted
from dts_assets.stages.key_operations import Operations, least_position
from dts_assets.stages.keys import NO_KEYS, Bounds, DistinctKeys, Keys, hash_keys, twin_hashes
from tests.stages.merging import ALL, batch, merged, parts_of, shown, stored
from tests.stages.worlds import DOINGS, HOUR, START, Change, World, at
from tests.tiers import times

WINDOWS = 8


def distinct(parts: Sequence[Operations]) -> DistinctKeys:
    return DistinctKeys.of([one.hashes() for one in parts], [twin_hashes(one.keys) for one in parts])


def greatest(changes: Sequence[Change]) -> SourcePosition:
    """As the bounds of a file tell it: each column for itself."""
    found = [(one.position.lineage, one.position.file, one.position.position) for one in changes]
    return SourcePosition(*map(max, zip(*found, strict=True)))


def history(seed: int) -> tuple[list[Change], random.Random]:
    chance = random.Random(seed)
    worlds = [World(number, random.Random(seed * 100 + number)).live(10, DOINGS) for number in range(3)]
    count = max(len(world.changes) for world in worlds)
    changes = []
    for world in worlds:
        for number, one in enumerate(world.changes):
            late = chance.random() < 0.1  # told again, or of a Kafka partition that lags
            window = WINDOWS - 1 if late else min(WINDOWS - 1, number * WINDOWS // count)
            lineage = int(number > count * 2 // 3)
            changes.append(replace(one, window=window, position=replace(one.position, lineage=lineage)))
    return changes, chance


@pytest.mark.parametrize("seeds", [range(times(40, 1500))], ids=["histories"])
def test_files_that_reach_no_deciding_change_change_nothing(seeds: range) -> None:
    outcomes = Counter[str]()
    for seed in seeds:
        old, chance = history(seed)
        replaced = set(chance.sample(range(WINDOWS), chance.randint(1, 3)))
        lost = chance.choice([0.0, 0.0, 0.3])
        new = [one for one in old if one.window not in replaced or chance.random() >= lost]
        snapshot = merged(stored([]), [batch(old)])
        now = parts_of([batch(one for one in new if one.window in replaced)], hashed=True)
        former = parts_of([batch(one for one in old if one.window in replaced)], hashed=True)
        least = min(filter(None, map(least_position, now)), default=None)
        if least is None or not distinct(former).all_among(distinct(now)):
            outcomes["everything is read"] += 1
            continue
        files = {window: [one for one in new if one.window == window] for window in range(WINDOWS)}
        read = [some for some in files.values() if some and may_reach(greatest(some), least)]
        outcomes["all files" if len(read) == sum(map(bool, files.values())) else "some files"] += 1
        keys = np.unique(np.concatenate([distinct(now).hashes, distinct(former).hashes]))
        counted = Counted(ALL, Frontier(START + 99 * HOUR, START + 99 * HOUR, None), again=keys)
        found = merged(snapshot, [batch(some) for some in read], counted)
        assert shown(found) == shown(merged(stored([]), [batch(new)])), seed
    assert min(outcomes[one] for one in ("everything is read", "some files")) > len(seeds) // 10, outcomes


def test_a_key_whose_changes_have_gone_is_not_among_those_of_today() -> None:
    one, other = Change("insert", None, (1, 1, "a", 1), at(1, 1)), Change("insert", None, (1, 2, "a", 1), at(1, 2))
    both, first = (distinct(parts_of([batch(some)], hashed=True)) for some in ([one, other, one], [one]))
    assert len(both.hashes) == 2
    assert first.all_among(both)
    assert not both.all_among(first)
    assert not first.all_among(NO_KEYS)
    assert NO_KEYS.all_among(NO_KEYS)
    assert NO_KEYS.all_among(first)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)))
)
def test_distinct_keys_are_compared_by_both_hashes(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Equal first hashes with other second ones are other keys; a doubt is a no."""

    def keys(pairs: list[tuple[int, int]]) -> DistinctKeys:
        columns = np.array(pairs, np.uint64).reshape(-1, 2)
        return DistinctKeys.of([columns[:, 0]], [columns[:, 1]])

    found = keys(one).all_among(keys(other))
    assert not found or set(one) <= set(other)
    if len({first for first, _ in other}) == len(set(other)):
        assert found == (set(one) <= set(other))


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1), st.integers(-5, 5), st.integers(0, 5))
def test_keys_reach_a_row_group_that_may_hold_one(values: list[int | None], least: int, width: int) -> None:
    keys = Keys([pa.array(values, pa.int64()), pa.array(values, pa.int64())])
    expected = None in values or any(one is not None and least <= one <= least + width for one in values)
    bounds = Bounds(pa.scalar(least), pa.scalar(least + width), may_be_null=True)
    assert keys.reach({0: bounds}.get) == keys.reach({1: bounds}.get) == expected


def test_the_two_hashes_have_nothing_in_common() -> None:
    columns = [pa.array(range(1000)), pa.array([str(n % 7) for n in range(1000)])]
    one, other = hash_keys(columns), twin_hashes(columns)
    assert len(set(one.tolist())) == len(set(other.tolist())) == 1000
    assert abs(np.corrcoef(one.astype(float), other.astype(float))[0, 1]) < 0.1
