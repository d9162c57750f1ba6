"""Messages and entries that were removed from the lake because they were old."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from dts_assets.model.spans import Cell

RAW, ENTRIES = "raw_envelopes", "entries"
"""The tables whose old rows may be removed."""


@dataclass(frozen=True, slots=True)
class MessageAges:
    """The ages from which on rows are removed, and the most bytes of files; None where they stay."""

    raw: timedelta | None = None
    entries: timedelta | None = None
    raw_bytes: int | None = None
    entries_bytes: int | None = None

    @property
    def any(self) -> bool:
        """True if messages are ever removed. Entries go only where messages go."""
        return self.raw is not None or self.raw_bytes is not None


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """A row of ``removed_rows``: the rows that retention removed from ``layer``, which is ``raw_envelopes`` or ``entries``.

    They are those of ``kafka_partitions`` in the windows that start at or after ``since`` and before ``until``. ``cells``,
    ``rows`` and ``bytes`` count the cells that had files, their rows, and the bytes of the files. From ``removed_at`` on nobody
    reads them; at ``gone_at`` the table held them no more, None until then.
    """

    layer: str
    since: datetime
    until: datetime
    kafka_partitions: tuple[int, ...]
    cells: int
    rows: int
    bytes: int
    removed_at: datetime
    gone_at: datetime | None = None


@dataclass(frozen=True)  # without slots, for the cached property
class Removed:
    """All that retention has removed."""

    rows: tuple[RemovedRows, ...] = ()

    def when(self, layer: str, cell: Cell) -> datetime | None:
        """Return when the rows of a cell were removed from a layer; None where they were not."""
        mine = self._by_partition.get((layer, cell.kafka_partition), ())
        place = bisect_right(mine, cell.window.start, key=lambda row: row.since)
        row = mine[place - 1] if place else None
        return row.removed_at if row is not None and cell.window.start < row.until else None

    def until(self, layer: str, kafka_partition: int) -> datetime | None:
        """Return the start of the first window of a Kafka partition that has rows; None where all have."""
        mine = self._by_partition.get((layer, kafka_partition), ())
        return mine[-1].until if mine else None

    def among(self, layer: str, cells: Iterable[Cell]) -> dict[Cell, datetime]:
        """Return the cells whose rows were removed from a layer, with the moment."""
        if not self.rows:
            return {}
        return {cell: at for cell in cells if (at := self.when(layer, cell)) is not None}

    @cached_property
    def _by_partition(self) -> Mapping[tuple[str, int], Sequence[RemovedRows]]:
        """The rows by layer and Kafka partition; there they follow each other."""
        found: dict[tuple[str, int], list[RemovedRows]] = {}
        for row in sorted(self.rows, key=lambda row: row.since):
            for partition in row.kafka_partitions:
                found.setdefault((row.layer, partition), []).append(row)
        return found


NOTHING_REMOVED = Removed()
