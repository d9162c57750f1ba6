"""The judgement that checks, the exit code and the ledger's readers share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.ledger_rows import Counts, WindowTable
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.judgements import judge_cell, judge_window, unbalanced_tables, with_quarantined
from tests.ledger_rows import cut_row, ingest_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
WINDOW = GRID.at(0)
CELL = Cell(0, WINDOW)
GAP = Problem(ProblemCode.GAP, 1, 2, "gone")
ONE_REJECTED = Counts(messages=2, whole=1, quarantined_messages=1, decoded_sets=1)


def made(partition: int, table: str, *, changes: int, kept: int, quarantined: int = 0, entries: int = 0) -> WindowTable:
    return WindowTable(
        partition, WINDOW.start, TableId("db", "", table), changes, kept, 0, quarantined, 0, 0, 0, None, None,
        quarantined_entries=entries,
    )  # fmt: skip


def test_a_partition_that_is_whole_passes_and_has_nothing_to_say() -> None:
    for judged in (judge_cell(ingest_row(CELL), quarantine_rows=0), judge_window(cut_row(WINDOW))):
        assert (judged.complete, judged.balanced, judged.sentence) == (True, True, "")


@pytest.mark.parametrize("rows", [0, 2])
def test_rows_of_quarantine_that_nobody_counted_and_counts_without_rows_are_no_balance(rows: int) -> None:
    row = ingest_row(CELL, counts=ONE_REJECTED)
    assert judge_cell(row, quarantine_rows=1).balanced
    judged = judge_cell(row, quarantine_rows=rows)
    assert judged.unbalanced == (f"quarantine: {rows} rows, 1 counted",)
    assert judged.sentence == f"unbalanced (quarantine: {rows} rows, 1 counted)"


def test_equations_that_do_not_hold_are_named() -> None:
    judged = judge_cell(ingest_row(CELL, counts=Counts(messages=1, entries=1)), quarantine_rows=0)
    assert judged.unbalanced == ("messages", "entries")


def test_what_is_said_of_an_open_window_holds_so_far() -> None:
    lost = replace(ingest_row(CELL, closed_by=ClosedBy.OPEN, problems=(GAP,)), completeness=Completeness.INCOMPLETE)
    judged = judge_cell(lost, quarantine_rows=0)
    assert (judged.still_open, judged.level_text) == (True, "incomplete so far")
    assert judged.sentence == "incomplete so far (gap)"
    assert judge_window(cut_row(WINDOW, open_in=(1,))).level_text == "observed so far"
    assert judge_window(cut_row(WINDOW)).level_text == "observed"


def test_tables_are_compared_with_the_rows_that_their_run_put_into_quarantine() -> None:
    whole = [made(0, "a", changes=3, kept=1, quarantined=2, entries=2), made(1, "a", changes=1, kept=1)]
    assert unbalanced_tables(whole, {0: 2}) == ()
    assert unbalanced_tables(whole, None) == ()
    assert unbalanced_tables(whole, {0: 1, 1: 1, 2: 1}) == (
        "p00 quarantine: 1 rows, 2 counted", "p01 quarantine: 1 rows, 0 counted", "p02 quarantine: 1 rows, 0 counted",
    )  # fmt: skip
    assert unbalanced_tables([made(0, "a", changes=3, kept=2)], {}) == ("p00 db.a",)
    assert unbalanced_tables([], {}) == ()


def test_an_entry_that_holds_no_row_is_in_quarantine_all_the_same() -> None:
    assert unbalanced_tables([made(0, "a", changes=0, kept=0, entries=1)], {0: 1}) == ()


def test_rows_of_tables_in_quarantine_are_missing_from_the_window() -> None:
    mark = cut_row(WINDOW)
    assert with_quarantined(mark, 0) is mark
    lost = with_quarantined(mark, 2)
    assert lost.completeness is Completeness.INCOMPLETE
    assert [problem.code for problem in lost.problems] == [ProblemCode.QUARANTINED]
    assert not judge_window(lost).complete
