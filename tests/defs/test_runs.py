"""Steps as Dagster runs them, with flows that only say what they were asked and report what a test wants: no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from dts_assets.defs.checks import balance_result, completeness_result, window_balance_result
from dts_assets.defs.metadata import (
    KEY_TAG,
    changelog_metadata,
    column_schema,
    entries_metadata,
    problems_text,
    raw_metadata,
    snapshot_metadata,
)
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.flows.reports import (
    EntriesCellReport,
    EntriesReport,
    LayerOutcome,
    RawCellReport,
    RawReport,
    TableReport,
    TablesReport,
    WindowReport,
)
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Consistency
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, PausedTable, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.removals import NotRemoved
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window, WindowGrid
from dts_assets.planning.pauses import with_missing
from dts_assets.store.columns import ENTRIES, RAW_ENVELOPES
from dts_assets.store.schemas import SYSTEM_TABLES, changelog_layout, snapshot_layout

if TYPE_CHECKING:
    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
GRID = WindowGrid(HOUR, START)
ORDERS, AUDIT, LATER = (TableId("shopdb", "", name) for name in ("orders", "audit", "later"))
ODD = TableId("shop.db", "", "订单")
COLUMNS = (Column("id", "int", True), Column("note", "string", False))
POSITION = SourcePosition(0, 9, 400)
LEFT = {AUDIT: NotRemoved(unmatched=2, ambiguous=1), ORDERS: NotRemoved(unseen=3)}
LOST = Problem(ProblemCode.GAP, 5, 6, "the source no longer has offsets [5, 7)")


# What flows would say


def raw_row(cell: Cell, problems: tuple[Problem, ...] = ()) -> RawWindow:
    return RawWindow(
        cell.kafka_partition, cell.window, 0, OffsetRange(10, 20), ClosedBy.MESSAGE, 10, 5000, START, START + HOUR, problems,
        "g1", "1",
    )  # fmt: skip


def ingest_row(cell: Cell, *, lost: bool = False, balanced: bool = True) -> IngestWindow:
    counts = Counts(
        messages=10, whole=7, fragments=3 if balanced else 2, joined=3 if balanced else 2, joined_sets=1, decoded_sets=8,
        entries=40, data=30, control=9, quarantined_entries=1,
    )  # fmt: skip
    return IngestWindow(
        cell.kafka_partition, cell.window, 0, OffsetRange(10, 20), counts, POSITION, None, (), ClosedBy.MESSAGE,
        Completeness.INCOMPLETE if lost else Completeness.OBSERVED, (LOST,) if lost else (), "1", "g2", ("raw=g1",),
    )  # fmt: skip


def cut_row(window: Window, *, lost: bool = False) -> Cut:
    level = Completeness.INCOMPLETE if lost else Completeness.OBSERVED
    return Cut(window, POSITION, None, Consistency.CUT, level, (LOST,) if lost else (), "g3", ("entries=g2",), "1")


@dataclass
class Flows:
    """What the steps asked of the flows; ``lost`` are windows from which something is missing."""

    spans: list[Span] = field(default_factory=list)
    windows: list[tuple[Window, ...]] = field(default_factory=list)
    selections: list[Any] = field(default_factory=list)
    lost: frozenset[Window] = frozenset()
    paused: tuple[PausedTable, ...] = ()
    tables: tuple[TableId, ...] = ()
    idle: frozenset[tuple[TableId, Window]] = frozenset()

    def raw(self, pipeline: Any, span: Span, **_: Any) -> RawReport:
        self.spans.append(span)
        cells = tuple(RawCellReport(raw_row(cell), 1, 900, kept=False, seconds=0.5) for cell in span.cells())
        return RawReport(cells, "file:/lake/raw", 1.5)

    def entries(self, pipeline: Any, span: Span, **_: Any) -> EntriesReport:
        self.spans.append(span)
        rows = [ingest_row(cell, lost=cell.window in self.lost) for cell in span.cells()]
        cells = tuple(
            EntriesCellReport(
                row, 30, 800, row.window.start, row.window.start + timedelta(seconds=2), 5000, 1.5, quarantine_rows=1
            )
            for row in rows
        )
        return EntriesReport(cells, "file:/lake/entries", (), 2.5, "ptars 9.9")

    def make_tables(self, pipeline: Any, windows: Sequence[Window], *, selection: Any, **_: Any) -> TablesReport:
        self.windows.append(tuple(windows))
        self.selections.append(selection)
        marks = [with_missing(cut_row(one, lost=one in self.lost), self.paused) for one in windows]
        reports = tuple(WindowReport(mark, True, 12) for mark in marks)
        tables = tuple(
            TableReport(
                table, COLUMNS,
                {"changelog": LayerOutcome(), "snapshot": LayerOutcome(True, 7, not_removed=LEFT.get(table))},
                changes={
                    one.start: 5 + number for number, one in enumerate(windows) if (table, one) not in self.idle
                },
                concerned=frozenset(one.start for one in windows if (table, one) not in self.idle),
            )
            for table in self.tables
        )  # fmt: skip
        return TablesReport(reports, tables, 3.5, "ptars 9.9", {row.table: row for row in self.paused})


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> Flows:
    made = Flows(tables=(ORDERS, AUDIT, ODD))
    monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", made.raw)
    monkeypatch.setattr("dts_assets.flows.entries.materialize_entries", made.entries)
    monkeypatch.setattr("dts_assets.flows.tables.materialize_tables", made.make_tables)
    # No flow asks for Spark; and a session of these tests' configuration would be everybody's in this process.
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    return made


@pytest.fixture
def shop(project: Project) -> Project:
    keyed, keyless = [("id", "int", True), ("note", "string", False)], [("note", "string", False)]
    return project.configure(include=["*"]).register({ORDERS: keyed, AUDIT: keyless, ODD: keyed})


@dataclass(frozen=True)
class Ran:
    """A run that has ended well, and what Dagster keeps of it."""

    instance: dg.DagsterInstance
    result: dg.ExecuteInProcessResult

    def metadata(self, *key: str) -> dict[str | None, dict[str, Any]]:
        """The metadata of an asset's materializations by partition, as plain values."""
        records = self.instance.fetch_materializations(dg.AssetKey(["shop", *key]), limit=99).records
        found: dict[str | None, dict[str, Any]] = {}
        for record in records:
            materialization = record.asset_materialization
            assert materialization is not None
            assert materialization.partition not in found
            found[materialization.partition] = {name: one.value for name, one in materialization.metadata.items()}
        return found

    def checks(self, name: str) -> dict[str | None, bool]:
        """Whether a check passed, by partition; None is the run as a whole."""
        events = self.result.all_events
        evaluations = [
            one.asset_check_evaluation_data for one in events if one.event_type_value == "ASSET_CHECK_EVALUATION"
        ]
        return {one.partition: one.passed for one in evaluations if one.check_name == name}

    def checked(self, name: str) -> dict[tuple[str, str | None], bool]:
        """Whether a check about one table passed, by the last part of its asset's key and by partition."""
        events = self.result.all_events
        evaluations = [
            one.asset_check_evaluation_data for one in events if one.event_type_value == "ASSET_CHECK_EVALUATION"
        ]
        assert all(one.asset_key.path[1] == "snapshot" for one in evaluations if one.check_name == name)
        return {(one.asset_key.path[-1], one.partition): one.passed for one in evaluations if one.check_name == name}


