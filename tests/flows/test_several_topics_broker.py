"""Several topics of a real broker: the tables of a recording of them, and topics that change under the lake."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from dts_assets.errors.sources import PartitionCountError, UnknownTopicError
from dts_assets.errors.topics import OtherTopicsError
from dts_assets.flows.pipeline import Pipeline, open_source, topics_of
from dts_assets.model.offsets import OffsetRange
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources import kafka_client
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.sources.kafka_group import GroupOffsets
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.recorder import record
from dts_assets.store.lake import Lake
from dts_emulator.drs.drs_task import produce_drs
from dts_emulator.kafka.private_broker import Broker
from dts_emulator.kafka.topic_producer import Topic
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Transaction
from tests.flows.harness import Bench, Harness
from tests.flows.history import EVERY, START, border
from tests.flows.test_several_topics import (
    OPTIONS,
    assert_as_the_database,
    capture_of,
    dump,
    opened,
    server,
    transactions,
)

__all__ = ["dump", "server", "transactions"]

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.kafka, pytest.mark.more]


@pytest.fixture
def messages(transactions: list[Transaction]) -> list[Message]:
    """A task's messages in topics of this test alone."""
    prefix = f"t{uuid4().hex[:8]}"
    options = replace(OPTIONS, topic_policy=1, topic_template=f"{prefix}.$database$-$tablename$")
    return list(produce_drs(transactions, options))


def produced(broker: Broker, messages: Sequence[Message]) -> tuple[str, ...]:
    """The topics that a task makes on the broker, with its messages in them."""
    topic = Topic("never-made", OPTIONS.partitions, broker.client_config(), threading.Event(), several=True)
    topic.check()
    for message in messages:
        topic.send(message)
    assert topic.flush(30)
    assert sum(topic.acknowledged) == len(messages)
    return tuple(sorted({one.topic for one in messages if one.topic is not None}))


def subscribed(broker: Broker, topics: Sequence[str], *, name: str, folder: Path, partitions: int) -> Subscription:
    config = broker.client_config("SASL_PLAINTEXT")
    kafka: dict[str, Any] = {
        "bootstrap_servers": config.pop("bootstrap.servers"), "topics": list(topics), "group_id": f"{topics[0]}-group",
        "config": config,
    }  # fmt: skip
    return Subscription.model_validate(
        {
            "format": "drs-json-c", "source": {"kafka": kafka}, "partitions": partitions, "source_time_zone": "+00:00",
            "window": {"every": EVERY, "start": START, "end": border(4)}, NAME_KEY: name, FOLDER_KEY: folder,
        }
    )  # fmt: skip


def harness_of(bench: Bench, subscription: Subscription) -> Harness:
    return Harness(Pipeline(subscription, open_source(subscription), Lake(bench.location)), bench.session)


@pytest.mark.more
def test_topics_of_a_broker_and_a_recording_of_them_give_the_same(
    bench: Bench,
    kafka_broker: Broker,
    tmp_path: Path,
    messages: list[Message],
    dump: Path,
) -> None:
    topics = produced(kafka_broker, messages)
    partitions = len(topics) * OPTIONS.partitions
    subscription = subscribed(kafka_broker, topics, name="broker_topics", folder=tmp_path, partitions=partitions)
    live = harness_of(bench, subscription)
    live.settle()
    assert_as_the_database(live, dump)
    counted = topics_of(subscription, live.pipeline.source)
    assert counted == tuple((topic, OPTIONS.partitions) for topic in topics)
    folder = tmp_path / "recording"
    recorded = record(live.pipeline.source, partitions, folder, topics=counted)
    assert sum(recorded.messages.values()) == len(messages)
    assert not record(live.pipeline.source, partitions, folder, topics=counted).messages, "nothing twice"
    there = CaptureSource(str(folder), partitions, topics=counted)
    for number in range(partitions):
        mark = there.watermarks()[number]
        offsets = OffsetRange(mark.low, mark.high)
        read, sent = (
            [row for batch in source.read(number, offsets) for row in batch.to_pylist()]
            for source in (there, live.pipeline.source)
        )
        assert read == sent
    again = opened(bench, folder, dict(counted), window={"end": border(4)})
    again.settle()
    assert again.everything(without=("closed_by",)) == live.everything(without=("closed_by",))
    written, _ = capture_of(tmp_path / "written", messages)
    twin = opened(bench, written, dict(counted), window={"end": border(4)})
    twin.settle()
    assert twin.everything(without=("headers",)) == again.everything(without=("headers",))


def test_the_group_is_moved_in_every_topic(kafka_broker: Broker, tmp_path: Path, messages: list[Message]) -> None:
    topics = produced(kafka_broker, messages)
    partitions = len(topics) * OPTIONS.partitions
    subscription = subscribed(kafka_broker, topics, name="grouped", folder=tmp_path, partitions=partitions)
    assert subscription.source.kafka is not None
    group = GroupOffsets(KafkaPlace.of(subscription.source.kafka, partitions))
    group.commit({0: 1, partitions - 1: 2})
    committed = group.committed()
    assert (committed[0], committed[1], committed[partitions - 1]) == (1, None, 2)


@pytest.mark.more
def test_a_topic_that_gets_partitions_is_refused_whatever_the_settings_say(
    bench: Bench, kafka_broker: Broker, tmp_path: Path, messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_client, "_LAYOUT_SECONDS", 0.0)
    topics = produced(kafka_broker, messages)
    partitions = len(topics) * OPTIONS.partitions
    name = f"grown_{uuid4().hex[:8]}"

    def of(count: int, listed: Sequence[str] = topics) -> Harness:
        return harness_of(bench, subscribed(kafka_broker, listed, name=name, folder=tmp_path, partitions=count))

    of(partitions).settle()
    with pytest.raises(OtherTopicsError, match="List these first, in this order"):
        of(partitions, topics[::-1]).raw(0)
    admin = AdminClient({**kafka_broker.client_config()})
    admin.create_partitions([NewPartitions(topics[0], 3)])[topics[0]].result(10)
    with pytest.raises(PartitionCountError, match=f"says partitions: {partitions}"):
        of(partitions).raw(0)
    with pytest.raises(OtherTopicsError, match=f"with {partitions + 1} Kafka partitions in all"):
        of(partitions + 1).raw(0)


def test_a_topic_that_is_not_there_yet_is_named(kafka_broker: Broker, tmp_path: Path, messages: list[Message]) -> None:
    topics = produced(kafka_broker, messages)
    missing = f"{topics[0]}-later"
    subscription = subscribed(kafka_broker, [*topics, missing], name="later", folder=tmp_path, partitions=99)
    with pytest.raises(UnknownTopicError, match=f"has no topic {missing}"):
        open_source(subscription).watermarks()


@pytest.mark.long
def test_topics_that_are_added_on_the_broker_join_the_lake(
    bench: Bench,
    kafka_broker: Broker,
    tmp_path: Path,
    messages: list[Message],
    dump: Path,
) -> None:
    topics = produced(kafka_broker, messages)
    order = (*topics[2:], *topics[:2])
    name = f"joined_{uuid4().hex[:8]}"

    def of(count: int) -> Harness:
        partitions = count * OPTIONS.partitions
        return harness_of(
            bench, subscribed(kafka_broker, order[:count], name=name, folder=tmp_path, partitions=partitions)
        )

    of(len(order) - 2).settle()
    joined = of(len(order))
    joined.settle()
    assert_as_the_database(joined, dump)
    with pytest.raises(OtherTopicsError, match="use another subscription name"):
        of(len(order) - 1).raw(0)
