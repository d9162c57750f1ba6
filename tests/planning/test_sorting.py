"""A snapshot is worth sorting where many files may hold one key."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.sorting import KeyRange, files_at_one_key, is_worth_sorting


@pytest.mark.parametrize(
    ("ranges", "mean"),
    [
        ([], 0.0), ([(0, 9)], 1.0), ([(0, 9), (10, 19)], 1.0), ([(0, 10), (10, 19)], 2.0), ([(0, 9)] * 5, 5.0),
        ([(0, 99), (0, 9), (50, 59)], 7 / 3),
    ],
)  # fmt: skip
def test_files_that_meet(ranges: list[tuple[int, int]], mean: float) -> None:
    assert files_at_one_key([KeyRange(*one, 10) for one in ranges]) == pytest.approx(mean)


def test_rows_are_weighed() -> None:
    large, small = KeyRange("a", "f", 98), KeyRange("x", "z", 1)
    assert files_at_one_key([large, small, small]) == pytest.approx((98 + 2 + 2) / 100)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(1, 9)), max_size=20))
def test_it_is_the_count_of_files_by_definition(drawn: list[tuple[int, int, int]]) -> None:
    files = [KeyRange(low, low + more, rows) for low, more, rows in drawn]
    met = sum(
        one.rows for one in files for other in files if one.least <= other.greatest and other.least <= one.greatest
    )
    assert files_at_one_key(files) == pytest.approx(met / max(1, sum(one.rows for one in files)))


def test_files_in_order_of_keys_are_not_worth_it() -> None:
    files = [KeyRange(low, high - 1, 9) for low, high in pairwise(range(0, 900, 9))]
    assert not is_worth_sorting(files)
    assert is_worth_sorting([*files, *files, *files])
