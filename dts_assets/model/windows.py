"""Time windows: the second axis of every partition. Instants are UTC; intervals are half-open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

KEY_FORMAT = "%Y-%m-%d-%H:%M"
"""The format of a window in a Dagster partition key: its start, in UTC, to the minute."""


class ClosedBy(StrEnum):
    """The event that ended a window.

    It is a later message, the end of the declared grace, or the end of a complete capture; ``open`` if nothing has ended it yet.
    """

    MESSAGE = "message"
    GRACE = "grace"
    END = "end"
    OPEN = "open"


def day_of(instant: datetime) -> int:
    """Return the UTC day of an instant, counted from 1970-01-01."""
    return (instant - _EPOCH).days


def start_of_day(day: int) -> datetime:
    """Return the instant at which a UTC day begins, the inverse of :func:`day_of`."""
    return _EPOCH + timedelta(days=day)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """``[start, end)`` of Kafka message time."""

    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """The Dagster partition key, ``2026-01-01-05:00``."""
        return self.start.astimezone(UTC).strftime(KEY_FORMAT)

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """All windows of a subscription: every ``every`` from ``start``, until ``end`` if there is one."""

    every: timedelta
    start: datetime
    end: datetime | None = None

    def number(self, instant: datetime) -> int:
        """Return the number of whole windows between the grid's start and ``instant``, negative before it."""
        return (instant - self.start) // self.every

    def at(self, number: int) -> Window:
        """Return the window with that number, counted from zero."""
        return self.of_start(self.start + number * self.every)

    def containing(self, instant: datetime) -> Window | None:
        """Return the window that ``instant`` falls in; None outside the grid."""
        if instant < self.start or (self.end is not None and instant >= self.end):
            return None
        return self.at(self.number(instant))

    def of_key(self, key: str) -> Window:
        """Return the window that a partition key names.

        Raises:
            ValueError: The key is no time, or not the start of a window of this grid.
        """
        start = datetime.strptime(key, KEY_FORMAT).replace(tzinfo=UTC)
        window = self.containing(start)
        if window is None or window.start != start:
            raise ValueError(f"{key} is not the start of a window")
        return window

    def of_start(self, start: datetime) -> Window:
        """Return the window that starts at ``start``."""
        return Window(start, start + self.every)

    def previous(self, window: Window) -> Window | None:
        """Return the window before, None for the first."""
        return None if window.start <= self.start else self.of_start(window.start - self.every)

    def next(self, window: Window) -> Window | None:
        """Return the window after, None for the last."""
        return None if self.end is not None and window.end >= self.end else self.of_start(window.end)

    def until(self, instant: datetime, *, since: datetime | None = None) -> Iterator[Window]:
        """Yield every window that has ended at ``instant``, in order.

        Windows before ``since``, the start of a window, are left out.
        """
        limit = instant if self.end is None else min(instant, self.end)
        for number in range(0 if since is None else self.number(since), max(0, self.number(limit))):
            yield self.at(number)
