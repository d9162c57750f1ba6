"""The sensors, wired: a growing capture becomes runs of raw and entries, a growing ledger becomes runs of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from dts_assets.defs.failures import CANNOT_BE_RETRIED
from dts_assets.defs.live import FOLLOWS_FROM
from dts_assets.defs.partitions import RANGE_END, RANGE_START, span_of
from dts_assets.defs.sensors import ingest_sensor, live_sensor, tables_sensor
from dts_assets.model.spans import Cell

if TYPE_CHECKING:
    from tests.defs.projects import Project
from tests.defs.ticks import (
    GRACE,
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
    skipped,
    tables_made,
    tables_tick,
    tick,
)


@pytest.fixture
def shop(project: Project) -> Project:
    return growing(project)


# What closes at the source


def test_nothing_is_asked_for_while_nothing_was_seen(shop: Project, instance: dg.DagsterInstance) -> None:
    result = ingest_tick(shop, instance)
    assert ranges(result) == []
    assert result.skip_reason is not None


def test_closed_windows_become_one_run_and_the_next_tick_asks_for_nothing(
    shop: Project, instance: dg.DagsterInstance
) -> None:
    shop.send("a", [(0, 0, START), (1, 0, START), (0, 1, START + 2 * HOUR), (1, 1, START + 2 * HOUR)])
    first = ingest_tick(shop, instance)
    assert ranges(first) == [("p00|2026-01-05-00:00", "p01|2026-01-05-01:00")]
    assert first.run_requests is not None
    assert first.run_requests[0].asset_selection is None
    second = ingest_tick(shop, instance, first.cursor)
    assert ranges(second) == []
    assert second.cursor == first.cursor
    assert second.skip_reason is not None


def test_a_growing_capture_becomes_more_runs_each_under_a_key_of_its_own(
    shop: Project, instance: dg.DagsterInstance
) -> None:
    shop.send("a", [(0, 0, START), (1, 0, START), (0, 1, START + HOUR), (1, 1, START + HOUR)])
    first = ingest_tick(shop, instance)
    shop.send("b", [(0, 2, START + 2 * HOUR)])
    second = ingest_tick(shop, instance, first.cursor)
    shop.send("c", [(1, 2, START + 3 * HOUR)])
    third = ingest_tick(shop, instance, second.cursor)
    shop.send("d", [(1, 3, START + 3 * HOUR + GRACE)])
    fourth = ingest_tick(shop, instance, third.cursor)
    assert ranges(first) == [("p00|2026-01-05-00:00", "p01|2026-01-05-00:00")]
    assert ranges(second) == [("p00|2026-01-05-01:00", "p00|2026-01-05-01:00")]
    assert ranges(third) == [("p01|2026-01-05-01:00", "p01|2026-01-05-02:00")]
    assert ranges(fourth) == [("p00|2026-01-05-02:00", "p00|2026-01-05-02:00")], "a silent partition closes by grace"
    found = [*keys(first), *keys(second), *keys(third), *keys(fourth)]
    assert len(set(found)) == len(found)


def test_with_conditions_the_open_window_is_asked_for_as_it_grows(shop: Project, instance: dg.DagsterInstance) -> None:
    live = shop.configure(complete=False, end="null", live=True, automation="conditions")
    live.send("a", TWO_WINDOWS)
    first = ingest_tick(live, instance)
    assert ranges(first) == [("p00|2026-01-05-00:00", "p01|2026-01-05-01:00")]
    second = ingest_tick(live, instance, first.cursor)
    assert ranges(second) == [("p00|2026-01-05-01:00", "p01|2026-01-05-01:00")]
    live.send("b", [(1, 2, START + HOUR)])
    third = ingest_tick(live, instance, second.cursor)
    assert ranges(third) == ranges(second)
    assert len({*keys(first), *keys(second), *keys(third)}) == 3, "further offsets make another run"


def test_one_run_follows_the_open_window_and_the_others_leave_it_alone(
    shop: Project, instance: dg.DagsterInstance
) -> None:
    live = shop.configure(complete=False, end="null", live=True)
    live.send("a", TWO_WINDOWS)
    assert ranges(ingest_tick(live, instance)) == [("p00|2026-01-05-00:00", "p01|2026-01-05-00:00")]
    (request,) = tick(live_sensor(live.subscription), live, instance, None).run_requests or ()
    assert request.tags == {FOLLOWS_FROM: "2026-01-05-01:00"}
    job = live.definitions().resolve_job_def("shop_live")
    assert dg.validate_run_config(job, request.run_config)
    run = instance.create_run_for_job(
        job, run_config=request.run_config, tags=request.tags, status=dg.DagsterRunStatus.STARTED
    )

    live.send("b", [(0, 2, START + 2 * HOUR), (1, 2, START + 2 * HOUR)])
    assert ranges(ingest_tick(live, instance)) == [("p00|2026-01-05-00:00", "p01|2026-01-05-00:00")]
    assert str(skipped(live, instance)) == f"run {run.run_id[:8]} follows from 2026-01-05-01:00 on"
    instance.delete_run(run.run_id)
    assert ranges(ingest_tick(live, instance)) == [("p00|2026-01-05-00:00", "p01|2026-01-05-01:00")]


def test_a_run_that_follows_and_fails_is_asked_for_again_under_another_key_unless_that_is_no_use(
    shop: Project, instance: dg.DagsterInstance
) -> None:
    live = shop.configure(complete=False, end="null", live=True)
    live.send("a", TWO_WINDOWS)
    sensor = live_sensor(live.subscription)
    (first,) = tick(sensor, live, instance, None).run_requests or ()
    job = live.definitions().resolve_job_def("shop_live")
    instance.create_run_for_job(job, tags=first.tags, status=dg.DagsterRunStatus.FAILURE)
    (second,) = tick(sensor, live, instance, None).run_requests or ()
    assert second.run_key != first.run_key
    instance.create_run_for_job(
        job, tags={**first.tags, CANNOT_BE_RETRIED: "BrokerLoginError"}, status=dg.DagsterRunStatus.FAILURE
    )
    assert "BrokerLoginError" in str(skipped(live, instance))


def test_nothing_is_followed_before_the_first_message(shop: Project, instance: dg.DagsterInstance) -> None:
    live = shop.configure(complete=False, end="null", live=True)
    assert str(skipped(live, instance)) == "there is no message yet"


def test_dagster_takes_what_the_sensor_asks_for(shop: Project, instance: dg.DagsterInstance) -> None:
    """Resolved against the job: the range is a rectangle of partitions that exist."""
    shop.send("a", [(0, 0, START), (1, 0, START), (0, 1, START + 2 * HOUR), (1, 1, START + 2 * HOUR)])
    definitions = shop.definitions()
    sensor = ingest_sensor(shop.subscription, ())
    with dg.build_sensor_context(
        instance=instance, definitions=definitions, resources={"pipelines": shop.pipelines}
    ) as context:
        (request,) = sensor.evaluate_tick(context).run_requests or ()
    partitions = definitions.resolve_asset_graph().get(dg.AssetKey(["shop", "entries"])).partitions_def
    assert partitions is not None
    found = partitions.get_partition_keys_in_range(
        dg.PartitionKeyRange(request.tags[RANGE_START], request.tags[RANGE_END])
    )
    span = span_of([str(key) for key in found], shop.subscription.grid)
    assert (span.kafka_partitions, span.windows) == ((0, 1), (GRID.at(0), GRID.at(1)))


def test_a_source_that_cannot_be_read_is_a_reason_and_no_crash(shop: Project, instance: dg.DagsterInstance) -> None:
    (shop.folder / "capture").mkdir()
    (shop.folder / "capture" / "a.parquet").write_bytes(b"no parquet")
    for sensor in (ingest_sensor(shop.subscription, ()), tables_sensor(shop.subscription)):
        with dg.build_sensor_context(instance=instance, resources={"pipelines": shop.pipelines}) as context:
            result = sensor(context)
        assert isinstance(result, dg.SkipReason)
        assert "a.parquet is not a readable Parquet file" in str(result.skip_message)


# What is ready in the ledger


@pytest.fixture
def three_hours(shop: Project) -> Project:
    shop.send("a", [(p, n, START + n * HOUR) for p in (0, 1) for n in range(4)])
    return shop


@pytest.mark.more
def test_a_window_is_asked_for_when_every_kafka_partition_has_its_entries(
    three_hours: Project, instance: dg.DagsterInstance
) -> None:
    waiting = tables_tick(three_hours, instance)
    assert ranges(waiting) == []
    assert "waiting for entries of 2026-01-05-00:00" in str(waiting.skip_reason)
    ingested(three_hours, [*cells(0, 1), Cell(0, GRID.at(2))])
    ready = tables_tick(three_hours, instance)
    assert ranges(ready) == [("2026-01-05-00:00", "2026-01-05-01:00")]
    tables_made(three_hours, 0)
    tables_made(three_hours, 1)
    assert ranges(tables_tick(three_hours, instance)) == []
    ingested(three_hours, [Cell(1, GRID.at(2))])
    assert ranges(tables_tick(three_hours, instance)) == [("2026-01-05-02:00", "2026-01-05-02:00")]


def test_newer_entries_are_asked_for_again_under_another_key(
    three_hours: Project, instance: dg.DagsterInstance
) -> None:
    ingested(three_hours, cells(0))
    first = tables_tick(three_hours, instance)
    assert keys(tables_tick(three_hours, instance)) == keys(first), "the same inputs are the same run"
    tables_made(three_hours, 0)
    ingested(three_hours, cells(0)[:1], raw="r2")
    again = tables_tick(three_hours, instance)
    assert ranges(again) == ranges(first) == [("2026-01-05-00:00", "2026-01-05-00:00")]
    assert keys(again) != keys(first)


def test_entries_whose_head_has_arrived_are_asked_for_alone(three_hours: Project, instance: dg.DagsterInstance) -> None:
    ingested(three_hours, [Cell(0, GRID.at(1))], head=Cell(0, GRID.at(0)))
    first = ingest_tick(three_hours, instance)
    ingested(three_hours, [Cell(0, GRID.at(0))])
    second = ingest_tick(three_hours, instance, first.cursor)
    assert second.run_requests is not None
    assert [(r.tags[RANGE_START], r.asset_selection) for r in second.run_requests] == [
        ("p00|2026-01-05-01:00", [dg.AssetKey(["shop", "entries"])])
    ]
    assert keys(ingest_tick(three_hours, instance, second.cursor)) == keys(second), (
        "Dagster knows the key and starts none"
    )


def test_one_run_of_the_tables_at_a_time(three_hours: Project, instance: dg.DagsterInstance) -> None:
    ingested(three_hours, cells(0))
    job = three_hours.definitions().resolve_job_def("shop_tables")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    with dg.build_sensor_context(instance=instance, resources={"pipelines": three_hours.pipelines}) as context:
        busy = tables_sensor(three_hours.subscription)(context)
    assert isinstance(busy, dg.SkipReason)
    instance.report_run_failed(run)
    assert ranges(tables_tick(three_hours, instance)) == [("2026-01-05-00:00", "2026-01-05-00:00")]
