"""What is missing and what is stale. The law: once nothing is left, nothing is stale, and a second look finds nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.model.spans import Cell
from dts_assets.model.version import ROWS_VERSION
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning.staleness import (
    ABSENT,
    FORMAT_INPUT,
    entries_input,
    generation,
    input_text,
    raw_input,
    stale_entries,
    tables_inputs,
)
from dts_assets.planning.work import Work, plan_work
from tests.ledger_rows import cut_row, ingest_row, raw_row
from tests.tiers import examples

GRID = WindowGrid(timedelta(hours=1), datetime(2026, 1, 5, tzinfo=UTC))
W0, W1, W2 = (GRID.at(number) for number in range(3))
PARTITIONS = (0, 1)


@dataclass
class Lake:
    """A ledger in memory. Every cell's entries read its own raw and, as a split set might, that of the window before."""

    raw: dict[Cell, RawWindow] = field(default_factory=dict)
    entries: dict[Cell, IngestWindow] = field(default_factory=dict)
    tables: dict[datetime, Cut] = field(default_factory=dict)
    settings: str = "s1"
    decoding: str = "f1"

    def ingest(self, cell: Cell) -> None:
        self.raw.setdefault(cell, raw_row(cell, generation="r1"))
        self.decode(cell)

    def decode(self, cell: Cell) -> None:
        read = [cell]
        if (before := GRID.previous(cell.window)) is not None:
            read.append(Cell(cell.kafka_partition, before))
        texts = [input_text(raw_input(one), self.raw[one].generation if one in self.raw else ABSENT) for one in read]
        inputs = (*texts, input_text(FORMAT_INPUT, self.decoding))
        self.entries[cell] = ingest_row(cell, generation=generation(inputs, code_version="1"), inputs=inputs)

    def make_tables(self, window: Window) -> None:
        inputs = tables_inputs(window, PARTITIONS, self.entries, settings=self.settings)
        self.tables[window.start] = cut_row(window, generation=generation(inputs, code_version="1"), inputs=inputs)

    def work(self, closed: dict[int, list[Window]] | None = None, *, layers: str = "") -> Work:
        everywhere = {partition: [W0, W1, W2] for partition in PARTITIONS}
        return plan_work(
            everywhere if closed is None else closed,
            raw=self.raw,
            entries=self.entries,
            cuts=self.tables,
            decoding=self.decoding,
            settings=self.settings,
            layers=layers,
        )

    def fill(self) -> None:
        """All three windows of both partitions, in order."""
        for window in (W0, W1, W2):
            for partition in PARTITIONS:
                self.ingest(Cell(partition, window))
            self.make_tables(window)


def test_in_an_empty_lake_every_closed_cell_is_missing_and_no_window_is_ready() -> None:
    work = Lake().work({0: [W0, W1], 1: [W0]})
    assert work.ingest == (Cell(0, W0), Cell(0, W1), Cell(1, W0))
    assert (work.stale_entries, work.tables, work.waiting) == ((), (), (W0,))
    assert not work.nothing


def test_a_window_is_ready_once_every_partition_has_its_entries() -> None:
    lake = Lake()
    lake.ingest(Cell(0, W0))
    assert (lake.work().tables, lake.work().waiting) == ((), (W0, W1, W2))
    lake.ingest(Cell(1, W0))
    assert (lake.work().tables, lake.work().waiting) == ((W0,), (W1, W2))


def test_a_window_that_is_still_open_in_one_partition_neither_waits_nor_is_ready() -> None:
    lake = Lake()
    lake.ingest(Cell(0, W0))
    work = lake.work({0: [W0], 1: []})
    assert (work.tables, work.waiting, work.nothing) == ((), (), True)


def test_nothing_is_left_when_all_is_computed() -> None:
    lake = Lake()
    lake.fill()
    assert lake.work().nothing
    assert lake.work() == Work((), (), ())
    assert lake.work({}).nothing


def test_other_layers_ask_for_one_run_of_the_last_window_if_nothing_else_does() -> None:
    lake = Lake()
    assert lake.work(layers="layers:x").tables == ()
    lake.fill()
    work = lake.work(layers="layers:x")
    assert (work.tables, work.ingest, work.nothing) == ((W2,), (), False)
    assert {*lake.tables[W2.start].inputs, "layers:x"} == {*work.tables_inputs[W2.start]}
    del lake.tables[W0.start]
    assert lake.work(layers="layers:x") == lake.work()


