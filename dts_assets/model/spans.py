"""Spans: rectangles of partitions, the unit that a run reads and replaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dts_assets.model.windows import Window


def partition_key(kafka_partition: int) -> str:
    """Return the Dagster key of a Kafka partition: ``p03``. Zero-padded so that text order is number order below 100."""
    return f"p{kafka_partition:02d}"


def partition_of_key(key: str) -> int:
    """Return the Kafka partition that a key names.

    Raises:
        ValueError: The text is not the key of a Kafka partition.
    """
    if not (key.startswith("p") and key[1:].isdigit()):
        raise ValueError(f"{key} is not the key of a Kafka partition")
    return int(key[1:])


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One Kafka partition of one window: the smallest thing that can be materialized."""

    kafka_partition: int
    window: Window

    def __str__(self) -> str:
        return f"{partition_key(self.kafka_partition)}|{self.window.key}"


@dataclass(frozen=True, slots=True)
class Span:
    """A rectangle of cells: some Kafka partitions times some windows, both ascending."""

    kafka_partitions: tuple[int, ...]
    windows: tuple[Window, ...]

    def cells(self) -> Iterator[Cell]:
        """Yield every cell, window by window within each Kafka partition."""
        for kafka_partition in self.kafka_partitions:
            for window in self.windows:
                yield Cell(kafka_partition, window)
