"""The topic's state and the group against a real broker: what only a broker can say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from dts_assets.errors.sources import BrokerError
from dts_assets.flows.broker_admin import BrokerAdmin, impatient, open_broker
from dts_assets.flows.consumer_group import commit_group
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.topic import find_topic_state
from dts_assets.model.ledger_rows import Counts, IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness
from dts_assets.model.retention import BrokerRetention
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.loss import LossState
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_retention import topic_retention
from dts_assets.sources.kafka_source import KafkaSource
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake
from tests.flows.forgetful import HOUR, START, store_raw, window

if TYPE_CHECKING:
    from dts_emulator.kafka.private_broker import Broker

pytestmark = pytest.mark.kafka

MINUTE = timedelta(minutes=1)


def place_of(broker: Broker, *topics: str, partitions: int, group: str | None = None) -> KafkaPlace:
    config = broker.client_config("SASL_PLAINTEXT")
    servers = config.pop("bootstrap.servers")
    return KafkaPlace(servers, topics, partitions, group, tuple(config.items()))


@pytest.mark.more
def test_how_long_topics_keep_messages(kafka_broker: Broker) -> None:
    kafka_broker.create_topic("kept-a", 1, {"retention.ms": "3600000", "retention.bytes": "1000"})
    kafka_broker.create_topic("kept-b", 2, {"retention.ms": "-1", "retention.bytes": "900"})
    kafka_broker.create_topic("kept-c", 1, {"cleanup.policy": "compact", "retention.ms": "5", "retention.bytes": "5"})
    found = {
        topics: topic_retention(place_of(kafka_broker, *topics, partitions=1))
        for topics in (("kept-a",), ("kept-b",), ("kept-a", "kept-b"), ("kept-c",))
    }
    assert found == {
        ("kept-a",): BrokerRetention(HOUR, 1000),
        ("kept-b",): BrokerRetention(None, 900),
        ("kept-a", "kept-b"): BrokerRetention(HOUR, 900),
        ("kept-c",): BrokerRetention(None, None),
    }


def test_a_topic_that_is_not_there_cannot_be_asked(kafka_broker: Broker) -> None:
    with pytest.raises(BrokerError):
        topic_retention(place_of(kafka_broker, "kept-nowhere", partitions=1))


class Live:
    """A topic of two Kafka partitions, a message a minute for an hour up to now, and a subscription with windows of an hour."""

    def __init__(self, broker: Broker, location: LakeLocation, folder: Path) -> None:
        self.broker, self.name = broker, f"live-{folder.name}"[:60]
        broker.create_topic(self.name, 2, {"retention.ms": "-1"})
        self.began = datetime.now(UTC).replace(microsecond=0) - HOUR
        producer = Producer(broker.client_config())
        for number in range(60):
            for partition in (0, 1):
                at = int((self.began + number * MINUTE).timestamp() * 1000)
                producer.produce(self.name, b"v", partition=partition, timestamp=at)
        producer.flush()
        config = {**broker.client_config("SASL_PLAINTEXT")}
        kafka: dict[str, Any] = {
            "bootstrap_servers": config.pop("bootstrap.servers"), "topics": [self.name], "group_id": f"{self.name}-group",
            "config": config,
        }  # fmt: skip
        settings = Subscription.model_validate(
            {
                "format": "dts-protobuf", "source": {"kafka": kafka}, "partitions": 2,
                "window": {"every": HOUR, "start": START}, NAME_KEY: "shop", FOLDER_KEY: folder,
            }
        )  # fmt: skip
        source = KafkaSource(place_of(broker, self.name, partitions=2, group=kafka["group_id"]))
        self.pipeline = Pipeline(settings, source, Lake(location))


@pytest.fixture
def live(kafka_broker: Broker, lake_location: LakeLocation, tmp_path: Path) -> Live:
    return Live(kafka_broker, lake_location, tmp_path)


def stored(live: Live, kafka_partition: int, end: int) -> None:
    number = live.pipeline.grid.number(live.began)
    store_raw(live.pipeline, kafka_partition, number, 0, 0, offsets=OffsetRange(0, end))
    assert live.pipeline.ledger.raw_windows()[-1].window == window(number)


def test_lag_and_time_to_loss(live: Live) -> None:
    broker = open_broker(live.pipeline)
    assert isinstance(broker, BrokerAdmin)
    stored(live, 0, 50)
    stored(live, 1, 60)
    behind, level = find_topic_state(impatient(live.pipeline), broker).partitions
    assert (behind.watermark.high, behind.lag_messages, behind.committed) == (60, 10, None)
    assert behind.unread.first_time == live.began + 50 * MINUTE
    assert behind.loss.remaining is not None
    assert timedelta(hours=23, minutes=49) < behind.loss.remaining < timedelta(hours=23, minutes=51)
    assert (level.lag_messages, level.loss.state) == (0, LossState.NOTHING_UNREAD)


def test_messages_deleted_before_they_were_stored_are_lost(live: Live, kafka_broker: Broker) -> None:
    stored(live, 0, 20)
    stored(live, 1, 40)
    before = find_topic_state(live.pipeline, open_broker(live.pipeline))
    kafka_broker.delete_records(live.name, {0: 30, 1: 30})
    state = find_topic_state(live.pipeline, open_broker(live.pipeline), oldest=before.oldest)
    lost, safe = state.partitions
    assert (lost.loss.state, lost.loss.lost) == (LossState.LOST, (OffsetRange(20, 30),))
    assert safe.loss.state is LossState.SAFE
    assert state.unknown == ()
    assert not safe.loss.by_size, "the broker says that it never deletes by size"


def test_the_group_is_committed_and_seen(live: Live) -> None:
    without_checkpoints = live.pipeline.settings.model_copy(update={"format": "drs-json-c"})
    pipeline = Pipeline(without_checkpoints, live.pipeline.source, live.pipeline.lake)
    stored(live, 0, 50)
    (raw,) = pipeline.ledger.raw_windows()
    row = IngestWindow(
        0, raw.window, 0, raw.offsets, Counts(), None, None, (), ClosedBy.OPEN, Completeness.OBSERVED, (), "1", "g", ()
    )
    pipeline.ledger.replace_windows([row.cell], [row])
    broker = open_broker(pipeline)
    assert broker is not None
    assert commit_group(pipeline, broker).after == {0: 50}
    assert commit_group(pipeline, broker).after == {}
    assert broker.committed() == {0: 50, 1: None}
    assert [one.committed for one in find_topic_state(pipeline, broker).partitions] == [50, None]
