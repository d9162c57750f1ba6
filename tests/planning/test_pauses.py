"""Which errors pause a table, which windows lack it, and what is made again once it is resumed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import MissingTable, PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.cuts import frontier_of_table, window_cut
from dts_assets.planning.mark_changes import made_meanwhile
from dts_assets.planning.pauses import (
    Fault,
    catches_up,
    new_pauses,
    pauses_of,
    resumed_in,
    resumed_inputs,
    shared_fault,
    standings,
    windows_lacking,
    with_missing,
)
from dts_assets.planning.topic_marks import PROOF_INPUT, proven_anew, same_rows
from tests.ledger_rows import cut_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
WINDOW = GRID.at(0)
ONE, TWO = TableId("db", "", "one"), TableId("db", "", "two")
SINCE = datetime(2026, 1, 6, tzinfo=UTC)
PAUSE = PausedTable(ONE, "snapshot", "KeyError at a.py:7", PausedBy.FAILURE, SINCE)
LACKS = replace(cut_row(WINDOW, inputs=("a=1", f"{PROOF_INPUT}x=1")), paused=(MissingTable.of(PAUSE),))


def test_a_fault_that_all_tables_share_is_no_tables_fault() -> None:
    here, there = Fault("snapshot", "KeyError at a.py:7", "of one"), Fault("snapshot", "KeyError at a.py:8")
    assert shared_fault([ONE, TWO], {ONE: here, TWO: replace(here, sentence="of two")}) == here
    assert shared_fault([ONE, TWO], {ONE: here, TWO: there}) is None
    assert shared_fault([ONE, TWO], {ONE: here}) is None
    assert shared_fault([ONE], {ONE: here}) is None, "a subscription of one table"
    assert shared_fault([], {}) is None
    asked = replace(here, is_own=True)
    assert shared_fault([ONE, TWO], {ONE: asked, TWO: asked}) is None, "one filter of both tables"
    assert shared_fault([ONE, TWO], {ONE: asked, TWO: here}) is None


def test_a_table_that_stands_still_keeps_its_first_pause() -> None:
    later = pauses_of({ONE: Fault("c", "b"), TWO: Fault("c", "d")}, since=SINCE, first_window=WINDOW.start)
    assert [row.table for row in new_pauses(later, [PAUSE])] == [TWO]
    assert (later[1].reason, later[1].first_window, later[1].by) == ("d", WINDOW.start, PausedBy.FAILURE)


def test_a_window_lacks_a_table_once_and_knows_since_when() -> None:
    twice = with_missing(with_missing(cut_row(WINDOW), [PAUSE]), [replace(PAUSE, since=SINCE + timedelta(1))])
    assert [one.since for one in twice.paused] == [SINCE]
    assert with_missing(LACKS, []) is LACKS
    assert windows_lacking([LACKS, cut_row(GRID.at(1))]) == {ONE: {WINDOW.start}}


def test_only_a_table_that_is_not_paused_any_more_is_resumed() -> None:
    assert resumed_in(LACKS, [ONE]) == ()
    assert [one.id for one in resumed_in(LACKS, [TWO])] == [ONE]
    assert resumed_inputs(LACKS, []) == (f"resumed:db.one={SINCE.isoformat()}",)
    again = replace(LACKS, paused=(MissingTable.of(replace(PAUSE, since=SINCE + timedelta(microseconds=1))),))
    assert resumed_inputs(again, []) != resumed_inputs(LACKS, []), "or a sensor would take it for the request before"


def test_a_window_of_which_only_the_proof_changed_keeps_its_rows_unless_a_table_is_resumed() -> None:
    mark = cut_row(WINDOW, inputs=("a=1", f"{PROOF_INPUT}x=2"))
    assert same_rows(LACKS, mark, paused=[ONE])
    assert not same_rows(LACKS, mark)
    assert proven_anew([mark], {WINDOW.start: LACKS})[0].paused == LACKS.paused


def test_a_window_that_another_run_made_without_a_table_is_not_made_once_the_table_is_resumed() -> None:
    now = {WINDOW.start: LACKS}
    assert made_meanwhile({}, now, cut_row(WINDOW), paused=[ONE])
    assert not made_meanwhile({}, now, cut_row(WINDOW))


def test_a_window_is_made_for_resumed_tables_alone_where_all_else_stands() -> None:
    mark = replace(LACKS, paused=())
    assert catches_up(LACKS, mark, paused=[]) == frozenset([ONE])
    assert catches_up(LACKS, mark, paused=[ONE]) is None
    assert catches_up(None, mark, paused=[]) is None
    for other in (replace(LACKS, inputs=("a=2",)), replace(LACKS, code_version="0"), replace(LACKS, made_by=("run",))):
        assert catches_up(other, mark, paused=[]) is None
    assert catches_up(LACKS, replace(mark, open_in=(0,)), paused=[]) is None
    assert catches_up(replace(LACKS, open_in=(0,)), mark, paused=[]) is None


def test_a_table_goes_no_further_than_the_first_window_that_lacks_it() -> None:
    cuts = {window.start: window_cut(cut_row(window)) for window in (GRID.at(0), GRID.at(1), GRID.at(2))}
    first = WINDOW.start

    def reached(*lacking: int) -> Frontier:
        return frontier_of_table(cuts, GRID, first=first, lacking={GRID.at(number).start for number in lacking})

    assert [reached().window, reached(2).window, reached(1).window, reached(0).window] == [
        GRID.at(2).start, GRID.at(1).start, GRID.at(0).start, None,
    ]  # fmt: skip


def test_the_state_of_a_table_is_told_in_words() -> None:
    states = {one.table: one.state for one in standings([ONE, TWO], [PAUSE], [LACKS])}
    assert states == {ONE: "paused", TWO: "goes on"}
    assert [one.state for one in standings([ONE], [], [LACKS])] == ["catches up with the next run"]
    assert [one.table for one in standings([], [PAUSE], [])] == [ONE], "nobody takes it any more, and it can be resumed"
