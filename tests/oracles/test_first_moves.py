"""The moves of a row are followed back to its first one."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.absent_columns import first_moves
from tests.tiers import examples


def event(number: int) -> list[int]:
    return [0, 9 + number // 5, -number, number % 3, 1 << (number % 60)]


@examples(100)
@given(st.lists(st.integers(2, 40), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_every_move_goes_back_to_the_first_of_its_row(lengths: list[int], chance: random.Random) -> None:
    moves: list[tuple[list[int], list[int]]] = []
    expected: dict[tuple[int, ...], list[int]] = {}
    first = 0
    for length in lengths:
        moves += [(event(first + n), event(first + n - 1)) for n in range(1, length)]
        expected |= {tuple(event(first + n)): event(first) for n in range(1, length)}
        first += length
    chance.shuffle(moves)
    kind = pa.list_(pa.int64())
    table = pa.table({"move": pa.array([a for a, _ in moves], kind), "came": pa.array([b for _, b in moves], kind)})
    found = first_moves(pa.concat_tables([table.slice(0, 1), table.slice(1)])).to_pylist()
    assert {tuple(one["move"]): one["first"] for one in found} == expected


def test_moves_that_contradict_each_other_come_to_an_end() -> None:
    kind = pa.list_(pa.int64())
    ring = pa.table({"move": pa.array([[1], [2], [3]], kind), "came": pa.array([[2], [3], [1]], kind)})
    assert len(first_moves(ring)) == 3
