"""Keys found again among many rows, against Python's sets."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.stages.keys import Keys

BORDERS = {
    pa.int8(): (-(1 << 7), (1 << 7) - 1), pa.int16(): (-(1 << 15), (1 << 15) - 1), pa.int32(): (-(1 << 31), (1 << 31) - 1),
    pa.int64(): (-(1 << 63), (1 << 63) - 1), pa.uint64(): (0, (1 << 64) - 1),
}  # fmt: skip


@given(st.data(), st.sampled_from(sorted(BORDERS, key=str)), st.booleans())
def test_integers_of_any_width_are_found_again(data: st.DataObject, kind: pa.DataType, with_nulls: bool) -> None:
    least, greatest = BORDERS[kind]
    numbers: st.SearchStrategy[int | None] = st.integers(least, greatest) | st.sampled_from([least, 0, greatest])
    values = st.lists(numbers | st.none() if with_nulls else numbers, max_size=30)
    wanted, asked = data.draw(values), data.draw(values)
    asked += wanted[::2]
    found = Keys([pa.array(wanted, kind)]).among([pa.array(asked, kind)])
    assert list(found) == [one in set(wanted) for one in asked]


@given(st.data(), st.sampled_from(sorted(BORDERS, key=str)), st.booleans())
def test_integers_are_found_again_among_rising_ones(data: st.DataObject, kind: pa.DataType, falls: bool) -> None:
    """As rows of a rising key stand in a file; where one of them falls or repeats, nothing is missed either."""
    least, greatest = BORDERS[kind]
    numbers = st.integers(least, greatest) | st.integers(0, 40)
    asked = sorted(data.draw(st.sets(numbers, min_size=1, max_size=60)))
    wanted = data.draw(st.lists(st.sampled_from(asked) | numbers, max_size=20))
    if falls:
        asked.insert(data.draw(st.integers(0, len(asked))), data.draw(st.sampled_from(asked)))
    found = Keys([pa.array(wanted, kind)]).among([pa.array(asked, kind)])
    assert list(found) == [one in set(wanted) for one in asked]


@pytest.mark.parametrize("texts", [False, True])
def test_keys_of_two_columns_are_found_again_in_parts_of_batches(texts: bool) -> None:
    chance = random.Random(7)
    pairs = [(chance.randrange(300), chance.randrange(300)) for _ in range(20_000)]

    def columns(some: list[tuple[int, int]]) -> list[pa.Array]:
        second: list[object] = [str(one) for _, one in some] if texts else [one for _, one in some]
        return [pa.array([one for one, _ in some]), pa.array(second)]

    wanted = set(pairs[:2000])
    asked = [one.slice(1000, 15_000) for one in columns(pairs)]
    assert list(Keys(columns(pairs[:2000])).among(asked)) == [one in wanted for one in pairs[1000:16_000]]
