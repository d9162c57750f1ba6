"""The topic's sensor and check: what they tell Dagster, and when."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dts_assets.defs.group_commit import group_metadata
from dts_assets.defs.resources import PipelineResource
from dts_assets.defs.topic import TIME_TO_LOSS, topic_check, watch_sensor
from dts_assets.errors import ConfigErrors, ConfigMistake, UnwritableLakeError
from dts_assets.errors.sources import BrokerLoginError, UnreachableBrokerError
from dts_assets.flows import broker_admin, consumer_group
from dts_assets.flows.consumer_group import GroupCommit
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.planning.watching import BLIND, WatchCursor
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.ledger import Ledger
from tests.defs.projects import Project
from tests.flows.forgetful import HOUR, START, Broker, Topic, open_topic, store_raw

TOPIC = dg.AssetKey(["shop", "topic"])
CHECK = dg.AssetCheckKey(TOPIC, TIME_TO_LOSS)
PIPELINES = {"pipelines": PipelineResource(config_path="pipeline.yaml")}


@pytest.fixture
def topic() -> Topic:
    found = Topic({0: [], 1: []}, START + 5 * HOUR)
    for number in (0, 1):
        found.send(number, *(half / 2 for half in range(8)))
    return found


@pytest.fixture
def broker() -> Broker:
    return Broker({0: 2, 1: None})


@pytest.fixture
def shop(
    lake_location: LakeLocation, tmp_path: Path, topic: Topic, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> Pipeline:
    pipeline = open_topic(lake_location, tmp_path, topic)
    monkeypatch.setattr(PipelineResource, "pipeline", lambda *_: pipeline)
    monkeypatch.setattr(broker_admin, "open_broker", lambda _: broker)
    monkeypatch.setattr(broker_admin, "impatient", lambda one: one)
    return pipeline


def tick(shop: Pipeline, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=PIPELINES) as context:
        return watch_sensor(shop.settings)(context)


def events(result: dg.SensorResult) -> tuple[list[dg.AssetObservation], list[dg.AssetCheckEvaluation]]:
    seen = [event for event in result.asset_events if isinstance(event, dg.AssetObservation)]
    judged = [event for event in result.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert len(seen) + len(judged) == len(result.asset_events)
    return seen, judged


def test_the_topic_is_observed_as_plain_numbers(shop: Pipeline, instance: dg.DagsterInstance) -> None:
    store_raw(shop, 0, 0, 0, 2)
    ((seen,), _) = events(tick(shop, instance))
    assert seen.asset_key == TOPIC
    assert {name: value.value for name, value in seen.metadata.items()} == {
        "end_offset": 16, "lag_messages": 14, "lag_seconds": 18000.0, "behind_seconds": 10800.0, "minutes_to_loss": 1140.0,
        "lost_messages": 0, "committed_offset": 2,
        "p00_end_offset": 8, "p00_lag_messages": 6, "p00_lag_seconds": 14400.0, "p00_minutes_to_loss": 1200.0,
        "p00_committed_offset": 2,
        "p01_end_offset": 8, "p01_lag_messages": 8, "p01_lag_seconds": 18000.0, "p01_minutes_to_loss": 1140.0,
    }  # fmt: skip


def test_a_topic_of_many_kafka_partitions_is_observed_in_total(
    lake_location: LakeLocation,
    tmp_path: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    shop: Pipeline,
) -> None:
    many = open_topic(lake_location, tmp_path, Topic({number: [START] for number in range(40)}, START + HOUR))
    monkeypatch.setattr(PipelineResource, "pipeline", lambda *_: many)
    (seen,), (judged,) = events(tick(many, instance))
    assert set(seen.metadata) == {
        "end_offset",
        "lag_messages",
        "lag_seconds",
        "minutes_to_loss",
        "lost_messages",
        "committed_offset",
    }
    assert "| p39 | 0 | 1 | nothing | 1 | 1380.0 | safe |" in str(judged.metadata["partitions"].value)


def test_a_tick_in_which_nothing_moved_tells_nothing(
    shop: Pipeline, topic: Topic, instance: dg.DagsterInstance
) -> None:
    first = tick(shop, instance)
    assert [len(some) for some in events(first)] == [1, 1]
    topic.clock += timedelta(seconds=30)
    second = tick(shop, instance, first.cursor)
    assert second.asset_events == []
    assert "16 messages are not stored yet, the first is 18,030 s old" in str(second.skip_reason)
    topic.send(0, 5)
    assert [len(some) for some in events(tick(shop, instance, second.cursor))] == [0, 0], "not that soon"
    live = shop.settings.model_copy(update={"window": shop.settings.window.model_copy(update={"live": True})})
    followed = Pipeline(live, shop.source, shop.lake)
    assert [len(some) for some in events(tick(followed, instance, second.cursor))] == [1, 0]
    topic.clock += timedelta(minutes=5)
    assert [len(some) for some in events(tick(shop, instance, second.cursor))] == [1, 0]


def test_the_verdict_is_told_when_it_changes(shop: Pipeline, topic: Topic, instance: dg.DagsterInstance) -> None:
    first = tick(shop, instance)
    _, (safe,) = events(first)
    assert (safe.check_name, safe.passed, safe.partition) == (TIME_TO_LOSS, True, None)
    topic.clock = START + 13 * HOUR
    second = tick(shop, instance, first.cursor)
    _, (warning,) = events(second)
    assert (warning.passed, warning.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert warning.metadata["minutes_to_loss"].value == 660.0
    store_raw(shop, 0, 0, 0, 2)
    store_raw(shop, 1, 0, 0, 8)
    topic.low = {0: 5}
    third = tick(shop, instance, second.cursor)
    _, (lost,) = events(third)
    assert (lost.passed, lost.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert lost.metadata["gaps"].value == "- p00 offsets [2, 5)"
    assert "messages are gone that were never stored: p00 offsets [2, 5)" in str(third.skip_reason)
    gap = Problem(ProblemCode.GAP, 2, 4, "gone")
    store_raw(shop, 0, 1, 2, 8, problems=(gap,))
    _, (named,) = events(tick(shop, instance, third.cursor))
    assert (named.passed, named.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert named.metadata["gaps"].value == "- p00 offsets [2, 5), a gap of window 2026-01-05-01:00"


AWAY = UnreachableBrokerError("broker:9092", "Connection refused", seconds=5)


def raises(error: Exception) -> Any:
    def asked(*_: Any, **__: Any) -> None:
        raise error

    return asked


@pytest.mark.parametrize(
    ("owner", "name", "error", "said"),
    [
        ("topic", "watermarks", AWAY, "broker:9092"),
        ("topic", "watermarks", BrokerLoginError("broker:9092", "SCRAM-SHA-512"), "Check sasl.username"),
        ("ledger", "marks_by_day", UnwritableLakeError("./lake", "permission denied"), "The lake ./lake cannot be written"),
        ("ledger", "marks_by_day", OSError("host=h password=hunter2"), "OSError, see the log of the tick"),
        ("settings", "pipeline", ConfigErrors((ConfigMistake("a.yaml", 1, "x", "no such key", "remove it"),)), "no such key"),
    ],
    ids=["broker away", "login refused", "lake unwritable", "ledger unreadable", "configuration wrong"],
)  # fmt: skip
def test_an_alarm_that_cannot_look_is_red(
    shop: Pipeline, topic: Topic, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch,
    owner: str, name: str, error: Exception, said: str,
) -> None:  # fmt: skip
    _, (safe,) = events(seeing := tick(shop, instance))
    assert safe.passed
    with monkeypatch.context() as patch:
        patch.setattr({"topic": topic, "ledger": Ledger, "settings": PipelineResource}[owner], name, raises(error))
        blind = tick(shop, instance, seeing.cursor)
        (seen, (red,)) = events(blind)
        assert (seen, red.check_name, red.passed, red.severity) == (
            [],
            TIME_TO_LOSS,
            False,
            dg.AssetCheckSeverity.ERROR,
        )
        for text in (str(red.metadata["said"].value), str(blind.skip_reason.skip_message)):
            assert text.startswith("not looked since 20")
            assert said in text
            assert "hunter2" not in text
        assert events(tick(shop, instance, blind.cursor)) == ([], []), "not again at each tick"
    _, (green,) = events(tick(shop, instance, blind.cursor))
    assert green.passed, "it is told at once that somebody looks again"


def test_an_alarm_that_never_looked_is_red(
    shop: Pipeline, topic: Topic, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "watermarks", raises(AWAY))
    _, (red,) = events(tick(shop, instance))
    assert (red.passed, str(red.metadata["said"].value).startswith("never looked: ")) == (False, True)


def test_blindness_lasts_until_a_look_succeeds(
    shop: Pipeline, topic: Topic, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeing = tick(shop, instance)
    since = WatchCursor.of_text(seeing.cursor).looked_at
    monkeypatch.setattr(topic, "watermarks", raises(AWAY))
    cursor = seeing.cursor
    for _ in range(3):
        cursor = tick(shop, instance, cursor).cursor
    after = WatchCursor.of_text(cursor)
    assert (after.looked_at, after.verdict, after.oldest) == (since, BLIND, WatchCursor.of_text(seeing.cursor).oldest)


def test_dagster_keeps_every_evaluation_that_the_sensor_gives(shop: Pipeline, tmp_path: Path) -> None:
    """Evaluations outside of runs: without a partition there may be any number of them in Dagster's own files."""
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        for event in tick(shop, instance).asset_events * 3:
            instance.report_runless_asset_event(event)
        assert len(instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10)) == 3
        assert len(instance.fetch_observations(TOPIC, limit=10).records) == 3


