"""Which marks are taken back before other files come, and which windows were made while a run waited."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dts_assets.model.refreshes import Refresh
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.mark_changes import contradicts, made_meanwhile
from dts_assets.planning.staleness import FILTERS_INPUT, OTHER_NAMES, input_text
from tests.ledger_rows import cut_row, raw_row

WINDOW = Window(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 1, tzinfo=UTC))
RAW, CUT = raw_row(Cell(0, WINDOW)), cut_row(WINDOW)


def test_a_mark_of_other_content_is_taken_back() -> None:
    assert not contradicts(RAW, RAW)
    assert contradicts(RAW, replace(RAW, generation="another"))
    assert contradicts(CUT, replace(CUT, generation="another"))


def test_a_mark_that_names_runs_is_taken_back_even_where_the_content_is_equal() -> None:
    assert contradicts(replace(RAW, refreshes=(Refresh(5, "g", "r1"),)), RAW)
    assert contradicts(replace(CUT, made_by=("r1",)), CUT)


def test_a_window_that_another_run_has_made_from_the_same_inputs() -> None:
    start = CUT.window.start
    assert made_meanwhile({}, {start: CUT}, CUT)
    assert not made_meanwhile({start: CUT}, {start: CUT}, CUT), "it stood before"
    assert not made_meanwhile({}, {}, CUT)
    assert not made_meanwhile({}, {start: replace(CUT, generation="other")}, CUT), "entries have changed since"


def test_a_window_that_another_run_made_and_then_marked_as_judged_by_former_names_is_not_done() -> None:
    stale = replace(CUT, inputs=(*CUT.inputs, input_text(FILTERS_INPUT, OTHER_NAMES)))
    assert not made_meanwhile({}, {CUT.window.start: stale}, CUT)
