"""The cells before a cell: an unbroken chain of offsets and windows that ends at the cell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.earlier_cells import find_earlier_cells
from tests.ledger_rows import raw_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))


def cell(number: int, partition: int = 0) -> Cell:
    return Cell(partition, GRID.at(number))


def test_nearest_first_up_to_the_first_cell_that_is_not_stored() -> None:
    raw = {cell(number): raw_row(cell(number), OffsetRange(number * 10, number * 10 + 10)) for number in (2, 3, 4)}
    earlier = find_earlier_cells(Span((0,), (GRID.at(4),)), raw, GRID)[cell(4)]
    assert earlier.nearest(None) == (cell(3), cell(2))
    assert earlier.nearest(1) == (cell(3),)
    assert earlier.nearest(9) == (cell(3), cell(2))
    assert earlier.beyond == cell(1)


def test_nothing_lies_before_the_first_window_of_the_grid() -> None:
    earlier = find_earlier_cells(Span((0,), (GRID.at(0),)), {cell(0): raw_row(cell(0))}, GRID)[cell(0)]
    assert (earlier.nearest(None), earlier.beyond) == ((), None)


def test_nothing_lies_before_what_retention_has_left() -> None:
    raw = {cell(number): raw_row(cell(number), OffsetRange(number * 10, number * 10 + 10)) for number in (1, 2, 3, 4)}
    since = {0: GRID.at(3).start}
    earlier = find_earlier_cells(Span((0,), (GRID.at(3), GRID.at(4))), raw, GRID, since=since)
    assert (earlier[cell(4)].nearest(None), earlier[cell(4)].beyond) == ((cell(3),), None)
    assert (earlier[cell(3)].nearest(None), earlier[cell(3)].beyond) == ((), None)
    del raw[cell(3)]
    holed = find_earlier_cells(Span((0,), (GRID.at(4),)), raw, GRID, since=since)
    assert holed[cell(4)].beyond == cell(3), "a window behind the removed ones that is not stored yet"


stored = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 8)), st.tuples(st.integers(0, 2), st.integers(0, 3))
)


@given(stored)
def test_earlier_cells_meet_their_successors_and_the_one_beyond_does_not(
    found: dict[tuple[int, int], tuple[int, int]],
) -> None:
    raw: dict[Cell, RawWindow] = {}
    for (partition, number), (hole, length) in sorted(found.items()):
        last = raw.get(cell(number - 1, partition)) if number else None
        start = hole + (0 if last is None else last.offsets.end)
        raw[cell(number, partition)] = raw_row(cell(number, partition), OffsetRange(start, start + length))
    span = Span((0, 1), tuple(GRID.at(number) for number in range(9)))
    earlier = find_earlier_cells(span, raw, GRID)
    assert earlier.keys() == raw.keys()

    def follows(before: Cell | None, after: Cell) -> bool:
        return before is not None and before in raw and raw[before].offsets.end == raw[after].offsets.start

    for one, cells in earlier.items():
        chain = [one, *cells.nearest(None)]
        assert {each.kafka_partition for each in chain} == {one.kafka_partition}
        for after, before in pairwise(chain):
            assert GRID.previous(after.window) == before.window
            assert follows(before, after)
        previous = GRID.previous(chain[-1].window)
        assert cells.beyond == (None if previous is None else Cell(one.kafka_partition, previous))
        assert not follows(cells.beyond, chain[-1]), "the chain is as long as it can be"
