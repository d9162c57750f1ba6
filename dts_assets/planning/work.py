"""The work that a subscription still lacks, and the runs that do it.

Everything that starts runs asks here: ``dts-assets run``, both sensors, and the run that follows a source live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.model.ledger_rows import Cut, IngestWindow, RawWindow
from dts_assets.model.open_sets import OpenSet, open_sets_text
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.message_retention import ALL_CAN_BE_MADE, Unmakeable
from dts_assets.planning.open_sets import left_open_by, open_before
from dts_assets.planning.pauses import resumed_in, resumed_inputs
from dts_assets.planning.rectangles import rectangles, window_runs
from dts_assets.planning.staleness import ABSENT, entries_sources, input_text, stale_entries, tables_inputs


@dataclass(frozen=True, slots=True)
class IngestRun:
    """A run of raw and entries, or of entries alone, over one span."""

    span: Span
    entries_only: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a subscription lacks, in the order in which it is done.

    ``ingest`` cells have closed and lack raw messages or entries of the closed window;
    ``stale_entries`` would read other raw messages now;
    ``tables`` windows are ready, and their tables are missing or stale; ``waiting`` windows have closed, but some Kafka partition
    lacks its entries. ``followed`` cells are open and are read live; the ``live`` cells among them have got messages.

    ``ends`` has the end offset of each ``ingest`` cell, and of each followed cell as far as it can be read now.
    ``entries_inputs`` and ``tables_inputs`` are the inputs that the stale entries and the ready tables would read now, with the
    resumed tables that a window lacks.
    """

    ingest: tuple[Cell, ...]
    stale_entries: tuple[Cell, ...]
    tables: tuple[Window, ...]
    waiting: tuple[Window, ...] = ()
    live: tuple[Cell, ...] = ()
    followed: tuple[Cell, ...] = ()
    ends: Mapping[Cell, int] = field(default_factory=dict)
    entries_inputs: Mapping[Cell, tuple[str, ...]] = field(default_factory=dict)
    tables_inputs: Mapping[datetime, tuple[str, ...]] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """True if all closed windows are computed."""
        return not (self.ingest or self.stale_entries or self.tables)

    @property
    def without_live(self) -> Work:
        """The work of closed windows."""
        return replace(self, live=())

    def within(self, *, since: datetime | None = None, until: datetime | None = None) -> Work:
        """Return the work of windows that start at or after ``since`` and before ``until``."""

        def inside(window: Window) -> bool:
            return (since is None or window.start >= since) and (until is None or window.start < until)

        return replace(
            self,
            ingest=tuple(cell for cell in self.ingest if inside(cell.window)),
            stale_entries=tuple(cell for cell in self.stale_entries if inside(cell.window)),
            tables=tuple(filter(inside, self.tables)),
            live=tuple(cell for cell in self.live if inside(cell.window)),
        )

    def ingest_runs(self, *, longest: int | None = None) -> tuple[IngestRun, ...]:
        """Return the runs of raw and entries: first messages that are not stored, then stale entries.

        ``longest`` is the greatest number of windows in one run.
        """
        fresh = rectangles((*self.ingest, *self.live), longest=longest)
        again = rectangles(self.stale_entries, longest=longest)
        return (*(IngestRun(span) for span in fresh), *(IngestRun(span, entries_only=True) for span in again))

    def tables_runs(self, *, longest: int | None = None) -> tuple[tuple[Window, ...], ...]:
        """Return the windows of each run of the tables.

        ``longest`` is the greatest number of windows in one run. Open windows come behind the closed ones, in runs of their own:
        so there is a version of the tables at the cut of the last window that has closed.
        """
        still_open = {cell.window for cell in self.followed}
        closed = window_runs((one for one in self.tables if one not in still_open), longest=longest)
        return (*closed, *window_runs((one for one in self.tables if one in still_open), longest=longest))


