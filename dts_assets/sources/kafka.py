"""A Kafka topic, or several, as a source: bounded offset ranges, watermarks, offsets for a time.

What a broker says of times is said of everything in its log: the markers that end transactions count as messages dated when the
transaction ended, although nobody ever gets to read them. A boundary may so be the offset of a marker; it is a boundary as good
as any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.admin import OffsetSpec

from dts_assets.errors import UnsupportedByBrokerError
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.sources.kafka_client import EARLIEST, GREATEST_TIME, LATEST, Client, Dated, KafkaPlace, client_of
from dts_assets.sources.kafka_reader import record_batches
from dts_assets.sources.kafka_times import MessageTimes, Stamps

if TYPE_CHECKING:
    from dts_assets.settings.models import Kafka

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_JUST_UNDER_A_MILLISECOND = timedelta(microseconds=999)
_LAST_TIME = 2**62


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The committed messages of a subscription's topics. ``patience``: how long a read waits for a broker that is away, in
    seconds; every other question is answered, or is an error, within a few.

    All methods raise BrokerError and what is below it. ``UnreachableBrokerError.retriable`` says that the same may succeed later.
    """

    place: KafkaPlace
    patience: float = field(default=60.0, kw_only=True)

    @classmethod
    def of(cls, kafka: Kafka, partitions: int) -> KafkaSource:
        """The source that a configuration names."""
        return cls(KafkaPlace.of(kafka, partitions))

    def check(self) -> None:
        """Ask the broker for the topics now. Raises the error that says what is wrong with it or with the settings."""
        client_of(self.place).look()

    def watermarks(self) -> Mapping[int, Watermark]:
        """Per Kafka partition the offsets that are there, the time of the first message and the greatest time of any."""
        client = client_of(self.place)
        every = range(self.place.partitions)
        low, high, first = client.offsets([dict.fromkeys(every, spec) for spec in (EARLIEST, LATEST, _dated_from(0))])
        greatest = _greatest_times(client, first)
        return {
            number: Watermark(
                low[number].offset,
                high[number].offset,
                _instant(first[number].time) if first[number].offset >= 0 else None,
                _instant(greatest[number]) if number in greatest else None,
            )
            for number in every
        }

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC)

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        """The first offset dated in ``[instant, not_after]``; None if there is none yet."""
        question = (kafka_partition, instant)
        return self.offsets_for_times([question], not_after=not_after)[question]

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> dict[tuple[int, datetime], int | None]:
        """:meth:`offset_for_time` for many (Kafka partition, instant) pairs in a few round trips."""
        client, latest = client_of(self.place), _floor(not_after)
        questions = tuple(questions)
        asked = sorted({(number, _ceiling(instant)) for number, instant in questions})
        rounds: list[dict[int, int]] = []
        turn: dict[int, int] = {}
        for number, earliest in asked:
            at = turn[number] = turn.get(number, -1) + 1
            if at == len(rounds):
                rounds.append({})
            rounds[at][number] = earliest
        answers = client.offsets(
            [{number: _dated_from(earliest) for number, earliest in one.items()} for one in rounds]
        )
        found: dict[tuple[int, int], Dated] = {
            (number, one[number]): dated
            for one, given in zip(rounds, answers, strict=True)
            for number, dated in given.items()
        }
        offsets = self._read_past(client, found, latest)
        return {question: offsets[question[0], _ceiling(question[1])] for question in questions}

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        """Offsets in the range whose messages are dated after ``instant``. Messages are read only if there may be some."""
        client, earliest = client_of(self.place), _floor(instant) + 1
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
        """The messages of a range in offset order, as batches of about 8 MB: aborted ones are left out.

        Raises MessagesGoneError if the broker does not have the whole range, UnreachableBrokerError if it is away for longer than
        the patience lasts.
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
        """The offsets of what the broker found; behind one that is dated after ``latest`` messages are read to find the first
        that is not."""
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
        """The offsets of a range dated in ``[earliest, latest]``; what was read for it is kept with the connection."""

        def stamps(unknown: OffsetRange) -> Stamps:
            for some in self._messages(client, kafka_partition, unknown):
                yield [(int(message.offset() or 0), int(message.timestamp()[1])) for message in some]

        with client.lock_of(kafka_partition):
            times = client.times.setdefault(kafka_partition, MessageTimes())
            times.cover(OffsetRange(offsets.start if kept_from is None else kept_from, offsets.end), stamps)
            return [int(offset) for offset in times.dated(offsets, earliest, latest)]


def _greatest_times(client: Client, first: Mapping[int, Dated]) -> dict[int, int]:
    """The greatest message time of each Kafka partition that has messages.

    Brokers from 3.0 on name the message, although it may be deleted already; older ones refuse the question or take it for one
    about the first message. So the answer counts if it is behind the first one, and else the time is searched for, which takes a
    single question if the first message is the one.
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
    """The greatest message times by asking for messages after ever nearer instants. ``times`` are of messages that are there."""
    least = dict(times)
    beyond: dict[int, int] = {}
    step = dict.fromkeys(least, 1)
    while waiting := [number for number, time in least.items() if beyond.get(number, _LAST_TIME) - time > 1]:
        asked = {
            number: (least[number] + beyond[number]) // 2 if number in beyond else least[number] + step[number]
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


def _instant(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _floor(instant: datetime) -> int:
    return (instant - _EPOCH) // _MILLISECOND


def _ceiling(instant: datetime) -> int:
    return (instant + _JUST_UNDER_A_MILLISECOND - _EPOCH) // _MILLISECOND
