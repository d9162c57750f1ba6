"""The report of the watching sensor at one tick, and the cursor that it leaves.

Dagster keeps observations and evaluations outside of runs for ever, so each has to say something: an observation comes when a
number has moved, after a pause, an evaluation when the verdict has, and both again after a while, so that a plot has points
and nobody wonders whether the sensor still runs. An observation of four Kafka partitions takes 10 KB of Dagster's files: 30
MB a day at every tick of 30 seconds, 3 MB every five minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dts_assets.model.spans import partition_key, partition_of_key
from dts_assets.planning.loss import OldestSeen
from dts_assets.planning.staleness import generation

OBSERVE_MOVES = timedelta(minutes=5)
"""The pause between two observations of a topic that moves, where nobody follows its windows live."""

OBSERVE_AGAIN = timedelta(minutes=10)
"""The time for which a topic in which nothing moves is left unobserved."""

JUDGE_AGAIN = timedelta(hours=1)
JUDGE_TROUBLE_AGAIN = timedelta(minutes=10)
"""The time after which the same verdict is told again.

While messages are in danger the minutes left are told more often.
"""

BLIND = "blind"
"""The verdict on a topic that could not be looked at."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class WatchCursor:
    """The last report with its time, and the oldest messages as they were seen.

    ``looked_at`` is the time of the last look that succeeded, by the clock of the wall; None if none did.
    """

    observed: str = ""
    observed_at: datetime | None = None
    verdict: str = ""
    judged_at: datetime | None = None
    oldest: Mapping[int, OldestSeen] = field(default_factory=dict)
    looked_at: datetime | None = None

    def to_text(self) -> str:
        """Return small versioned JSON, as Dagster stores it."""
        oldest = {
            partition_key(partition): [seen.low, seen.time and seen.time.isoformat(), seen.young]
            for partition, seen in sorted(self.oldest.items())
        }
        observed_at, judged_at = (at and at.isoformat() for at in (self.observed_at, self.judged_at))
        told = [self.observed, observed_at, self.verdict, judged_at]
        looked = self.looked_at and self.looked_at.isoformat()
        return json.dumps({"v": _VERSION, "told": told, "oldest": oldest, "looked": looked})

    @classmethod
    def of_text(cls, text: str | None) -> WatchCursor:
        """Return the cursor that a text holds; an empty cursor for None and for an unknown version."""
        raw = json.loads(text) if text else {}
        if raw.get("v") != _VERSION:
            return cls()
        observed, observed_at, verdict, judged_at = raw["told"]
        oldest = {
            partition_of_key(key): OldestSeen(low, time and datetime.fromisoformat(time), young)
            for key, (low, time, young) in raw["oldest"].items()
        }
        times = (observed_at, judged_at, raw.get("looked"))  # cursors of earlier versions have no last time
        observed_at, judged_at, looked_at = (at and datetime.fromisoformat(at) for at in times)
        return cls(observed, observed_at, verdict, judged_at, oldest, looked_at)


@dataclass(frozen=True, slots=True)
class WatchTick:
    """The decision to observe and to judge now, and the cursor then."""

    observe: bool
    judge: bool
    cursor: WatchCursor


def watch_tick(
    cursor: WatchCursor,
    *,
    numbers: Mapping[str, object],
    verdict: str,
    trouble: bool,
    oldest: Mapping[int, OldestSeen],
    now: datetime,
    looked_at: datetime,
    pause: timedelta = timedelta(),
) -> WatchTick:
    """Return whether to observe and to judge now, with the cursor then.

    ``numbers`` move only when messages come or go (offsets, no ages); ``trouble`` says that the verdict is no pass. ``pause`` is
    the least time after the last observation until moved numbers are observed.
    """
    observed = generation([f"{name}={value}" for name, value in numbers.items()], code_version="")
    moved = observed != cursor.observed and _over(cursor.observed_at, pause, now)
    judge = verdict != cursor.verdict or _over(cursor.judged_at, JUDGE_TROUBLE_AGAIN if trouble else JUDGE_AGAIN, now)
    observe = moved or verdict != cursor.verdict or _over(cursor.observed_at, OBSERVE_AGAIN, now)
    after = replace(cursor, oldest=oldest, looked_at=looked_at)
    if observe:
        after = replace(after, observed=observed, observed_at=now)
    if judge:
        after = replace(after, verdict=verdict, judged_at=now)
    return WatchTick(observe, judge, after)


def blind_tick(cursor: WatchCursor, *, now: datetime) -> WatchTick:
    """Return whether to tell now that the topic could not be looked at, with the cursor then.

    It is told at the first look that fails: nobody knows what happens to unread messages from then on.
    """
    judge = cursor.verdict != BLIND or _over(cursor.judged_at, JUDGE_TROUBLE_AGAIN, now)
    after = replace(cursor, verdict=BLIND, judged_at=now) if judge else cursor
    return WatchTick(observe=False, judge=judge, cursor=after)


def _over(before: datetime | None, pause: timedelta, now: datetime) -> bool:
    """Return whether a pause is over; it is, too, where the clock was set back behind its begin."""
    return before is None or before > now or now - before >= pause
