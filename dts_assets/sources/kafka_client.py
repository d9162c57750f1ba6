"""The connection to a Kafka broker, one for each process and configuration.

The client library tells what is wrong with a connection to a callback only, and lets the question itself time out. Here the
callback is heard while a question is open, so that a refused password is an error within two seconds.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from dts_assets.errors.sources import BrokerError, PartitionCountError
from dts_assets.sources import kafka_answers
from dts_assets.sources.kafka_answers import PassingError, answer_of, seconds_left, told
from dts_assets.sources.kafka_errors import OF_THE_CONNECTION, REFUSED_SECONDS, ConnectionErrors
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_reader import Reader
from dts_assets.sources.kafka_times import MessageTimes

Key = TypeVar("Key")
Value = TypeVar("Value")
Place: TypeAlias = tuple[str, int]
"""A topic and the number of a partition in it."""

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
GREATEST_TIME: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

_LAYOUT_SECONDS = 30.0
_AT_ONCE = 64
_NO_MESSAGE = -1
"""The offset that answers a question about a time without a message.

The library gives -1001, and no error, for a partition whose broker it did not reach while that restarted.
"""
_CLIENTS = 8


@dataclass(frozen=True, slots=True)
class Dated:
    """An offset with the time of its message in milliseconds; -1 both where there is none."""

    offset: int
    time: int


class Client:
    """The connection of this process to a place. Its methods may be called from several threads."""

    def __init__(self, place: KafkaPlace) -> None:
        self.place = place
        self.heard = ConnectionErrors(place.servers, dict(place.config))
        self.knows_greatest_time = True
        """False once the broker refused to say the greatest message time, as brokers before 3.0 do."""
        self.times: dict[int, MessageTimes] = {}
        """The message times that had to be read, by our partition number."""
        self._lock = Lock()
        self._locks: dict[int, Lock] = {}
        settings: dict[str, Any] = {**place.settings, "error_cb": self.heard.note}
        self._admin = AdminClient(settings)
        self._readers: list[Reader] = []
        self._member: Consumer | None = None
        self._layout: tuple[Place, ...] = ()
        self._laid_out = float("-inf")

    def layout(self) -> tuple[Place, ...]:
        """Return the topic and partition of each of our Kafka partitions, by number: ``(("shop", 0), ("shop", 1))``."""
        if time.monotonic() - self._laid_out > _LAYOUT_SECONDS:
            self._layout, self._laid_out = self.look(), time.monotonic()
        return self._layout

    def look(self) -> tuple[Place, ...]:
        """Ask the broker for the layout now and return it.

        Raises:
            PartitionCountError: The topics have more or fewer partitions than the settings say.
            UnknownTopicError: There is no such topic.
            BrokerError: See :meth:`ask`.
        """
        topics, counts = self.place.topics, self.counts()
        if sum(counts.values()) != self.place.partitions:
            listed = ", ".join(f"{topic} ({number})" for topic, number in counts.items())
            what = f"topic {topics[0]}" if len(topics) == 1 else f"the topics {listed} together"
            raise PartitionCountError(
                self.place.servers, what, configured=self.place.partitions, found=sum(counts.values())
            )
        return tuple((topic, number) for topic in topics for number in range(counts[topic]))

    def counts(self) -> dict[str, int]:
        """Ask the broker how many partitions each topic has, and return that in the order of the topics.

        Raises:
            UnknownTopicError: There is no such topic.
            BrokerError: See :meth:`ask`.
        """
        topics = self.place.topics
        found = self.ask(
            lambda admin, seconds: admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds),
            "read topic {}",
        )
        return {topic: len(found[topic].partitions) for topic in topics}

    def located(self, kafka_partition: int) -> Place:
        """Return the topic and partition of one of our Kafka partitions. With one topic nobody has to be asked."""
        return (
            (self.place.topics[0], kafka_partition) if len(self.place.topics) == 1 else self.layout()[kafka_partition]
        )

    def offsets(self, questions: Sequence[Mapping[int, OffsetSpec]]) -> list[dict[int, Dated]]:
        """Return the broker's answer to each question, a specification for some of our partitions.

        A question ``{0: EARLIEST, 1: LATEST}`` has an answer ``{0: Dated(5, -1), 1: Dated(90, -1)}``. Only committed messages
        count. Many questions are asked at once.
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

            def is_offset(key: tuple[int, int], answer: Any, some: Sequence[Mapping[int, OffsetSpec]] = some) -> bool:
                return bool(answer.offset >= (0 if some[key[0]][key[1]] in (EARLIEST, LATEST) else _NO_MESSAGE))

            found: list[dict[int, Dated]] = [{} for _ in some]
            doing = f"read {', '.join(self.place.topics)}"
            for (at, number), answer in self.ask(put, doing, is_told=is_offset).items():
                found[at][number] = Dated(answer.offset, answer.timestamp)
            answers += found
        return answers

    def bounds(self, kafka_partition: int) -> tuple[int, int]:
        """Return the first offset of a Kafka partition and the offset after its last committed message."""
        low, high = self.offsets([{kafka_partition: EARLIEST}, {kafka_partition: LATEST}])
        return low[kafka_partition].offset, high[kafka_partition].offset

    def ask(
        self,
        put: Callable[[AdminClient, float], Mapping[Key, Future[Value]]],
        doing: str,
        *,
        refused_for: float = REFUSED_SECONDS,
        is_told: Callable[[Key, Value], bool] = lambda _key, _value: True,
    ) -> dict[Key, Value]:
        """Return the answers to a question by key; the question is put again while its obstacle may pass.

        ``put`` gets the seconds that are left. ``doing`` names the action, "read topic {}", for the error where it is not
        allowed; ``{}`` stands for the key of the answer. A refusal is believed after ``refused_for`` seconds. ``is_told`` says
        whether an answer without an error tells anything.

        Raises:
            BrokerError: There is no answer, or one that is an error. If the connection is the reason, the next question makes
                a new one.
        """

        def attempt(began: float) -> dict[Key, Value]:
            with outliving(self._admin):
                answers = put(self._admin, seconds_left(began))
                self._hear(answers.values(), began)
            wrong = [
                self._told(key, answer.exception(), doing) for key, answer in answers.items() if answer.exception()
            ]
            if wrong:
                self._laid_out = float("-inf")  # partitions may have moved, or the topic is gone
                staying = [problem for problem in wrong if not isinstance(problem, PassingError)]
                raise (staying or wrong)[0]
            found = {key: answer.result() for key, answer in answers.items()}
            if not all(is_told(key, value) for key, value in found.items()):
                raise PassingError(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            return found

        try:
            return answer_of(attempt, self.heard, refused_for=refused_for)
        except BrokerError as error:
            if isinstance(error, OF_THE_CONNECTION):
                forget(self)
            raise

    def _told(self, key: object, problem: object, doing: str) -> PassingError | BrokerError:
        error = problem.args[0] if isinstance(problem, KafkaException) else None
        if not isinstance(error, KafkaError):
            return BrokerError(self.place.servers, f"the client library failed ({problem})")
        what = key if isinstance(key, str) else ", ".join(self.place.topics)
        return told(error, self.place.servers, doing.format(key), what)

    def _hear(self, answers: Iterable[Future[Any]], began: float) -> None:
        """Wait for the answers, and listen meanwhile to the library's errors of the connection."""
        waiting = list(answers)
        while waiting:
            waiting = list(wait(waiting, timeout=0.05).not_done)
            self._admin.poll(0)
            if waiting and (verdict := self.heard.verdict(began)) is not None:
                raise verdict
            if waiting and time.monotonic() - began > kafka_answers.ANSWER_SECONDS:
                raise self.heard.unreachable(kafka_answers.ANSWER_SECONDS, began)

    def lock_of(self, kafka_partition: int) -> Lock:
        """Return the lock of the message times that are kept of a Kafka partition."""
        with self._lock:
            return self._locks.setdefault(kafka_partition, Lock())

    def member(self) -> Consumer:
        """Return a consumer that knows its group and has not joined it. Several threads may use it."""
        with self._lock:
            if self._member is None:
                self._member = Consumer({**self.place.reader_settings, "error_cb": self.heard.note})
            return self._member

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Give a reader to this thread alone; a connected one, if there is one that nobody uses."""
        with self._lock:
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = Reader(self.place.reader_settings, self.heard)
        yield reader
        with self._lock:  # one that failed is not used again
            self._readers.append(reader)


_OPEN_SECONDS = 60.0
"""The time in which every answer of a client comes.

A request ends after seconds, if only by an error.
"""

_with_open_answers: list[tuple[float, AdminClient]] = []
_open_lock = Lock()


@contextmanager
def outliving(admin: AdminClient) -> Iterator[None]:
    """Keep a client that has open answers when this ends by an error.

    Answers come in a thread of the client. If Python's collector happened to run there and to free this very client, the library
    would abort the process.
    """
    try:
        yield
    except BaseException:
        now = time.monotonic()
        with _open_lock:
            _with_open_answers[:] = [(since, one) for since, one in _with_open_answers if now - since < _OPEN_SECONDS]
            _with_open_answers.append((now, admin))
        raise


_clients: OrderedDict[KafkaPlace, Client] = OrderedDict()
_clients_lock = Lock()
_of_the_parent: list[object] = []


def client_of(place: KafkaPlace) -> Client:
    """Return the connection of this process to a place; nobody is asked anything yet.

    Raises:
        BrokerError: The client library refuses the settings.
    """
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
    """Put the next question of this place over a new connection."""
    with _clients_lock:
        if _clients.get(client.place) is client:
            del _clients[client.place]


def _leave_to_the_parent() -> None:
    """Set the parent's connections aside in a forked process, which lacks the threads that serve them.

    They are neither used nor closed.
    """
    global _clients_lock, _open_lock
    _clients_lock, _open_lock = Lock(), Lock()
    _of_the_parent.extend((*_clients.values(), *_with_open_answers))
    _clients.clear()
    _with_open_answers.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
