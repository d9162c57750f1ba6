"""Retention: the time for which a topic keeps messages, as its broker says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class BrokerRetention:
    """The retention of a topic: the longest time, and the most bytes of each Kafka partition.

    None stands for no limit.
    """

    age: timedelta | None
    bytes: int | None
