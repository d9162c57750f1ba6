"""What a flow says of its work: plain values that Dagster metadata, the command line and tests are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.store.rows import Cut, IngestWindow, RawWindow

Progress: TypeAlias = Callable[[str], None]
"""Takes one line for a person about what is being done."""


@dataclass(frozen=True, slots=True)
class RawCellReport:
    """One cell of raw. ``kept`` says that the source no longer has these offsets, so what was stored stays."""

    row: RawWindow
    files: int
    stored_bytes: int
    kept: bool


@dataclass(frozen=True, slots=True)
class RawReport:
    """A span of raw; ``seconds`` is the wall time of the whole span."""

    cells: tuple[RawCellReport, ...]
    table: str
    location: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EntriesCellReport:
    """One cell of entries: its ledger row, the row changes that its entries hold, and how old the newest one was."""

    row: IngestWindow
    changes: int
    stored_bytes: int
    latest_event: datetime | None
    last_time: datetime | None

    @property
    def lag_seconds(self) -> float | None:
        """From the latest event at the source to the latest message in Kafka."""
        if self.latest_event is None or self.last_time is None:
            return None
        return (self.last_time - self.latest_event).total_seconds()


@dataclass(frozen=True, slots=True)
class EntriesReport:
    """A span of entries; ``new_tables`` were not in the registry before."""

    cells: tuple[EntriesCellReport, ...]
    table: str
    location: str
    new_tables: tuple[TableId, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One window of the tables run. ``applied`` says that the snapshots have reached it."""

    row: Cut
    applied: bool
    changes: int


@dataclass(frozen=True, slots=True)
class TableReport:
    """One source table of the tables run; counts by window start where they belong to a window.

    ``snapshot`` is None for a table without a primary key; ``snapshot_rows`` None where its snapshot was not looked at.
    """

    table: TableId
    columns: tuple[Column, ...]
    changelog: str
    snapshot: str | None
    changes: Mapping[datetime, int] = field(default_factory=dict)
    stored_bytes: Mapping[datetime, int] = field(default_factory=dict)
    invalid_values: Mapping[datetime, int] = field(default_factory=dict)
    quarantined: Mapping[datetime, int] = field(default_factory=dict)
    snapshot_committed: bool = False
    snapshot_rows: int | None = None


@dataclass(frozen=True, slots=True)
class TablesReport:
    """A run of the tables of some windows."""

    windows: tuple[WindowReport, ...]
    tables: tuple[TableReport, ...]
    seconds: float
