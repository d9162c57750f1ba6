"""Topics of a real broker for tests: made, filled, and read back as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Producer

from dts_assets.model.offsets import OffsetRange
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_source import KafkaSource
from dts_emulator.kafka.private_broker import Broker

START = datetime(2026, 1, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Sent:
    """A message: ``seconds`` after START is its time, or else its ``stamp``, any number of milliseconds."""

    kafka_partition: int = 0
    seconds: float = 0.0
    value: bytes | None = b"value"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    stamp: int | None = None


def send(broker: Broker, topic: str, messages: Iterable[Sent]) -> None:
    """Produce messages, in order within their partition."""
    settings: dict[str, Any] = {**broker.client_config(), "message.max.bytes": 8_000_000, "enable.idempotence": True}
    producer = Producer(settings)
    put(producer, topic, messages)
    assert producer.flush(30) == 0


def put(producer: Producer, topic: str, messages: Iterable[Sent]) -> None:
    """Hand messages to a producer."""
    for one in messages:
        time = round((START + one.seconds * SECOND).timestamp() * 1000) if one.stamp is None else one.stamp
        while True:
            try:
                producer.produce(
                    topic, one.value, one.key, one.kafka_partition, timestamp=time, headers=list(one.headers)
                )
                break
            except BufferError:
                producer.poll(0.1)


def place(broker: Broker, *topics: str, partitions: int, listener: str = "PLAINTEXT", **changes: str) -> KafkaPlace:
    """Topics over one of the broker's listeners; ``changes`` are client settings with ``_`` for the dots."""
    config = broker.client_config(listener) | {key.replace("_", "."): value for key, value in changes.items()}
    servers = config.pop("bootstrap.servers")
    return KafkaPlace(servers, topics, partitions, None, tuple(sorted(config.items())))


def source(broker: Broker, topic: str, partitions: int = 1, *, patience: float = 20.0) -> KafkaSource:
    """A topic without a login."""
    return KafkaSource(place(broker, topic, partitions=partitions), patience=patience)


def rows(found: KafkaSource, kafka_partition: int, start: int, end: int) -> list[dict[str, Any]]:
    """What a range holds."""
    read: list[dict[str, Any]] = []
    for batch in found.read(kafka_partition, OffsetRange(start, end)):
        assert batch.schema == MESSAGE_SCHEMA
        assert batch.num_rows
        batch.validate(full=True)
        read += batch.to_pylist()
    return read


def offsets(found: KafkaSource, kafka_partition: int, start: int, end: int) -> list[int]:
    """The offsets of a range's messages."""
    return [row["offset"] for row in rows(found, kafka_partition, start, end)]


def at(seconds: float) -> datetime:
    """The time of a message sent with ``seconds``."""
    return START + seconds * SECOND


def numbered(count: int, kafka_partition: int = 0, first: float = 0.0) -> Sequence[Sent]:
    """One message a second."""
    return [Sent(kafka_partition, first + number, b"%d" % number) for number in range(count)]
