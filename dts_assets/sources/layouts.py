"""The numbering of Kafka partitions through several topics: in the order in which the topics are listed."""

from __future__ import annotations

from collections.abc import Iterable


def first_number(topics: Iterable[tuple[str, int]], topic: str) -> int:
    """Return the number of the first partition of a topic: 4 for ``b`` of ``(("a", 4), ("b", 1))``.

    Raises:
        KeyError: The topic is none of them.
    """
    number = 0
    for name, count in topics:
        if name == topic:
            return number
        number += count
    raise KeyError(topic)


def located(topics: Iterable[tuple[str, int]], kafka_partition: int) -> tuple[str, int]:
    """Return the topic and the partition in it of one of our numbers: ``("b", 0)`` for 4.

    Raises:
        IndexError: The topics have fewer partitions.
    """
    left = kafka_partition
    for name, count in topics:
        if left < count:
            return name, left
        left -= count
    raise IndexError(kafka_partition)
