"""The job of maintenance on a lake with rows: each step by itself, all together, and its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dts_assets.defs.maintenance import maintenance_job_name
from dts_assets.defs.resources import SparkResource
from dts_assets.flows.this_process import this_process
from dts_assets.model.maintenance import USUAL_STEPS, Step
from tests.defs.projects import Project
from tests.flows.harness import Harness
from tests.flows.history import START, border
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture

CONFIGURATION = f"""
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: ./capture}}
    partitions: {LANES}
    window: {{every: 10m, start: "{START:%Y-%m-%dT%H:%MZ}", end: "{border(3):%Y-%m-%dT%H:%MZ}"}}
    maintenance: {{expire_after: 1s, keep_versions: 1, SCHEDULE}}
"""
KEY = dg.AssetKey(["shop", "maintenance"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("maintenance"))
    write_capture(made.folder / "capture", three_windows(items()).messages)
    made.config.write_text(CONFIGURATION.replace("SCHEDULE", "schedule: '15 4 * * *'"))
    harness = Harness(made.pipeline, this_process())
    for number in range(3):
        harness.all(number)
    return made


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkResource, "session", lambda self: this_process())


def done(project: Project, **config: Any) -> dg.ExecuteInProcessResult:
    job = project.definitions().resolve_job_def(maintenance_job_name("shop"))
    return job.execute_in_process({"ops": {"shop_maintain": {"config": config}}}, raise_on_error=False)


def observed(result: dg.ExecuteInProcessResult) -> list[dict[str, Any]]:
    events = [event.event_specific_data for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    found = [one.asset_observation for one in events]  # type: ignore[union-attr]
    assert {one.asset_key for one in found} == {KEY}
    return [{name: value.value for name, value in one.metadata.items()} for one in found]


@pytest.mark.more(after=1)
@pytest.mark.parametrize("step", list(Step))
def test_each_step_by_itself(step: Step, project: Project) -> None:
    result = done(project, only=[str(step)])
    assert result.success
    mine, sizes = observed(result)
    assert f"{step}_freed_bytes" in mine
    assert all(name.startswith(f"{step}_") or name == "did" for name in mine)
    assert sizes["all_bytes"] == sum(size for name, size in sizes.items() if name != "all_bytes") > 0
    assert {"changelog_bytes", "snapshot_bytes", "raw_envelopes_bytes", "ledger_bytes"} <= sizes.keys()


def test_all_usual_steps_and_their_numbers(project: Project) -> None:
    assert done(project, dry_run=True).success
    result = done(project)
    assert result.success
    *steps, _ = observed(result)
    assert [next(iter(one)).partition("_")[0] for one in steps] == [str(one) for one in USUAL_STEPS]
    (told,) = [
        one for one in observed(done(project, only=["expiry"], dry_run=True)) if "dry_run_expiry_versions" in one
    ]
    assert told["dry_run_expiry_tables"] >= 0


def test_a_step_that_is_none_is_a_sentence(project: Project) -> None:
    result = done(project, only=["vacuum"])
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "vacuum is no step of maintenance" in str(failure.step_failure_data.error)


@pytest.mark.parametrize(
    ("text", "cron", "status"),
    [
        ("schedule: '15 4 * * *'", "15 4 * * *", dg.DefaultScheduleStatus.RUNNING),
        ("keep_versions: 2", "30 3 * * *", dg.DefaultScheduleStatus.STOPPED),
    ],
)
def test_the_schedule_is_on_where_the_settings_name_a_time(
    text: str, cron: str, status: dg.DefaultScheduleStatus, tmp_path: Path
) -> None:
    made = Project(tmp_path)
    (tmp_path / "capture").mkdir()
    made.config.write_text(CONFIGURATION.replace("keep_versions: 1, SCHEDULE", text))
    schedule = made.definitions().resolve_schedule_def("shop_maintenance")
    assert (schedule.cron_schedule, schedule.default_status) == (cron, status)
