"""A reader of one partition of a topic between two offsets, which leaves nothing out unnoticed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from dts_assets.errors.sources import BrokerError, MessagesGoneError, UnreachableBrokerError
from dts_assets.model.offsets import OffsetRange
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.sources.kafka_errors import ConnectionErrors, error_of
from dts_assets.sources.milliseconds import column_of

BATCH_BYTES = 8 << 20
"""The size of a batch of messages, about."""

_MOST_MESSAGES = 100
"""Messages asked of the library at a time.

More live objects than a few hundred wake Python's garbage collector again and again: with 8192 at a time, small messages took two
and a half times the processor time.
"""

_ROW_BYTES = 128
_WAIT = 0.1
"""Seconds that a call to the library waits for messages, which bounds the number that it gives."""

_LOOK_EVERY = 2.0
"""Seconds without a message after which the broker is asked whether all is well."""

REFUSED_SECONDS = 10.0
"""The longest time for which the broker may refuse a range that is being read.

It may do so while it starts again.
"""

_OF_THE_GROUP = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._WAIT_COORD, KafkaError.COORDINATOR_NOT_AVAILABLE}
)
"""Errors of the consumer group, which reading does not need."""


Bounds: TypeAlias = Callable[[], tuple[int, int]]
"""A question put while no message comes: the partition's first offset, and the offset after its last."""


class Reader:
    """A consumer that joins no group, for one range at a time.

    Between ranges it keeps its connection and fetches nothing.
    """

    def __init__(self, settings: dict[str, Any], heard: ConnectionErrors) -> None:
        self._consumer = Consumer({**settings, "error_cb": heard.note})
        self._heard = heard
        self._servers = str(settings["bootstrap.servers"])

    def messages(
        self, place: tuple[str, int], offsets: OffsetRange, *, bounds: Bounds, patience: float
    ) -> Iterator[list[Message]]:
        """Yield the messages of a range in offset order, some at a time.

        ``patience`` is the longest wait for the next message, in seconds. The range is read to its end even where its last
        offsets hold no message: markers of transactions and messages that compaction removed take up offsets.

        Raises:
            MessagesGoneError: The broker does not have the whole range.
            UnreachableBrokerError: No message came for longer than the patience lasts.
            BrokerError: The broker refuses to let the topic be read.
        """
        following, wanted = offsets.start, _MOST_MESSAGES // 4
        progress = looked = time.monotonic()
        refusal = _Refusal(min(REFUSED_SECONDS, patience))
        self._begin(place, following)
        try:
            while following < offsets.end:
                try:
                    some, reached = self._take(min(wanted, offsets.end - following), offsets.end)
                except BrokerError as error:
                    refusal.wait_out(error)
                    self._begin(place, following)
                    continue
                if some:
                    refusal.over()
                    following = int(some[-1].offset() or 0) + 1
                    yield some
                    progress = looked = time.monotonic()  # from now on: whoever took them may have been slow
                    fits = BATCH_BYTES * len(some) // (sum(map(len, some)) + _ROW_BYTES * len(some))
                    wanted = max(1, min(fits, _MOST_MESSAGES))
                if reached is not None and reached >= offsets.end:
                    return
                if reached is not None or time.monotonic() - looked > _LOOK_EVERY:
                    rest = OffsetRange(following, offsets.end)
                    try:
                        self._look(place, rest, bounds, restart=reached == _LOST)
                    except BrokerError as error:
                        refusal.wait_out(error)
                    looked = time.monotonic()
                if time.monotonic() - progress > patience:
                    raise self._heard.unreachable(patience, progress)
        finally:
            self._consumer.unassign()

    def _begin(self, place: tuple[str, int], offset: int) -> None:
        self._consumer.assign([TopicPartition(*place, offset)])

    def _take(self, count: int, end: int) -> tuple[list[Message], int | None]:
        """Return messages before ``end``, and the offset up to which no more follow, if that is known.

        The offset is ``_LOST`` if the library has lost its place.
        """
        given = self._consumer.consume(count, _WAIT)
        if given and not any(map(Message.error, given)) and int(given[-1].offset() or 0) < end:
            return given, None
        some: list[Message] = []
        reached: int | None = None
        for message in given:
            error = message.error()
            if error is None:
                if int(message.offset() or 0) >= end:
                    return some, end
                some.append(message)
                reached = None
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = int(message.offset() or 0)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                reached = _LOST
            elif error.code() in _DECISIVE:
                refusal = error_of(error, self._servers, f"read topic {message.topic()}", str(message.topic()))
                raise refusal
            elif error.code() not in _OF_THE_GROUP:
                self._heard.note(error)
        return some, reached

    def _look(self, place: tuple[str, int], rest: OffsetRange, bounds: Bounds, *, restart: bool) -> None:
        """Ask the broker why no more messages come.

        Raises:
            MessagesGoneError: None ever will.
        """
        try:
            low, high = bounds()
        except UnreachableBrokerError:
            return  # the reader waits on, as long as its patience lasts
        if low > rest.start or high < rest.end:
            topic, number = place
            raise MessagesGoneError(
                self._servers, topic, kafka_partition=number, start=rest.start, end=rest.end, low=low, high=high
            )
        if restart:
            self._begin(place, rest.start)


