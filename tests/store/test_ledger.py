"""The ledger: rows come back as they went in, a span's rows are replaced and no others, also with several writers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from dataclasses import replace as changed
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import ColumnShape
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import (
    Counts,
    Cut,
    IngestWindow,
    InvalidColumn,
    MissingTable,
    PausedBy,
    PausedTable,
    QuarantineRow,
    RawWindow,
    ServerPositions,
    TableShapeRow,
    WindowTable,
)
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode, Reason
from dts_assets.model.runs import Run, ServerRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.ledger_columns import LEDGER_COLUMNS
from dts_assets.store.schemas import SYSTEM_TABLES
from dts_assets.store.types import iceberg_schema
from tests.ledger_rows import cut_row, quarantine
from tests.tiers import examples

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

GRID = WindowGrid(timedelta(hours=6), datetime(2026, 1, 1, tzinfo=UTC))
ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")


@pytest.fixture
def lake(lake_location: LakeLocation) -> Lake:
    return Lake(lake_location)


@pytest.fixture
def ledger(catalog: Catalog) -> Ledger:
    return Ledger(catalog, "shop")


def raw(kafka_partition: int, number: int, generation: str = "g") -> RawWindow:
    window = GRID.at(number)
    return RawWindow(
        kafka_partition, window, 0, OffsetRange(number * 10, number * 10 + 10), ClosedBy.MESSAGE, 10, 1000,
        window.start, window.end - timedelta(microseconds=1), (), generation, "1",
    )  # fmt: skip


def ingest(kafka_partition: int, number: int, *, problems: tuple[Problem, ...] = ()) -> IngestWindow:
    at = SourcePosition(0, 3, 4711)
    return IngestWindow(
        kafka_partition, GRID.at(number), 1, OffsetRange(5, 9),
        Counts(messages=4, whole=3, fragments=1, carried_out=1, decoded_sets=3), at, "uuid:1-9",
        (ServerPositions(7, at, SourcePosition(0, 3, 9999)),), ClosedBy.GRACE, Completeness.CONTIGUOUS, problems,
        "1.0", "abc", ("raw:def", "raw:ghi"),
    )  # fmt: skip


def made(kafka_partition: int, number: int, table: TableId = ORDERS, kept: int = 1) -> WindowTable:
    return WindowTable(
        kafka_partition, GRID.at(number).start, table, 1, kept, 0, 0, -(2**63), 0, 0, None, SourcePosition(0, 1, 2)
    )


def with_unfit(kafka_partition: int, number: int) -> WindowTable:
    columns = (InvalidColumn("d.ay", 3), InvalidColumn("n", 1))
    return changed(made(kafka_partition, number), invalid_values=3, invalid_columns=columns, partial_moves=2)


def cell(kafka_partition: int, number: int) -> Cell:
    return Cell(kafka_partition, GRID.at(number))


class TestRoundTrips:
    def test_tables_that_do_not_exist_read_as_empty(self, ledger: Ledger) -> None:
        found = (
            ledger.raw_windows(),
            ledger.windows(),
            ledger.cuts(),
            ledger.window_tables([GRID.at(0)]),
            ledger.quarantine(),
        )
        assert found == ([], [], [], [], [])

    def test_clearing_what_does_not_exist_makes_nothing(self, ledger: Ledger, catalog: Catalog) -> None:
        ledger.replace_windows([cell(0, 0)], [])
        assert catalog.list_namespaces() == []

    def test_a_table_of_an_earlier_version_gets_the_fields_inside_its_lists(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run's servers had neither witnesses nor the number in their last set."""
        later = ",witnesses:array<array<bigint>>,in_last:bigint"
        before = tuple((name, text.replace(later, "")) for name, text in LEDGER_COLUMNS["windows"])
        assert before != LEDGER_COLUMNS["windows"]
        of = (ServerRange("uuid", 1, 9, SourcePosition(0, 3, 700)), ServerRange("with none", 4, 4))
        run = Run(
            "", 5, 9, SourcePosition(0, 3, 4), SourcePosition(0, 3, 900), GRID.start, GRID.start, 7, "uuid:1", begins=True,
            servers=of, broken=False, repeats=0,
        )  # fmt: skip
        earlier = changed(ingest(0, 0), runs=(run, changed(run, first_offset=7)))
        with monkeypatch.context() as then:
            layout_before = changed(SYSTEM_TABLES["windows"], schema=iceberg_schema(before))
            then.setattr("dts_assets.store.ledger.SYSTEM_TABLES", {**SYSTEM_TABLES, "windows": layout_before})
            Ledger(catalog, "shop").replace_windows([cell(0, 0)], [earlier])
        assert Ledger(catalog, "shop").windows() == [earlier]
        known = changed(of[0], witnesses=((1, 3, 4), (9, 3, 700)), in_last=9)
        now = changed(ingest(0, 1), runs=(changed(run, servers=(known, changed(of[1], witnesses=(), in_last=-1))),))
        Ledger(catalog, "shop").replace_windows([cell(0, 1)], [now])
        assert Ledger(catalog, "shop").windows() == [earlier, now]

    def test_raw_windows(self, ledger: Ledger) -> None:
        rows = [raw(0, 0), changed(raw(1, 0), first_time=None, last_time=None, messages=0, closed_by=ClosedBy.END)]
        ledger.replace_raw_windows([row.cell for row in rows], rows)
        assert ledger.raw_windows() == rows

    def test_windows(self, ledger: Ledger) -> None:
        problems = (Problem(ProblemCode.GAP, 3, 4, "lost"), Problem(ProblemCode.CLOCK, None, None, ""))
        rows = [
            ingest(0, 0, problems=problems),
            changed(ingest(1, 0), checkpoint=None, checkpoint_gtid_set=None, positions=()),
        ]
        ledger.replace_windows([row.cell for row in rows], rows)
        assert ledger.windows() == rows

    def test_cuts(self, ledger: Ledger) -> None:
        common = (
            None,
            Consistency.CUT,
            Completeness.OBSERVED,
            (Problem(ProblemCode.DDL, 1, 1, "x"),),
            "g",
            ("a", "b"),
            "1",
        )
        rows = [Cut(GRID.at(0), SourcePosition(0, 1, 2), *common), Cut(GRID.at(1), None, *common)]
        ledger.replace_cuts([row.window for row in rows], rows)
        assert ledger.cuts() == rows
        assert ledger.cuts([GRID.at(1)]) == rows[1:]

    def test_tables_that_stand_still_and_windows_that_lack_them(self, ledger: Ledger) -> None:
        since = datetime(2026, 1, 6, 7, 8, 9, 123456, tzinfo=UTC)
        rows = [
            PausedTable(ITEMS, "", "a person's words", PausedBy.PERSON, since),
            PausedTable(ORDERS, "snapshot", "KeyError at a.py:7", PausedBy.FAILURE, since, GRID.at(0).start),
        ]
        assert ledger.paused_tables() == []
        ledger.change_paused_tables(lambda stored: [*stored, *rows[::-1]])
        assert ledger.paused_tables() == rows
        lacks = changed(cut_row(GRID.at(0)), paused=tuple(map(MissingTable.of, rows)))
        ledger.replace_cuts([GRID.at(0)], [lacks])
        assert ledger.cuts() == [lacks]

    def test_pauses_of_two_writers_at_once_are_all_kept(self, ledger: Ledger, catalog: Catalog) -> None:
        since = datetime(2026, 1, 6, tzinfo=UTC)

        def pause(number: int) -> None:
            row = PausedTable(TableId("d", "", f"t{number}"), "", "r", PausedBy.PERSON, since)
            Ledger(catalog, "shop").change_paused_tables(lambda stored: [*stored, row])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(pause, range(8)))
        assert len(ledger.paused_tables()) == 8

    def test_table_shapes(self, ledger: Ledger) -> None:
        columns = (ColumnShape("id", "int(11)", True), ColumnShape("名", "varchar(20)", False))
        rows = [
            TableShapeRow(0, GRID.at(0).start, ITEMS, (), None, "1"),
            TableShapeRow(0, GRID.at(0).start, ORDERS, columns, ServerPosition(1, 2), "1"),
        ]
        ledger.replace_table_shapes([cell(0, 0)], rows)
        assert ledger.table_shapes() == rows

    def test_quarantine_with_and_without_its_bytes(self, ledger: Ledger, lake: Lake) -> None:
        row = QuarantineRow(1, GRID.at(0).start, "entries", 4, 4, Reason.WRONG_VERSION, "version 9", b"\x00\xff")
        quarantine(lake, [cell(1, 0)], "entries", [row])
        assert ledger.quarantine(payload=True) == [row]
        assert ledger.quarantine() == [changed(row, payload=None)]

    def test_instants_are_utc(self, ledger: Ledger) -> None:
        ledger.replace_raw_windows([cell(0, 0)], [raw(0, 0)])
        (row,) = ledger.raw_windows()
        assert row.window.start.tzinfo is UTC
        assert row.first_time is not None
        assert row.first_time.tzinfo is UTC


