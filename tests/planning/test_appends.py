"""Windows that are only appended to: exactly where all that is stored of them is still the beginning of what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import Cut, IngestWindow, MissingTable, PausedBy, PausedTable, WindowTable
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.refreshes import Refresh
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.appends import (
    NO_APPENDS,
    Appends,
    RowsOfCell,
    can_append_entries,
    find_appends,
    open_windows,
    tables_as_stored,
)
from dts_assets.planning.staleness import FORMAT_INPUT, entries_input, input_text, raw_input
from dts_assets.planning.topic_marks import PROOF_INPUT, TABLES_INPUT, statements_input
from tests.ledger_rows import cut_row, ingest_row, raw_row

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
WINDOW, OTHER = GRID.at(1), GRID.at(0)
CELLS = (Cell(0, WINDOW), Cell(1, WINDOW))
AT = SourcePosition(0, 1, 50)
ITEMS, ORDERS = TableId("shopdb", "", "items"), TableId("shopdb", "", "orders")
PAUSED = PausedTable(ITEMS, "changelog", "KeyError", PausedBy.FAILURE, WINDOW.start)


@dataclass
class Open:
    """A window that is open in Kafka partition 0 and closed in 1; its tables were made when partition 0 ended at 10."""

    rows: dict[Cell, IngestWindow]
    stored: Cut
    mark: Cut
    counted: list[WindowTable]

    def find(self) -> Appends:
        return find_appends([self.mark], {WINDOW.start: self.stored}, self.rows, counted=self.counted)


def counts(run: str) -> WindowTable:
    return WindowTable(0, WINDOW.start, ITEMS, 1, 1, 0, 0, 7, 0, 0, AT, AT, run=run)


def opened() -> Open:
    grown = ingest_row(
        CELLS[0], OffsetRange(0, 20), ClosedBy.OPEN, generation="e2",
        refreshes=(Refresh(10, "e1", "run1"), Refresh(20, "e2", "run2")),
    )  # fmt: skip
    closed = ingest_row(CELLS[1], OffsetRange(0, 5), generation="f1")

    def inputs(*generations: str) -> tuple[str, ...]:
        own = [input_text(entries_input(cell), made) for cell, made in zip(CELLS, generations, strict=True)]
        return (*own, input_text(entries_input(Cell(0, OTHER)), "b1"), "settings=s1", f"{PROOF_INPUT}x=1")

    stored = cut_row(WINDOW, inputs=inputs("e1", "f1"), ends=(10, 5), made_by=("t1", "t2"), chain="t1")
    mark = cut_row(WINDOW, inputs=inputs("e2", "f1"))
    return Open({CELLS[0]: grown, CELLS[1]: closed}, stored, mark, [counts("t2")])


def statements(one: Open, before: str, now: str, *, tables: tuple[str, str] = ("", "")) -> None:
    """Let statements count at some offsets, ``7,12``, and let the known tables be an input."""
    for name, offsets, known in (("stored", before, tables[0]), ("mark", now, tables[1])):
        mark = getattr(one, name)
        texts = [input_text(statements_input(CELLS[0]), offsets)] if offsets else []
        texts += [input_text(TABLES_INPUT, known)] if known else []
        setattr(one, name, replace(mark, inputs=(*mark.inputs, *texts)))


def other_inputs(one: Open, old: str, new: str) -> None:
    one.mark = replace(one.mark, inputs=tuple(text.replace(old, new) for text in one.mark.inputs))


def decoded_anew(one: Open) -> None:
    row = one.rows[CELLS[0]]
    one.rows[CELLS[0]] = replace(row, refreshes=(Refresh(20, "e2", "run2"),))


def stored_as(one: Open, code_version: str | None = None, ends: tuple[int, ...] | None = None) -> None:
    row = one.stored
    one.stored = replace(row, code_version=code_version or row.code_version, ends=row.ends if ends is None else ends)


def closed_anew(one: Open) -> None:
    one.rows[CELLS[1]] = replace(one.rows[CELLS[1]], generation="f2")


BROKEN: dict[str, Callable[[Open], None]] = {
    "a statement before counts no more": lambda one: statements(one, "7", "10"),
    "a statement before counts now": lambda one: statements(one, "none", "9"),
    "a table came that a statement before empties": lambda one: statements(one, "7", "7", tables=("t1", "t2")),
    "another window that it reads has changed": lambda one: other_inputs(one, "=b1", "=b2"),
    "the entries were decoded anew from the start": decoded_anew,
    "the closed partition has other entries": closed_anew,
    "a killed run has left its counts": lambda one: one.counted.append(counts("killed")),
}

NEVER: dict[str, Callable[[Open], None]] = {
    "the settings are others": lambda one: other_inputs(one, "=s1", "=s2"),
    "made by another version of the code": lambda one: stored_as(one, code_version="0"),
    "made when it was not open": lambda one: stored_as(one, ends=()),
}


def test_a_window_is_appended_to_whose_entries_have_only_become_more() -> None:
    one = opened()
    assert one.find() == Appends({WINDOW.start: one.stored})
    assert one.find().made_by == {"t1", "t2"}
    assert one.find().from_offsets == {(0, WINDOW.start): 10, (1, WINDOW.start): 5}


HARMLESS: dict[str, Callable[[Open], None]] = {
    "another proof": lambda one: other_inputs(one, f"{PROOF_INPUT}x=1", f"{PROOF_INPUT}x=2"),
    "a statement that counted before": lambda one: statements(one, "7", "7"),
    "a statement that did not count": lambda one: statements(one, "none", "none"),
    "a statement that came since": lambda one: statements(one, "7", "7,10,12"),
    "the first statement that came since": lambda one: statements(one, "", "10"),
    "a statement that came since and does not count": lambda one: statements(one, "", "none"),
    "the first statement that empties a table": lambda one: statements(one, "", "10", tables=("", "t1")),
    "one more statement that empties a table": lambda one: statements(one, "7", "7,11", tables=("t1", "t1")),
}


@pytest.mark.parametrize("harmless", HARMLESS.values(), ids=HARMLESS.keys())
def test_proofs_and_statements_behind_the_stored_rows_change_none_of_them(harmless: Callable[[Open], None]) -> None:
    one = opened()
    harmless(one)
    assert one.find().marks


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN.keys())
def test_a_window_is_made_whole_and_compared_where_anything_else_has_changed(breaks: Callable[[Open], None]) -> None:
    one = opened()
    breaks(one)
    assert one.find() == Appends({}, {WINDOW.start: one.stored})


def test_a_window_whose_table_was_resumed_is_made_whole_and_compared() -> None:
    one = opened()
    lacking = replace(one.stored, paused=(MissingTable.of(PAUSED),))
    one.stored = lacking
    assert one.find() == Appends({}, {WINDOW.start: lacking})
    still = find_appends([one.mark], {WINDOW.start: lacking}, one.rows, counted=one.counted, paused={ITEMS})
    assert still == Appends({WINDOW.start: lacking})


@pytest.mark.parametrize("breaks", NEVER.values(), ids=NEVER.keys())
def test_files_of_other_settings_or_code_are_not_compared(breaks: Callable[[Open], None]) -> None:
    one = opened()
    breaks(one)
    assert one.find() == NO_APPENDS


def test_a_window_that_had_closed_and_is_as_it_was_is_made_whole() -> None:
    one = opened()
    one.mark = replace(one.mark, inputs=one.stored.inputs)
    assert one.find() == NO_APPENDS
    one.stored = replace(one.stored, open_in=(0,))
    assert one.find().marks or one.find().compared
    one.stored = replace(one.stored, open_in=(), paused=(MissingTable.of(PAUSED),))
    assert one.find().compared, "a table was resumed: all others keep their files"


def test_a_window_without_a_stored_mark_is_made_whole() -> None:
    one = opened()
    assert find_appends([one.mark], {}, one.rows, counted=[]) == NO_APPENDS


# Compared windows

Made = dict[tuple[datetime, int, TableId], RowsOfCell]


def kept(
    one: Open, made: Made, tables: tuple[TableId, ...] = (ITEMS,), paused: tuple[TableId, ...] = ()
) -> set[TableId]:
    found = tables_as_stored({WINDOW.start: one.stored}, made, one.counted, tables, paused=paused)
    assert all(starts <= {WINDOW.start} for starts in found.values())
    return {table for table, starts in found.items() if starts}


def test_a_table_keeps_its_files_if_its_rows_came_out_as_they_were_counted() -> None:
    one = opened()
    assert kept(one, {(WINDOW.start, 0, ITEMS): (1, 0, 7)}) == {ITEMS}
    assert kept(one, {(WINDOW.start, 0, ITEMS): (1, 0, 7), (WINDOW.start, 1, ITEMS): (0, 0, 0)}) == {ITEMS}
    for other in ((2, 0, 7), (1, 1, 7), (1, 0, 8)):
        assert not kept(one, {(WINDOW.start, 0, ITEMS): other})
    assert not kept(one, {(WINDOW.start, 1, ITEMS): (1, 0, 7)}), "in another Kafka partition"
    assert not kept(one, {}), "no row came out any more"


def test_a_table_without_rows_before_keeps_nothing_or_what_was_never_counted() -> None:
    one = opened()
    made = {(WINDOW.start, 0, ITEMS): (1, 0, 7)}
    assert kept(one, made, (ITEMS, ORDERS)) == {ITEMS, ORDERS}
    assert kept(one, {**made, (WINDOW.start, 0, ORDERS): (1, 0, 3)}, (ITEMS, ORDERS)) == {ITEMS}


def test_counts_of_a_run_that_left_no_mark_say_nothing_of_the_files() -> None:
    one = opened()
    one.counted.append(replace(counts("killed"), kafka_partition=1, kept=0, row_hash=0))
    assert not kept(one, {(WINDOW.start, 0, ITEMS): (1, 0, 7)})


def test_a_table_that_was_resumed_is_replaced_even_with_equal_rows() -> None:
    one = opened()
    one.stored = replace(one.stored, paused=(MissingTable.of(PAUSED),))
    made = {(WINDOW.start, 0, ITEMS): (1, 0, 7)}
    assert not kept(one, made)
    assert kept(one, made, (ITEMS, ORDERS)) == {ORDERS}
    assert kept(one, made, paused=(ITEMS,)) == {ITEMS}, "its pause goes on"


# The marks


def marked(appends: Appends, one: Open, *, first: int, stood_at: int | None = None) -> Cut:
    (mark,) = appends.marked(
        [one.mark],
        one.rows,
        run="t3",
        firsts={WINDOW.start: [SourcePosition(0, 1, first)]},
        stood_at=None if stood_at is None else SourcePosition(0, 1, stood_at),
    )
    return mark


def test_a_chain_goes_on_as_long_as_rows_come_behind_the_cut() -> None:
    one = opened()
    assert marked(one.find(), one, first=51) == replace(one.mark, ends=(20, 5), made_by=("t1", "t2", "t3"), chain="t1")
    assert marked(one.find(), one, first=51, stood_at=50).chain == "t1"
    assert marked(one.find(), one, first=50, stood_at=50).chain == "t3"


def test_a_chain_goes_on_in_a_compared_window() -> None:
    one = opened()
    statements(one, "7", "10")
    appends = one.find()
    assert appends.compared
    assert appends.made_by == {"t1", "t2"}
    assert (appends.from_offsets, appends.compared_until) == ({}, {(0, WINDOW.start): 10, (1, WINDOW.start): 5})
    assert marked(appends, one, first=51) == replace(one.mark, ends=(20, 5), made_by=("t1", "t2", "t3"), chain="t1")
    assert marked(appends, one, first=50, stood_at=50).chain == "t3"


def test_an_open_window_that_is_made_whole_begins_a_chain() -> None:
    one = opened()
    assert marked(NO_APPENDS, one, first=51) == replace(one.mark, ends=(20, 5), made_by=("t3",), chain="t3")


def test_a_window_that_was_never_open_has_no_chain() -> None:
    one = opened()
    one.rows = {cell: replace(row, closed_by=ClosedBy.MESSAGE) for cell, row in one.rows.items()}
    assert open_windows(one.rows.values()) == frozenset()
    assert marked(NO_APPENDS, one, first=51) == one.mark
    assert marked(one.find(), one, first=51).made_by == ("t1", "t2", "t3"), "it closes with the runs that made it"


# Entries

HEAD = Cell(0, OTHER)


def decoded(**changes: object) -> IngestWindow:
    inputs = [input_text(raw_input(CELLS[0]), "r1"), input_text(raw_input(HEAD), "h1"), input_text(FORMAT_INPUT, "f1")]
    row = ingest_row(CELLS[0], OffsetRange(0, 10), ClosedBy.OPEN, inputs=inputs, resume=b"state")
    return replace(row, **changes)  # type: ignore[arg-type]


RAW = {
    HEAD: raw_row(HEAD, generation="h1"),
    CELLS[0]: raw_row(
        CELLS[0], OffsetRange(0, 20), ClosedBy.OPEN, generation="r2",
        refreshes=(Refresh(10, "r1", "run1"), Refresh(20, "r2", "run2")),
    ),
}  # fmt: skip


def test_entries_are_appended_to_a_cell_whose_messages_have_only_become_more() -> None:
    assert can_append_entries(decoded(), RAW, decoding="f1")


@pytest.mark.parametrize(
    "row",
    [decoded(closed_by=ClosedBy.MESSAGE), decoded(resume=None), decoded(code_version="0")],
    ids=["closed", "without a state", "made by another version"],
)
def test_entries_are_made_whole_where_nothing_is_left_to_go_on_from(row: IngestWindow) -> None:
    assert not can_append_entries(row, RAW, decoding="f1")


def test_entries_are_made_whole_where_an_input_is_another() -> None:
    other_head = {**RAW, HEAD: raw_row(HEAD, generation="h2")}
    read_anew = {**RAW, CELLS[0]: replace(RAW[CELLS[0]], refreshes=(Refresh(20, "r2", "run2"),))}
    assert not can_append_entries(decoded(), other_head, decoding="f1")
    assert not can_append_entries(decoded(), read_anew, decoding="f1")
    assert not can_append_entries(decoded(), RAW, decoding="f2")


@given(st.integers(0, 30), st.integers(0, 30))
def test_an_end_is_appended_to_only_if_a_reading_went_so_far(end: int, read_to: int) -> None:
    raw = {**RAW, CELLS[0]: replace(RAW[CELLS[0]], refreshes=(Refresh(read_to, "r1", "run1"),))}
    assert can_append_entries(decoded(offsets=OffsetRange(0, end)), raw, decoding="f1") == (end <= read_to)
