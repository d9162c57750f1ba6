"""Copies of tables: which window takes each, which of two counts, and the moments that lie inside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.frontier import Frontier
from dts_assets.model.message_retention import ENTRIES, Removed, RemovedRows
from dts_assets.model.positions import SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.copied_tables import (
    Copies,
    copied_meanwhile,
    copies_in_force,
    copies_inputs,
    windows_of_copies,
)
from tests.ledger_rows import ingest_row

START = datetime(2026, 1, 5, tzinfo=UTC)
ORDERS, ITEMS = (TableId("shopdb", "", name) for name in ("orders", "items"))
BOOTSTRAP, RESYNC, REPAIR = CopyKind


def at(position: int) -> SourcePosition:
    return SourcePosition(0, 1, position)


def hour(number: int) -> datetime:
    return START + timedelta(hours=number)


def copied(
    name: str,
    *watermarks: tuple[int, int],
    table: TableId = ORDERS,
    kind: CopyKind = BOOTSTRAP,
    state: CopyState = CopyState.COPIED,
    began: int = 0,
    window: int | None = None,
) -> CopiedTable:
    """A copy whose chunks lie between some pairs of positions."""
    chunks = tuple(
        CopiedChunk(number, None, None, at(low), at(high), 1, START) for number, (low, high) in enumerate(watermarks)
    )
    shapes = (ColumnShape("id", "int(11)", True),)
    taken = None if window is None else hour(window)
    return CopiedTable(
        name, table, kind, state, "a test", shapes, chunks, START + timedelta(seconds=began), None, taken
    )


def windows(copies: Sequence[CopiedTable], *cuts: int | None) -> dict[int, list[str]]:
    reached = {hour(number): None if cut is None else at(cut) for number, cut in enumerate(cuts)}
    found = windows_of_copies(copies, reached, reached.__getitem__)
    return {int((start - START) / timedelta(hours=1)): [one.copy for one in some] for start, some in found.items()}


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ((10, 20, 30), {1: ["a"]}),
        ((10, None, 20), {2: ["a"]}),
        ((10, 19), {}),
        ((25, 15, 30), {0: ["a"]}),  # a cut that falls back
        ((None, None), {}),
        ((), {}),
    ],
)
def test_a_copy_is_taken_by_the_first_window_whose_cut_reaches_its_end(
    cuts: tuple[int | None, ...], expected: dict[int, list[str]]
) -> None:
    assert windows([copied("a", (5, 9), (7, 20))], *cuts) == expected


@pytest.mark.parametrize(("gone", "expected"), [(0, 1), (1, 1), (2, 2), (3, None)])
def test_a_window_whose_entries_were_removed_takes_no_copy_any_more(gone: int, expected: int | None) -> None:
    """The next one does; a copy that a window has taken before stays with it."""
    row = RemovedRows(ENTRIES, hour(0), hour(gone), (0,), cells=gone, rows=gone, bytes=1, removed_at=START)
    removed = Removed((row,) if gone else ())
    marks = {hour(number): [ingest_row(Cell(0, Window(hour(number), hour(number + 1))))] for number in range(3)}
    reached = {hour(number): at(10 * (number + 1)) for number in range(3)}
    found = Copies((copied("a", (5, 15)),), removed).by_window(marks, reached.__getitem__)
    assert [*found] == ([] if expected is None else [hour(expected)])
    stays = Copies((copied("a", (5, 15), window=1),), removed).by_window(marks, reached.__getitem__)
    assert [*stays] == [hour(1)]


def test_a_copy_stays_with_its_window_and_unfinished_ones_have_none() -> None:
    assert windows([copied("a", (5, 20), window=7)], 10, 30) == {7: ["a"]}
    assert windows([copied("a", (5, 20), state=CopyState.READING)], 30) == {}
    assert windows([copied("a", (5, 20), state=CopyState.CANCELLED, window=0)], 30) == {}
    assert windows([copied("b", (5, 9), began=2), copied("a", (6, 9), table=ITEMS, began=1)], 30) == {0: ["a", "b"]}
    assert copies_inputs([copied("a", (5, 9))]) == ("copy:a=1 rows",)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (((5, 9),), ((5, 9),), ["second"]),  # nobody wrote in between: both emptied the table at one place
        (((5, 9), (7, 20)), ((6, 9),), ["second"]),
        (((5, 9),), ((6, 9),), ["first", "second"]),
        (((8, 9),), ((2, 3),), ["second"]),  # files of an earlier position
    ],
)
def test_a_later_copy_counts_alone_where_it_would_not_empty_the_earlier_one(
    first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]], expected: list[str]
) -> None:
    copies = [copied("first", *first), copied("second", *second, kind=RESYNC, began=1)]
    assert [one.copy for one in copies_in_force(copies)] == expected
    others = [copied("first", *first), copied("second", *second, table=ITEMS, began=1)]
    assert [one.copy for one in copies_in_force(others)] == ["first", "second"]
    repairs = [copied("first", *first), copied("second", *second, kind=REPAIR, began=1)]
    assert [one.copy for one in copies_in_force(repairs)] == ["first", "second"]


def test_an_earlier_copy_counts_until_a_window_takes_the_later_one() -> None:
    copies = [copied("first", (5, 9)), copied("second", (5, 30), kind=RESYNC, began=1)]
    assert windows(copies, 10, 20) == {0: ["first"]}
    assert windows(copies, 10, 30) == {1: ["second"]}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=6))
def test_rows_of_every_copy_in_force_are_emptied_by_the_next_one(some: list[tuple[int, int]]) -> None:
    copies = [copied(str(number), (low, low + more), began=number) for number, (low, more) in enumerate(some)]
    found = copies_in_force(copies)
    assert [one.copy for one in found[-1:]] == [one.copy for one in copies[-1:]]
    for number, one in enumerate(found):
        for later in found[number + 1 :]:
            assert one.last_low is not None
            assert later.low is not None
            assert one.last_low < later.low


@pytest.mark.parametrize(
    ("copy", "position", "unknown"),
    [
        (copied("a", (5, 9), (7, 20)), 4, True),
        (copied("a", (5, 9), (7, 20)), 19, True),
        (copied("a", (5, 9), (7, 20)), 20, False),
        (copied("a", (5, 20), kind=RESYNC), 4, False),
        (copied("a", (5, 20), kind=RESYNC), 5, True),
        (copied("a", (5, 5), kind=RESYNC), 5, False),
        (copied("a", (5, 20), kind=REPAIR), 7, False),
        (copied("a", (5, 20), state=CopyState.READING), 7, False),
    ],
)
def test_moments_inside_a_copy_and_before_the_first_one_are_not_known(
    copy: CopiedTable, position: int, unknown: bool
) -> None:
    frontier = Frontier(START, None, at(position))
    assert copied_meanwhile([copy], frontier) == (frozenset([ORDERS]) if unknown else frozenset())


@pytest.mark.parametrize("kind", CopyKind)
@pytest.mark.parametrize("hours", [0, 1])
def test_a_table_is_not_known_as_of_whole_windows_before_the_one_that_takes_its_first_copy(
    kind: CopyKind, hours: int
) -> None:
    copy = replace(copied("a", (5, 9), kind=kind), window_start=START + timedelta(hours=hours))
    unknown = kind is CopyKind.BOOTSTRAP and hours == 1
    assert copied_meanwhile([copy], Frontier(START, START, None)) == (frozenset([ORDERS]) if unknown else frozenset())
