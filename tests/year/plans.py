"""The plan of a seed: which events happen when. Troubles come in crowds, with calm between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

from tests.year.events import Event
from tests.year.operators import (
    Backfill,
    BrokenTable,
    Cancel,
    CursorLost,
    Kill,
    OtherDecoding,
    OtherTypes,
    Pause,
    RunsPurged,
)
from tests.year.troubles import (
    BinlogReset,
    BrokerAway,
    EngineAway,
    FailOver,
    Forgetting,
    LakeBusy,
    Late,
    MachineAway,
    MachineClock,
    MemoryShort,
    MorePartitions,
    NewTopic,
    OtherMachine,
    Restart,
    ShorterRetention,
    Silence,
    Slow,
    SourceClock,
    SummerTime,
    TaskAway,
    TaskClock,
)
from tests.year.world import BEGIN, HOUR

KINDS: tuple[type[Event], ...] = (
    BrokerAway, MachineAway, EngineAway, MemoryShort, LakeBusy, Slow, TaskAway, Silence, FailOver, Restart, BinlogReset,
    TaskClock, SummerTime, SourceClock, MachineClock, OtherMachine, Late, Forgetting, ShorterRetention, Backfill, Kill,
    Cancel, Pause, BrokenTable, OtherTypes, OtherDecoding, CursorLost, RunsPurged, NewTopic, MorePartitions,
)  # fmt: skip

_SPRING, _AUTUMN = (datetime(2026, *day, 1, tzinfo=BEGIN.tzinfo) - BEGIN for day in ((3, 29), (10, 25)))


def plan(seed: int, days: float) -> list[Event]:
    """The events of a seed in order."""
    random = Random(f"plan {seed}")
    found: list[Event] = []
    at = timedelta(hours=random.randint(6, 30))
    while at < timedelta(days=days):
        for _ in range(random.randint(1, 4)):
            (kind,) = random.choices(KINDS, [kind.weight for kind in KINDS])
            found.append(kind.of(random, at))
            at += timedelta(minutes=random.randint(0, 600))
        at += timedelta(hours=random.randint(12, 140))
    if random.random() < 0.5:
        found.append(SummerTime(_SPRING, _AUTUMN - _SPRING, HOUR))
    return sorted(
        (one for one in found if one.ends < timedelta(days=days)), key=lambda one: (one.at, type(one).__name__)
    )


def turns(events: list[Event]) -> Iterator[tuple[timedelta, int, bool, Event]]:
    """The begins and the ends of events, in order."""
    found = [(one.at, number, False, one) for number, one in enumerate(events)]
    found += [(one.ends, number, True, one) for number, one in enumerate(events)]
    yield from sorted(found, key=lambda turn: turn[:3])
