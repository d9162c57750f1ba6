"""Nothing young goes, nothing that is needed goes, all else does; and what was made from removed rows is not asked for again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, MissingTable, QuarantineRow, RawWindow
from dts_assets.model.message_retention import ENTRIES, RAW, Removed, RemovedRows
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import WindowGrid, day_of
from dts_assets.planning.message_retention import (
    MESSAGES_KEPT,
    Stored,
    Unmakeable,
    entries_until,
    later_of,
    old_until,
    over_until,
    raw_until,
    removed_lines,
)
from dts_assets.planning.redriven import can_be_redriven
from dts_assets.planning.staleness import entries_input, input_text, raw_input
from dts_assets.planning.work import Work, plan_work
from dts_assets.stages.heads import FURTHEST_BY_SEQUENCE, FURTHEST_REPEATED
from tests.ledger_rows import cut_row, ingest_row, raw_row

START = datetime(2026, 1, 5, tzinfo=UTC)
GRID = WindowGrid(timedelta(hours=12), START)
DAY, GRACE = timedelta(days=1), timedelta(minutes=10)
FIRST_DAY = day_of(START)
PARTITIONS, WINDOWS, MESSAGES = 2, 12, 10
OLD = START + 4 * DAY
"""Windows before the eighth are old."""
ORDERS = TableId("shopdb", "", "orders")


def cell(number: int, partition: int = 0) -> Cell:
    return Cell(partition, GRID.at(number))


CELLS = [cell(number, partition) for partition in range(PARTITIONS) for number in range(WINDOWS)]


@dataclass
class Needs:
    """The windows that others need: ``heads``, ``open_sets`` and ``compared`` are pairs of a later window and an earlier one."""

    heads: list[tuple[int, int, int]] = field(default_factory=list)
    open_sets: list[tuple[int, int, int]] = field(default_factory=list)
    compared: list[tuple[int, int, int]] = field(default_factory=list)
    lacking: list[int] = field(default_factory=list)

    def stored(self) -> Stored:
        raw: dict[Cell, RawWindow] = {}
        entries: dict[Cell, IngestWindow] = {}
        for one in CELLS:
            start = GRID.number(one.window.start) * MESSAGES
            raw[one] = raw_row(one, OffsetRange(start, start + MESSAGES))
            inputs = ["format=f", input_text(raw_input(one), "g")]
            entries[one] = ingest_row(one, raw[one].offsets, inputs=inputs)
        for partition, later, earlier in self.heads:
            row = entries[cell(later, partition)]
            named = input_text(raw_input(cell(earlier, partition)), "g")
            entries[row.cell] = replace(row, inputs=(*row.inputs, named))
        for number, (partition, later, earlier) in enumerate(self.open_sets):
            row, offset = (
                entries[cell(later, partition)],
                raw[cell(earlier, partition)].offsets.start + number % MESSAGES,
            )
            sets = (OpenSet("", 3, (offset, row.offsets.start)),)
            taken = number % 2 == 0
            both = (*row.taken_over, *sets) if taken else (*row.left_open, *sets)
            entries[row.cell] = replace(row, taken_over=both) if taken else replace(row, left_open=both)
        compared: dict[Cell, list[Cell]] = {}
        cuts = {GRID.at(number).start: cut_row(GRID.at(number)) for number in range(WINDOWS)}
        for number, (partition, later, earlier) in enumerate(self.compared):
            if number % 2:  # as the look suspects it, or as it was when the tables were made
                compared.setdefault(cell(later, partition), []).append(cell(earlier, partition))
            else:
                made = cuts[GRID.at(later).start]
                named = input_text(entries_input(cell(earlier, partition)), "g")
                cuts[made.window.start] = replace(made, inputs=(*made.inputs, named))
        lacks = (MissingTable("shopdb", "", "orders", "asked for", START),)
        for window in map(GRID.at, self.lacking):
            cuts[window.start] = replace(cuts[window.start], paused=lacks)
        return Stored(raw, entries, cuts, compared)


links = st.lists(
    st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, WINDOWS - 1), st.integers(0, WINDOWS - 1)).filter(
        lambda link: link[1] > link[2]
    ),
    max_size=3,
)
needs = st.builds(Needs, links, links, links, st.lists(st.integers(0, WINDOWS - 1), max_size=2))


def is_young(number: int) -> bool:
    return GRID.at(number).start >= OLD


@example(Needs([], [(0, 8, 1), (0, 1, 0), (0, 8, 2)]), 0)  # a window that took over two sets
@given(needs, st.integers(0, WINDOWS * MESSAGES))
def test_of_messages_goes_all_that_is_old_and_needed_by_nothing_young(needed: Needs, kept: int) -> None:
    until = raw_until(needed.stored(), OLD, GRID, kept=kept)
    for partition in range(PARTITIONS):
        wanted = [GRID.number(OLD)]
        wanted += [earlier for of, later, earlier in needed.heads if of == partition and is_young(later)]
        wanted += [earlier for of, later, earlier in needed.open_sets if of == partition and is_young(later)]
        wanted.append(WINDOWS - -(-kept // MESSAGES))
        first, named = (
            min(wanted),
            [earlier for of, later, earlier in needed.heads if of == partition and is_young(later)],
        )
        by_offset = [WINDOWS - -(-kept // MESSAGES), GRID.number(OLD)]
        by_offset += [earlier for of, later, earlier in needed.open_sets if of == partition and is_young(later)]
        if min(by_offset) <= 0:
            assert partition not in until, "more may be needed than the marks tell"
        else:
            assert until[partition] == GRID.at(max(0, min([first, *named]))).start


@given(needs, st.integers(0, WINDOWS * MESSAGES), st.integers(0, WINDOWS))
def test_marks_of_old_windows_that_are_left_out_let_nothing_go_that_stays_with_them(
    needed: Needs, kept: int, since: int
) -> None:
    stored = needed.stored()
    first = GRID.at(min(since, GRID.number(OLD))).start
    some = {one: row for one, row in stored.raw.items() if one.window.start >= first}
    few = {one: row for one, row in stored.entries.items() if one.window.start >= first}
    whole = raw_until(stored, OLD, GRID, kept=kept)
    for partition, border in raw_until(replace(stored, raw=some, entries=few), OLD, GRID, kept=kept).items():
        assert border == whole[partition]


@given(needs, st.integers(0, WINDOWS - 1))
def test_of_entries_goes_all_that_is_old_and_compared_with_nothing_young(needed: Needs, raw_goes: int) -> None:
    border = GRID.at(raw_goes).start
    until = entries_until(needed.stored(), OLD, GRID, raw_goes=border)
    wanted = [GRID.number(OLD), raw_goes]
    wanted += [earlier for _, later, earlier in needed.compared if is_young(later)]
    wanted += needed.lacking
    assert until == GRID.at(min(wanted)).start
    gone_with_table = entries_until(needed.stored(), OLD, GRID, raw_goes=border, removed_tables={ORDERS})
    assert gone_with_table == entries_until(replace_lacking(needed).stored(), OLD, GRID, raw_goes=border)


def replace_lacking(needed: Needs) -> Needs:
    return Needs(needed.heads, needed.open_sets, needed.compared, [])


def test_nothing_goes_where_nothing_is_old_or_a_name_cannot_be_read() -> None:
    stored = Needs().stored()
    assert raw_until(stored, None, GRID) == {}
    assert entries_until(stored, None, GRID, raw_goes=OLD) is None
    assert entries_until(stored, OLD, GRID, raw_goes=None) is None
    last = cell(WINDOWS - 1)
    unread = replace(stored.entries[last], inputs=("raw:of another grid=g",))
    assert set(raw_until(replace(stored, entries={**stored.entries, last: unread}), OLD, GRID, kept=0)) == {1}
    cut = replace(stored.cuts[last.window.start], inputs=("entries:of another grid=g",))
    unreadable = replace(stored, cuts={**stored.cuts, last.window.start: cut})
    assert entries_until(unreadable, OLD, GRID, raw_goes=OLD) is None


def test_the_messages_that_stay_are_more_than_a_search_goes_back() -> None:
    assert MESSAGES_KEPT > FURTHEST_BY_SEQUENCE + FURTHEST_REPEATED


@given(st.integers(0, 9), st.integers(1, 200), st.integers(0, 300))
def test_days_are_old_once_their_last_window_has_closed_so_long_ago(days: int, age: int, now: int) -> None:
    at, hours = START + now * timedelta(hours=1), timedelta(hours=age)
    until = old_until(range(FIRST_DAY, FIRST_DAY + days), hours, now=at, grace=GRACE)
    ends = [START + (number + 1) * DAY for number in range(days)]
    old = [end for end in ends[:-1] if at - (end + GRACE) >= hours]
    assert until == (old[-1] if old else None)
    assert old_until(range(FIRST_DAY, FIRST_DAY + days), None, now=at, grace=GRACE) is None


def removed(
    layer: str, first: int, last: int, *, partitions: Iterable[int] = range(PARTITIONS), day: int = 20
) -> RemovedRows:
    at = datetime(2026, 1, day, 3, tzinfo=UTC)
    return RemovedRows(layer, GRID.at(first).start, GRID.at(last).start, tuple(partitions), 9, 1_234, 99, at)


@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=4))
def test_a_cell_is_removed_exactly_if_a_note_holds_it(raw: list[int], entries: list[int]) -> None:
    rows: list[RemovedRows] = []
    for layer, lengths in ((RAW, raw), (ENTRIES, entries)):
        first = 1
        for length in lengths:
            rows.append(removed(layer, first, first + length, day=first + 1))
            first += length
    known = Removed(tuple(reversed(rows)))
    for layer in (RAW, ENTRIES):
        for one in CELLS:
            holding = [row for row in rows if row.layer == layer and row.since <= one.window.start < row.until]
            assert known.when(layer, one) == (holding[0].removed_at if holding else None)
        last = [row.until for row in rows if row.layer == layer]
        assert known.until(layer, 1) == max(last, default=None)
    assert known.when(RAW, Cell(PARTITIONS, GRID.at(1))) is None, (
        "a Kafka partition that was added later has all its rows"
    )


def worked(
    unmakeable: Unmakeable, stored: Stored, *, decoding: str = "f", cuts: Mapping[datetime, Cut] | None = None
) -> Work:
    windows = [GRID.at(number) for number in range(WINDOWS)]
    return plan_work(
        dict.fromkeys(range(PARTITIONS), windows),
        raw=stored.raw,
        entries=stored.entries,
        cuts=stored.cuts if cuts is None else cuts,
        decoding=decoding,
        settings="s",
        unmakeable=unmakeable,
    )


def test_stale_windows_without_their_rows_are_not_asked_for() -> None:
    head = Needs(heads=[(1, 6, 5)])
    stored = head.stored()
    assert len(worked(Unmakeable(), stored, decoding="other").stale_entries) == len(CELLS)
    gone = Unmakeable(Removed((removed(RAW, 0, 6), removed(ENTRIES, 0, 4))), GRID)
    work = worked(gone, stored, decoding="other")
    assert set(work.stale_entries) == {one for one in CELLS if one.window.start >= GRID.at(6).start} - {cell(6, 1)}
    assert list(work.tables) == [GRID.at(number) for number in range(4, WINDOWS)], "their entries are there"


def test_a_cell_without_a_mark_is_not_read_again() -> None:
    stored = Needs().stored()
    gone = Unmakeable(Removed((removed(RAW, 0, 6),)), GRID)
    for name in ("raw", "entries"):
        marks = {one: row for one, row in getattr(stored, name).items() if one not in (cell(2), cell(7))}
        assert worked(gone, replace(stored, **{name: marks})).ingest == (cell(7),)


def test_tables_that_were_never_made_are_asked_for_so_that_somebody_is_told() -> None:
    stored = Needs().stored()
    gone = Unmakeable(Removed((removed(RAW, 0, 6), removed(ENTRIES, 0, 4))), GRID)
    cuts = {start: row for start, row in stored.cuts.items() if start != GRID.at(2).start}
    assert GRID.at(2) in worked(gone, stored, cuts=cuts).tables
    assert GRID.at(3) not in worked(gone, stored, cuts=cuts).tables


@pytest.mark.parametrize("changes", [0, 3])
def test_changes_of_a_kafka_partition_that_was_added_later_are_not_passed_over(changes: int) -> None:
    stored = Needs().stored()
    made = tuple(input_text(entries_input(cell(number)), "g") for number in range(WINDOWS))
    cuts = {start: replace(row, inputs=made) for start, row in stored.cuts.items()}
    added = replace(stored.entries[cell(1, 1)], counts=Counts(data=changes))
    only = Removed((removed(RAW, 0, 6, partitions=[0]), removed(ENTRIES, 0, 4, partitions=[0])))
    work = worked(Unmakeable(only, GRID), replace(stored, entries={**stored.entries, added.cell: added}), cuts=cuts)
    assert (GRID.at(1) in work.tables) == bool(changes)


def test_an_open_window_that_begins_to_repeat_removed_changes_is_not_passed_over() -> None:
    stored, gone = Needs().stored(), Unmakeable(Removed((removed(ENTRIES, 0, 4),)), GRID)
    own, old = (input_text(entries_input(cell(number)), "g") for number in (7, 1))
    row = replace(stored.cuts[GRID.at(7).start], inputs=(own,), open_in=(0,))
    assert not gone.tables(row, (own, old), stored.entries)
    assert gone.tables(replace(row, open_in=()), (own, old), stored.entries)
    assert gone.tables(replace(row, inputs=(own, old)), (own, old), stored.entries)


def test_rows_in_quarantine_stay_where_their_messages_or_entries_are_gone() -> None:
    stored = Needs(heads=[(0, 6, 5)]).stored()
    rows = [
        QuarantineRow(0, GRID.at(number).start, stage, 1, 1, Reason.MISSING_HEAD, "")
        for number in (2, 4, 6, 7)
        for stage in ("entries", "tables")
    ]

    def marks(windows: Iterable[object]) -> list[IngestWindow]:
        wanted = set(windows)
        return [row for row in stored.entries.values() if row.window in wanted]

    assert can_be_redriven(rows, Unmakeable(), marks) == (rows, [])
    gone = Unmakeable(Removed((removed(RAW, 0, 6), removed(ENTRIES, 0, 4))), GRID)
    again, stay = can_be_redriven(rows, gone, marks)
    assert [(GRID.number(row.window_start), row.stage) for row in stay] == [
        (2, "entries"), (2, "tables"), (4, "entries"), (6, "entries"),
    ]  # fmt: skip
    assert [*again, *stay] != rows
    assert len(again) + len(stay) == len(rows)


def test_a_person_is_told_a_line_for_each_layer() -> None:
    assert removed_lines([]) == []
    lines = removed_lines([removed(RAW, 0, 2), removed(RAW, 2, 6), removed(ENTRIES, 0, 4)])
    assert [line.partition(" of windows")[0] for line in lines] == ["entries: 1,234 rows", "raw_envelopes: 2,468 rows"]
    assert "before 2026-01-08 00:00 UTC were removed by retention" in lines[1]


@pytest.mark.parametrize(
    ("most", "first"), [(None, None), (99, None), (60, None), (59, 1), (50, 1), (49, 2), (30, 3), (1, 4), (0, 4)]
)
def test_the_oldest_settled_days_go_until_a_layer_is_small_enough(most: int | None, first: int | None) -> None:
    """Each of six days has ten bytes, in two windows; five are settled, and the last of them never goes."""
    zero = day_of(START)
    sizes = {START + day * DAY + half * DAY / 2: 5 for day in range(6) for half in range(2)}
    found = over_until(range(zero, zero + 5), sizes, most)
    assert found == (None if first is None else START + first * DAY)
    assert over_until([], sizes, most) is None
    assert later_of(found, None) == later_of(None, found) == found
    assert later_of(START, START + DAY) == START + DAY
