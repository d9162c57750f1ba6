"""A Kafka topic in memory: offsets, message times, segments that it forgets, and the answers that a broker gives about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from dts_assets.errors.sources import MessagesGoneError, PartitionCountError, UnreachableBrokerError
from dts_assets.flows.broker_admin import BrokerAdmin
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.retention import BrokerRetention
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.wire.format import Checkpoint
from tests.stages.streams import Delivered

BROKER = "broker:9092"
SEGMENT = timedelta(hours=1)
"""After this time a log goes on in another segment; a broker forgets whole segments."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message: a whole entry set, or a part of one. The last part has the entries of the set."""

    offset: int
    time: datetime
    part: int = 0
    parts: int = 1
    entries: tuple[Delivered, ...] = ()
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """The log's first offset moved to ``low``. ``keeps`` is the age at which messages go; None if they went young."""

    at: datetime
    low: int
    keeps: timedelta | None


@dataclass
class Log:
    """One Kafka partition. ``begun`` has when the segment of each message was begun, by the broker's clock."""

    messages: list[Message] = field(default_factory=list)
    begun: list[datetime] = field(default_factory=list)
    low: int = 0
    high: int = 0
    deleted: list[Deletion] = field(default_factory=list)
    markers: set[int] = field(default_factory=set)
    """Offsets without a message."""

    def append(self, message: Message, now: datetime) -> None:
        rolled = not self.begun or now - self.begun[-1] >= SEGMENT
        self.messages.append(message)
        self.begun.append(now if rolled else self.begun[-1])
        self.high = message.offset + 1

    def forget(self, now: datetime, keeps: timedelta) -> None:
        """Delete the segments whose last message is old enough; never the one that is written to."""
        count = 0
        while count < len(self.begun) and self.begun[count] != self.begun[-1]:
            end = count
            while self.begun[end] == self.begun[count]:
                end += 1
            if now - max(one.time for one in self.messages[count:end]) <= keeps:
                break
            count = end
        self.drop(count, now, keeps)

    def drop(self, count: int, now: datetime, keeps: timedelta | None) -> None:
        """Delete the first messages, because of their age or (None) because there are too many."""
        if count:
            self.low = self.messages[count].offset if count < len(self.messages) else self.high
            del self.messages[:count], self.begun[:count]
            self.deleted.append(Deletion(now, self.low, keeps))

    def inside(self, offsets: OffsetRange) -> list[Message]:
        return [one for one in self.messages if offsets.start <= one.offset < offsets.end]


@dataclass
class Topic:
    """The partitions of a topic. ``keeps`` is how long it keeps messages."""

    logs: list[Log]
    keeps: timedelta

    @classmethod
    def of(cls, partitions: int, keeps: timedelta) -> Topic:
        return cls([Log() for _ in range(partitions)], keeps)

    def send(
        self,
        partition: int,
        time: datetime,
        now: datetime,
        *,
        entries: Callable[[int], tuple[Delivered, ...]],
        parts: int = 1,
        checkpoint: Checkpoint | None = None,
        marker: bool = False,
    ) -> None:
        """Append an entry set in some parts; a marker of a transaction takes up the offset behind it."""
        log = self.logs[partition]
        for part in range(parts):
            last = part == parts - 1
            of_set = entries(log.high) if last else ()
            log.append(Message(log.high, time, part, parts, of_set, checkpoint if last else None), now)
        if marker:
            log.markers.add(log.high)
            log.high += 1

    def forget(self, now: datetime) -> None:
        for log in self.logs:
            log.forget(now, self.keeps)


@dataclass(frozen=True)
class TopicSource:
    """The topic as a subscription reads it, on a machine with a clock of its own."""

    topic: Topic
    clock: Callable[[], datetime]
    away: Callable[[], bool]
    partitions: int

    def watermarks(self) -> Mapping[int, Watermark]:
        self._ask()
        return {number: _mark(log) for number, log in enumerate(self.topic.logs)}

    def now(self) -> datetime:
        return self.clock()

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        self._ask()
        there = self.topic.logs[kafka_partition].messages
        return next((one.offset for one in there if instant <= one.time <= not_after), None)

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> dict[tuple[int, datetime], int | None]:
        return {question: self.offset_for_time(*question, not_after=not_after) for question in questions}

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        self._ask()
        return tuple(one.offset for one in self.topic.logs[kafka_partition].inside(offsets) if one.time > instant)

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = [
            {"topic": "shop", "partition": kafka_partition, "offset": one.offset, "timestamp": one.time, "headers": []}
            for one in self.messages(kafka_partition, offsets)
        ]
        yield from pa.Table.from_pylist(rows, MESSAGE_SCHEMA).to_batches()

    def messages(self, kafka_partition: int, offsets: OffsetRange) -> list[Message]:
        """The messages of a range, all of which the broker must have."""
        self._ask()
        log = self.topic.logs[kafka_partition]
        if len(offsets) and not log.low <= offsets.start <= offsets.end <= log.high:
            raise MessagesGoneError(
                BROKER, "shop", kafka_partition=kafka_partition, start=offsets.start, end=offsets.end, low=log.low,
                high=log.high,
            )  # fmt: skip
        return log.inside(offsets)

    def _ask(self) -> None:
        if self.away():
            raise UnreachableBrokerError(BROKER, "it does not answer", seconds=5.0)
        if len(self.topic.logs) != self.partitions:
            raise PartitionCountError(BROKER, "topic shop", configured=self.partitions, found=len(self.topic.logs))


@dataclass
class Group(BrokerAdmin):
    """The consumer group, and what the broker says of its topic."""

    topic: Topic
    away: Callable[[], bool]
    stands: dict[int, int] = field(default_factory=dict)

    def retention(self) -> BrokerRetention:
        self._ask()
        return BrokerRetention(self.topic.keeps, 1 << 30)

    def committed(self) -> Mapping[int, int | None]:
        self._ask()
        return {number: self.stands.get(number) for number in range(len(self.topic.logs))}

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._ask()
        self.stands |= offsets

    def _ask(self) -> None:
        if self.away():
            raise UnreachableBrokerError(BROKER, "it does not answer", seconds=5.0)


def _mark(log: Log) -> Watermark:
    times = [one.time for one in log.messages]
    return Watermark(log.low, log.high, times[0] if times else None, max(times, default=None))
