"""Kafka offsets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``[start, end)`` of one Kafka partition."""

    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Watermark:
    """The extent of a Kafka partition at the source.

    ``[low, high)`` are its offsets, ``earliest`` is the time of the first message, ``latest`` the greatest time of a message.
    """

    low: int
    high: int
    earliest: datetime | None
    latest: datetime | None
