"""The checks that compare snapshots with the source: a job of their own executes them, also on a schedule."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest

from dts_assets.defs.verification import EQUALITY, cron_of
from dts_assets.errors import ConfigErrors
from dts_assets.flows import verification
from dts_assets.flows.compared_tables import LakeSums
from dts_assets.flows.verification import SourceSums, TableVerdict, Verification
from dts_assets.model.differences import Differences, DifferingRow
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from tests.defs.projects import Project

ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")
COLUMNS = [("id", "bigint", True), ("note", "string", False)]
VERIFY = '    verify: {{jdbc: {{url: "jdbc:mariadb://db/", user: reader, password: s3cret}}{more}}}\n'


@pytest.fixture
def compared(project: Project) -> Project:
    project.register({ORDERS: COLUMNS, ITEMS: COLUMNS})
    with project.config.open("a") as file:
        file.write(VERIFY.format(more=", every: 6h"))
    return project


def test_nothing_is_added_without_a_database(project: Project) -> None:
    definitions = project.register({ORDERS: COLUMNS}).definitions()
    assert {key.name for key in definitions.resolve_asset_graph().asset_check_keys if key.name == EQUALITY} == set()
    assert not [one for one in definitions.schedules or () if one.name.startswith("shop_verify")]


def test_its_own_job_alone_executes_a_check_of_each_table(compared: Project) -> None:
    definitions = compared.definitions()
    checks = {
        name: [key for key in definitions.resolve_job_def(name).asset_layer.asset_graph.asset_check_keys]
        for name in ("shop_tables", "shop_verify")
    }
    assert {key.name for key in checks["shop_verify"]} == {EQUALITY}
    assert len(checks["shop_verify"]) == 2
    assert checks["shop_tables"]
    assert EQUALITY not in {key.name for key in checks["shop_tables"]}
    named = [one for one in definitions.schedules or () if isinstance(one, dg.ScheduleDefinition)]
    (schedule,) = [one for one in named if one.job_name == "shop_verify"]
    assert (schedule.cron_schedule, schedule.job_name) == ("0 */6 * * *", "shop_verify")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_it_fails_for_the_table_that_differs_and_tells_no_value(
    compared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = DifferingRow({"id": "7"}, ("note",), {"id": "7", "note": "secret"}, {"id": "7", "note": "hidden"})
    verdicts = {
        ORDERS: TableVerdict(
            ORDERS, LakeSums(2, 5, 5), 5, SourceSums(2, 6), differences=Differences(changed=1, rows=[row])
        ),
        ITEMS: TableVerdict(ITEMS, LakeSums(1, 5, 5), 5, SourceSums(1, 5)),
    }
    found = Verification(SourcePosition(0, 1, 7), verdicts)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: found)
    result = compared.definitions().resolve_job_def("shop_verify").execute_in_process(raise_on_error=False)
    judged = {one.asset_key.path[-1]: one for one in result.get_asset_check_evaluations()}
    assert {name: one.passed for name, one in judged.items()} == {"orders": False, "items": True}
    assert judged["orders"].metadata["differences"].value == "shopdb.orders: id '7' differs in note"
    assert "secret" not in repr(judged)
    assert "hidden" not in repr(judged)


def test_a_table_that_was_not_compared_is_a_warning(compared: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Verification(SourcePosition(0, 1, 7), {ORDERS: TableVerdict(ORDERS, refused="a row filter")})
    monkeypatch.setattr(verification, "verify", lambda *_, **__: found)
    result = compared.definitions().resolve_job_def("shop_verify").execute_in_process(raise_on_error=False)
    judged = result.get_asset_check_evaluations()
    assert {(one.passed, one.severity) for one in judged} == {(False, dg.AssetCheckSeverity.WARN)}


@pytest.mark.parametrize("every", ["1m", "7m", "5h", "90m", "2d"])
def test_a_time_that_no_clock_has_is_refused(project: Project, every: str) -> None:
    project.register({ORDERS: COLUMNS})
    with project.config.open("a") as file:
        file.write(VERIFY.format(more=f", every: {every}"))
    with pytest.raises(ConfigErrors):
        _ = project.subscription


@pytest.mark.parametrize(
    ("minutes", "cron"),
    [(5, "*/5 * * * *"), (30, "*/30 * * * *"), (60, "0 */1 * * *"), (480, "0 */8 * * *"), (1440, "0 0 * * *")],
)
def test_times_become_cron(minutes: int, cron: str) -> None:
    assert cron_of(timedelta(minutes=minutes)) == cron