class TestReplacing:
    def test_rows_of_other_cells_of_the_day_stay(self, ledger: Ledger) -> None:
        everything = [raw(p, n) for n in range(6) for p in range(2)]
        ledger.replace_raw_windows([row.cell for row in everything], everything)
        ledger.replace_raw_windows([cell(0, 1), cell(1, 4)], [raw(0, 1, "new")])
        expected = [raw(0, 1, "new") if row.cell == cell(0, 1) else row for row in everything if row.cell != cell(1, 4)]
        assert ledger.raw_windows() == expected

    @pytest.mark.more
    @settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        steps=st.lists(
            st.tuples(
                st.sets(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=4),
                st.sets(st.integers(0, 3)),
            ),
            max_size=4,
        )
    )
    def test_it_is_what_a_dictionary_would_hold(
        self, ledger: Ledger, steps: list[tuple[set[tuple[int, int]], set[int]]]
    ) -> None:
        ledger.replace_raw_windows([cell(p, n) for p in range(2) for n in range(6)], [])
        model: dict[Cell, RawWindow] = {}
        for number, (keys, dropped) in enumerate(steps):
            rows = [raw(p, n, str(number)) for i, (p, n) in enumerate(sorted(keys)) if i not in dropped]
            for p, n in keys:
                model.pop(cell(p, n), None)
            model |= {row.cell: row for row in rows}
            ledger.replace_raw_windows([cell(p, n) for p, n in keys], rows)
        assert {row.cell: row for row in ledger.raw_windows()} == model

    def test_a_row_outside_of_the_span_is_refused(self, ledger: Ledger) -> None:
        with pytest.raises(LakeTableError, match="outside"):
            ledger.replace_raw_windows([cell(0, 0)], [raw(1, 0)])
        assert ledger.raw_windows() == []

    def test_tables_of_a_window_can_be_replaced_alone(self, ledger: Ledger) -> None:
        rows = [made(p, n, table) for n in range(2) for table in (ITEMS, ORDERS) for p in range(2)]
        ledger.replace_window_tables([GRID.at(0), GRID.at(1)], rows)
        ledger.replace_window_tables([GRID.at(0)], [made(0, 0, ITEMS, kept=9)], tables={ITEMS})
        ledger.replace_window_tables([GRID.at(2)], [with_unfit(0, 2)])
        assert ledger.window_tables([GRID.at(2)]) == [with_unfit(0, 2)]
        assert ledger.window_tables([GRID.at(0)]) == [made(0, 0, ITEMS, kept=9), made(0, 0), made(1, 0)]
        assert len(ledger.window_tables([GRID.at(1)])) == 4

    def test_counts_since_a_window_are_those_of_that_window_and_later(self, ledger: Ledger) -> None:
        rows = [made(0, number) for number in range(60)]  # of several days
        ledger.replace_window_tables([GRID.at(number) for number in range(60)], rows)
        for number in (0, 5, 23, 24, 59, 60):
            found = ledger.window_tables(since=GRID.at(number).start)
            assert found == rows[number:]

    def test_a_stage_keeps_its_quarantine_when_another_replaces(self, ledger: Ledger, lake: Lake) -> None:
        rows = {
            stage: QuarantineRow(0, GRID.at(0).start, stage, 1, 1, Reason.RAGGED_ROW, "")
            for stage in ("entries", "tables")
        }
        for stage, row in rows.items():
            quarantine(lake, [cell(0, 0)], stage, [row])
        quarantine(lake, [cell(0, 0)], "entries", [])
        assert ledger.quarantine() == [rows["tables"]]

    def test_a_day_is_one_file(self, ledger: Ledger, catalog: Catalog) -> None:
        for number in range(8):
            ledger.replace_raw_windows([cell(0, number)], [raw(0, number)])
        table = catalog.load_table(("shop", "raw_windows"))
        assert len(list(table.scan().plan_files())) == 2
        assert len(ledger.raw_windows([GRID.at(5)])) == 1

    def test_writers_at_once_lose_no_row(self, lake_location: LakeLocation) -> None:
        """Four writers, all in the same day's file."""
        day = WindowGrid(timedelta(minutes=10), GRID.start)

        def write(kafka_partition: int) -> None:
            ledger = Ledger(open_catalog(lake_location), "shop")
            for number in range(6):
                row = changed(raw(kafka_partition, 0), window=day.at(number))
                ledger.replace_raw_windows([row.cell], [row])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        found = {(row.kafka_partition, row.window) for row in Ledger(open_catalog(lake_location), "shop").raw_windows()}
        assert found == {(p, day.at(n)) for p in range(4) for n in range(6)}


