"""A Kafka topic as a task writes it: in order, each message once.

The broker may be away for however long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dts_emulator.errors import BrokerUnavailable
from dts_emulator.machine.waiting import wait_for
from dts_emulator.messages.message import Message

_SETTINGS: Mapping[str, str | int | float | bool] = {
    "enable.idempotence": True,
    # A message is not given up while the broker is away, and what waits for it is bounded.
    "message.timeout.ms": 0,
    "queue.buffering.max.kbytes": 65_536,
    "reconnect.backoff.max.ms": 1000,
    # One request for what comes within a twentieth of a second: at 500 row changes per second the broker takes 100 to 150 us of
    # processor time for each, with 5 ms 290 to 400.
    "linger.ms": 50,
    "message.max.bytes": 8_388_608,
    # Each attempt to connect would be a line.
    "log_level": 2,
}

_ANSWER_SECONDS = 30.0
_UNTIL_ANSWERED: dict[str, Any] = {
    "retry": retry_if_exception_type(KafkaException),
    "stop": stop_after_delay(_ANSWER_SECONDS),
    "reraise": True,
}
"""A broker that is starting, or away for a moment, is asked again."""


@dataclass(slots=True)
class Topic:
    """Sends messages to one topic, or to the topics that messages name.

    Such a topic is made when its first message comes. Numbers of messages are counted over all topics together.
    """

    name: str
    partitions: int
    config: Mapping[str, str]
    """The settings that a client needs, in librdkafka's names."""
    ended: threading.Event
    """The event that lets messages be given up that cannot be sent because the broker is away."""
    skew: Callable[[int], int] | None = None
    """From a message's own time to the one that it is given, in milliseconds since the epoch."""
    several: bool = False
    """True if messages name topics of their own."""
    acknowledged: list[int] = field(init=False)
    """By partition, how many messages the broker has."""
    sent: list[int] = field(init=False)
    """By partition, how many were given to :meth:`send`."""
    _producer: Producer = field(init=False)
    _failed: KafkaError | None = field(default=None, init=False)
    _made: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.acknowledged = [0] * self.partitions
        self.sent = [0] * self.partitions
        self._producer = Producer({**_SETTINGS, **self.config, "error_cb": self._error})

    def check(self) -> None:
        """Check that the topic is there and has the partitions that are expected.

        Raises:
            BrokerUnavailable: It cannot be used, has other partitions, or nobody answers.
        """
        if self.several:
            self._metadata()
            return
        found = self._metadata().topics[self.name]
        if found.error is not None:
            raise BrokerUnavailable(f"the topic {self.name} cannot be used: {found.error.str()}")
        if len(found.partitions) != self.partitions:
            raise BrokerUnavailable(
                f"the topic {self.name} has {len(found.partitions)} partitions, not {self.partitions}: "
                "give their number with --partitions"
            )

    def _metadata(self) -> ClusterMetadata:
        """Return the broker's metadata of the topic, asked for until it answers.

        Raises:
            BrokerUnavailable: There is no answer in time, or the broker refuses the task.
        """
        asking = Retrying(**_UNTIL_ANSWERED, after=lambda _: self.poll())
        try:
            found: ClusterMetadata = asking(self._producer.list_topics, self.name, timeout=1)
        except KafkaException as error:
            raise BrokerUnavailable(f"no answer from Kafka: {error.args[0].str()}") from error
        return found

    def last_numbers(self, otherwise: Sequence[int]) -> list[int]:
        """Return the header ``ps`` of the last message of each partition.

        A partition that was never written to has its number of ``otherwise``; where messages are gone, their count is given.

        Raises:
            BrokerUnavailable: There is no answer in time.
        """
        if self.several:  # a task with several topics sends no such header
            return list(otherwise)
        config = {"log_level": 2, **self.config, "group.id": "emulator", "enable.auto.commit": False}
        consumer = Consumer({**config, "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"})
        try:
            return [self._last_number(consumer, number, otherwise[number]) for number in range(self.partitions)]
        except KafkaException as error:
            raise BrokerUnavailable(f"no answer from Kafka: {error.args[0].str()}") from error
        finally:
            consumer.close()

    def _last_number(self, consumer: Consumer, partition: int, otherwise: int) -> int:
        place = TopicPartition(self.name, partition)
        low, high = _watermarks(consumer, place)
        if low == high:
            return max(high, otherwise)
        consumer.assign([TopicPartition(self.name, partition, high - 1)])

        def polled() -> Delivered | None:
            message = consumer.poll(1)
            return None if message is None or message.error() is not None else message

        last = wait_for(polled, seconds=_ANSWER_SECONDS, every=0)
        if last is not None:
            headers = dict(last.headers() or [])
            return int(headers["ps"] or 0) if "ps" in headers else high
        raise BrokerUnavailable(f"the last message of partition {partition} of {self.name} could not be read")

    def send(self, message: Message) -> None:
        """Give a message to be sent, and wait while too many are under way.

        Raises:
            BrokerUnavailable: The task is to end while the broker is away, or the broker refuses the message.
        """
        timestamp = message.timestamp if self.skew is None else self.skew(message.timestamp)
        name = message.topic or self.name
        if message.topic is not None and name not in self._made:
            self._make(name)
        while True:
            try:
                self._producer.produce(
                    name, message.value, message.key, message.partition, self._delivered,
                    timestamp=timestamp, headers=list(message.headers),
                )  # fmt: skip
            except BufferError:
                self.poll(0.1)
                if self.ended.is_set():
                    raise BrokerUnavailable("Kafka is away, and what waits for it was given up") from None
                continue
            self.sent[message.partition] += 1
            return

    def _make(self, name: str) -> None:
        """Make a topic that is not there, as a task of the vendor does.

        Raises:
            BrokerUnavailable: The broker does not make it.
        """
        admin = AdminClient({"log_level": 2, **self.config})  # it must live until its answer is there
        made = admin.create_topics([NewTopic(name, num_partitions=self.partitions)])
        try:
            made[name].result(_ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerUnavailable(f"the topic {name} cannot be made: {error.args[0].str()}") from error
        self._made.add(name)

    def poll(self, seconds: float = 0.0) -> None:
        """Take the answers of the broker.

        Raises:
            BrokerUnavailable: It refuses a message, so that one would be lost.
        """
        self._producer.poll(seconds)
        self._raise_failed()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is delivered; whether it was."""
        left = self._producer.flush(seconds)
        self._raise_failed()
        return left == 0

    def _delivered(self, error: KafkaError | None, message: Delivered) -> None:
        if error is not None:
            self._failed = error
        else:
            self.acknowledged[message.partition() or 0] += 1

    def _error(self, error: KafkaError) -> None:
        # Everything else is a broker that is away, which is waited for.
        if error.fatal() or error.code() == KafkaError._AUTHENTICATION:
            self._failed = error

    def _raise_failed(self) -> None:
        if self._failed is not None:
            raise BrokerUnavailable(f"Kafka refuses the task: {self._failed.str()}")


def _watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Return the first and the next offset of a partition.

    A broker that has just started does not lead the partition yet, and is asked again.
    """
    asking = Retrying(**_UNTIL_ANSWERED, wait=wait_fixed(0.2))
    low, high = asking(consumer.get_watermark_offsets, place, timeout=1, cached=False)
    return low, high
