"""A message of a Kafka topic, as a task sends it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """A Kafka message; ``timestamp`` in milliseconds since the epoch. A message without ``topic`` is of the task's only topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    topic: str | None = None