def test_the_equations() -> None:
    assert Counts().balanced
    assert ingest(0, 0).counts.balanced
    assert not (Counts(messages=1) + Counts(entries=0)).balanced
    assert (Counts(messages=1, whole=1, decoded_sets=1) + Counts(entries=2, data=1, control=1)).balanced


@pytest.mark.parametrize("term", [field.name for field in fields(Counts)])
def test_no_equation_holds_with_a_term_left_out(term: str) -> None:
    whole = Counts(
        messages=10, whole=4, fragments=3, null_messages=1, quarantined_messages=2, carried_in=6, joined=3, superseded=1,
        waiting=1, quarantined_fragments=2, carried_out=2, joined_sets=1, decoded_sets=3, quarantined_sets=2, broken_sets=1,
        entries=9, data=4, control=3, quarantined_entries=2,
    )  # fmt: skip
    assert whole.balanced
    assert (whole.quarantined, whole.quarantine_rows) == (8, 7)
    other = changed(whole, **{term: getattr(whole, term) + 1})
    assert not other.balanced or other.quarantine_rows != whole.quarantine_rows


def test_a_window_key_orders_rows(ledger: Ledger) -> None:
    rows = [raw(1, 1), raw(0, 2), raw(0, 1)]
    ledger.replace_raw_windows([row.cell for row in rows], rows)
    assert [row.cell for row in ledger.raw_windows()] == [cell(0, 1), cell(1, 1), cell(0, 2)]
    assert isinstance(ledger.raw_windows()[0].window, Window)