Run = Callable[..., Ran]


@pytest.fixture
def run(shop: Project) -> Iterator[Run]:
    """Runs a job of the project in an instance of its own, closed when the test ends."""
    with ExitStack() as stack:

        def of_job(
            job: str,
            *,
            selection: Iterable[dg.AssetKey] | None = None,
            instance: dg.DagsterInstance | None = None,
            **how: Any,
        ) -> Ran:
            instance = instance or stack.enter_context(dg.DagsterInstance.ephemeral())
            chosen = None if selection is None else list(selection)
            definition = shop.definitions().resolve_job_def(f"shop_{job}")
            result = definition.execute_in_process(instance=instance, asset_selection=chosen, **how)
            assert result.success
            return Ran(instance, result)

        yield of_job


# Raw and entries


def test_one_cell_is_one_call_of_each_flow_with_numbers_to_plot(run: Run, flows: Flows) -> None:
    ran = run("ingest", partition_key="p01|2026-01-05-02:00")
    span = Span((1,), (GRID.at(2),))
    assert flows.spans == [span, span]
    raw = ran.metadata("raw_envelopes")["p01|2026-01-05-02:00"]
    assert (raw["messages"], raw["start_offset"], raw["end_offset"]) == (10, 10, 20)
    assert (raw["seconds"], raw["messages_per_second"], raw["run_seconds"]) == (0.5, 20.0, 1.5)
    entries = ran.metadata("entries")["p01|2026-01-05-02:00"]
    assert (entries["row_changes"], entries["fragments"], entries["delivery_lag_seconds"]) == (30, 3, 2.0)
    assert (entries["seconds"], entries["row_changes_per_second"], entries["run_seconds"]) == (1.5, 20.0, 2.5)
    assert entries["decoder"] == "ptars 9.9"
    assert ran.checks("completeness") == {"p01|2026-01-05-02:00": True}
    assert ran.checks("balance") == {"p01|2026-01-05-02:00": True}


