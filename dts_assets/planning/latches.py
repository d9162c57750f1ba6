"""The latch that a failed run leaves: the time before which no further run is asked for.

A trouble that nobody mends is looked at again at growing intervals, so that no subscription waits for a person for ever: many
troubles end without one. All is pure; times are UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

FIRST_PAUSE = timedelta(minutes=1)
"""The first pause. Each further one is twice as long."""

LONGEST_PAUSE = timedelta(minutes=30)
LONGEST_PASSING = timedelta(minutes=2)
"""The longest pause after a failure that may pass by itself, and whose end should be noticed soon."""

AT_ONCE = 2
"""Repetitions without a pause after failures that are not known to last."""

_APART = 2 * LONGEST_PAUSE
"""Failures further apart do not follow each other.

A run was well between them, or nobody asked for one.
"""


class Trouble(Enum):
    """The kind of a failure."""

    PASSING = auto()
    """An error that may pass by itself, such as a catalog that others kept busy."""
    LASTING = auto()
    """An error that lasts until somebody mends something, as far as its sentence knows."""
    UNKNOWN = auto()
    """A crash, or an error that nobody expected."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed run, by its id. ``began`` is the time at which the run read the configuration, or a little earlier."""

    run: str
    began: datetime
    ended: datetime
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Latch:
    """The wait after failures that followed each other.

    ``failures`` is their number since the configuration was changed, ``run`` the latest failed run, ``ended`` its end, and
    ``until`` the time of the next try.
    """

    failures: int
    run: str
    ended: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        """Return whether the next try has to wait."""
        return now < self.until


def latch_after(failures: Iterable[Failure], *, changed: datetime | None, now: datetime) -> Latch | None:
    """Return the latch that failed runs leave; None without one.

    Of failures that ended together the first one given is the latest. ``changed`` is the time of the configuration's latest
    change: what failed before is tried at once, and counts no more. So is a failure from the future, of a clock that was set
    back; those that came since then count without it.
    """
    found = sorted(failures, key=lambda one: one.ended, reverse=True)
    found = [one for one in found if one.ended <= now] or found
    if not found:
        return None
    row = [one for one in _in_a_row(found) if changed is None or one.began > changed]
    latest = found[0]
    if not row or latest.ended > now:
        until = min(latest.ended, now)
    else:
        until = latest.ended + pause_after(len(row), row[0].trouble)
    return Latch(len(row), latest.run, latest.ended, until)


def pause_after(failures: int, trouble: Trouble) -> timedelta:
    """Return the pause after so many failures in a row (at least one), the latest of some kind."""
    doublings = failures - 1 - (0 if trouble is Trouble.LASTING else AT_ONCE)
    if doublings < 0:
        return timedelta(0)
    longest = LONGEST_PASSING if trouble is Trouble.PASSING else LONGEST_PAUSE
    return min(longest, FIRST_PAUSE * (1 << min(doublings, 16)))


def _in_a_row(latest_first: list[Failure]) -> list[Failure]:
    row = latest_first[:1]
    for one in latest_first[1:]:
        if row[-1].began - one.ended > _APART:
            break
        row.append(one)
    return row
