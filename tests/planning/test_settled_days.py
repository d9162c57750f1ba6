"""Which stored days are settled still, where a look begins, and when a day is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dts_assets.model.ledger_rows import Cut, IngestWindow, MissingTable, RawWindow, SettledDay
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid, day_of, start_of_day
from dts_assets.planning.settled_days import (
    FROM_THE_FIRST,
    LATEST_PASTS,
    begin_of_look,
    day_key,
    days_referred_to,
    is_whole,
    rests_on_tables,
    still_settled,
    tables_lacking,
    windows_of_day,
    with_days,
)
from tests.ledger_rows import cut_row, ingest_row, raw_row

FIRST = day_of(datetime(2026, 1, 25, tzinfo=UTC))
FILES = {FIRST + number: (f"raw-{number}", f"entries-{number}", f"cuts-{number}") for number in range(14)}
TABLES = "of tables"


def days(count: int = 12, files: Mapping[int, tuple[str, ...]] = FILES, *, tables: str = "") -> list[SettledDay]:
    """Days that are settled one after the other, each of which refers to the one before."""
    found: list[SettledDay] = []
    for day in range(FIRST, FIRST + count):
        began = max(day - 1, FIRST)
        before = found[began - 1 - FIRST].after if began > FIRST else ""
        key = day_key(day, files, refers_to={began}, before=before, settings="s")
        found.append(SettledDay(day, began, (began,), tables, key, f"after {day}", b"past"))
    return found


def count(rows: list[SettledDay], files: Mapping[int, tuple[str, ...]] = FILES, settings: str = "s") -> int:
    return len(still_settled(rows, files, settings=settings, tables=TABLES))


def test_days_are_settled_as_long_as_all_they_rest_on_stays() -> None:
    assert count(days()) == 12
    assert count(days()[::-1]) == 12
    assert count(days(), settings="other") == 0
    assert count(days(tables=TABLES)) == 12
    assert count(days(tables="other tables")) == 0


def test_a_day_that_lacks_a_table_is_settled_as_long_as_the_table_is_paused() -> None:
    one, two = TableId("db", "", "one"), TableId("db", "", "two")
    lacking = tables_lacking(
        [replace(cut_row(GRID.at(0)), paused=(MissingTable("db", "", "one", "failed", GRID.start),))]
    )
    rows = days()
    rows[4] = replace(rows[4], lacking=lacking)
    still = {
        paused: len(still_settled(rows, FILES, settings="s", tables=TABLES, paused=paused))
        for paused in ((), (one,), (two,), (one, two))
    }
    assert still == {(): 4, (one,): 12, (two,): 4, (one, two): 12}


@pytest.mark.parametrize("number", [0, 5, 11])
def test_another_file_of_a_day_ends_the_settled_days_before_it(number: int) -> None:
    for changed in ((*FILES[FIRST + number], "another"), FILES[FIRST + number][1:], ()):
        assert count(days(), {**FILES, FIRST + number: changed}) == number


def test_a_file_before_the_first_settled_day_leaves_none() -> None:
    assert count(days(), {**FILES, FIRST - 1: ("raw",)}) == 0
    assert count(days(), {}) == 0
    assert count([]) == 0


def test_a_day_that_is_missing_or_has_another_past_before_it_ends_them() -> None:
    rows = days()
    assert count([*rows[:4], *rows[5:]]) == 4
    changed = [*rows[:4], replace(rows[4], after="another past"), *rows[5:]]
    assert count(changed) == 6  # the next day begins behind the day before


def test_a_look_begins_before_the_last_settled_day_that_has_windows() -> None:
    rows = days()
    begin = begin_of_look(rows, FILES)
    assert (begin.settled, begin.known, begin.last, begin.first) == (
        rows[10],
        (rows[11].day,),
        rows[11],
        rows[11].day + 1,
    )
    further = begin_of_look(rows, FILES, back=7)
    assert (further.settled, len(further.known), further.last) == (rows[3], 8, rows[11])
    without_windows = {day: files for day, files in FILES.items() if day != rows[11].day}
    assert begin_of_look(rows, without_windows).settled == rows[9]


def test_a_look_begins_with_the_first_window_where_no_past_is_stored() -> None:
    assert begin_of_look(days(1), FILES) == FROM_THE_FIRST
    assert begin_of_look(days(5), FILES, back=7) == FROM_THE_FIRST
    assert begin_of_look([replace(row, past=None) for row in days()], FILES) == FROM_THE_FIRST


def test_few_pasts_are_stored_and_none_is_lost() -> None:
    stored = days()
    rows = [replace(row, past=None) if number < 11 else row for number, row in enumerate(stored)]
    kept = with_days(stored, rows)
    with_past = [row.day - FIRST for row in kept if row.past is not None]
    assert with_past == list(range(12 - LATEST_PASTS, 12))
    many = days(14)
    assert [start_of_day(row.day).day for row in with_days((), many)[: 14 - LATEST_PASTS] if row.past] == []
    first_of_month = with_days((), [replace(row, day=row.day + 5) for row in many])
    assert start_of_day(first_of_month[2].day).day == 1
    assert first_of_month[2].past is not None


@pytest.mark.parametrize(
    ("every", "start", "hours"),
    [
        (timedelta(hours=6), start_of_day(FIRST), [0, 6, 12, 18]),
        (timedelta(hours=6), start_of_day(FIRST) + timedelta(hours=5), [5, 11, 17, 23]),
        (timedelta(hours=7), start_of_day(FIRST - 1) + timedelta(hours=1), [5, 12, 19]),
        (timedelta(days=7), start_of_day(FIRST), [0]),
        (timedelta(days=7), start_of_day(FIRST - 1), []),
        (timedelta(hours=6), start_of_day(FIRST + 1), []),
    ],
)
def test_the_windows_of_a_day_are_those_that_start_in_it(every: timedelta, start: datetime, hours: list[int]) -> None:
    grid = WindowGrid(every, start)
    found = windows_of_day(FIRST, grid, first=start)
    assert [(window.start - start_of_day(FIRST)) / timedelta(hours=1) for window in found] == hours
    after_first = windows_of_day(FIRST, grid, first=start_of_day(FIRST) + timedelta(hours=12))
    assert after_first == tuple(window for window in found if window.start >= start_of_day(FIRST) + timedelta(hours=12))


def test_a_window_that_ends_behind_the_grid_is_none() -> None:
    grid = WindowGrid(timedelta(hours=6), start_of_day(FIRST), start_of_day(FIRST) + timedelta(hours=15))
    assert len(windows_of_day(FIRST, grid, first=grid.start)) == 2


GRID = WindowGrid(timedelta(hours=12), start_of_day(FIRST))
CELLS = [Cell(partition, GRID.at(number)) for partition in range(2) for number in range(2)]


def whole(
    *, raw: dict[Cell, RawWindow] | None = None, entries: dict[Cell, IngestWindow] | None = None, **cut: object
) -> bool:
    offsets = {
        cell: OffsetRange(9 * GRID.number(cell.window.start), 9 * GRID.number(cell.window.start) + 9) for cell in CELLS
    }
    raws = {cell: raw_row(cell, offsets[cell]) for cell in CELLS} | (raw or {})
    marks = {cell: ingest_row(cell, offsets[cell]) for cell in CELLS} | (entries or {})
    cuts: dict[datetime, Cut] = {
        window.start: replace(cut_row(window), **cut)  # type: ignore[arg-type]
        for window in {cell.window for cell in CELLS}
    }
    return is_whole(CELLS, raws, marks, cuts, ends={0: 0}, epoch=0)


def test_a_day_is_whole_if_all_its_marks_are_there_and_closed() -> None:
    cell = CELLS[1]
    other = Cell(2, cell.window)
    missing = MissingTable("db", "", "t", "failed", GRID.start)
    assert whole()
    assert not whole(open_in=(1,))
    assert whole(paused=(missing,)), "it is settled as long as the table stays paused"
    assert not whole(raw={cell: raw_row(cell, OffsetRange(9, 18), ClosedBy.OPEN)})
    assert not whole(raw={cell: raw_row(cell, OffsetRange(9, 18), ClosedBy.END)})
    assert not whole(
        raw={cell: raw_row(cell, OffsetRange(10, 18))}, entries={cell: ingest_row(cell, OffsetRange(10, 18))}
    )
    assert not whole(entries={cell: ingest_row(cell, OffsetRange(9, 12))})
    assert not whole(entries={cell: ingest_row(cell, OffsetRange(9, 18), epoch=1)})
    assert not whole(raw={other: raw_row(other)})
    assert whole(raw={cell: raw_row(cell, OffsetRange(9, 18), ClosedBy.GRACE)})


def test_days_that_entries_refer_to_are_those_of_the_raw_messages_that_they_read() -> None:
    before = Cell(0, Window(start_of_day(FIRST - 3), start_of_day(FIRST - 3) + GRID.every))
    grid = WindowGrid(GRID.every, start_of_day(FIRST - 9))
    row = ingest_row(CELLS[0], inputs=("format=f", f"raw:{CELLS[0]}=g", f"raw:{before}=absent"))
    assert days_referred_to([row], grid) == frozenset({FIRST, FIRST - 3})
    assert days_referred_to([ingest_row(CELLS[0], inputs=("raw:p00|soon=g",))], grid) is None


def test_a_window_rests_on_the_known_tables_if_its_mark_says_so() -> None:
    window = GRID.at(0)
    assert rests_on_tables([cut_row(window, inputs=("settings=s",)), cut_row(window, inputs=("tables=t",))])
    assert not rests_on_tables([cut_row(window, inputs=("settings=tables",))])
