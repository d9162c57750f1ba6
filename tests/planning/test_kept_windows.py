"""Windows that another code or other settings made are named if their entries have left, and no others are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dts_assets.model.ledger_rows import Cut
from dts_assets.model.message_retention import ENTRIES, RAW, Removed, RemovedRows
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.kept_windows import KeptWindows, kept_sentence, kept_windows
from dts_assets.planning.message_retention import ALL_CAN_BE_MADE, Unmakeable
from dts_assets.planning.staleness import entries_input, input_text
from tests.ledger_rows import cut_row

START = datetime(2026, 1, 5, tzinfo=UTC)
GRID = WindowGrid(timedelta(hours=12), START)


def cut(number: int, *, version: str = "6", settings: str = "now") -> Cut:
    window = GRID.at(number)
    inputs = (input_text(entries_input(Cell(0, window)), "g"), input_text("settings", settings))
    return replace(cut_row(window), inputs=inputs, code_version=version)


def without(layer: str, until: int) -> Unmakeable:
    row = RemovedRows(layer, START, GRID.at(until).start, (0,), 1, 9, 99, START, START)
    return Unmakeable(Removed((row,)), GRID)


def kept(*cuts: Cut, unmakeable: Unmakeable) -> KeptWindows:
    return kept_windows(cuts, unmakeable, settings="now", code_version="6")


def test_windows_of_before_are_kept_where_their_entries_have_left() -> None:
    cuts = [cut(0, version="5"), cut(1, settings="then"), cut(2), cut(3, version="4"), cut(4, version="3")]
    found = kept(*reversed(cuts), unmakeable=without(ENTRIES, 4))
    assert found == KeptWindows((GRID.at(0), GRID.at(1), GRID.at(3)), ("4", "5"), other_settings=True)
    assert kept(*cuts, unmakeable=without(ENTRIES, 1)) == KeptWindows((GRID.at(0),), ("5",))
    assert kept(*cuts, unmakeable=without(RAW, 4)) == KeptWindows()  # tables are made of entries
    assert kept(*cuts, unmakeable=ALL_CAN_BE_MADE) == KeptWindows()


def test_a_sentence_names_ranges_and_commands_that_a_shell_takes() -> None:
    tables = [TableId("shop db", "", "it's"), TableId("bank", "", "orders")]
    windows = KeptWindows((GRID.at(0), GRID.at(1), GRID.at(3)), ("4", "5"), other_settings=True)
    said = kept_sentence(windows, "shop", tables, code_version="6", has_rules=True)
    assert said.startswith(
        "shop: 3 windows, 2026-01-05-00:00 to 2026-01-05-12:00, 2026-01-06-12:00, stay as code version 4, 5 (now 6) and other "
        "settings made them: "
    )
    assert """by dts-assets resync shop 'shop db.it'"'"'s' bank.orders; dts-assets rules apply shop lets""" in said
    of_settings = replace(windows, code_versions=())
    many = [TableId("bank", "", f"t{number:02}") for number in range(12)]
    said = kept_sentence(of_settings, "shop", many, code_version="6", has_rules=False)
    assert "stay as other settings made them" in said
    assert "bank.t09 and 2 more. This is said once." in said
    assert "rules apply" not in said
