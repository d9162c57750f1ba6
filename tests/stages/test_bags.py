"""Tables without a key: the exact multiset, against a model in Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.stages.change_columns import Counted, RowShape
from dts_assets.stages.key_operations import joined
from dts_assets.stages.row_folds import living_rows
from tests.stages.merging import ALL, NAMES, SNAPSHOT, again, batch, merged, parts_of, stored
from tests.stages.worlds import COLUMNS, HOUR, START, Change, Row, at
from tests.tiers import times

BAG = RowShape.of(tuple(Column(one.name, one.type, is_key=False) for one in COLUMNS), NAMES, SNAPSHOT, unfit=False)


def history(seed: int, steps: int) -> tuple[list[Change], Counter[Row]]:
    """The changes of a table without a key, some of rows that it never had, and its rows at the end."""
    chance, rows, changes = random.Random(seed), Counter[Row](), list[Change]()

    def some() -> Row:
        return (chance.randint(0, 1), chance.randint(0, 1), chance.choice([None, "a"]), chance.choice([None, 1]))

    for number in range(steps):
        old = chance.choice([*rows.elements(), some()]) if chance.random() < 0.6 else None
        new = some() if old is None or chance.random() < 0.6 else None
        op = "insert" if old is None else "delete" if new is None else "update"
        changes.append(Change(op, old, new, at(1, number // 3), number % 3, 0, number))
        if old is not None and rows[old]:
            rows[old] -= 1
        if new is not None:
            rows[new] += 1
    return changes, +rows


def held(rows: pa.RecordBatch) -> Counter[Row]:
    return Counter(tuple(one[name] for name in NAMES) for one in rows.to_pylist())


def whole(rows: pa.RecordBatch) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


@pytest.mark.parametrize("seed", range(times(20, 300)))
def test_a_bag_holds_what_the_database_holds(seed: int) -> None:
    """In one piece, going on from any middle, with rows made again, and shared out: always the same rows.

    An event has three changes, of which a later one may take a row away that an earlier one has brought.
    """
    changes, rows = history(seed, 40)
    nothing = stored([])
    once = merged(nothing, [batch(changes)], shape=BAG, fold_absent=True)
    assert held(once) == rows
    cut = seed % 40
    first = merged(nothing, [batch(changes[:cut])], shape=BAG, fold_absent=True)
    for shares in (1, 3):
        assert whole(merged(first, [batch(changes[cut:])], shape=BAG, fold_absent=True, shares=shares)) == whole(once)
    suspect = again([batch(changes[::4])], shape=BAG)
    counted = Counted(ALL, Frontier(START, START, None), again=suspect, newer=frozenset({START + HOUR}))
    later = [batch(changes[:cut]), batch([replace(one, window=1) for one in changes[cut:]])]
    assert whole(merged(first, later, counted, shape=BAG, fold_absent=True)) == whole(once)


@pytest.mark.parametrize("seed", range(times(20, 300)))
def test_what_the_new_image_lacks_is_the_old_ones(seed: int) -> None:
    chance = random.Random(seed)
    changes, rows = history(seed, 40)
    names = [column.name for column in COLUMNS]
    some = []
    for one in changes:
        pairs = zip(names, one.before or (), one.after or (), strict=False)
        lacks = tuple(name for name, old, new in pairs if old == new and chance.random() < 0.5)
        some.append(replace(one, absent=lacks))
    made = living_rows(joined(parts_of([batch(some)], shape=BAG)), BAG)
    assert held(made.rows) == rows
    assert made.not_removed.ambiguous == 0
