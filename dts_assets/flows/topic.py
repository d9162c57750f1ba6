"""The state of the topic: how far the lake is behind, and which unread messages are in danger.

The source and the ledger are asked. A few messages of each Kafka partition are read at most, and Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from dts_assets.errors.sources import SourceError
from dts_assets.flows.broker_admin import BrokerAdmin
from dts_assets.flows.looks import RawMarks, raw_marks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import refuse_other_topic
from dts_assets.model.ledger_rows import RawWindow
from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.problems import ProblemCode
from dts_assets.model.windows import Window
from dts_assets.planning.loss import (
    FOR_EVER,
    Keeping,
    Loss,
    LossState,
    OldestSeen,
    Unread,
    judge_loss,
    keeping,
    look_at_oldest,
    unread_ranges,
    worst,
)

_LOOK_AHEAD = (1, 1_000)
"""The numbers of offsets among which the first unread message is looked for, one after the other.

It mostly stands at the very first offset, but markers of transactions take offsets too.
"""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One Kafka partition of the topic.

    ``stored_end`` is the offset behind the last stored message (None: nothing is stored), ``stored_until`` that message's time;
    ``committed`` the next offset that the consumer group would read.
    """

    kafka_partition: int
    watermark: Watermark
    stored_end: int | None
    stored_until: datetime | None
    unread: Unread
    committed: int | None
    loss: Loss

    @property
    def lag_messages(self) -> int:
        """The number of offsets that are there and were never stored."""
        return self.unread.count - sum(map(len, self.loss.lost))

    def lag_seconds(self, now: datetime) -> float:
        """Return the seconds since the time of the first message that is there and was never stored."""
        return 0.0 if self.unread.first_time is None else max(0.0, (now - self.unread.first_time).total_seconds())

    @property
    def behind_seconds(self) -> float | None:
        """The seconds from the last stored message to the last one in the topic.

        Both count by their own times; None while either is missing.
        """
        if self.watermark.latest is None or self.stored_until is None:
            return None
        return max(0.0, (self.watermark.latest - self.stored_until).total_seconds())


