"""Witnesses of runs: however two runs cut a stretch of transactions, they share one that both tell."""

from __future__ import annotations

from math import log

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.witnesses import join_witnesses, rank_of
from dts_assets.stages.run_tracker import witnesses_among
from tests.tiers import examples

NUMBERS = st.sets(st.one_of(st.integers(1, 60), st.integers(0, (1 << 63) - 1)), min_size=1, max_size=40).map(sorted)


def witnesses(numbers: list[int]) -> list[int]:
    return [numbers[place] for place in witnesses_among(np.array(numbers, np.int64)).tolist()]


@examples(300)
@given(NUMBERS, st.data())
def test_a_run_that_ends_with_a_stretch_and_one_that_begins_with_it_share_a_witness(
    numbers: list[int], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(numbers) - 1))
    last = data.draw(st.integers(first, len(numbers) - 1))
    before, behind = witnesses(numbers[: last + 1]), witnesses(numbers[first:])
    assert set(before) & set(behind) & set(numbers[first : last + 1])


@examples(300)
@given(NUMBERS, NUMBERS)
def test_witnesses_of_parts_together_are_those_of_the_whole(some: list[int], others: list[int]) -> None:
    parts = [[(number, 1, place) for number in witnesses(of)] for place, of in ((4, some), (8, others))]
    joined = join_witnesses(*parts)
    assert [one[0] for one in joined] == witnesses(sorted({*some, *others}))
    assert all(place == 8 for number, _, place in joined if number in witnesses(others))


def test_a_run_keeps_few_witnesses_however_long_it_is() -> None:
    for count in (1, 2, 1_000, 1_000_000):
        kept = len(witnesses_among(np.arange(1, count + 1)))
        assert kept <= 2 + 6 * log(count)


def test_no_two_numbers_have_one_rank() -> None:
    ranks = [rank_of(number) for number in range(10_000)]
    assert len(set(ranks)) == len(ranks)
    assert max(ranks) < 1 << 64
