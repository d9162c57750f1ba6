"""Cells and spans, and the keys of Kafka partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.spans import Cell, Span, partition_key, partition_of_key
from dts_assets.model.windows import WindowGrid

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))


@given(st.integers(0, 10_000))
def test_a_partition_comes_back_from_its_key(kafka_partition: int) -> None:
    assert partition_of_key(partition_key(kafka_partition)) == kafka_partition


@given(st.lists(st.integers(0, 99)))
def test_below_a_hundred_keys_sort_like_numbers(kafka_partitions: list[int]) -> None:
    assert sorted(map(partition_key, kafka_partitions)) == list(map(partition_key, sorted(kafka_partitions)))


@pytest.mark.parametrize("key", ["", "p", "3", "p-1", "q01", "p1x", "p00|2026-01-05-00:00"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not the key of a Kafka partition"):
        partition_of_key(key)


@given(st.sets(st.integers(0, 9), min_size=1), st.sets(st.integers(0, 9), min_size=1))
def test_a_span_has_each_of_its_cells_once(kafka_partitions: set[int], numbers: set[int]) -> None:
    windows = tuple(GRID.at(number) for number in sorted(numbers))
    cells = list(Span(tuple(sorted(kafka_partitions)), windows).cells())
    assert cells == sorted({Cell(partition, window) for partition in kafka_partitions for window in windows})


def test_a_cell_is_written_as_its_dagster_key() -> None:
    assert str(Cell(3, GRID.at(5))) == "p03|2026-01-05-05:00"