def test_the_check_can_be_executed_by_itself(shop: Pipeline, topic: Topic, instance: dg.DagsterInstance) -> None:
    topic.clock = START + 13 * HOUR
    check = topic_check(shop.settings)
    result = dg.materialize(
        [dg.AssetSpec(TOPIC), check], instance=instance, resources=PIPELINES, selection=dg.AssetSelection.checks(CHECK)
    )
    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_it_runs_from_the_start_where_messages_can_be_lost(shop: Pipeline, project: Project) -> None:
    assert watch_sensor(shop.settings).default_status is dg.DefaultSensorStatus.RUNNING
    assert watch_sensor(project.subscription).default_status is dg.DefaultSensorStatus.STOPPED


# The group


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def moved(pipeline: Pipeline) -> tuple[dict[str, Any], list[str]]:
    """What a run says of the group, and its warnings."""
    context: Any = type("Context", (), {"log": Log()})()
    return group_metadata(context, pipeline), context.log.warnings


def with_commit(pipeline: Pipeline, **values: Any) -> Pipeline:
    kafka = pipeline.settings.source.kafka
    assert kafka is not None
    source = pipeline.settings.source.model_copy(update={"kafka": kafka.model_copy(update=values)})
    return Pipeline(pipeline.settings.model_copy(update={"source": source}), pipeline.source, pipeline.lake)


def test_the_end_of_a_run_of_entries_moves_the_group_and_says_so(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "commit_group", lambda *_: GroupCommit({0: 2}, {1: 6, 0: 9}))
    assert moved(shop) == ({"group_commit": "moved: p00 to 9, p01 to 6"}, [])
    monkeypatch.setattr(consumer_group, "commit_group", lambda *_: GroupCommit({0: 2}, {}))
    assert moved(shop)[0] == {"group_commit": "where it was"}


def test_it_can_be_switched_off_and_needs_a_group(shop: Pipeline) -> None:
    assert moved(with_commit(shop, commit=False))[0] == {}
    assert moved(with_commit(shop, group_id=None))[0] == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnreachableBrokerError("broker:9092", "refused", seconds=5), "broker:9092"),
        (RuntimeError("secret"), "RuntimeError"),
    ],
)
def test_what_goes_wrong_is_a_warning(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(consumer_group, "commit_group", fails)
    found, warnings = moved(shop)
    assert said in found["group_commit"]
    assert "secret" not in found["group_commit"]
    assert warnings == [f"the consumer group was {found['group_commit']}"]
