"""A topic in memory that forgets, and what its broker says: for tests of what is lost, without a broker and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dts_assets.errors.sources import BrokerDeniedError, MessagesGoneError
from dts_assets.flows.broker_admin import BrokerAdmin
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.retention import BrokerRetention
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
BROKER = "broker:9092"
NO_LIMIT = BrokerRetention(None, None)


@dataclass
class Topic:
    """By Kafka partition the time of each offset, and how many of the first ones are gone. Answers as KafkaSource does."""

    times: dict[int, list[datetime]]
    clock: datetime = START
    low: dict[int, int] = field(default_factory=dict)
    reads: list[tuple[int, OffsetRange]] = field(default_factory=list)
    value: bytes | None = None

    def send(self, kafka_partition: int, *hours: float) -> None:
        self.times[kafka_partition] += [START + hour * HOUR for hour in hours]

    def watermarks(self) -> Mapping[int, Watermark]:
        return {number: self._mark(number) for number in self.times}

    def now(self) -> datetime:
        return self.clock

    def offset_for_time(self, kafka_partition: int, instant: datetime, *, not_after: datetime) -> int | None:
        there = self._there(kafka_partition)
        return next((offset for offset, time in there if instant <= time <= not_after), None)

    def offsets_for_times(
        self, questions: Iterable[tuple[int, datetime]], *, not_after: datetime
    ) -> dict[tuple[int, datetime], int | None]:
        return {question: self.offset_for_time(*question, not_after=not_after) for question in questions}

    def dated_after(self, kafka_partition: int, offsets: OffsetRange, instant: datetime) -> tuple[int, ...]:
        inside = range(offsets.start, offsets.end)
        return tuple(offset for offset, time in self._there(kafka_partition) if offset in inside and time > instant)

    def read(self, kafka_partition: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        self.reads.append((kafka_partition, offsets))
        mark = self._mark(kafka_partition)
        if len(offsets) and not mark.low <= offsets.start <= offsets.end <= mark.high:
            raise MessagesGoneError(
                BROKER, "shop", kafka_partition=kafka_partition, start=offsets.start, end=offsets.end,
                low=mark.low, high=mark.high,
            )  # fmt: skip
        rows: list[dict[str, Any]] = [
            {"topic": "shop", "partition": kafka_partition, "offset": offset, "timestamp": time, "value": self.value,
             "headers": []}
            for offset, time in self._there(kafka_partition)
            if offset in range(offsets.start, offsets.end)
        ]  # fmt: skip
        yield from pa.Table.from_pylist(rows, MESSAGE_SCHEMA).to_batches()

    def _there(self, kafka_partition: int) -> list[tuple[int, datetime]]:
        return list(enumerate(self.times[kafka_partition]))[self.low.get(kafka_partition, 0) :]

    def _mark(self, kafka_partition: int) -> Watermark:
        there = self._there(kafka_partition)
        times = [time for _, time in there]
        low, high = self.low.get(kafka_partition, 0), len(self.times[kafka_partition])
        return Watermark(low, high, times[0] if times else None, max(times, default=None))


@dataclass
class Broker(BrokerAdmin):
    """What a broker says beside messages; ``denies`` are the questions that the user may not ask."""

    stands: dict[int, int | None] = field(default_factory=dict)
    keeps: BrokerRetention = NO_LIMIT
    denies: Sequence[str] = ()
    commits: list[dict[int, int]] = field(default_factory=list)

    def retention(self) -> BrokerRetention:
        self._allow("retention")
        return self.keeps

    def committed(self) -> Mapping[int, int | None]:
        self._allow("committed")
        return dict(self.stands)

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._allow("commit")
        self.commits.append(dict(offsets))
        self.stands |= offsets

    def _allow(self, question: str) -> None:
        if question in self.denies:
            raise BrokerDeniedError(BROKER, f"ask for {question}")


def open_topic(
    location: LakeLocation, folder: Any, topic: Topic, *, format: str = "dts-protobuf", **settings: Any
) -> Pipeline:
    """A subscription to a topic in memory, with windows of an hour."""
    values = {
        "format": format,
        "source": {"kafka": {"bootstrap_servers": BROKER, "topics": ["shop"], "group_id": "shop-group"}},
        "partitions": len(topic.times),
        "window": {"every": HOUR, "start": START, **settings.pop("window", {})},
        **settings,
    }
    subscription = Subscription.model_validate({**values, NAME_KEY: "shop", FOLDER_KEY: folder})
    return Pipeline(subscription, topic, Lake(location))


def window(number: int) -> Window:
    return Window(START + number * HOUR, START + (number + 1) * HOUR)


def store_raw(pipeline: Pipeline, kafka_partition: int, number: int, start: int, end: int, **facts: Any) -> RawWindow:
    """The mark that raw leaves for a window."""
    last = pipeline.source.times[kafka_partition][end - 1] if end > start else None  # type: ignore[attr-defined]
    row = RawWindow(
        **{
            "kafka_partition": kafka_partition, "window": window(number), "epoch": 0, "offsets": OffsetRange(start, end),
            "closed_by": "message", "messages": end - start, "bytes": 9, "first_time": last, "last_time": last,
            "problems": (), "generation": "r1", "code_version": "1", **facts,
        }
    )  # fmt: skip
    pipeline.ledger.replace_raw_windows([Cell(kafka_partition, window(number))], [row])
    return row


def shared_here(
    _: Any,
    tasks: Sequence[Any],
    split: Callable[[Any, str], Iterable[tuple[int, bytes]]],
    merge: Callable[[int, Iterator[bytes], str], Any],
    *,
    shares: int,
) -> list[Any]:
    """Stands in for ``run_shuffled``: the same work in this process."""
    found: dict[int, list[bytes]] = {}
    for number, task in enumerate(tasks):
        for share, piece in split(task, f"attempt{number}"):
            assert share < shares
            found.setdefault(share, []).append(piece)
    return [merge(share, iter(pieces), f"share{share}") for share, pieces in found.items()]


def here(_: Any, tasks: Sequence[Any], work: Callable[[Any, str], Any], **__: Any) -> list[Any]:
    """Stands in for ``run_tasks``: the same work in this process."""
    return [work(task, f"attempt{number}") for number, task in enumerate(tasks)]
