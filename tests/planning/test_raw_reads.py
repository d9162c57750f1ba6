"""The part of the source that is read for a cell: all of it, what has come since, or again in the parts of the first time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.refreshes import Refresh
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.boundaries import PlannedCell
from dts_assets.planning.raw_reads import gap_before, gap_of, is_gone, plan_read, problems_of_read
from tests.ledger_rows import raw_row

START = datetime(2026, 1, 5, tzinfo=UTC)
GRID = WindowGrid(timedelta(hours=1), START)
CELL = Cell(0, GRID.at(1))
READ_TWICE = (Refresh(12, "g1", "run1"), Refresh(15, "g2", "run2"))


def plan(start: int, end: int, *, stored: bool = False) -> PlannedCell:
    return PlannedCell(CELL, OffsetRange(start, end), ClosedBy.MESSAGE, stored)


def test_a_cell_that_is_not_stored_is_read_whole() -> None:
    read = plan_read(plan(10, 20), None)
    assert (read.parts, read.appends_to, read.offsets) == ((OffsetRange(10, 20),), None, OffsetRange(10, 20))


def test_an_open_cell_is_read_on_from_its_end() -> None:
    row = raw_row(CELL, OffsetRange(10, 15), ClosedBy.OPEN, refreshes=READ_TWICE)
    read = plan_read(plan(10, 20), row)
    assert (read.parts, read.appends_to) == ((OffsetRange(15, 20),), row)
    assert plan_read(plan(10, 14), row).parts == (OffsetRange(15, 15),), "what is stored stays"


@pytest.mark.parametrize(
    "row",
    [
        raw_row(CELL, OffsetRange(10, 15), ClosedBy.OPEN, refreshes=READ_TWICE, code_version="0"),
        raw_row(CELL, OffsetRange(10, 15), ClosedBy.OPEN),
    ],
    ids=["of another version", "read in one go"],
)
def test_a_cell_that_cannot_be_appended_to_is_read_whole(row: object) -> None:
    assert plan_read(plan(10, 20), row).parts == (OffsetRange(10, 20),)  # type: ignore[arg-type]


def test_an_open_cell_of_another_version_keeps_the_messages_that_the_source_has_forgotten() -> None:
    row = raw_row(CELL, OffsetRange(10, 15), ClosedBy.OPEN, refreshes=READ_TWICE)
    former = replace(row, code_version="0")
    assert plan_read(plan(10, 20), former, low=10).parts == (OffsetRange(10, 20),)
    read = plan_read(plan(10, 20), former, low=12)
    assert (read.parts, read.appends_to) == ((OffsetRange(15, 20),), former)
    assert plan_read(plan(10, 20), row, low=12).parts == (OffsetRange(15, 20),)


def test_an_open_cell_that_begins_elsewhere_now_is_read_whole_in_its_parts() -> None:
    row = raw_row(CELL, OffsetRange(11, 15), ClosedBy.OPEN, refreshes=READ_TWICE)
    read = plan_read(plan(10, 20), row)
    assert (read.parts, read.appends_to) == ((OffsetRange(10, 12), OffsetRange(12, 15), OffsetRange(15, 20)), None)


ends = st.lists(st.integers(1, 30), unique=True, min_size=1).map(sorted)


@given(ends, st.integers(0, 30))
def test_a_closed_cell_is_read_again_in_its_parts_without_a_hole(read_to: list[int], end: int) -> None:
    row = raw_row(CELL, OffsetRange(0, 30), refreshes=tuple(Refresh(one, str(one), "run") for one in read_to))
    read = plan_read(plan(0, end), row)
    assert read.offsets == OffsetRange(0, end)
    assert [part.start for part in read.parts[1:]] == [part.end for part in read.parts[:-1]]
    assert [part.end for part in read.parts] == [*(one for one in read_to if one < end), end]


# What the source no longer has


def watermark(low: int, earliest: timedelta | None = None) -> Watermark:
    return Watermark(low, 100, None if earliest is None else START + earliest, None)


@given(st.integers(0, 30), st.integers(0, 10), st.integers(0, 40))
def test_the_gap_and_what_is_left_are_all_that_was_to_be_read(start: int, length: int, low: int) -> None:
    read = plan_read(plan(start, start + length), None)
    left = range(read.still_there(watermark(low)).start, read.still_there(watermark(low)).end)
    gaps = gap_of(read.offsets, watermark(low))
    lost = [offset for gap in gaps for offset in range(gap.first_offset or 0, (gap.last_offset or 0) + 1)]
    assert [*lost, *left] == list(range(start, start + length))


@pytest.mark.parametrize(
    ("planned", "low", "gone"),
    [
        (plan(10, 20, stored=True), 11, True),
        (plan(10, 20, stored=True), 10, False),
        (plan(10, 20), 11, False),
        (plan(10, 10, stored=True), 11, False),
    ],
)
def test_what_is_stored_is_worth_more_than_a_part_of_it(planned: PlannedCell, low: int, gone: bool) -> None:
    assert is_gone(planned, watermark(low)) is gone


GAP = Problem(ProblemCode.GAP, 5, 9, "gone")
BEFORE = Cell(0, GRID.at(0))


@pytest.mark.parametrize(
    ("problems", "earliest", "lost"),
    [
        ((GAP,), timedelta(hours=2), True),
        ((GAP,), None, True),
        ((GAP,), timedelta(hours=1), False),
        ((), timedelta(hours=2), False),
        ((Problem(ProblemCode.GAP, 5, 8, "gone"),), timedelta(hours=2), False),
        ((Problem(ProblemCode.CLOCK, 5, 9, "late"),), timedelta(hours=2), False),
    ],
)
def test_a_gap_at_the_end_of_the_window_before_may_hold_messages_of_this_one(
    problems: tuple[Problem, ...], earliest: timedelta | None, lost: bool
) -> None:
    found = gap_before(plan(10, 20), raw_row(BEFORE, OffsetRange(0, 10), problems=problems), watermark(10, earliest))
    assert [(one.code, one.first_offset, one.last_offset) for one in found] == [(ProblemCode.GAP, 5, 9)] * lost


BEFORE = Cell(0, GRID.at(0))
LOST_BEFORE = Problem(ProblemCode.GAP, 5, 9, "lost")
OPEN_ROW = raw_row(CELL, OffsetRange(10, 15), ClosedBy.OPEN, refreshes=READ_TWICE)


@pytest.mark.parametrize(
    ("stored", "low", "row_before", "skewed", "found"),
    [
        (None, 0, None, (), []),
        (None, 12, None, (), [(ProblemCode.GAP, 10, 11)]),
        (None, 0, raw_row(BEFORE, problems=(LOST_BEFORE,)), (), [(ProblemCode.GAP, 5, 9)]),
        (OPEN_ROW, 0, raw_row(BEFORE, problems=(LOST_BEFORE,)), (), []),  # was named when the cell was begun
        (None, 0, None, (13, 17), [(ProblemCode.CLOCK, 13, 17)]),
        (None, 12, raw_row(BEFORE, problems=(LOST_BEFORE,)), (13,),
         [(ProblemCode.GAP, 5, 9), (ProblemCode.GAP, 10, 11), (ProblemCode.CLOCK, 13, 13)]),
    ],
)  # fmt: skip
def test_the_problems_of_a_reading(
    stored: RawWindow | None,
    low: int,
    row_before: RawWindow | None,
    skewed: tuple[int, ...],
    found: list[tuple[ProblemCode, int, int]],
) -> None:
    read = plan_read(plan(10, 20), stored)
    problems = problems_of_read(read, Watermark(low, 20, None, None), row_before=row_before, skewed=skewed)
    assert [(one.code, one.first_offset, one.last_offset) for one in problems] == found


def test_only_the_first_offsets_of_messages_dated_beyond_now_are_named() -> None:
    read = plan_read(plan(10, 20), None)
    (problem,) = problems_of_read(read, Watermark(0, 20, None, None), row_before=None, skewed=range(10, 17))
    assert problem.detail == "7 messages are dated beyond now and were read past: offsets 10, 11, 12, 13, 14"
