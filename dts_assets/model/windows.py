"""Time windows: the second axis of every partition. Instants are UTC; intervals are half-open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

KEY_FORMAT = "%Y-%m-%d-%H:%M"
"""How a window is written in a Dagster partition key: its start, in UTC, to the minute."""


class ClosedBy(StrEnum):
    """What ended a window: a later message, the declared grace, the end of a complete capture; ``open`` if nothing did."""

    MESSAGE = "message"
    GRACE = "grace"
    END = "end"
    OPEN = "open"


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
        """How many whole windows lie between the grid's start and ``instant`` (negative before it)."""
        return (instant - self.start) // self.every

    def at(self, number: int) -> Window:
        """The window with that number, counted from zero."""
        start = self.start + number * self.every
        return Window(start, start + self.every)

    def containing(self, instant: datetime) -> Window | None:
        """The window that ``instant`` falls in; None outside the grid."""
        if instant < self.start or (self.end is not None and instant >= self.end):
            return None
        return self.at(self.number(instant))

    def of_key(self, key: str) -> Window:
        """The window that a partition key names. Raises ValueError if the key names none of this grid."""
        start = datetime.strptime(key, KEY_FORMAT).replace(tzinfo=UTC)
        window = self.containing(start)
        if window is None or window.start != start:
            raise ValueError(f"{key} is not the start of a window")
        return window

    def of_start(self, start: datetime) -> Window:
        """The window that starts at ``start``."""
        return Window(start, start + self.every)

    def previous(self, window: Window) -> Window | None:
        """The window before, None for the first."""
        return None if window.start <= self.start else self.of_start(window.start - self.every)

    def next(self, window: Window) -> Window | None:
        """The window after, None for the last."""
        return None if self.end is not None and window.end >= self.end else self.of_start(window.end)

    def until(self, instant: datetime, *, since: datetime | None = None) -> Iterator[Window]:
        """Every window that has ended at ``instant``, in order; those before ``since``, the start of one, are left out."""
        limit = instant if self.end is None else min(instant, self.end)
        for number in range(0 if since is None else self.number(since), max(0, self.number(limit))):
            yield self.at(number)
