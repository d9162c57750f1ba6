"""The job that pauses, resumes, removes and adds tables, as the Launchpad starts it."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from dts_assets.defs.table_states import states_job_name
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.model.tables import TableId
from tests.defs.projects import Project

ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")
COLUMNS = [("id", "bigint", True)]


@pytest.fixture
def tables(project: Project) -> Project:
    project.pipeline.check_shape()
    return project.register(dict.fromkeys((ORDERS, ITEMS), COLUMNS))


def start(project: Project, action: str, *names: str, **config: Any) -> dg.ExecuteInProcessResult:
    job = project.definitions().resolve_job_def(states_job_name("shop"))
    own = {"tables": list(names), "action": action, **config}
    return job.execute_in_process({"ops": {"shop_change_table_states": {"config": own}}}, raise_on_error=False)


def told(result: dg.ExecuteInProcessResult) -> str:
    """What the failed step says."""
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    return str(failure.step_failure_data.user_failure_data or failure.step_failure_data.error)


def test_each_action_does_what_the_command_does(tables: Project) -> None:
    ledger = tables.pipeline.ledger
    assert start(tables, "pause", "shopdb.orders", reason="words").success
    assert [(row.table, row.reason, row.by) for row in ledger.paused_tables()] == [(ORDERS, "words", PausedBy.PERSON)]
    assert start(tables, "resume", "shopdb.orders").success
    assert ledger.paused_tables() == []
    assert start(tables, "remove", "shopdb.orders", "shopdb.items").success
    assert [row.is_removed for row in ledger.paused_tables()] == [True, True]
    shown = {key.to_user_string() for key in tables.definitions().resolve_all_asset_keys()}
    assert not [key for key in shown if "orders" in key or "items" in key]
    assert start(tables, "add", "shopdb.items").success
    assert [row.table for row in ledger.paused_tables()] == [ORDERS]
    assert [key for key in map(str, tables.definitions().resolve_all_asset_keys()) if "items" in key]


@pytest.mark.parametrize(
    ("action", "names", "said"),
    [
        ("stop", ["shopdb.orders"], "stop is no action on tables; write one of pause, resume, remove, add"),
        ("pause", ["shopdb.orders"], "a pause has no reason"),
        ("remove", ["shopdb.order"], "is no table of shop"),
    ],
)
def test_a_wrong_configuration_is_a_sentence(action: str, names: list[str], said: str, tables: Project) -> None:
    result = start(tables, action, *names)
    assert not result.success
    assert said in told(result)
    assert tables.pipeline.ledger.paused_tables() == []