def test_a_head_that_arrives_later_makes_entries_stale_and_then_their_window() -> None:
    lake = Lake()
    lake.ingest(Cell(0, W1))
    assert lake.work().stale_entries == ()
    lake.ingest(Cell(0, W0))
    for cell in (Cell(0, W2), Cell(1, W0), Cell(1, W1), Cell(1, W2)):
        lake.ingest(cell)
    for window in (W0, W1, W2):
        lake.make_tables(window)
    assert lake.work().stale_entries == (Cell(0, W1),)
    assert lake.work().tables == ()
    lake.decode(Cell(0, W1))
    assert (lake.work().stale_entries, lake.work().tables) == ((), (W1,))


def test_other_raw_messages_make_the_entries_stale_that_read_them() -> None:
    lake = Lake()
    lake.fill()
    lake.raw[Cell(1, W1)] = raw_row(Cell(1, W1), generation="r2")
    assert lake.work().stale_entries == (Cell(1, W1), Cell(1, W2))
    assert stale_entries(lake.entries, {}, decoding=lake.decoding) == tuple(sorted(lake.entries))


def test_another_format_or_schema_makes_all_entries_stale() -> None:
    lake = Lake()
    lake.fill()
    lake.decoding = "f2"
    assert lake.work().stale_entries == tuple(sorted(lake.entries))
    lake.decode(Cell(0, W0))
    assert lake.work().stale_entries == tuple(sorted(lake.entries.keys() - {Cell(0, W0)}))


def test_the_same_entries_made_again_leave_the_tables_alone() -> None:
    lake = Lake()
    lake.fill()
    lake.decode(Cell(0, W1))
    assert lake.work().nothing


def test_other_settings_make_every_window_stale() -> None:
    lake = Lake()
    lake.fill()
    lake.settings = "s2"
    assert (lake.work().stale_entries, lake.work().tables) == ((), (W0, W1, W2))


def test_one_more_kafka_partition_makes_windows_stale_once_its_entries_are_there() -> None:
    lake = Lake()
    lake.fill()
    closed = {partition: [W0] for partition in (0, 1, 2)}
    assert (lake.work(closed).ingest, lake.work(closed).waiting) == ((Cell(2, W0),), (W0,))
    lake.ingest(Cell(2, W0))
    assert lake.work(closed).tables == (W0,)


def test_entries_of_windows_that_do_not_count_as_closed_are_left_alone() -> None:
    lake = Lake()
    lake.fill()
    lake.raw[Cell(1, W2)] = raw_row(Cell(1, W2), generation="r2")
    assert lake.work({0: [W0, W1], 1: [W0, W1]}).nothing


def test_what_tables_read_is_named_by_cell_and_generation() -> None:
    lake = Lake()
    lake.ingest(Cell(0, W0))
    now = lake.entries[Cell(0, W0)].generation
    assert tables_inputs(W0, PARTITIONS, lake.entries, settings="s1") == (
        f"{entries_input(Cell(0, W0))}={now}",
        f"{entries_input(Cell(1, W0))}=absent",
        f"code={ROWS_VERSION}",
        "settings=s1",
    )


def test_tables_of_a_code_version_that_made_other_rows_are_made_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake()
    for partition in PARTITIONS:
        lake.ingest(Cell(partition, W0))
    with monkeypatch.context() as earlier:
        earlier.setattr("dts_assets.planning.staleness.ROWS_VERSION", "earlier")
        lake.make_tables(W0)
        assert lake.work({0: [W0], 1: [W0]}).nothing
    assert lake.work({0: [W0], 1: [W0]}).tables == (W0,)
    lake.make_tables(W0)
    assert lake.work({0: [W0], 1: [W0]}).nothing


cells = st.builds(Cell, st.sampled_from(PARTITIONS), st.sampled_from([W0, W1, W2]))


def retold(lake: Lake, cell: Cell) -> None:
    """The messages of a cell are others now."""
    before = lake.raw[cell].generation if cell in lake.raw else "r"
    lake.raw[cell] = raw_row(cell, generation=f"{before}'")


def tables_of(lake: Lake, cell: Cell) -> None:
    if all(Cell(partition, cell.window) in lake.entries for partition in PARTITIONS):
        lake.make_tables(cell.window)


events = st.sampled_from([Lake.ingest, Lake.ingest, retold, tables_of])


