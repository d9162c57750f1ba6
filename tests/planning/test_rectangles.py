"""Rectangles: one run covers one contiguous rectangle, so together they cover what is asked, exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.rectangles import rectangles, window_runs

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))

numbers = st.lists(st.integers(0, 12), max_size=16)
cells = st.lists(st.builds(Cell, st.integers(0, 4), st.integers(0, 8).map(GRID.at)), max_size=30)
lengths = st.none() | st.integers(1, 4)


def is_contiguous(windows: tuple[Window, ...]) -> bool:
    return all(earlier.end == later.start for earlier, later in pairwise(windows))


@given(numbers, lengths)
def test_runs_hold_every_window_once_without_a_hole(found: list[int], longest: int | None) -> None:
    runs = window_runs(map(GRID.at, found), longest=longest)
    assert [window for run in runs for window in run] == [GRID.at(number) for number in sorted(set(found))]
    for run in runs:
        assert is_contiguous(run)
        assert longest is None or len(run) <= longest
    for earlier, later in pairwise(runs):
        assert earlier[-1].end != later[0].start or len(earlier) == longest, "two runs could be one"


@given(cells, lengths)
def test_spans_hold_every_cell_exactly_once(found: list[Cell], longest: int | None) -> None:
    spans = rectangles(found, longest=longest)
    covered = [cell for span in spans for cell in span.cells()]
    assert sorted(covered) == sorted(set(found))
    for span in spans:
        assert is_contiguous(span.windows)
        assert list(span.kafka_partitions) == list(range(span.kafka_partitions[0], span.kafka_partitions[-1] + 1))
        assert longest is None or len(span.windows) <= longest
    assert spans == rectangles(reversed(found), longest=longest)


@given(cells, lengths)
def test_spans_of_one_kafka_partition_are_in_the_order_of_time(found: list[Cell], longest: int | None) -> None:
    for partition in range(5):
        starts = [span.windows[0] for span in rectangles(found, longest=longest) if partition in span.kafka_partitions]
        assert starts == sorted(starts)


def test_what_all_partitions_lack_after_an_outage_is_one_span() -> None:
    windows = tuple(GRID.at(number) for number in range(3, 9))
    outage = [Cell(partition, window) for partition in range(4) for window in windows]
    assert rectangles(outage) == (Span((0, 1, 2, 3), windows),)
    assert [len(span.windows) for span in rectangles(outage, longest=4)] == [4, 2]


def test_partitions_that_are_no_neighbours_are_asked_for_apart() -> None:
    window = GRID.at(0)
    found = rectangles([Cell(partition, window) for partition in (0, 1, 3)])
    assert found == (Span((0, 1), (window,)), Span((3,), (window,)))


def test_nothing_is_no_span() -> None:
    assert rectangles([]) == ()
    assert window_runs([]) == ()
