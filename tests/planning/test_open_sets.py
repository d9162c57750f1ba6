"""The entry sets that cells take over from the cells before them, and the cells that took over others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet, open_sets_text
from dts_assets.model.spans import Cell
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.open_sets import disagreeing, left_open_by, open_before, with_windows_before
from dts_assets.planning.staleness import stale_entries
from dts_assets.planning.work import plan_work
from tests.ledger_rows import ingest_row, raw_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
FIRST, SECOND, THIRD = (Cell(0, GRID.at(number)) for number in range(3))
ONE, OTHER = OpenSet("", 3, (7, 8)), OpenSet("", 4, (9,), collecting=False, abandoned=True, seen_to=11)
OFFSETS = {FIRST: OffsetRange(0, 10), SECOND: OffsetRange(10, 10), THIRD: OffsetRange(10, 20)}


def row(
    cell: Cell, left: Sequence[OpenSet] = (), taken: Sequence[OpenSet] = (), closed_by: ClosedBy = ClosedBy.MESSAGE
) -> IngestWindow:
    counts = Counts(carried_out=sum(len(one.offsets) for one in left))
    made = ingest_row(cell, OFFSETS[cell], closed_by, inputs=[f"raw:{cell}=g", "format=f"], counts=counts)
    return replace(made, left_open=tuple(left), taken_over=tuple(taken))


def by_cell(*rows: IngestWindow) -> dict[Cell, IngestWindow]:
    return {one.cell: one for one in rows}


def test_a_cell_takes_over_what_the_one_before_it_leaves() -> None:
    rows = by_cell(row(THIRD), row(FIRST, [ONE, OTHER]), row(SECOND))
    assert open_before(rows, left_open_by(rows)) == {SECOND: (ONE, OTHER), THIRD: ()}
    assert disagreeing(rows) == {SECOND}
    settled = by_cell(row(FIRST, [ONE]), row(SECOND, [ONE], [ONE]), row(THIRD, [], [ONE]))
    assert disagreeing(settled) == frozenset()
    assert disagreeing(settled | by_cell(row(FIRST, [ONE, OTHER]))) == {SECOND}


def test_what_is_not_known_is_not_compared() -> None:
    alone = by_cell(row(THIRD, [], [ONE]))
    assert disagreeing(alone) == frozenset()
    behind_a_hole = by_cell(replace(row(FIRST, [ONE]), offsets=OffsetRange(0, 9)), row(THIRD))
    other_epoch = by_cell(replace(row(FIRST, [ONE]), epoch=1), row(THIRD))
    still_open = by_cell(row(FIRST, [ONE], closed_by=ClosedBy.OPEN), row(THIRD))
    other_partition = by_cell(replace(row(FIRST, [ONE]), kafka_partition=1), row(THIRD))
    counted_only = by_cell(replace(row(FIRST), counts=Counts(carried_out=2)), row(THIRD, [], [ONE]))
    for rows in (behind_a_hole, other_epoch, still_open, other_partition, counted_only):
        assert disagreeing(rows) == frozenset()


def test_a_window_without_a_cell_and_without_messages_hides_nothing() -> None:
    assert disagreeing(by_cell(row(FIRST, [ONE]), row(THIRD))) == {THIRD}


def test_entries_that_took_over_other_sets_are_stale_and_asked_for_under_another_key() -> None:
    raw = {cell: raw_row(cell, offsets) for cell, offsets in OFFSETS.items()}
    entries = by_cell(row(FIRST, [ONE]), row(SECOND, [ONE], [ONE]), row(THIRD))
    assert stale_entries(entries, raw, decoding="f") == (THIRD,)
    closed = {0: [cell.window for cell in OFFSETS]}

    def inputs(rows: dict[Cell, IngestWindow]) -> tuple[str, ...]:
        work = plan_work(closed, raw=raw, entries=rows, cuts={}, decoding="f", settings="")
        assert work.stale_entries == (THIRD,)
        return work.entries_inputs[THIRD]

    expected = f"open sets={open_sets_text([ONE])}"
    assert expected in inputs(entries)
    assert inputs(entries) != inputs(entries | by_cell(row(SECOND, [OTHER], [ONE])))


def test_the_text_of_sets_tells_them_apart_and_no_order() -> None:
    assert open_sets_text([ONE, OTHER]) == open_sets_text([OTHER, ONE])
    texts = {open_sets_text(one) for one in ([], [ONE], [OTHER], [ONE, OTHER], [replace(ONE, collecting=False)])}
    assert len(texts) == 5


def test_marks_are_read_of_a_window_and_of_those_that_it_takes_over_from() -> None:
    raw = {cell: raw_row(cell, OFFSETS[cell], ClosedBy.MESSAGE) for cell in (FIRST, SECOND, THIRD)}
    assert with_windows_before([FIRST.window], raw) == {FIRST.window}
    assert with_windows_before([SECOND.window], raw) == {FIRST.window, SECOND.window}
    assert with_windows_before([THIRD.window], raw) == {FIRST.window, SECOND.window, THIRD.window}
    full = raw | {SECOND: raw_row(SECOND, OffsetRange(10, 12), ClosedBy.MESSAGE)}
    full[THIRD] = raw_row(THIRD, OffsetRange(12, 20), ClosedBy.MESSAGE)
    assert with_windows_before([THIRD.window], full) == {SECOND.window, THIRD.window}
    behind_a_hole = raw | {SECOND: raw_row(SECOND, OffsetRange(11, 11), ClosedBy.MESSAGE)}
    assert with_windows_before([SECOND.window], behind_a_hole) == {SECOND.window}
