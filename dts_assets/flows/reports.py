"""The reports of flows: plain values for Dagster metadata, the command line and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, TypeVar

from dts_assets.model.byte_sizes import UNITS, unit_of
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import Cut, IngestWindow, PausedTable, RawWindow
from dts_assets.model.removals import NotRemoved
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.column_types import ConvertedColumn
from dts_assets.planning.judgements import Judgement, judge_cell, judge_window
from dts_assets.planning.pauses import Fault
from dts_assets.wire.ddl.schema_news import SchemaNews

Number = TypeVar("Number", int, float)

Progress: TypeAlias = Callable[[str], None]
"""Takes one line for a person about what is being done."""


@dataclass(frozen=True, slots=True)
class RawCellReport:
    """One cell of raw. ``kept`` says that the source no longer has these offsets, so what was stored stays.

    ``seconds`` is how long its task took, without the planning and the commit that cells share.
    """

    row: RawWindow
    files: int
    stored_bytes: int
    kept: bool
    seconds: float = 0.0

    @property
    def event_lag_seconds(self) -> float | None:
        """From the time of the last message to the end of the window; None without a message."""
        return _lag(self.row.window.end, self.row.last_time)


@dataclass(frozen=True, slots=True)
class RawReport:
    """A span of raw; ``seconds`` is the wall time of the whole span."""

    cells: tuple[RawCellReport, ...]
    location: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EntriesCellReport:
    """One cell of entries: its ledger row, its number of row changes, and its newest change's time.

    ``message_bytes`` are the bytes of the messages, ``seconds`` is how long its task took. ``quarantine_rows`` is the number of
    rows that the ingest of the cell has in ``quarantine``.
    """

    row: IngestWindow
    changes: int
    stored_bytes: int
    latest_event: datetime | None
    last_time: datetime | None
    message_bytes: int = 0
    seconds: float = 0.0
    quarantine_rows: int = field(kw_only=True)

    @property
    def judgement(self) -> Judgement:
        """The judgement of the cell."""
        return judge_cell(self.row, quarantine_rows=self.quarantine_rows)

    @property
    def event_lag_seconds(self) -> float | None:
        """From the latest event at the source to the end of the window; None without an event."""
        return _lag(self.row.window.end, self.latest_event)

    @property
    def delivery_lag_seconds(self) -> float | None:
        """From the latest event at the source to the latest message in Kafka."""
        return None if self.last_time is None else _lag(self.last_time, self.latest_event)


@dataclass(frozen=True, slots=True)
class EntriesReport:
    """A span of entries; ``new_tables`` were not in the registry before, ``decoder`` names the parser and its version."""

    cells: tuple[EntriesCellReport, ...]
    location: str
    new_tables: tuple[TableId, ...]
    seconds: float
    decoder: str = ""


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One window of the tables run. ``applied`` says that the snapshots have reached it.

    ``changes`` are those of all tables, ``seconds`` how long the tasks took that decoded them, added up. ``unbalanced`` names
    what the counts of its tables leave out.
    """

    row: Cut
    applied: bool
    changes: int
    seconds: float = 0.0
    unbalanced: tuple[str, ...] = ()

    @property
    def judgement(self) -> Judgement:
        """The judgement of the window."""
        return judge_window(self.row, unbalanced=self.unbalanced)


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """The result of a run for one table of a layer.

    ``rows`` and ``bytes`` are what the table holds, None where it was not looked at or was never written. ``fault`` is that of a
    table that could not be brought up to date, None where all went well. ``not_removed`` counts the changes that did
    not find their row. ``waits`` says that the changelog may have changes that the layer does not hold yet, ``worn`` that
    its files wait to be put in order. ``refused`` counts the changes of which no statement could be made, by window start.
    ``columns`` are the lake columns of a snapshot that follows statements, None for all that the layer has by events. ``doubt``
    says why its columns or rows are not proven, and ``was_doubted`` that they were not before the run. ``unknown_values`` counts
    by column the values that the run's commit made NULL in a snapshot, because statements changed them in a way that servers do
    not share.
    """

    committed: bool = False
    rows: int | None = None
    bytes: int | None = None
    fault: Fault | None = None
    not_removed: NotRemoved | None = None
    waits: bool = True
    worn: bool = False
    refused: Mapping[datetime, int] = field(default_factory=dict)
    columns: tuple[Column, ...] | None = None
    doubt: str = ""
    was_doubted: bool = False
    unknown_values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Facts about a table at the ends of windows.

    ``doubts`` says why its columns or rows are not proven. ``converted`` are the columns of which events have values that the
    lake holds in another form, by the types told up to the window. ``unknown_values`` has the values that the run made NULL, by
    column, at the window that brought the statement, and ``misfits`` the updates that did not fit their document.
    """

    doubts: Mapping[datetime, str] = field(default_factory=dict)
    converted: Mapping[datetime, tuple[ConvertedColumn, ...]] = field(default_factory=dict)
    unknown_values: Mapping[datetime, Mapping[str, int]] = field(default_factory=dict)
    misfits: Mapping[datetime, int] = field(default_factory=dict)


NO_FACTS = TableFacts()


@dataclass(frozen=True, slots=True)
class TableReport:
    """One source table of the tables run; counts by window start where they belong to a window.

    ``layers`` names the layers that have the table: ``{"changelog": LayerOutcome(), "snapshot": LayerOutcome(True, 7, 700)}``; a
    run of some layers has fewer of them. ``latest_event`` has the source's time of the last change of a window. ``news`` are
    the changes of its schema that each window brought. ``concerned`` are the windows with changes of the table, whether the run
    made their rows or not.
    """

    table: TableId
    columns: tuple[Column, ...]
    layers: Mapping[str, LayerOutcome]
    changes: Mapping[datetime, int] = field(default_factory=dict)
    stored_bytes: Mapping[datetime, int] = field(default_factory=dict)
    invalid_values: Mapping[datetime, int] = field(default_factory=dict)
    quarantined: Mapping[datetime, int] = field(default_factory=dict)
    latest_event: Mapping[datetime, datetime] = field(default_factory=dict)
    news: Mapping[datetime, tuple[SchemaNews, ...]] = field(default_factory=dict)
    facts: TableFacts = NO_FACTS
    concerned: frozenset[datetime] = frozenset()

    def event_lag_seconds(self, window: Window) -> float | None:
        """Return the seconds from a table's last change to the end of a window.

        None stands for a window without a change.
        """
        return _lag(window.end, self.latest_event.get(window.start))


@dataclass(frozen=True, slots=True)
class TablesReport:
    """A run of the tables of some windows.

    ``decoder`` names the parser and its version, if anything was decoded. ``paused`` are the tables that stood still before the
    run or that failed in it; nothing was made of them, or not all.
    """

    windows: tuple[WindowReport, ...]
    tables: tuple[TableReport, ...]
    seconds: float
    decoder: str = ""
    paused: Mapping[TableId, PausedTable] = field(default_factory=dict)


def rate(amount: int, what: str, seconds: float) -> str:
    """Return an amount and its rate as text: ``4,601 row changes in 3.1 s (1,484 a second)``."""
    done = f"{amount:,} {what} in {seconds:.1f} s"
    return f"{done} ({amount / seconds:,.0f} a second)" if seconds > 0 else done


def counted(what: str) -> Callable[[int, int], str]:
    """Return a function that puts done and total into words: ``120 of 400 messages``."""
    return lambda done, total: f"{done:,} of {total:,} {what}"


def of_bytes(done: int, total: int) -> str:
    """Return done and total bytes in words, in the unit that suits the total: ``1.2 of 4.0 GB``."""
    unit = unit_of(max(total, UNITS["KB"]))
    return f"{done / UNITS[unit]:.1f} of {total / UNITS[unit]:.1f} {unit}"


def _lag(end: datetime, latest: datetime | None) -> float | None:
    return None if latest is None else (end - latest).total_seconds()


def summed(pairs: Iterable[tuple[datetime, Number]]) -> dict[datetime, Number]:
    """Return the sum of the numbers of every instant."""
    total: dict[datetime, Number] = {}
    for start, count in pairs:
        total[start] = total[start] + count if start in total else count
    return total


def latest(pairs: Iterable[tuple[datetime, datetime | None]]) -> dict[datetime, datetime]:
    """Return the latest of the instants that belong to every instant, without those that are not known."""
    found: dict[datetime, datetime] = {}
    for start, event in pairs:
        if event is not None:
            found[start] = max(event, found.get(start, event))
    return found