def test_a_rectangle_is_one_call_and_every_cell_has_its_own_metadata_and_checks(run: Run, flows: Flows) -> None:
    flows.lost = frozenset({GRID.at(1)})
    span = Span((0, 1), (GRID.at(0), GRID.at(1), GRID.at(2)))
    ran = run("ingest", tags=span_tags(span))
    assert flows.spans == [span, span]
    keys = {str(cell) for cell in span.cells()}
    assert set(ran.metadata("raw_envelopes")) == set(ran.metadata("entries")) == keys
    assert {key: one["problems"] for key, one in ran.metadata("entries").items()} == {
        str(cell): int(cell.window == GRID.at(1)) for cell in span.cells()
    }
    checks = ran.checks("completeness")
    assert checks.pop(None, False) is False, "the run as a whole fails with its cells"
    assert checks == {str(cell): cell.window != GRID.at(1) for cell in span.cells()}


# Tables


def test_all_tables_are_asked_for_at_once(run: Run, flows: Flows) -> None:
    ran = run("tables", tags=window_tags((GRID.at(0), GRID.at(1))))
    assert flows.windows == [(GRID.at(0), GRID.at(1))]
    assert flows.selections[0].whole
    changes = {key: one["row_changes"] for key, one in ran.metadata("changelog", "shopdb", "orders").items()}
    assert changes == {"2026-01-05-00:00": 5, "2026-01-05-01:00": 6}
    snapshot = ran.metadata("snapshot", *ODD.path)["2026-01-05-01:00"]
    assert (snapshot["applied"], snapshot["committed"], snapshot["dagster/row_count"]) == (True, True, 7)
    assert not {"unmatched_removals", "unmatched_updates"} & snapshot.keys()
    assert "unmatched_updates" not in ran.metadata("snapshot", "shopdb", "audit")["2026-01-05-01:00"]
    assert ran.metadata("snapshot", "shopdb", "orders")["2026-01-05-01:00"]["unmatched_updates"] == 3
    assert ran.metadata("snapshot", "shopdb", "audit")["2026-01-05-01:00"]["unmatched_removals"] == 2
    assert ran.metadata("snapshot", "shopdb", "audit")["2026-01-05-01:00"]["ambiguous_removals"] == 1
    assert ran.metadata("changelog", "shopdb", "orders")["2026-01-05-00:00"]["decoder"] == "ptars 9.9"


