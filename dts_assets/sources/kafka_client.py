"""A connection to a Kafka broker: one for each process and configuration, questions with answers within seconds.

The client library tells what is wrong with a connection to a callback only, and lets the question itself time out. Here the
callback is heard while a question is open, so that a refused password is an error of its own after half a second.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from dts_assets.errors import BrokerError, PartitionCountError, UnreachableBrokerError
from dts_assets.sources.kafka_reader import Reader
from dts_assets.sources.kafka_times import MessageTimes
from dts_assets.sources.kafka_troubles import PASSING, Troubles, error_of

if TYPE_CHECKING:
    from dts_assets.settings.models import Kafka

ANSWER_SECONDS = 5.0
"""How long a question may take."""

Key = TypeVar("Key")
Value = TypeVar("Value")
Place: TypeAlias = tuple[str, int]
"""A topic and the number of a partition in it."""

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
GREATEST_TIME: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

_LAYOUT_SECONDS = 30.0
_AT_ONCE = 64
_CLIENTS = 8
_NO_GROUP = "dts-assets"
"""The library wants a group's name even where no group is joined or asked."""

_DEFAULTS = {
    "client.id": "dts-assets",
    "log_level": "0",  # what is wrong is an error here, not a line on stderr
    "fetch.queue.backoff.ms": "5",  # at its default of 1000 a reader that keeps up waits most of the time
    "fetch.wait.max.ms": "10",  # what is read is there; at its default of 500 each range begins with half a second of waiting
    "queued.max.messages.kbytes": "32768",
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}
_FIXED: Mapping[str, Any] = {
    "auto.offset.reset": "error",  # every other value skips deleted messages without a word
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """A broker, the topics of one subscription, and how to connect.

    ``config`` are librdkafka settings as pairs; they may hold a password, so no representation shows them. ``partitions`` is how
    many partitions the topics are said to have together: ours are numbered through them in the order listed.
    """

    servers: str
    topics: tuple[str, ...]
    partitions: int
    group_id: str | None = None
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, kafka: Kafka, partitions: int) -> KafkaPlace:
        """The place that a configuration names."""
        config = tuple(sorted(kafka.config.items()))
        return cls(kafka.bootstrap_servers, kafka.topics, partitions, kafka.group_id, config)

    @property
    def settings(self) -> dict[str, Any]:
        """What every client of this place is made with."""
        given = dict(self.config)
        defaults = {key: value for key, value in _DEFAULTS.items() if not (key == "log_level" and "debug" in given)}
        return {**defaults, **given, "bootstrap.servers": self.servers}

    @property
    def reader_settings(self) -> dict[str, Any]:
        """What a client that reads messages is made with."""
        return {**self.settings, **_FIXED, "group.id": self.group_id or _NO_GROUP}


@dataclass(frozen=True, slots=True)
class Dated:
    """An offset with the time of its message in milliseconds; -1 both where there is none."""

    offset: int
    time: int


