"""The job that follows live: what it tells Dagster of, how often, and what becomes of an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from dts_assets.defs import live
from dts_assets.defs.failures import CANNOT_BE_RETRIED
from dts_assets.defs.live import HAS_WORKED, live_config
from dts_assets.errors import DtsAssetsError
from dts_assets.errors.sources import BrokerLoginError, UnreachableBrokerError
from dts_assets.flows.follow import Refreshed
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
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, WindowGrid

if TYPE_CHECKING:
    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
GRID = WindowGrid(timedelta(hours=1), START)
WINDOW = GRID.at(0)
ORDERS = TableId("shopdb", "", "orders")
LAYERS = {"changelog": LayerOutcome(), "snapshot": LayerOutcome()}


def refreshed(closed_by: ClosedBy) -> Refreshed:
    """A refresh of one window of one Kafka partition."""
    cell = Cell(0, WINDOW)
    raw = RawWindow(0, WINDOW, 0, OffsetRange(0, 9), closed_by, 9, 90, START, START, (), "g", "2")
    entries = IngestWindow(
        0, WINDOW, 0, OffsetRange(0, 9), Counts(messages=9, whole=9, entries=9, data=9), None, None, (), closed_by,
        Completeness.CONTIGUOUS, (), "2", "g", (f"raw:{cell}=g",),
    )  # fmt: skip
    cut = Cut(WINDOW, SourcePosition(0, 1, 9), None, Consistency.CUT, Completeness.CONTIGUOUS, (), "g", (), "2")
    table = TableReport(
        ORDERS, (Column("id", "int", True),), LAYERS, changes={WINDOW.start: 9}, concerned=frozenset({WINDOW.start})
    )
    return Refreshed(
        (RawReport((RawCellReport(raw, 1, 9, kept=False),), "file:/lake", 1.0),),
        (EntriesReport((EntriesCellReport(entries, 9, 9, START, START, quarantine_rows=0),), "file:/lake", (), 1.0),),
        (TablesReport((WindowReport(cut, True, 9),), (table,), 1.0),),
    )


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    return project.configure(complete=False, end="null", live=True).register({ORDERS: [("id", "int", True)]})


def run(
    project: Project,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    found: list[Refreshed | DtsAssetsError],
) -> dg.ExecuteInProcessResult:
    """A run of the job that finds these refreshes and ends with an error if one is among them."""

    def follow(*_: Any, **__: Any) -> Iterator[Refreshed]:
        for one in found:
            if isinstance(one, DtsAssetsError):
                raise one
            yield one

    monkeypatch.setattr("dts_assets.flows.follow.follow", follow)
    job = project.definitions().resolve_job_def("shop_live")
    return job.execute_in_process(run_config=live_config("shop", START), instance=instance, raise_on_error=False)


def told(result: dg.ExecuteInProcessResult) -> list[str]:
    """The assets that the run told of, with their partitions; observed ones with a question mark."""
    found = []
    for event in result.all_events:
        if event.is_step_materialization:
            one = event.step_materialization_data.materialization
            found.append(f"{one.asset_key.to_user_string()} {one.partition}")
        elif event.is_asset_observation:
            seen = event.asset_observation_data.asset_observation
            found.append(f"{seen.asset_key.to_user_string()} {seen.partition}?")
    return found


EVERYTHING = [
    "shop/raw_envelopes p00|2026-01-05-00:00",
    "shop/entries p00|2026-01-05-00:00",
    "shop/changelog/shopdb/orders 2026-01-05-00:00",
    "shop/snapshot/shopdb/orders 2026-01-05-00:00",
]
SO_FAR = [f"{one}?" for one in EVERYTHING]
"""Dagster shows a partition as done once it was materialized: an open window is only observed."""


def test_a_window_is_told_of_now_and_then_while_it_is_open_and_once_when_it_has_closed(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    still_open, closed = refreshed(ClosedBy.OPEN), refreshed(ClosedBy.MESSAGE)
    result = run(shop, instance, monkeypatch, [still_open, still_open, still_open, closed, closed])
    assert result.success
    assert told(result) == SO_FAR + EVERYTHING
    monkeypatch.setattr(live, "_TELL_AGAIN", 0.0)
    assert told(run(shop, instance, monkeypatch, [still_open, still_open])) == SO_FAR * 2


def test_a_window_is_done_for_dagster_when_it_has_closed(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [dg.AssetKey(one.split(" ")[0].split("/")) for one in EVERYTHING]
    run(shop, instance, monkeypatch, [refreshed(ClosedBy.OPEN)])
    assert [instance.get_materialized_partitions(key) for key in keys] == [set()] * len(keys)
    run(shop, instance, monkeypatch, [refreshed(ClosedBy.OPEN), refreshed(ClosedBy.MESSAGE)])
    assert [
        f"{key.to_user_string()} {one}" for key in keys for one in instance.get_materialized_partitions(key)
    ] == EVERYTHING


def test_checks_of_the_window_are_told_with_it(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(shop, instance, monkeypatch, [refreshed(ClosedBy.MESSAGE)])
    checks = [event for event in result.all_events if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION]
    assert sorted(
        (one.asset_key.to_user_string(), one.check_name, str(one.partition))
        for one in (event.asset_check_evaluation_data for event in checks)
    ) == [
        ("shop/changelog/shopdb/orders", "balance", "2026-01-05-00:00"),
        ("shop/changelog/shopdb/orders", "completeness", "2026-01-05-00:00"),
        ("shop/entries", "balance", "p00|2026-01-05-00:00"),
        ("shop/entries", "completeness", "p00|2026-01-05-00:00"),
        ("shop/snapshot/shopdb/orders", "paused_tables", "2026-01-05-00:00"),
        ("shop/snapshot/shopdb/orders", "schema", "2026-01-05-00:00"),
    ]


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (UnreachableBrokerError("host:9092", "connection refused", seconds=5), False),
        (BrokerLoginError("host:9092", "SCRAM-SHA-512"), True),
    ],
)
def test_a_run_that_ends_with_an_error_says_it_and_whether_the_same_may_succeed(
    error: DtsAssetsError, final: bool, shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(shop, instance, monkeypatch, [refreshed(ClosedBy.OPEN), error])
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None
    assert said.description == str(error)
    found = instance.get_run_by_id(result.run_id)
    assert found is not None
    assert (CANNOT_BE_RETRIED in found.tags) == final
    assert found.tags[HAS_WORKED] == found.run_id, "a failure after this is the first one in a row"


def test_a_run_that_never_refreshed_has_not_worked(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(shop, instance, monkeypatch, [BrokerLoginError("host:9092", "SCRAM-SHA-512")])
    found = instance.get_run_by_id(result.run_id)
    assert found is not None
    assert HAS_WORKED not in found.tags


def test_a_table_that_the_graph_does_not_show_yet_is_told_of_too(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = refreshed(ClosedBy.OPEN)
    new = replace(one.tables[0].tables[0], table=TableId("shopdb", "", "added"), layers={"changelog": LayerOutcome()})
    more = replace(one, tables=(replace(one.tables[0], tables=(*one.tables[0].tables, new)),))
    assert "shop/changelog/shopdb/added 2026-01-05-00:00?" in told(run(shop, instance, monkeypatch, [more]))


def test_a_run_that_crashed_is_followed_by_the_one_that_the_sensor_asks_for_and_not_by_a_retry_too(
    shop: Project,
) -> None:
    assert shop.definitions().resolve_job_def("shop_live").tags["dagster/max_retries"] == "0"
