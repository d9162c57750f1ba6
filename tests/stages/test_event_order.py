"""Rows of one event in pieces: an order is found in which every move is possible, and the order inside pieces stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.stages.event_order import in_possible_order
from tests.tiers import examples

COLUMNS = ("lineage", "file", "position", "kafka_partition", "old_key", "new_key", "number")


def table(rows: Sequence[tuple[int, ...]]) -> pa.Table:
    return pa.table({name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(COLUMNS)})


def given_rows(parts: list[pa.Table]) -> list[tuple[int, ...]]:
    return [
        row
        for part in in_possible_order(parts)
        for row in zip(*(part[name].to_pylist() for name in COLUMNS), strict=True)
    ]


def possible(rows: Sequence[tuple[int, ...]], keys: set[int]) -> bool:
    """Tell whether moves can be made one after the other in a table with some keys."""
    there = set(keys)
    for *_, old, new, _ in rows:
        if old != new:
            if new in there:
                return False
            there.remove(old)
            there.add(new)
    return True


@examples(200)
@given(st.integers(0, 2**30), st.integers(1, 12), st.integers(1, 4), st.integers(1, 5))
def test_moves_of_an_event_in_pieces_are_made_in_a_possible_order(
    seed: int, count: int, pieces: int, parts: int
) -> None:
    """The law's judge is a table of keys: the true order is possible in it, and so is the order that is found."""
    random = Random(seed)
    keys, rows = set(random.sample(range(1, 30), count)), list[tuple[int, ...]]()
    there, left = set(keys), sorted(keys)
    random.shuffle(left)
    for old in left:  # each row moves once, as an UPDATE does, or stays
        free = [key for key in range(1, 30) if key not in there]
        new = random.choice([*free, old])
        there.discard(old)
        there.add(new)
        rows.append((0, 3, 700, random.randrange(pieces), old, new, len(rows)))
    assert possible(rows, keys)
    numbered: dict[int, int] = {}
    sent = []
    for row in rows:  # pieces count their rows from zero, and that is all that is known
        number = numbered[row[3]] = numbered.get(row[3], -1) + 1
        sent.append((number, row))
    sent.sort(key=lambda one: (one[0], one[1][3]))
    arrived = [row for _, row in sent]
    before, behind = [(0, 3, 600, 0, 0, 0, -1)], [(0, 4, 1, 0, 5, 6, 99)]
    whole = [*before, *arrived, *behind]
    cuts = sorted(random.choices(range(len(whole) + 1), k=parts))
    found = given_rows([table(whole[a:b]) for a, b in pairwise([0, *cuts, len(whole)])])
    assert (found[0], found[-1]) == (before[0], behind[0])
    assert sorted(found) == sorted(whole)
    assert possible(found[1:-1], keys)
    for piece in range(pieces):
        assert [row for row in found[1:-1] if row[3] == piece] == [row for row in rows if row[3] == piece]


def test_a_row_that_moves_twice_and_keys_in_a_circle_lose_nothing() -> None:
    twice = [(0, 1, 1, 0, 1, 2, 0), (0, 1, 1, 0, 2, 3, 1), (0, 1, 1, 1, 3, 4, 2)]
    circle = [(0, 1, 1, 0, 1, 2, 0), (0, 1, 1, 1, 2, 1, 1)]
    for rows in (twice, circle):
        assert sorted(given_rows([table(rows)])) == sorted(rows)
    assert given_rows([table(twice)])[-2:] == [twice[0], twice[1]]


def test_events_without_moves_stay_as_they_are() -> None:
    rows = [(0, 1, number // 3, number % 3, 0, 0, number) for number in range(9)]
    assert given_rows([table(rows[:4]), table([]), table(rows[4:])]) == rows
    assert given_rows([]) == []
