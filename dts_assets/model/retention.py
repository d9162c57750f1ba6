"""How long a topic keeps messages, as its broker says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class BrokerRetention:
    """How long and how much (bytes) of each Kafka partition a topic keeps; None where it sets no limit."""

    age: timedelta | None
    bytes: int | None
