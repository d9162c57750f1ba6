"""The sensors, wired: a growing capture becomes runs of raw and entries, a growing ledger becomes runs of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from dts_assets.defs import sensors
from dts_assets.defs.failures import CANNOT_BE_RETRIED, MAY_PASS
from dts_assets.defs.live import FOLLOWS_FROM, HAS_WORKED
from dts_assets.defs.partitions import RANGE_END, RANGE_START, span_of
from dts_assets.defs.sensors import ingest_sensor, live_sensor, tables_sensor
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.ledger_rows import Counts, IngestWindow, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.staleness import generation, input_text, raw_input

if TYPE_CHECKING:
    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, GRACE = timedelta(hours=1), timedelta(minutes=10)
GRID = WindowGrid(HOUR, START)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def shop(project: Project) -> Project:
    """A capture that is still growing, of two Kafka partitions; one table is known."""
    return project.configure(complete=False, end="null").register(
        {TableId("shopdb", "", "orders"): [("id", "int", True)]}
    )


def ingest_tick(project: Project, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    return _tick(ingest_sensor(project.subscription), project, instance, cursor)


def tables_tick(project: Project, instance: dg.DagsterInstance) -> dg.SensorResult:
    return _tick(tables_sensor(project.subscription), project, instance, None)


def _tick(
    sensor: dg.SensorDefinition, project: Project, instance: dg.DagsterInstance, cursor: str | None
) -> dg.SensorResult:
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"pipelines": project.pipelines}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult), result
    return result


def ranges(result: dg.SensorResult) -> list[tuple[str, str]]:
    return [(request.tags[RANGE_START], request.tags[RANGE_END]) for request in result.run_requests or ()]


def keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or ()]


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


LASTING = {CANNOT_BE_RETRIED: "IncompatibleLakeError"}


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
    (request,) = first.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)
    shop.send("b", [(0, 2, START + 2 * HOUR), (1, 2, START + 2 * HOUR)])
    assert ranges(ingest_tick(shop, instance, first.cursor)) == [("p00|2026-01-05-01:00", "p01|2026-01-05-01:00")]


def test_a_changed_configuration_ends_all_latches(shop: Project, instance: dg.DagsterInstance) -> None:
    shop.send("a", TWO_WINDOWS)
    first = ingest_tick(shop, instance)
    (request,) = first.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)
    assert keys(ingest_tick(shop, instance, first.cursor)) == []
    shop.config.touch()
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
    (request,) = stale.run_requests or ()
    job = shop.definitions().resolve_job_def("shop_ingest")
    instance.create_run_for_job(job, tags={**request.tags, **LASTING}, status=dg.DagsterRunStatus.FAILURE)
    assert keys(ingest_tick(shop, instance, stale.cursor)) == []
    ahead(1.2)
    assert ranges(ingest_tick(shop, instance, stale.cursor)) == ranges(stale)


TWO_WINDOWS = [(0, 0, START), (1, 0, START), (0, 1, START + HOUR), (1, 1, START + HOUR)]


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
    (request,) = _tick(live_sensor(live.subscription), live, instance, None).run_requests or ()
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
    (first,) = _tick(sensor, live, instance, None).run_requests or ()
    job = live.definitions().resolve_job_def("shop_live")
    instance.create_run_for_job(job, tags=first.tags, status=dg.DagsterRunStatus.FAILURE)
    (second,) = _tick(sensor, live, instance, None).run_requests or ()
    assert second.run_key != first.run_key
    instance.create_run_for_job(job, tags={**first.tags, **WRONG}, status=dg.DagsterRunStatus.FAILURE)
    assert "BrokerLoginError" in str(skipped(live, instance))


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
    live.config.touch()
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


def test_nothing_is_followed_before_the_first_message(shop: Project, instance: dg.DagsterInstance) -> None:
    live = shop.configure(complete=False, end="null", live=True)
    assert str(skipped(live, instance)) == "there is no message yet"


def skipped(project: Project, instance: dg.DagsterInstance) -> str | None:
    with dg.build_sensor_context(instance=instance, resources={"pipelines": project.pipelines}) as context:
        result = live_sensor(project.subscription)(context)
    assert isinstance(result, dg.SkipReason), result
    return result.skip_message


def test_dagster_takes_what_the_sensor_asks_for(shop: Project, instance: dg.DagsterInstance) -> None:
    """Resolved against the job: the range is a rectangle of partitions that exist."""
    shop.send("a", [(0, 0, START), (1, 0, START), (0, 1, START + 2 * HOUR), (1, 1, START + 2 * HOUR)])
    definitions = shop.definitions()
    sensor = ingest_sensor(shop.subscription)
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
    for sensor in (ingest_sensor(shop.subscription), tables_sensor(shop.subscription)):
        with dg.build_sensor_context(instance=instance, resources={"pipelines": shop.pipelines}) as context:
            result = sensor(context)
        assert isinstance(result, dg.SkipReason)
        assert "a.parquet is not a readable Parquet file" in str(result.skip_message)


# What is ready in the ledger


def ingested(project: Project, cells: Iterable[Cell], *, raw: str = "r1", head: Cell | None = None) -> None:
    """Ledger rows as the first two flows leave them; ``head`` was looked for and is not there yet."""
    ledger = project.pipeline.ledger
    for cell in cells:
        inputs = [input_text(raw_input(cell), raw)] + ([input_text(raw_input(head), "absent")] if head else [])
        window = (cell.kafka_partition, cell.window, 0, OffsetRange(0, 1))
        ledger.replace_raw_windows([cell], [RawWindow(*window, ClosedBy.MESSAGE, 1, 9, START, START, (), raw, "1")])
        row = IngestWindow(
            *window, Counts(messages=1, whole=1), None, None, (), ClosedBy.MESSAGE, Completeness.OBSERVED, (), "1",
            generation(inputs, code_version="1"), tuple(inputs),
        )  # fmt: skip
        ledger.replace_windows([cell], [row])


def tables_made(project: Project, number: int) -> None:
    """The ledger row that a run of the tables leaves."""
    pipeline, window = project.pipeline, GRID.at(number)
    mark = pipeline.topic_marks(pipeline.ledger.windows(), known_tables(pipeline)).mark(window)
    pipeline.ledger.replace_cuts([window], [mark])


def cells(*numbers: int) -> list[Cell]:
    return [Cell(partition, GRID.at(number)) for number in numbers for partition in (0, 1)]


@pytest.fixture
def three_hours(shop: Project) -> Project:
    shop.send("a", [(p, n, START + n * HOUR) for p in (0, 1) for n in range(4)])
    return shop


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


def test_one_run_of_the_tables_at_a_time(three_hours: Project, instance: dg.DagsterInstance) -> None:
    ingested(three_hours, cells(0))
    job = three_hours.definitions().resolve_job_def("shop_tables")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    with dg.build_sensor_context(instance=instance, resources={"pipelines": three_hours.pipelines}) as context:
        busy = tables_sensor(three_hours.subscription)(context)
    assert isinstance(busy, dg.SkipReason)
    instance.report_run_failed(run)
    assert ranges(tables_tick(three_hours, instance)) == [("2026-01-05-00:00", "2026-01-05-00:00")]