class _Refusal:
    """The time since a broker has refused a reader."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None

    def wait_out(self, error: BrokerError) -> None:
        """Wait a moment, if the broker may give the error because it restarts.

        Raises:
            BrokerError: The error, if it is none of a restart, or has lasted for longer than the patience.
        """
        now = time.monotonic()
        self._since = self._since or now
        if not error.while_restarting or now - self._since >= self._patience:
            raise error
        time.sleep(_PAUSE)

    def over(self) -> None:
        """Note that the broker gives messages."""
        self._since = None


_PAUSE = 0.5
"""Seconds before a broker that has refused is asked again."""

_LOST = -1
_DECISIVE = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._FATAL,
    }
)
"""Errors of a partition that waiting does not mend."""


def record_batches(place: tuple[str, int], messages: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one partition as batches of :data:`MESSAGE_SCHEMA`, of about :data:`BATCH_BYTES` each."""
    columns = _Columns(place)
    for some in messages:
        for few in _cut(some):
            columns.add(few)
            if columns.size >= BATCH_BYTES:
                yield columns.batch()
                columns = _Columns(place)
    if columns.size:
        yield columns.batch()


def _cut(messages: list[Message]) -> Iterator[list[Message]]:
    """Yield the messages together, or one by one if they are large."""
    if sum(map(len, messages)) < BATCH_BYTES // 4:
        yield messages
    else:
        yield from ([message] for message in messages)


class _Columns:
    """The values of messages by column, so that the messages themselves can go soon."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        self._offsets: list[int | None] = []
        self._times: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._header_ends = [0]
        self._header_names: list[str] = []
        self._header_values: list[bytes | None] = []
        self.size = 0
        """The size in bytes, about."""

    def add(self, messages: list[Any]) -> None:
        """Append some messages, column by column: a loop in Python over messages takes a third longer."""
        self._offsets += map(Message.offset, messages)
        self._times += map(_second, map(Message.timestamp, messages))
        self._keys += map(Message.key, messages)
        self._values += map(Message.value, messages)
        headers = [found or () for found in map(Message.headers, messages)]
        pairs = list(chain.from_iterable(headers))
        self._header_names += map(_first, pairs)
        self._header_values += map(_second, pairs)
        self._header_ends += accumulate(map(len, headers), initial=self._header_ends.pop())
        self.size += sum(map(len, messages)) + _ROW_BYTES * len(messages)

    def batch(self) -> pa.RecordBatch:
        """Return all messages as a batch. A message without headers has an empty list of headers."""
        topic, number = self._place
        count = len(self._offsets)
        pairs = pa.StructArray.from_arrays(
            [pa.array(self._header_names, pa.string()), pa.array(self._header_values, pa.binary())],
            fields=list(_HEADER.type.value_type),
        )
        columns = [
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(number, pa.int32()), count),
            pa.array(self._offsets, pa.int64()),
            column_of(self._times),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.ListArray.from_arrays(pa.array(self._header_ends, pa.int32()), pairs, type=_HEADER.type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


_first, _second = itemgetter(0), itemgetter(1)
_HEADER = MESSAGE_SCHEMA.field("headers")
