"""The time to loss: how long unread messages of a Kafka partition stay in the topic.

A message that the topic deletes before it was stored is gone.
A message lives as long as the topic keeps messages: the shorter of what the configuration says and what the broker says. A broker
that deletes by size forgets sooner. That shows where the first offset moves on although the message there was younger than that;
from then on the age of the oldest message that is still there is how long messages live at the present pace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dts_assets.model.offsets import OffsetRange, Watermark
from dts_assets.model.retention import BrokerRetention

WARN_BELOW = 0.5
"""The share of the lifetime of messages below which a warning comes.

It is compared with the time that is left to the first unread message. Half of the usual 24 hours is 12, a night in which nobody
looks. Windows of a day in such a topic always warn, and rightly: the first message of a day would be read when it is about to
go.
"""


class LossState(StrEnum):
    """The safety of the unread messages of a Kafka partition, safest first."""

    NOTHING_UNREAD = "nothing_unread"
    SAFE = "safe"
    WARNING = "warning"
    LOST = "lost"
    """Messages are gone that were never stored."""

    @property
    def rank(self) -> int:
        """0 for the safest."""
        return list(LossState).index(self)


@dataclass(frozen=True, slots=True)
class Keeping:
    """The time for which messages are kept.

    ``age`` is None for ever; ``by_size`` says whether the topic may delete by size before that.
    """

    age: timedelta | None
    by_size: bool


FOR_EVER = Keeping(None, by_size=False)
"""A recording forgets nothing."""


@dataclass(frozen=True, slots=True)
class OldestSeen:
    """The first message of a Kafka partition as it was at one look.

    ``young`` says that deletion by size was seen since.
    """

    low: int
    time: datetime | None
    young: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """The messages of a Kafka partition that were never stored.

    They are offset ranges, ascending, and the time of the first message that is there.
    """

    offsets: tuple[OffsetRange, ...]
    first_time: datetime | None

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(map(len, self.offsets))


@dataclass(frozen=True, slots=True)
class Loss:
    """The risk that unread messages of a Kafka partition are deleted.

    ``remaining`` is the time until the first unread one may be deleted (never negative), ``lifetime`` how long messages live
    now; both None where nothing is unread or nothing is ever deleted. ``lost`` are the offsets that are gone.
    """

    state: LossState
    remaining: timedelta | None
    lifetime: timedelta | None
    by_size: bool
    lost: tuple[OffsetRange, ...]


def keeping(configured: timedelta, broker: BrokerRetention | None) -> Keeping:
    """Return the time for which messages are kept: the shorter age counts.

    A broker that was not asked may delete by size.
    """
    ages = [configured] + ([] if broker is None or broker.age is None else [broker.age])
    return Keeping(min(ages), by_size=broker is None or broker.bytes is not None)


def unread_ranges(stored: Iterable[OffsetRange], *, start: int, high: int) -> tuple[OffsetRange, ...]:
    """Return the offsets of ``[start, high)`` that no stored range covers."""
    found, at = [], start
    for offsets in sorted(stored):
        if offsets.start > at:
            found.append(OffsetRange(at, min(offsets.start, high)))
        at = max(at, offsets.end)
    found.append(OffsetRange(at, high))
    return tuple(offsets for offsets in found if len(offsets))


def look_at_oldest(before: OldestSeen | None, watermark: Watermark, *, kept: Keeping, now: datetime) -> OldestSeen:
    """Return the oldest message as it is now, and whether the topic is known to delete by size.

    It is if the first message of the look before was deleted younger than any deletion by age would have it, until the first
    message grows as old as that.
    """
    young = False
    if kept.by_size and before is not None and _younger(watermark.earliest, kept.age, now):
        deleted = watermark.low > before.low
        young = before.young or (deleted and _younger(before.time, kept.age, now))
    return OldestSeen(watermark.low, watermark.earliest, young)


def judge_loss(unread: Unread, watermark: Watermark, *, kept: Keeping, oldest: OldestSeen, now: datetime) -> Loss:
    """Return the risk of unread messages.

    Where the time of the first unread one is not known, that of the oldest message stands in.
    """
    below = (OffsetRange(one.start, min(one.end, watermark.low)) for one in unread.offsets)
    lost = tuple(one for one in below if len(one))
    there = unread.count > sum(map(len, lost))
    lifetime = kept.age
    by_size = oldest.young and watermark.earliest is not None
    if by_size and watermark.earliest is not None:
        lifetime = now - watermark.earliest
    first = unread.first_time or watermark.earliest
    remaining = None
    if there and lifetime is not None and first is not None:
        remaining = max((first - now) + lifetime, timedelta())  # a time of the year 9999 plus a lifetime is no date
    if lost:
        state = LossState.LOST
    elif not there:
        state = LossState.NOTHING_UNREAD
    elif remaining is not None and lifetime is not None and remaining < WARN_BELOW * lifetime:
        state = LossState.WARNING
    else:
        state = LossState.SAFE
    return Loss(state, remaining, lifetime if there else None, by_size, lost)


def worst(states: Iterable[LossState]) -> LossState:
    """Return the least safe of some states; nothing unread if there are none."""
    return max(states, key=lambda state: state.rank, default=LossState.NOTHING_UNREAD)


def _younger(time: datetime | None, age: timedelta | None, now: datetime) -> bool:
    return time is not None and (age is None or now - time < age)
