"""The counts of a tables run, table by table, which add up over tasks, batches and runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.foreign_keys import PositionSpan, joined_spans
from dts_assets.model.key_periods import KeyPeriod, joined_lists, joined_periods
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.row_hash import signed

TallyKey: TypeAlias = tuple[datetime, int, TableId]
"""Window start, Kafka partition, table."""


@dataclass(slots=True)
class TableTally:
    """The counts of one table in one Kafka partition and window.

    ``announced`` are the rows that entries said they hold, before any was decoded: the other side of the equation. ``filtered``
    are the changes that a row filter left out. ``statements`` may have changed the table beyond its events; ``first`` and
    ``last`` are the positions of rows and of them. ``deletes`` and ``moves`` are those of deleted rows, and of updates
    that change a key, before any rule left a change out.
    """

    announced: int = 0
    changes: int = 0
    filtered: int = 0
    quarantined: int = 0
    truncations: int = 0
    row_hash: int = 0
    absent_rows: int = 0
    invalid_values: int = 0
    partial_moves: int = 0
    first: SourcePosition | None = None
    last: SourcePosition | None = None
    latest_event: datetime | None = None
    quarantined_entries: int = 0
    invalid_columns: Counter[str] = field(default_factory=Counter)
    keys: tuple[KeyPeriod, ...] = ()
    lists: tuple[KeyPeriod, ...] = ()
    statements: int = 0
    deletes: PositionSpan | None = None
    moves: PositionSpan | None = None

    def merge(self, other: TableTally) -> None:
        """Add other counts of the same table, Kafka partition and window."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.row_hash = signed(self.row_hash + other.row_hash)
        self.invalid_columns.update(other.invalid_columns)
        self.keys = joined_periods((*self.keys, *other.keys))
        self.lists = joined_lists((*self.lists, *other.lists))
        self.deletes = joined_spans(self.deletes, other.deletes)
        self.moves = joined_spans(self.moves, other.moves)
        self.first = min(filter(None, (self.first, other.first)), default=None)
        self.last = max(filter(None, (self.last, other.last)), default=None)
        self.latest_event = max(filter(None, (self.latest_event, other.latest_event)), default=None)


_COUNTS = (
    "announced", "changes", "filtered", "quarantined", "quarantined_entries", "truncations", "statements", "absent_rows",
    "invalid_values", "partial_moves",
)  # fmt: skip
