"""Latches, wired: failed runs are asked for again at growing intervals, by all three sensors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from dts_assets.defs import sensors
from dts_assets.defs.failures import CANNOT_BE_RETRIED, MAY_PASS
from dts_assets.defs.live import HAS_WORKED
from dts_assets.defs.partitions import RANGE_END, RANGE_START
from dts_assets.defs.sensors import live_sensor
from dts_assets.model.spans import Cell

if TYPE_CHECKING:
    from tests.defs.projects import Project
from tests.defs.ticks import (
    GRID,
    HOUR,
    START,
    TWO_WINDOWS,
    cells,
    growing,
    ingest_tick,
    ingested,
    keys,
    ranges,
    tables_tick,
)


@pytest.fixture
def shop(project: Project) -> Project:
    return growing(project)


@pytest.fixture
def three_hours(shop: Project) -> Project:
    shop.send("a", [(p, n, START + n * HOUR) for p in (0, 1) for n in range(4)])
    return shop


LASTING = {CANNOT_BE_RETRIED: "IncompatibleLakeError"}


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("status", "tags", "asked"),
    [
        (dg.DagsterRunStatus.STARTED, {}, False),
        (dg.DagsterRunStatus.FAILURE, {}, True),
        (dg.DagsterRunStatus.FAILURE, {MAY_PASS: "OvertakenError"}, True),
        (dg.DagsterRunStatus.FAILURE, LASTING, False),
        (dg.DagsterRunStatus.CANCELED, {}, False),
    ],
)
def test_a_window_whose_run_has_failed_is_asked_for_again_at_once_where_that_may_be_of_use(
    status: dg.DagsterRunStatus, tags: dict[str, str], asked: bool, shop: Project, instance: dg.DagsterInstance
) -> None:
    shop.send("a", [(0, 0, START), (1, 0, START), (0, 1, START + HOUR), (1, 1, START + HOUR)])
    first = ingest_tick(shop, instance)
    (request,) = first.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    instance.create_run_for_job(job, tags={**request.tags, **tags}, status=status)
    again = ingest_tick(shop, instance, first.cursor)
    assert ranges(again) == (ranges(first) if asked else [])
    assert not set(keys(again)) & set(keys(first))
    assert ("the next try is at" in str(again.skip_reason)) == (tags == LASTING)


def fail_for_long(tick: dg.SensorResult, shop: Project, instance: dg.DagsterInstance) -> None:
    """The one run that a tick asked for fails with an error that lasts."""
    (request,) = tick.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)


Ahead = Callable[[float], None]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """Sets the clock of the sensors some minutes ahead."""

    def set_ahead(minutes: float) -> None:
        monkeypatch.setattr(sensors, "_now", lambda: datetime.now(UTC) + timedelta(minutes=minutes))

    return set_ahead


def test_a_window_whose_runs_fail_is_asked_for_at_growing_intervals_for_ever(
    shop: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    shop.send("a", TWO_WINDOWS)
    first = ingest_tick(shop, instance)
    (request,) = first.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    found: list[str | None] = [request.run_key]
    for pause in (1, 2, 4, 8, 16, 30, 30, 30):
        instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)
        ahead(pause - 0.2)
        waiting = ingest_tick(shop, instance, first.cursor)
        assert keys(waiting) == []
        assert "p00|2026-01-05-00:00 and 1 more failed " in str(waiting.skip_reason)
        ahead(pause + 0.2)
        due = ingest_tick(shop, instance, first.cursor)
        assert ranges(due) == ranges(first)
        assert keys(ingest_tick(shop, instance, first.cursor)) == keys(due), "the key of one try is one"
        found += keys(due)
    assert len(set(found)) == len(found) == 9, "Dagster remembers run keys, and starts none twice"


def test_a_latch_of_one_window_holds_no_other(shop: Project, instance: dg.DagsterInstance) -> None:
    shop.send("a", TWO_WINDOWS)
    first = ingest_tick(shop, instance)
    fail_for_long(first, shop, instance)
    shop.send("b", [(0, 2, START + 2 * HOUR), (1, 2, START + 2 * HOUR)])
    assert ranges(ingest_tick(shop, instance, first.cursor)) == [("p00|2026-01-05-01:00", "p01|2026-01-05-01:00")]


def test_a_changed_configuration_ends_all_latches(shop: Project, instance: dg.DagsterInstance) -> None:
    shop.send("a", TWO_WINDOWS)
    first = ingest_tick(shop, instance)
    fail_for_long(first, shop, instance)
    assert keys(ingest_tick(shop, instance, first.cursor)) == []
    shop.touch_config()
    again = ingest_tick(shop, instance, first.cursor)
    assert ranges(again) == ranges(first)
    assert keys(again) != keys(first)


def test_entries_whose_run_fails_are_not_asked_for_at_every_tick(
    shop: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    shop.send("a", [(p, n, START + n * HOUR) for p in (0, 1) for n in range(4)])
    ingested(shop, [Cell(0, GRID.at(1))], head=Cell(0, GRID.at(0)))
    first = ingest_tick(shop, instance)
    ingested(shop, [Cell(0, GRID.at(0))])
    stale = ingest_tick(shop, instance, first.cursor)
    fail_for_long(stale, shop, instance)
    assert keys(ingest_tick(shop, instance, stale.cursor)) == []
    ahead(1.2)
    assert ranges(ingest_tick(shop, instance, stale.cursor)) == ranges(stale)


WRONG = {CANNOT_BE_RETRIED: "BrokerLoginError"}


@pytest.fixture
def live(shop: Project) -> Project:
    live = shop.configure(complete=False, end="null", live=True)
    live.send("a", TWO_WINDOWS)
    return live


def follows(project: Project, instance: dg.DagsterInstance) -> bool:
    """Whether the sensor asks for a live run now; else it says when."""
    with dg.build_sensor_context(instance=instance, resources={"pipelines": project.pipelines}) as context:
        result = live_sensor(project.subscription)(context)
    if isinstance(result, dg.SensorResult):
        return True
    assert isinstance(result, dg.SkipReason)
    assert "the next try is at" in str(result.skip_message)
    return False


def test_a_live_run_that_a_lasting_error_ended_is_followed_by_others_at_growing_intervals(
    live: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    job = live.definitions().resolve_job_def("shop_live")
    for pause in (1, 2, 4, 8, 16, 30, 30):
        instance.create_run_for_job(job, tags=WRONG, status=dg.DagsterRunStatus.FAILURE)
        ahead(pause - 0.2)
        assert not follows(live, instance)
        ahead(pause + 0.2)
        assert follows(live, instance)


@pytest.mark.parametrize(
    ("between", "pause"),
    [
        ({"status": dg.DagsterRunStatus.SUCCESS}, 1),
        ({"status": dg.DagsterRunStatus.CANCELED}, 1),
        ({"status": dg.DagsterRunStatus.FAILURE, "tags": WRONG}, 8),
    ],
)
def test_pauses_restart_after_a_run_that_has_worked(
    between: dict[str, Any], pause: int, live: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    job = live.definitions().resolve_job_def("shop_live")
    for more in ({}, {}, between, {}):
        instance.create_run_for_job(job, **{"tags": WRONG, "status": dg.DagsterRunStatus.FAILURE, **more})
    ahead(pause - 0.2)
    assert not follows(live, instance)
    ahead(pause + 0.2)
    assert follows(live, instance)


@pytest.mark.parametrize(("of_the_parent", "pause"), [(False, 1), (True, 4)])
def test_a_run_that_has_refreshed_before_it_failed_is_the_first_failure(
    of_the_parent: bool, pause: int, live: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    job = live.definitions().resolve_job_def("shop_live")
    for _ in range(3):
        last = instance.create_run_for_job(job, tags=WRONG, status=dg.DagsterRunStatus.FAILURE)
    instance.add_run_tags(last.run_id, {HAS_WORKED: "another" if of_the_parent else last.run_id})
    ahead(pause - 0.2)
    assert not follows(live, instance)
    ahead(pause + 0.2)
    assert follows(live, instance)


def test_a_changed_configuration_or_a_passing_trouble_is_followed_at_once(
    live: Project, instance: dg.DagsterInstance
) -> None:
    job = live.definitions().resolve_job_def("shop_live")
    for _ in range(6):
        instance.create_run_for_job(job, tags=WRONG, status=dg.DagsterRunStatus.FAILURE)
    assert not follows(live, instance)
    live.touch_config()
    assert follows(live, instance)
    for _ in range(6):
        instance.create_run_for_job(job, tags={MAY_PASS: "UnreachableBrokerError"}, status=dg.DagsterRunStatus.FAILURE)
    assert follows(live, instance), "the run has waited by itself"


def test_crashes_are_not_followed_at_every_tick(live: Project, instance: dg.DagsterInstance, ahead: Ahead) -> None:
    job = live.definitions().resolve_job_def("shop_live")
    asked = []
    for _ in range(4):
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE)
        asked.append(follows(live, instance))
    assert asked == [True, True, False, False]
    ahead(2.2)
    assert follows(live, instance)


def test_tables_whose_runs_fail_are_asked_for_at_growing_intervals_under_other_keys(
    three_hours: Project, instance: dg.DagsterInstance, ahead: Ahead
) -> None:
    shop = three_hours
    ingested(shop, cells(0, 1))
    (request,) = tables_tick(shop, instance).run_requests or ()
    job = shop.definitions().resolve_job_def("shop_tables")
    found = keys(tables_tick(shop, instance))
    for pause in (1, 2, 4, 8):
        instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)
        ahead(pause - 0.2)
        waiting = tables_tick(shop, instance)
        assert keys(waiting) == []
        assert "2026-01-05-00:00 and 1 more failed" in str(waiting.skip_reason)
        ahead(pause + 0.2)
        assert ranges(tables_tick(shop, instance)) == [(request.tags[RANGE_START], request.tags[RANGE_END])]
        found += keys(tables_tick(shop, instance))
    assert len(set(found)) == len(found) == 5
