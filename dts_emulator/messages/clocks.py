"""The clocks of a task: the time of a recording passes by events and by sending."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

SECOND = 1_000_000
"""Clocks count microseconds since the epoch."""


class Clock(Protocol):
    """The time of a task."""

    @property
    def now(self) -> int:
        """Microseconds since the epoch."""
        ...

    def reach(self, instant: int) -> None:
        """Something happens at ``instant``: the time is not earlier from here on."""
        ...

    def sent(self, size: int) -> None:
        """Take note that a message of so many bytes has been sent."""
        ...


@dataclass(slots=True)
class SourceClock:
    """The time of a recording: it passes by what happens, and by sending."""

    bytes_per_second: int
    now: int = 0

    def reach(self, instant: int) -> None:
        """Let the time be no earlier from here on."""
        self.now = max(self.now, instant)

    def sent(self, size: int) -> None:
        """Let the time pass that the bytes took."""
        self.now += size * SECOND // self.bytes_per_second