def test_every_materialization_says_the_columns_that_were_written(run: Run, flows: Flows) -> None:
    flows.tables = (ORDERS, AUDIT, ODD, LATER)
    ingest, tables = (
        run("ingest", partition_key="p00|2026-01-05-00:00"),
        run("tables", partition_key="2026-01-05-00:00"),
    )
    shown = {
        name: ran.metadata(*name)[key]["dagster/column_schema"]
        for ran, key, names in (
            (ingest, "p00|2026-01-05-00:00", [("raw_envelopes",), ("entries",)]),
            (tables, "2026-01-05-00:00", [(layer, "shopdb", table) for layer in ("changelog", "snapshot")
                                          for table in ("orders", "later")]),
        )
        for name in names
    }  # fmt: skip
    assert [one.name for one in shown["raw_envelopes",].columns] == [name for name, _ in RAW_ENVELOPES]
    assert [one.name for one in shown["entries",].columns] == [name for name, _ in ENTRIES]
    for table in ("orders", "later"):
        snapshot, changelog = shown["snapshot", "shopdb", table], shown["changelog", "shopdb", table]
        assert [one.name for one in snapshot.columns if KEY_TAG in one.tags] == ["id"]
        assert [one.name for one in snapshot.columns][:2] == ["id", "note"]
        assert {"op", "before", "after"} < {one.name for one in changelog.columns}


@pytest.mark.more
def test_the_check_of_a_window_comes_under_the_first_table_whatever_its_name(run: Run, flows: Flows) -> None:
    flows.lost = frozenset({GRID.at(1)})
    assert run("tables", partition_key="2026-01-05-00:00").checks("completeness") == {"2026-01-05-00:00": True}
    assert run("tables", partition_key="2026-01-05-01:00").checks("completeness") == {"2026-01-05-01:00": False}
    checks = run("tables", tags=window_tags((GRID.at(0), GRID.at(1)))).checks("completeness")
    assert checks.pop(None, False) is False
    assert checks == {"2026-01-05-00:00": True, "2026-01-05-01:00": False}


def test_some_tables_are_asked_for_alone(run: Run, flows: Flows) -> None:
    snapshot, changelog = (
        dg.AssetKey(["shop", "snapshot", "shopdb", "orders"]),
        dg.AssetKey(["shop", "changelog", *ODD.path]),
    )
    ran = run("tables", partition_key="2026-01-05-00:00", selection=[snapshot, changelog])
    (selection,) = flows.selections
    assert selection.tables == {"changelog": {ODD}, "snapshot": {ORDERS}, "history": set(), "sql": set()}
    assert set(ran.metadata("snapshot", "shopdb", "orders")) == {"2026-01-05-00:00"}
    assert ran.metadata("changelog", "shopdb", "orders") == {}


def test_a_table_that_the_graph_does_not_show_yet_is_reported_under_its_key(run: Run, flows: Flows) -> None:
    flows.tables = (ORDERS, AUDIT, ODD, LATER)
    ran = run("tables", tags=window_tags((GRID.at(0), GRID.at(1))))
    for layer in ("changelog", "snapshot"):
        assert set(ran.metadata(layer, "shopdb", "later")) == {"2026-01-05-00:00", "2026-01-05-01:00"}
    assert ran.metadata("changelog", "shopdb", "later")["2026-01-05-01:00"]["row_changes"] == 6


def test_a_named_table_without_data_is_materialized_with_no_rows(shop: Project, run: Run, flows: Flows) -> None:
    flows.tables = ()
    shop.subscription.shipped_registry_path.unlink()
    shop.configure(include=["shopdb.orders"])
    ran = run("tables", partition_key="2026-01-05-00:00")
    assert ran.metadata("changelog", "shopdb", "orders")["2026-01-05-00:00"]["dagster/partition_row_count"] == 0


