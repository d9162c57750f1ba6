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
    """What a source holds of one Kafka partition: offsets ``[low, high)``, the first message's time and the greatest."""

    low: int
    high: int
    earliest: datetime | None
    latest: datetime | None
