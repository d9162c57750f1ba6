"""The work of a redrive: no more than what quarantine touches, and no less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import QuarantineRow
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.redriven import entries_to_redrive, quarantined_cells, tables_to_redrive
from tests.ledger_rows import cut_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
W0, W1, W2 = (GRID.at(number) for number in range(3))


def row(partition: int, number: int, stage: str, offset: int = 0) -> QuarantineRow:
    reason = Reason.UNDECODABLE_ENTRY if stage == "entries" else Reason.RAGGED_ROW
    return QuarantineRow(partition, GRID.at(number).start, stage, offset, offset, reason, "")


ROWS = [row(0, 0, "entries"), row(0, 1, "tables"), row(1, 2, "entries")]
CUTS = [cut_row(W0), cut_row(W1), cut_row(W2)]


def test_entries_are_made_again_where_entries_could_not_be_used() -> None:
    assert entries_to_redrive(ROWS, GRID).stale_entries == (Cell(0, W0), Cell(1, W2))
    assert quarantined_cells(ROWS, GRID) == {Cell(0, W0), Cell(0, W1), Cell(1, W2)}
    assert entries_to_redrive([], GRID).nothing


def test_tables_are_made_again_where_entries_moved_on_and_where_tables_could_not_use_a_change() -> None:
    assert tables_to_redrive(ROWS, [], CUTS).tables == (W0, W1, W2)
    assert tables_to_redrive(ROWS, ROWS, CUTS).tables == (W1,), "entries that stay in quarantine change no table"
    assert tables_to_redrive(ROWS, [ROWS[0]], CUTS).tables == (W1, W2)


def test_tables_that_were_never_made_come_with_their_first_run() -> None:
    assert tables_to_redrive(ROWS, [], CUTS[:1]).tables == (W0,)


rows = st.lists(st.builds(row, st.integers(0, 1), st.integers(0, 2), st.sampled_from(["entries", "tables"])))


@given(rows, rows)
def test_other_windows_are_left_alone(found: list[QuarantineRow], left: list[QuarantineRow]) -> None:
    touched = {cell.window for cell in quarantined_cells(found, GRID)}
    assert {cell.window for cell in entries_to_redrive(found, GRID).stale_entries} <= touched
    assert set(tables_to_redrive(found, left, CUTS).tables) <= touched