def plan_work(
    closed: Mapping[int, Sequence[Window]],
    *,
    raw: Mapping[Cell, RawWindow],
    entries: Mapping[Cell, IngestWindow],
    cuts: Mapping[datetime, Cut],
    decoding: str,
    settings: str,
    beside: Mapping[datetime, Iterable[str]] = {},
    followed: Mapping[Cell, bool] = {},
    paused: Collection[TableId] = (),
    layers: str = "",
    unmakeable: Unmakeable = ALL_CAN_BE_MADE,
) -> Work:
    """Return the work that is left, without its end offsets.

    ``closed`` has the windows that have closed in each Kafka partition; ``raw``, ``entries`` and ``cuts`` are the stored marks,
    the last by window start. ``decoding`` and ``settings`` are digests: of the format and of all that entries are decoded with,
    and of the settings that shape rows. ``beside`` has the inputs of tables beside their own entries, by window start.
    ``followed`` are open cells that are read live, and whether each has messages that are not stored. ``paused`` are the tables
    that stand still: a window that lacks another table is made again. ``layers`` names the layers that tables are to have if they
    were made with others: the last window is made again then, which brings all tables up to date. What is ``unmakeable``
    stays as it was made, stale or not.
    """
    cells = [Cell(partition, window) for partition, windows in closed.items() for window in windows]
    # A mark of raw may have been taken back by a run that was killed then, while that of entries stands.
    whole = entries.keys() & raw.keys()
    lacking = {cell for cell in cells if cell not in whole or entries[cell].closed_by is ClosedBy.OPEN}
    lacking = {cell for cell in lacking if not unmakeable.raw(cell)}
    outdated = [
        cell
        for cell in stale_entries(entries, raw, decoding=decoding)
        if cell not in lacking and not unmakeable.sources_of(entries[cell])
    ]
    there = {partition: set(windows) for partition, windows in closed.items()}
    stale = tuple(cell for cell in outdated if cell.window in there[cell.kafka_partition])
    live = tuple(sorted(cell for cell, more in followed.items() if more or cell not in entries or cell in outdated))
    for cell in followed:
        there[cell.kafka_partition].add(cell.window)
    everywhere = sorted(set.intersection(*there.values())) if there else []
    complete = {window: all(Cell(partition, window) in entries for partition in closed) for window in everywhere}
    is_open = {cell.window for cell in followed}
    inputs = {
        window: tables_inputs(window, closed, entries, settings=settings, beside=beside)
        for window in everywhere
        if complete[window]
    }
    ready = tuple(
        window
        for window, texts in inputs.items()
        if not _made_from(row := cuts.get(window.start), texts, paused) and not unmakeable.tables(row, texts, entries)
    )
    if layers and not ready:
        ready = tuple(inputs)[-1:]
        inputs |= {window: (*inputs[window], layers) for window in ready}
    now, expected = entries_sources(raw, decoding=decoding), open_before(entries, left_open_by(entries))
    return Work(
        ingest=tuple(sorted(lacking)),
        stale_entries=stale,
        tables=ready,
        waiting=tuple(window for window in everywhere if not complete[window] and window not in is_open),
        live=live,
        followed=tuple(sorted(followed)),
        entries_inputs={cell: (*_inputs_now(entries[cell], now), *_open_input(cell, expected)) for cell in stale},
        tables_inputs={window.start: (*inputs[window], *_resumed(cuts.get(window.start), paused)) for window in ready},
    )


def _made_from(row: Cut | None, inputs: Collection[str], paused: Collection[TableId]) -> bool:
    return row is not None and set(row.inputs) == set(inputs) and not resumed_in(row, paused)


def _resumed(row: Cut | None, paused: Collection[TableId]) -> tuple[str, ...]:
    """Return the tables for which a window is made again, as texts."""
    return () if row is None else resumed_inputs(row, paused)


def _open_input(cell: Cell, expected: Mapping[Cell, tuple[OpenSet, ...]]) -> tuple[str, ...]:
    """Return the text of the sets that a cell takes over now, if any."""
    sets = expected.get(cell, ())
    return (input_text("open sets", open_sets_text(sets)),) if sets else ()


def _inputs_now(row: IngestWindow, now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the inputs of stored entries with their generations of now."""
    names = sorted(text.rpartition("=")[0] for text in row.inputs)
    return tuple(input_text(name, now.get(name, ABSENT)) for name in names)
