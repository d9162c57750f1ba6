"""A Kafka topic, or several, as a source: bounded offset ranges, watermarks, offsets for a time.

A broker's answers about times cover its whole log: the markers that end transactions count as messages dated when the transaction
ended, although no reader ever gets them. So a boundary may be the offset of a marker; it is as good as any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.admin import OffsetSpec

from dts_assets.errors.sources import UnsupportedByBrokerError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.kafka_client import EARLIEST, GREATEST_TIME, LATEST, Client, Dated, client_of
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_reader import record_batches
from dts_assets.sources.kafka_times import MessageTimes, Stamps
from dts_assets.sources.milliseconds import ceiling_of, floor_of, instant_of

if TYPE_CHECKING:
    from dts_assets.settings.sources import Kafka

_LAST_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The committed messages of a subscription's topics.

    ``patience`` is the time that a read waits for a broker that is away, in seconds; every other question is answered, or is an
    error, within a few. All methods raise BrokerErrors; a retriable one says that a repetition may succeed later.
    """

    place: KafkaPlace
    patience: float = field(default=60.0, kw_only=True)

    @classmethod
    def of(cls, kafka: Kafka, partitions: int) -> KafkaSource:
        """Return the source that a configuration names."""
        return cls(KafkaPlace.of(kafka, partitions))

    def check(self) -> None:
        """Ask the broker for the topics, so that a fault of broker or settings is raised."""
        client_of(self.place).look()

    def counts(self) -> dict[str, int]:
        """Ask the broker how many partitions each topic has, whatever the settings say."""
        return client_of(self.place).counts()

    def topics(self) -> tuple[tuple[str, int], ...]:
        """Return the topics with their numbers of partitions, in the order listed: ``(("shop", 4), ("shop-ddl", 1))``.

        A single topic has as many as the settings say, and nobody is asked.
        """
        if len(self.place.topics) == 1:
            return ((self.place.topics[0], self.place.partitions),)
        numbered = Counter(topic for topic, _ in client_of(self.place).layout())
        return tuple((topic, numbered[topic]) for topic in self.place.topics)

    def watermarks(self) -> Mapping[int, Watermark]:
        """Return the offsets, the time of the first message and the greatest time, by Kafka partition."""
        client = client_of(self.place)
        every = range(self.place.partitions)
        low, high, first = client.offsets([dict.fromkeys(every, spec) for spec in (EARLIEST, LATEST, _dated_from(0))])
        greatest = _greatest_times(client, first)
        return {
            number: Watermark(
                low[number].offset,
                high[number].offset,
                instant_of(first[number].time) if first[number].offset >= 0 else None,
                instant_of(greatest[number]) if number in greatest else None,
            )
            for number in every
        }

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return datetime.now(UTC)

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        """Return the first offset dated in ``[instant, not_after]``; None if there is none yet."""
        question = (kafka_partition, instant)
        return self.offsets_for_times([question], not_after=not_after)[question]

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> dict[tuple[int, datetime], int | None]:
        """Return :meth:`offset_for_time` of many (Kafka partition, instant) pairs, in a few round trips."""
        client, latest = client_of(self.place), floor_of(not_after)
        questions = tuple(questions)
        asked: dict[int, list[int]] = {}
        for number, earliest in sorted({(number, ceiling_of(instant)) for number, instant in questions}):
            asked.setdefault(number, []).append(earliest)
        rounds = [
            {number: instants[at] for number, instants in asked.items() if at < len(instants)}
            for at in range(max(map(len, asked.values()), default=0))
        ]
        answers = client.offsets(
            [{number: _dated_from(earliest) for number, earliest in one.items()} for one in rounds]
        )
        found: dict[tuple[int, int], Dated] = {
            (number, one[number]): dated
            for one, given in zip(rounds, answers, strict=True)
            for number, dated in given.items()
        }
        offsets = self._read_past(client, found, latest)
        return {question: offsets[question[0], ceiling_of(question[1])] for question in questions}

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        """Return the offsets in the range whose messages are dated after ``instant``.

        Messages are read only if there may be such.
        """
        client, earliest = client_of(self.place), floor_of(instant) + 1
        if not len(offsets):
            return ()
        (answer,) = client.offsets([{kafka_partition: _dated_from(earliest)}])
        first = answer[kafka_partition].offset
        if first < 0 or first >= offsets.end:
            return ()
        _, high = client.bounds(kafka_partition)
        asked = OffsetRange(max(first, offsets.start), min(high, offsets.end))
        return tuple(self._dated(client, kafka_partition, asked, earliest, _LAST_TIME)) if len(asked) else ()

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a range in offset order, as batches of about 8 MB, without aborted messages.

        Raises:
            MessagesGoneError: The broker does not have the whole range.
            UnreachableBrokerError: The broker is away for longer than the patience lasts.
        """
        client = client_of(self.place)
        place = client.located(kafka_partition)
        yield from record_batches(place, self._messages(client, kafka_partition, offsets))

    def _messages(self, client: Client, kafka_partition: int, offsets: OffsetRange) -> Iterator[list[Message]]:
        if not len(offsets):
            return
        place = client.located(kafka_partition)
        with client.reader() as reader:
            yield from reader.messages(
                place, offsets, bounds=lambda: client.bounds(kafka_partition), patience=self.patience
            )

    def _read_past(
        self, client: Client, found: Mapping[tuple[int, int], Dated], latest: int
    ) -> dict[tuple[int, int], int | None]:
        """Return the offsets of the messages that the broker found, None for a question without one.

        Behind a message that is dated after ``latest``, messages are read to find the first that is not.
        """
        offsets: dict[tuple[int, int], int | None] = {}
        behind: dict[int, list[int]] = {}
        for (number, earliest), dated in found.items():
            believed = dated.offset >= 0 and dated.time <= latest
            offsets[number, earliest] = dated.offset if believed else None
            if dated.offset >= 0 and not believed and earliest <= latest:
                behind.setdefault(number, []).append(earliest)
        for number, instants in behind.items():
            start = min(found[number, earliest].offset for earliest in instants)
            _, high = client.bounds(number)
            for earliest in instants:
                asked = OffsetRange(max(start, found[number, earliest].offset), high)
                there = self._dated(client, number, asked, earliest, latest, kept_from=start) if len(asked) else []
                offsets[number, earliest] = there[0] if there else None
        return offsets

    def _dated(
        self,
        client: Client,
        kafka_partition: int,
        offsets: OffsetRange,
        earliest: int,
        latest: int,
        *,
        kept_from: int | None = None,
    ) -> list[int]:
        """Return the offsets of a range dated in ``[earliest, latest]``.

        Times that are read are kept with the connection.
        """

        def stamps(unknown: OffsetRange) -> Stamps:
            for some in self._messages(client, kafka_partition, unknown):
                yield [(int(message.offset() or 0), int(message.timestamp()[1])) for message in some]

        with client.lock_of(kafka_partition):
            times = client.times.setdefault(kafka_partition, MessageTimes())
            times.cover(OffsetRange(offsets.start if kept_from is None else kept_from, offsets.end), stamps)
            return [int(offset) for offset in times.dated(offsets, earliest, latest)]


def _greatest_times(client: Client, first: Mapping[int, Dated]) -> dict[int, int]:
    """Return the greatest message time of each Kafka partition that has messages.

    Brokers from 3.0 on name the message, although it may be deleted already; older ones refuse the question or answer it with the
    first message. So the answer counts if it is behind the first message, and else the time is searched for, which takes a single
    question if the first message is the latest.
    """
    holding = [number for number, dated in first.items() if dated.offset >= 0]
    known: dict[int, int] = {}
    if client.knows_greatest_time and holding:
        try:
            (named,) = client.offsets([{number: GREATEST_TIME for number in holding}])
        except UnsupportedByBrokerError:
            client.knows_greatest_time = False
        else:
            known = {number: dated.time for number, dated in named.items() if dated.offset > first[number].offset}
    return known | _searched(client, {number: first[number].time for number in holding if number not in known})


def _searched(client: Client, times: Mapping[int, int]) -> dict[int, int]:
    """Return the greatest message times, found by asking for messages after ever nearer instants.

    ``times`` are the times of messages that are there.
    """
    least = dict(times)
    beyond: dict[int, int] = {}
    step = dict.fromkeys(least, 1)
    while waiting := [number for number, time in least.items() if beyond.get(number, _LAST_TIME) - time > 1]:
        asked = {
            number: (least[number] + beyond[number]) // 2
            if number in beyond
            else min(least[number] + step[number], _LAST_TIME)
            for number in waiting
        }
        (found,) = client.offsets([{number: _dated_from(instant) for number, instant in asked.items()}])
        for number, dated in found.items():
            if dated.offset < 0:
                beyond[number] = asked[number]
            else:
                least[number] = max(asked[number], dated.time)
                step[number] *= 16
    return least


def _dated_from(milliseconds: int) -> OffsetSpec:
    spec: OffsetSpec = OffsetSpec.for_timestamp(milliseconds)
    return spec
