"""Checks about one table: who gets a result, what Dagster plans, and how long it shows a result."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest

from dts_assets.defs.partitions import window_tags
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from tests.defs.projects import Project
from tests.defs.test_runs import AUDIT, GRID, LATER, ODD, ORDERS, Flows, Ran, Run, flows, run, shop

__all__ = ["flows", "run", "shop"]


def test_a_table_without_changes_in_a_window_gets_no_result(run: Run, flows: Flows) -> None:
    flows.idle = frozenset({(AUDIT, GRID.at(1)), (ORDERS, GRID.at(0))})
    flows.tables = (ORDERS, AUDIT, LATER)
    ran = run("tables", tags=window_tags((GRID.at(0), GRID.at(1))))
    expected = {("orders", 1), ("audit", 0), ("later", 0), ("later", 1)}
    for name in ("schema", "paused_tables"):
        assert set(ran.checked(name)) == {(table, GRID.at(number).key) for table, number in expected}
    planned = [one for one in ran.result.all_events if one.event_type_value == "ASSET_CHECK_EVALUATION_PLANNED"]
    assert {one.event_specific_data.check_name for one in planned} <= {"completeness", "balance"}  # type: ignore[union-attr]


@pytest.mark.more
def test_a_result_is_shown_until_its_window_is_made_again(run: Run, flows: Flows) -> None:
    """Dagster shows results about the newest materialization of a partition, in whatever run it was judged."""
    key = dg.AssetCheckKey(dg.AssetKey(["shop", "snapshot", *ORDERS.path]), "schema")
    ran = run("tables", tags=window_tags((GRID.at(0), GRID.at(1))))
    infos = ran.instance.event_log_storage.get_asset_check_partition_info([key])
    assert {one.partition_key: one.is_current for one in infos} == {GRID.at(0).key: True, GRID.at(1).key: True}
    flows.idle = frozenset({(ORDERS, GRID.at(0))})
    again = run("tables", partition_key=GRID.at(0).key, instance=ran.instance)
    assert ("orders", GRID.at(0).key) not in again.checked("schema")
    infos = ran.instance.event_log_storage.get_asset_check_partition_info([key])
    assert {one.partition_key: one.is_current for one in infos} == {GRID.at(0).key: False, GRID.at(1).key: True}


@pytest.mark.more
def test_a_person_who_materializes_one_snapshot_gets_its_results(shop: Project, flows: Flows) -> None:
    """The page of an asset selects its checks, too, and Dagster plans them: those without a result fail nothing."""
    snapshot = dg.AssetKey(["shop", "snapshot", *ORDERS.path])
    flows.idle = frozenset({(ORDERS, GRID.at(1))})
    job = shop.definitions().resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        for number, expected in ((0, {("orders", GRID.at(0).key)}), (1, set())):
            result = job.execute_in_process(
                instance=instance, asset_selection=[snapshot], partition_key=GRID.at(number).key
            )
            assert result.success
            assert {*Ran(instance, result).checked("schema")} == expected


@pytest.mark.more
def test_only_tables_whose_snapshots_are_selected_are_judged(run: Run, flows: Flows) -> None:
    snapshot = dg.AssetKey(["shop", "snapshot", *ORDERS.path])
    ran = run("tables", partition_key="2026-01-05-00:00", selection=[snapshot])
    assert set(ran.checked("schema")) == {("orders", "2026-01-05-00:00")}


def test_a_table_that_stands_still_gets_no_event_and_the_check_says_why_and_how_it_goes_on(
    run: Run, flows: Flows
) -> None:
    since = datetime(2026, 1, 6, 7, 8, tzinfo=UTC)
    flows.paused = (PausedTable(ORDERS, "snapshot", "KeyError at a.py:7", PausedBy.FAILURE, since),)
    ran = run("tables", partition_key="2026-01-05-00:00")
    assert (ran.metadata("changelog", *ORDERS.path), ran.metadata("snapshot", *ORDERS.path)) == ({}, {})
    other = ran.metadata("changelog", *AUDIT.path)["2026-01-05-00:00"]
    assert other["paused_tables"] == str(ORDERS)
    assert ran.checked("paused_tables") == {
        ("orders", "2026-01-05-00:00"): False,
        ("audit", "2026-01-05-00:00"): True,
        (ODD.path[-1], "2026-01-05-00:00"): True,
    }
    assert ("orders", "2026-01-05-00:00") not in ran.checked("schema")
    (told,) = [one for one in ran.result.get_asset_check_evaluations() if not one.passed]
    said = told.metadata["reason"].value
    assert "since 2026-01-06 07:08 UTC: KeyError at a.py:7" in str(said)
    assert f"dts-assets tables resume {ORDERS}" in str(said)


def test_while_no_table_stands_still_the_check_passes(run: Run, flows: Flows) -> None:
    ran = run("tables", partition_key="2026-01-05-00:00")
    assert set(ran.checks("paused_tables").values()) == {True}
    assert "paused_tables" not in ran.metadata("changelog", *AUDIT.path)["2026-01-05-00:00"]
