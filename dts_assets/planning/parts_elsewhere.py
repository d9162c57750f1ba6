"""The runs of ids of other Kafka partitions.

Messages behind a fall of ids may have stood there before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lives import LivesBehind, Part


class PartsElsewhere:
    """The runs of all Kafka partitions; ``behind`` stands for windows that are left out."""

    def __init__(self, rows: Iterable[IngestWindow] = (), behind: Iterable[LivesBehind] = ()) -> None:
        self._parts: dict[int, list[Part]] = {}
        self._starts: dict[int, list[datetime]] = {}
        self._reached: dict[int, list[int]] = {}
        self._left_out = [(one.kafka_partition, life.ids) for one in behind for life in one.lives]
        for row in sorted(rows, key=lambda row: (row.kafka_partition, row.window.start)):
            parts = self._parts.setdefault(row.kafka_partition, [])
            starts = self._starts.setdefault(row.kafka_partition, [])
            reached = self._reached.setdefault(row.kafka_partition, [])
            for run in row.runs:
                part = Part(row.cell, row.epoch, row.generation, run, 0, run.first_offset)
                parts.append(part)
                starts.append(row.window.start)
                reached.append(max(part.last, reached[-1]) if reached else part.last)

    def within(self, kafka_partition: int, least: int, most: int, *, until: datetime) -> tuple[Part, ...]:
        """Return the runs of other Kafka partitions with ids in a range.

        They are of windows that start at ``until`` or before.
        """
        found: list[Part] = []
        for partition, parts in self._parts.items():
            if partition != kafka_partition:
                some = slice(bisect_left(self._reached[partition], least), bisect_right(self._starts[partition], until))
                found += [part for part in parts[some] if part.first <= most and part.last >= least]
        return tuple(found)

    def leaves_out(self, kafka_partition: int, least: int, most: int) -> bool:
        """Return whether windows that are left out may have ids in a range, in other Kafka partitions."""
        return any(
            partition != kafka_partition and ids[0] <= most and ids[1] >= least for partition, ids in self._left_out
        )


NOWHERE = PartsElsewhere()
"""There are no other Kafka partitions."""