# Metadata: what the UI plots has to be numbers

CELL = Cell(0, GRID.at(0))
LAST = {START: START + timedelta(minutes=50)}
LAYERS = {"changelog": LayerOutcome(), "snapshot": LayerOutcome(True, 7, 700, unknown_values={"n": 2, "note": 1})}
TABLE = TableReport(ORDERS, COLUMNS, LAYERS, {START: 5}, {START: 100}, {START: 1}, {START: 2}, LAST)
METADATA = {
    "raw": raw_metadata(RawCellReport(raw_row(CELL, (LOST,)), 1, 900, kept=False, seconds=4.0)),
    "entries": entries_metadata(
        EntriesCellReport(ingest_row(CELL, lost=True), 30, 800, START, START + HOUR / 2, 5000, 2.0, quarantine_rows=1)
    ),
    "changelog": changelog_metadata(TABLE, WindowReport(cut_row(GRID.at(0), lost=True), True, 12, 0.5)),
    "snapshot": snapshot_metadata(TABLE, WindowReport(cut_row(GRID.at(0)), False, 5)),
}
PLOTTED = {
    "raw": {"dagster/partition_row_count": 10, "messages": 10, "start_offset": 10, "end_offset": 20, "message_bytes": 5000,
            "stored_bytes": 900, "problems": 1, "event_lag_seconds": 0.0, "seconds": 4.0, "messages_per_second": 2.5},
    "entries": {"dagster/partition_row_count": 39, "messages": 10, "entries": 40, "row_changes": 30, "fragments": 3,
                "fragments_carried_in": 0, "fragments_carried_out": 0, "fragments_waiting": 0, "quarantined": 1,
                "stored_bytes": 800, "start_offset": 10, "end_offset": 20, "completeness_level": 0, "problems": 1,
                "event_lag_seconds": 3600.0, "delivery_lag_seconds": 1800.0, "message_bytes": 5000, "seconds": 2.0,
                "row_changes_per_second": 15.0},
    "changelog": {"dagster/partition_row_count": 5, "row_changes": 5, "invalid_values": 1, "quarantined": 2, "stored_bytes": 100,
                  "event_lag_seconds": 600.0, "seconds": 0.5, "row_changes_per_second": 10.0, "problems": 1,
                  "completeness_level": 0},
    "snapshot": {"dagster/row_count": 7, "row_changes": 5, "stored_bytes": 700, "event_lag_seconds": 600.0, "problems": 0,
                 "converted_columns": 0, "unknown_values": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA)
def test_numbers_are_plain_numbers_and_the_rest_plain_text(name: str) -> None:
    found = METADATA[name]
    numbers = {key: one for key, one in found.items() if isinstance(one, int | float) and not isinstance(one, bool)}
    assert numbers == PLOTTED[name]
    for key, one in found.items():
        assert type(one) in (int, float, str, bool, dg.MarkdownMetadataValue, dg.TimestampMetadataValue), key


def test_what_is_not_known_is_left_out() -> None:
    row = RawWindow(0, GRID.at(0), 0, OffsetRange(0, 0), ClosedBy.END, 0, 0, None, None, (), "g1", "1")
    assert (
        not {"first_message", "last_message", "problem_list", "event_lag_seconds", "seconds", "messages_per_second"}
        & raw_metadata(RawCellReport(row, 0, 0, kept=False)).keys()
    )
    silent = entries_metadata(EntriesCellReport(ingest_row(CELL), 0, 0, None, None, quarantine_rows=1))
    assert not {"event_lag_seconds", "delivery_lag_seconds", "problem_list", "row_changes_per_second"} & silent.keys()
    empty = TableReport(ORDERS, COLUMNS, {"changelog": LayerOutcome(), "snapshot": LayerOutcome()})
    nothing = WindowReport(cut_row(GRID.at(0)), True, 0)
    assert changelog_metadata(empty, nothing)["dagster/partition_row_count"] == 0
    assert "event_lag_seconds" not in changelog_metadata(empty, nothing)
    assert "dagster/row_count" not in snapshot_metadata(empty, nothing)


def test_problems_are_named_with_their_offsets() -> None:
    waiting = Problem(ProblemCode.WAITING, None, None, "a set waits for p00|2026-01-05-00:00")
    assert problems_text([LOST, waiting]).splitlines() == [
        "- **gap** at offsets 5 to 6: the source no longer has offsets [5, 7)",
        "- **waiting**: a set waits for p00|2026-01-05-00:00",
    ]
    assert problems_text([]) == "none"


def test_a_column_schema_marks_the_key() -> None:
    schema = column_schema([("id", "int"), ("note", "string")], keys=["id"])
    assert [(one.name, one.type, dict(one.tags)) for one in schema.columns] == [
        ("id", "int", {KEY_TAG: ""}), ("note", "string", {}),
    ]  # fmt: skip
    assert [one.description for one in schema.columns] == ["part of the primary key", None]


def test_columns_are_said_to_be_as_optional_as_they_are_in_the_lake() -> None:
    keyed = [Column("id", "int", True), Column("note", "string", False)]
    table = TableId("shopdb", "", "orders")
    layouts = [*SYSTEM_TABLES.values(), changelog_layout(table, keyed), snapshot_layout(table, keyed)]
    assert not any(field.required for layout in layouts for field in layout.schema.fields)
    columns = column_schema([("id", "int"), ("note", "string")], keys=["id"]).columns
    assert all(one.constraints.nullable for one in columns)


def test_the_rate_of_a_changelog_is_that_of_its_own_changes() -> None:
    window = WindowReport(cut_row(GRID.at(0)), True, 1_000_000, 0.5)
    quiet, busy = (replace(TABLE, changes={START: changes}) for changes in (0, 40))
    rates = [changelog_metadata(one, window)["row_changes_per_second"] for one in (quiet, busy)]
    assert rates == [0.0, 80.0]


# Checks: the judgement that the command `run` has, too


@pytest.mark.parametrize(("rows", "passes"), [(0, False), (1, True), (2, False)])
def test_the_balance_fails_where_counts_and_quarantine_differ(rows: int, passes: bool) -> None:
    result = balance_result(EntriesCellReport(ingest_row(CELL), 0, 0, None, None, quarantine_rows=rows))
    assert (result.passed, result.metadata["quarantine_rows"].value) == (passes, rows)


def test_a_window_of_tables_is_balanced_if_nothing_is_left_out() -> None:
    left_out = WindowReport(cut_row(GRID.at(0)), True, 3, unbalanced=("p00 quarantine: 1 rows, 0 counted",))
    assert not window_balance_result(left_out).passed
    assert window_balance_result(WindowReport(cut_row(GRID.at(0)), True, 3)).passed


def test_what_is_said_of_an_open_window_says_so() -> None:
    still = replace(ingest_row(CELL), closed_by=ClosedBy.OPEN)
    report = EntriesCellReport(still, 30, 800, START, START, 5000, 2.0, quarantine_rows=1)
    window = WindowReport(replace(cut_row(GRID.at(0)), open_in=(1,)), True, 12, 0.5)
    for metadata in (entries_metadata(report), changelog_metadata(TABLE, window)):
        assert (metadata["completeness"], metadata["still_open"]) == ("observed so far", True)
        assert "row_changes_per_second" in metadata
    assert raw_metadata(RawCellReport(replace(raw_row(CELL), closed_by=ClosedBy.OPEN), 1, 9, kept=False))["still_open"]
    assert snapshot_metadata(TABLE, window)["still_open"]
    for judged in (report.judgement, window.judgement):
        assert completeness_result(judged).metadata["level"].value == "observed so far"
    assert METADATA["entries"]["completeness"] == "incomplete"
    assert not METADATA["entries"]["still_open"]