@examples(150)
@given(st.lists(st.tuples(events, cells), max_size=20), st.booleans())
def test_doing_what_is_left_ends_and_leaves_every_row_as_if_made_in_order(
    happened: Iterable[tuple[Callable[[Lake, Cell], None], Cell]], backwards: bool
) -> None:
    lake = Lake()
    for happen, cell in happened:
        happen(lake, cell)
    for _ in range(4):  # ingest, then entries that read it, then tables; a fourth round is one too many
        work = lake.work()
        if work.nothing:
            break
        for cell in work.ingest[::-1] if backwards else work.ingest:
            lake.ingest(cell)
        for cell in work.stale_entries:
            lake.decode(cell)
        for window in work.tables:
            lake.make_tables(window)
    assert lake.work() == Work((), (), (), ())
    in_order = Lake(raw=dict(lake.raw))
    in_order.fill()
    assert (lake.entries, lake.tables) == (in_order.entries, in_order.tables)


# Open windows, and the runs that do the work


def test_open_cells_are_read_while_they_have_messages_or_lack_entries() -> None:
    lake = Lake()
    followed = {Cell(0, W0): True, Cell(1, W0): False}

    def work() -> Work:
        closed: dict[int, list[Window]] = {0: [], 1: []}
        return plan_work(
            closed,
            raw=lake.raw,
            entries=lake.entries,
            cuts=lake.tables,
            decoding="f1",
            settings="s1",
            followed=followed,
        )

    assert (work().live, work().followed) == ((Cell(0, W0), Cell(1, W0)), (Cell(0, W0), Cell(1, W0)))
    assert (work().tables, work().waiting) == ((), ())
    lake.ingest(Cell(0, W0))
    lake.ingest(Cell(1, W0))
    assert (work().live, work().tables) == ((Cell(0, W0),), (W0,))
    assert work().without_live.live == ()


def test_an_open_cell_that_has_closed_since_is_ingested_again() -> None:
    lake = Lake()
    lake.ingest(Cell(0, W0))
    lake.entries[Cell(0, W0)] = replace(lake.entries[Cell(0, W0)], closed_by=ClosedBy.OPEN)
    assert lake.work({0: [W0]}).ingest == (Cell(0, W0),)


def test_a_cell_whose_mark_of_raw_was_taken_back_is_ingested_again() -> None:
    lake = Lake()
    lake.fill()
    del lake.raw[Cell(1, W1)]
    assert lake.work().ingest == (Cell(1, W1),)
    assert Cell(1, W1) not in lake.work().stale_entries


def test_the_inputs_of_the_work_are_those_of_now() -> None:
    lake = Lake()
    lake.fill()
    lake.raw[Cell(1, W1)] = raw_row(Cell(1, W1), generation="r2")
    work = lake.work()
    assert work.entries_inputs[Cell(1, W2)] == (
        "format=f1", f"{raw_input(Cell(1, W1))}=r2", f"{raw_input(Cell(1, W2))}=r1",
    )  # fmt: skip
    assert set(work.entries_inputs) == set(work.stale_entries)
    lake.settings = "s2"
    assert set(lake.work().tables_inputs) == {W0.start, W1.start, W2.start}
    assert lake.work().tables_inputs[W0.start][-1] == "settings=s2"


windows_of_grid = st.integers(0, 40).map(GRID.at)
some_cells = st.lists(st.builds(Cell, st.integers(0, 3), windows_of_grid), unique=True, max_size=30).map(tuple)


@given(some_cells, some_cells, some_cells, st.integers(1, 5), windows_of_grid, windows_of_grid)
def test_runs_hold_the_cells_of_the_work_each_once(
    ingest: tuple[Cell, ...],
    stale: tuple[Cell, ...],
    live: tuple[Cell, ...],
    longest: int,
    since: Window,
    until: Window,
) -> None:
    work = Work(ingest, stale, (), live=live).within(since=since.start, until=until.start)

    def inside(cells: Iterable[Cell]) -> set[Cell]:
        return {cell for cell in cells if since.start <= cell.window.start < until.start}

    runs = work.ingest_runs(longest=longest)
    assert runs == tuple(sorted(runs, key=lambda run: run.entries_only)), "messages come before stale entries"
    assert all(len(run.span.windows) <= longest for run in runs)
    for entries_only, wanted in ((False, inside((*ingest, *live))), (True, inside(stale))):
        held = [cell for run in runs if run.entries_only is entries_only for cell in run.span.cells()]
        assert sorted(held) == sorted(wanted)


@given(st.lists(windows_of_grid, unique=True), st.integers(1, 5))
def test_runs_of_the_tables_hold_the_ready_windows_in_order(ready: list[Window], longest: int) -> None:
    runs = Work((), (), tuple(ready)).tables_runs(longest=longest)
    assert [window for run in runs for window in run] == sorted(ready)
    assert all(len(run) <= longest for run in runs)