@dataclass(frozen=True, slots=True)
class NamedGap:
    """Messages that the topic had deleted before they were stored, as the ledger names them."""

    kafka_partition: int
    window: Window
    offsets: OffsetRange


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one instant.

    ``gaps`` are the gaps that were named within the last lifetime of messages; ``oldest`` is handed to the next look.
    ``unknown`` are sentences about the questions that the broker did not answer.
    """

    now: datetime
    partitions: tuple[PartitionState, ...]
    kept: Keeping
    gaps: tuple[NamedGap, ...]
    oldest: Mapping[int, OldestSeen]
    unknown: tuple[str, ...]

    @property
    def state(self) -> LossState:
        """The worst of all Kafka partitions."""
        return worst(partition.loss.state for partition in self.partitions)

    @property
    def lag_seconds(self) -> float:
        """The longest ``lag_seconds`` of all Kafka partitions."""
        return max((partition.lag_seconds(self.now) for partition in self.partitions), default=0.0)

    @property
    def remaining(self) -> timedelta | None:
        """The least time that is left; None where nothing is about to be deleted unread."""
        return min((one.loss.remaining for one in self.partitions if one.loss.remaining is not None), default=None)


def find_topic_state(
    pipeline: Pipeline, broker: BrokerAdmin | None = None, *, oldest: Mapping[int, OldestSeen] = {}
) -> TopicState:
    """Return the topic as it is now.

    ``broker`` is None for a recording, ``oldest`` is that of the state before.

    Raises:
        SourceError: The source does not answer.
        RecreatedTopicError: The topic ends before an offset that is stored.
        CaptureGrownError: A capture that is declared complete has grown.
    """
    marks = raw_marks(pipeline)  # first: a run may store more after the watermarks are read
    watermarks = pipeline.source.watermarks()
    now = pipeline.source.now() or datetime.now(UTC)
    unknown: list[str] = []
    said, committed = None, None
    if broker is not None:
        said = _answer(broker.retention, "how long the broker keeps messages", unknown)
        committed = _answer(broker.committed, "where the consumer group stands", unknown)
    kept = FOR_EVER if pipeline.settings.source.capture is not None else keeping(pipeline.settings.retention, said)
    rows = _latest_rows(pipeline, marks, kept, now)
    refuse_other_topic(pipeline, (row for mine in rows.values() for row in mine), watermarks)
    first = pipeline.first_window()
    seen: dict[int, OldestSeen] = {}
    partitions = []
    for number in pipeline.kafka_partitions:
        mark, mine = watermarks[number], rows[number]
        unread = _unread(pipeline, number, mark, mine, first=first, now=now, settled=marks.begin.first is not None)
        seen[number] = look_at_oldest(oldest.get(number), mark, kept=kept, now=now)
        partitions.append(
            PartitionState(
                number,
                mark,
                max((row.offsets.end for row in mine), default=None),
                max((row.last_time for row in mine if row.last_time is not None), default=None),
                unread,
                (committed or {}).get(number),
                judge_loss(unread, mark, kept=kept, oldest=seen[number], now=now),
            )
        )
    gaps = [gap for mine in rows.values() for gap in _gaps(mine, kept, now)]
    gaps.sort(key=lambda gap: (gap.window, gap.kafka_partition))
    return TopicState(now, tuple(partitions), kept, tuple(gaps), seen, tuple(unknown))


def _latest_rows(pipeline: Pipeline, marks: RawMarks, kept: Keeping, now: datetime) -> dict[int, list[RawWindow]]:
    """Return the marks of raw on which the state of the topic depends, by Kafka partition.

    They are in offset order. Settled days are left out before all gaps that are news, and before the last message of each Kafka
    partition. No offset of theirs is missing: their first row begins where all earlier ones are stored.
    """
    if marks.begin.first is None:
        return pipeline.by_partition(marks.of_days())
    oldest = now if kept.age is None else now - 2 * kept.age
    back = 1
    while True:
        since = max(marks.begin.first - 1 - back, min(marks.stored.files))
        rows = pipeline.by_partition(marks.of_days(since=since))
        if since == min(marks.stored.files) or all(_is_enough(mine, oldest) for mine in rows.values()):
            return rows
        back *= 2


def _is_enough(rows: Sequence[RawWindow], oldest: datetime) -> bool:
    """Return whether rows of a Kafka partition have a message from before an instant.

    They need not where there never was a message.
    """
    return any(row.first_time is not None and row.first_time < oldest for row in rows) or (
        bool(rows) and rows[-1].offsets.end == 0
    )


def _answer(ask: Callable[[], Answer], about: str, unknown: list[str]) -> Answer | None:
    """Return what the broker answers; None and a sentence in ``unknown`` if it does not."""
    try:
        return ask()
    except SourceError as error:
        unknown.append(f"{about}: {error}")
        return None


def _unread(
    pipeline: Pipeline,
    kafka_partition: int,
    mark: Watermark,
    rows: Sequence[RawWindow],
    *,
    first: datetime | None,
    now: datetime,
    settled: bool,
) -> Unread:
    """Return the messages that were never stored.

    Before the first row there is none if the days before it are ``settled``.
    """
    start: int | None
    if rows and (settled or rows[0].offsets.start <= mark.low or rows[0].window.start == first):
        start = rows[0].offsets.start
    else:  # what lies before the first window was never wanted
        limit = now + pipeline.settings.window.max_clock_skew
        begin = first or pipeline.grid.start
        start = pipeline.source.offset_for_time(kafka_partition, begin, not_after=limit)
    if start is None:
        return Unread((), None)
    offsets = unread_ranges([row.offsets for row in rows], start=start, high=mark.high)
    there = [OffsetRange(max(one.start, mark.low), one.end) for one in offsets if one.end > mark.low]
    return Unread(offsets, _time_of(pipeline, kafka_partition, there[0], mark) if there else None)


def _time_of(pipeline: Pipeline, kafka_partition: int, offsets: OffsetRange, mark: Watermark) -> datetime | None:
    """Return the time of the first message of a range.

    None stands for a range without a message, or for one that goes while it is looked at.
    """
    if offsets.start <= mark.low:
        return mark.earliest
    for many in _LOOK_AHEAD:
        near = OffsetRange(offsets.start, min(offsets.end, offsets.start + many))
        try:
            times = [
                batch["timestamp"][0].as_py() for batch in pipeline.source.read(kafka_partition, near) if len(batch)
            ]
        except SourceError:
            return None
        if times:
            first: datetime = times[0]
            return first.astimezone(UTC)
    return None


def _gaps(rows: Sequence[RawWindow], kept: Keeping, now: datetime) -> Iterable[NamedGap]:
    """Return the gaps that were named within the last lifetime of messages.

    Each stands under the first window that names it. When a gap is named, what comes after it is the oldest that the topic
    has: a lifetime old. So a gap is news until the first message after it is two lifetimes old.
    """
    found: dict[OffsetRange, NamedGap] = {}
    following: datetime | None = None
    for row in reversed(rows):
        following = row.first_time or following
        if kept.age is None or (following is not None and now - following > 2 * kept.age):
            break
        for problem in row.problems:
            if problem.code is ProblemCode.GAP and problem.first_offset is not None and problem.last_offset is not None:
                offsets = OffsetRange(problem.first_offset, problem.last_offset + 1)
                found[offsets] = NamedGap(row.kafka_partition, row.window, offsets)
    return found.values()