class Client:
    """The connection of this process to one place. Its methods may be called from several threads."""

    def __init__(self, place: KafkaPlace) -> None:
        self.place = place
        self.troubles = Troubles(place.servers, dict(place.config))
        self.knows_greatest_time = True
        """Whether the broker answers what the greatest message time is; ones before 3.0 do not."""
        self.times: dict[int, MessageTimes] = {}
        """By our partition number: the message times that had to be read."""
        self._lock = Lock()
        self._locks: dict[int, Lock] = {}
        settings: dict[str, Any] = {**place.settings, "error_cb": self.troubles}
        self._admin = AdminClient(settings)
        self._readers: list[Reader] = []
        self._member: Consumer | None = None
        self._layout: tuple[Place, ...] = ()
        self._laid_out = float("-inf")

    def layout(self) -> tuple[Place, ...]:
        """The topic and partition of each of our Kafka partitions, by number. Raises BrokerError and what is below it."""
        if time.monotonic() - self._laid_out > _LAYOUT_SECONDS:
            self._layout, self._laid_out = self.look(), time.monotonic()
        return self._layout

    def look(self) -> tuple[Place, ...]:
        """The layout, asked for now. Raises UnknownTopicError and PartitionCountError, besides what every question raises."""
        topics = self.place.topics
        found = self.ask(
            lambda admin, seconds: admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds),
            "read topic {}",
        )
        counts = {topic: len(found[topic].partitions) for topic in topics}
        if sum(counts.values()) != self.place.partitions:
            listed = ", ".join(f"{topic} ({number})" for topic, number in counts.items())
            what = f"topic {topics[0]}" if len(topics) == 1 else f"the topics {listed} together"
            raise PartitionCountError(
                self.place.servers, what, configured=self.place.partitions, found=sum(counts.values())
            )
        return tuple((topic, number) for topic in topics for number in range(counts[topic]))

    def located(self, kafka_partition: int) -> Place:
        """The topic and partition of one of ours. With one topic nobody has to be asked."""
        return (
            (self.place.topics[0], kafka_partition) if len(self.place.topics) == 1 else self.layout()[kafka_partition]
        )

    def offsets(self, questions: Sequence[Mapping[int, OffsetSpec]]) -> list[dict[int, Dated]]:
        """What the broker says of each question, a specification for some of our partitions; many are asked at once.

        Offsets are those of committed messages. Raises BrokerError.
        """
        layout, answers = self.layout(), []
        numbers = {place: number for number, place in enumerate(layout)}
        for first in range(0, len(questions), _AT_ONCE):
            some = questions[first : first + _AT_ONCE]

            def put(admin: AdminClient, seconds: float, some: Sequence[Mapping[int, OffsetSpec]] = some) -> Any:
                return {
                    (at, numbers[partition.topic, partition.partition]): answer
                    for at, question in enumerate(some)
                    if question
                    for partition, answer in admin.list_offsets(
                        {TopicPartition(*layout[number]): spec for number, spec in question.items()},
                        isolation_level=IsolationLevel.READ_COMMITTED,
                        request_timeout=seconds,
                    ).items()
                }

            found: list[dict[int, Dated]] = [{} for _ in some]
            for (at, number), answer in self.ask(put, f"read {', '.join(self.place.topics)}").items():
                found[at][number] = Dated(answer.offset, answer.timestamp)
            answers += found
        return answers

    def bounds(self, kafka_partition: int) -> tuple[int, int]:
        """The first offset that is there and the one after the last committed message. Raises BrokerError."""
        low, high = self.offsets([{kafka_partition: EARLIEST}, {kafka_partition: LATEST}])
        return low[kafka_partition].offset, high[kafka_partition].offset

    def ask(self, put: Callable[[AdminClient, float], Mapping[Key, Future[Value]]], doing: str) -> dict[Key, Value]:
        """The answers to a question, put again while what is in the way may pass.

        ``put`` gets the seconds that are left. ``doing`` says what is asked, for the error where it is not allowed; ``{}`` in it
        stands for the key of the answer. Raises BrokerError; after one of a connection the next question makes a new one.
        """
        began = time.monotonic()
        try:
            while True:
                left = began + ANSWER_SECONDS - time.monotonic()
                answers = put(self._admin, max(1.0, left))
                self._hear(answers.values(), began)
                wrong = {key: answer.exception() for key, answer in answers.items() if answer.exception()}
                if not wrong:
                    return {key: answer.result() for key, answer in answers.items()}
                for key, problem in wrong.items():
                    error = problem.args[0] if isinstance(problem, KafkaException) else None
                    if not isinstance(error, KafkaError):
                        raise BrokerError(self.place.servers, f"the client library failed ({problem})")
                    if error.code() not in PASSING:
                        what = key if isinstance(key, str) else ", ".join(self.place.topics)
                        raise error_of(error, self.place.servers, doing.format(key), what)
                    self.troubles.note(error)
                if time.monotonic() - began > ANSWER_SECONDS - 1:
                    raise self.troubles.unreachable(ANSWER_SECONDS, began)
                self._laid_out = float("-inf")  # partitions may have moved, or the topic is gone
                time.sleep(0.1)
        except UnreachableBrokerError:
            forget(self)
            raise

    def _hear(self, answers: Any, began: float) -> None:
        """Wait for the answers, and listen to what the library says of the connection meanwhile."""
        waiting = list(answers)
        while waiting:
            waiting = list(wait(waiting, timeout=0.05).not_done)
            self._admin.poll(0)
            if waiting and (verdict := self.troubles.verdict(began)) is not None:
                forget(self)
                raise verdict
            if waiting and time.monotonic() - began > ANSWER_SECONDS:
                raise self.troubles.unreachable(ANSWER_SECONDS, began)

    def lock_of(self, kafka_partition: int) -> Lock:
        """For what is kept of a Kafka partition."""
        with self._lock:
            return self._locks.setdefault(kafka_partition, Lock())

    def member(self) -> Consumer:
        """A consumer that knows its group and has not joined it, for what only such a one may be asked; several threads may."""
        with self._lock:
            if self._member is None:
                self._member = Consumer({**self.place.reader_settings, "error_cb": self.troubles})
            return self._member

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """A reader for this thread alone; a connected one, if there is one that nobody uses."""
        with self._lock:
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = Reader(self.place.reader_settings, self.troubles)
        yield reader
        with self._lock:  # one that failed is not used again
            self._readers.append(reader)


_clients: OrderedDict[KafkaPlace, Client] = OrderedDict()
_clients_lock = Lock()
_of_the_parent: list[Client] = []


def client_of(place: KafkaPlace) -> Client:
    """The connection of this process to a place; nobody is asked anything yet. Raises BrokerError for unusable settings."""
    with _clients_lock:
        client = _clients.get(place)
        if client is None:
            try:
                client = _clients[place] = Client(place)
            except KafkaException as error:
                raise BrokerError(
                    place.servers, f"the client library refuses the settings ({error.args[0].name()})"
                ) from None
        _clients.move_to_end(place)
        while len(_clients) > _CLIENTS:
            _clients.popitem(last=False)
        return client


def forget(client: Client) -> None:
    """Let the next question of this place be put over a new connection."""
    with _clients_lock:
        if _clients.get(client.place) is client:
            del _clients[client.place]


def _leave_to_the_parent() -> None:
    """A forked process has the parent's connections without the threads that serve them: they are neither used nor closed."""
    global _clients_lock
    _clients_lock = Lock()
    _of_the_parent.extend(_clients.values())
    _clients.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
