"""The runs of ids of other Kafka partitions.

Messages behind a fall of ids may have stood there before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lives import LivesBehind, Part, PartElsewhere


class PartsElsewhere:
    """The runs of all Kafka partitions; ``behind`` stands for windows that are left out."""

    def __init__(self, rows: Iterable[IngestWindow] = (), behind: Iterable[LivesBehind] = ()) -> None:
        behind = list(behind)
        self._parts: dict[int, list[Part]] = {}
        self._starts: dict[int, list[datetime]] = {}
        self._reached: dict[int, list[int]] = {}
        self._left_out = [(one.kafka_partition, ids) for one in behind for ids in _ids_of(one)]
        self._last_left_out = {one.kafka_partition: part.last for one in behind if (part := _last_of(one)) is not None}
        for row in sorted(rows, key=lambda row: (row.kafka_partition, row.window.start)):
            parts = self._parts.setdefault(row.kafka_partition, [])
            starts = self._starts.setdefault(row.kafka_partition, [])
            reached = self._reached.setdefault(row.kafka_partition, [])
            for run in row.runs:
                part = Part(row.cell, row.epoch, row.generation, run, 0, run.first_offset)
                parts.append(part)
                starts.append(row.window.start)
                reached.append(max(part.last, reached[-1]) if reached else part.last)

    def within(
        self, kafka_partition: int, least: int, most: int, *, since: datetime, until: datetime
    ) -> tuple[PartElsewhere, ...]:
        """Return the runs of other Kafka partitions with ids in a range.

        They are of windows that start at ``until`` or before, and each knows the ids that had been passed before it ``since``
        a window.
        """
        found: list[PartElsewhere] = []
        for partition, parts in self._parts.items():
            if partition == kafka_partition:
                continue
            begin = bisect_left(self._starts[partition], since)
            some = slice(bisect_left(self._reached[partition], least, hi=begin), begin)
            found += [
                PartElsewhere(part, least - 1) for part in parts[some] if part.first <= most and part.last >= least
            ]
            passed = parts[begin - 1].last if begin else self._last_left_out.get(partition, -1)
            for part in parts[begin : bisect_right(self._starts[partition], until)]:
                if part.first <= most and part.last >= least:
                    found.append(PartElsewhere(part, max(least - 1, min(passed, most))))
                passed = max(passed, part.last)
        return tuple(found)

    def leaves_out(self, kafka_partition: int, least: int, most: int) -> bool:
        """Return whether windows that are left out may have ids in a range, in other Kafka partitions."""
        return any(
            partition != kafka_partition and ids[0] <= most and ids[1] >= least for partition, ids in self._left_out
        )


def _ids_of(behind: LivesBehind) -> Iterator[tuple[int, int]]:
    """Yield the least and the greatest ids of what windows that are left out have."""
    yield from (life.ids for life in behind.lives)
    yield from ((part.first, part.last) for part in behind.open)


def _last_of(behind: LivesBehind) -> Part | None:
    return behind.open[-1] if behind.open else behind.last


NOWHERE = PartsElsewhere()
"""There are no other Kafka partitions."""
