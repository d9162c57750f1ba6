"""Moments that people name, found in the lake: windows, positions, transactions and times.

A moment is refused, with the reason, where it is not known or lies behind what is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from dts_assets.errors import NothingFoundError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.looks import Look, looks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removed_rows import refuse_removed_entries
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.model.formats import Evidence
from dts_assets.model.gtids import server_and_number
from dts_assets.model.positions import SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.source_moments import AtGtid, AtPosition, complete_until, position_of
from dts_assets.planning.topic_marks import TopicHistory
from dts_assets.settings.values import duration_text
from dts_assets.stages.entry_columns import source_positions
from dts_assets.stages.entry_lineages import entry_lineages

_PLACED = ("kafka_partition", "window_start", "last_offset", "shard", "event_time", "gtid", "file_name", "position")


def windows_clause(grid: WindowGrid) -> str:
    """Return which windows there are: ``its windows start every 1h from 2026-01-05T00:00, the last before 2026-01-05T08:00``."""
    last = "" if grid.end is None else f", the last before {grid.end:%Y-%m-%dT%H:%M}"
    return f"its windows start every {duration_text(grid.every)} from {grid.start:%Y-%m-%dT%H:%M}{last}"


def held_window(sources: SchemaSources, start: datetime) -> Window:
    """Return the window that starts at an instant.

    Raises:
        NothingFoundError: No window starts then, or it lies behind the frontier.
    """
    grid, reached = sources.pipeline.grid, sources.frontier.window
    window = grid.containing(start)
    if window is None or window.start != start:
        raise NothingFoundError(
            f"Subscription {sources.pipeline.name}",
            f"window that starts at {start:%Y-%m-%dT%H:%M}",
            windows_clause(grid),
        )
    if reached is None or start > reached:
        raise NothingFoundError("The lake", f"complete window {window.key}", complete_words(sources))
    return window


def refuse_later(sources: SchemaSources, time: datetime, *, sought: str) -> None:
    """Refuse a time at which not everything is known.

    ``sought`` is what a person asked for: "schemas".

    Raises:
        NothingFoundError: The time lies behind the last window that is complete.
    """
    reached = sources.frontier.window
    if reached is None or time > sources.pipeline.grid.of_start(reached).end:
        raise NothingFoundError("The lake", f"{sought} as of {time:%Y-%m-%d %H:%M:%S} UTC", complete_words(sources))


def known_position(sources: SchemaSources, moment: AtPosition | AtGtid, *, sought: str) -> tuple[SourcePosition, str]:
    """Return the position of a moment, and the moment in words.

    ``sought`` is what a person asked for: "schemas".

    Raises:
        NothingFoundError: It is not known, or lies behind what is complete.
    """
    if isinstance(moment, AtGtid):
        position, where = _position_of_gtid(sources, moment.gtid), f"as of {moment.gtid}"
    else:
        lineages = [one.lineage for one in sources.pipeline.ledger.lineages()]
        try:
            position = position_of(moment, lineages)
        except ValueError as error:
            raise NothingFoundError("The lake", "position of that name", str(error)) from None
        where = f"as of {position}"
    limit = complete_until(sources.frontier, list(_seen(sources)))
    if limit is None or position > limit:
        raise NothingFoundError("The lake", f"{sought} {where}", complete_words(sources, limit))
    return position, where if isinstance(moment, AtPosition) else f"{where}, which ends at {position}"


def _seen(sources: SchemaSources) -> Iterable[tuple[datetime, SourcePosition]]:
    """Yield positions in windows that may count as a whole: of statements, and of the last changes."""
    for one in sources.statements:
        if one.window_start is not None:
            yield one.window_start, one.position
    grid, until = sources.pipeline.grid, sources.frontier.whole_until
    window = None if until is None else grid.of_start(until)
    while window is not None:
        counts = sources.pipeline.ledger.window_tables([window])
        found = [one.last_position for one in counts if one.last_position is not None]
        if found:
            yield window.start, max(found)
            return
        window = grid.previous(window)


def _position_of_gtid(sources: SchemaSources, gtid: str) -> SourcePosition:
    """Return the position at which a transaction ends.

    Raises:
        NothingFoundError: No entry has the GTID, or all of them lie behind what is complete.
        RowsRemovedError: Retention has removed entries that may have the GTID.
    """
    pipeline = sources.pipeline
    if Evidence.GTIDS not in pipeline.settings.traits.evidence:
        raise NothingFoundError(
            "The lake",
            f"transaction {gtid}",
            f"{pipeline.settings.format} carries no GTIDs, so name a position or a time",
        )
    told = [one.position for one in sources.statements if one.gtid == gtid]
    found = told or [
        position for start, position in _entries_of(pipeline, gtid) if sources.frontier.holds(start, position)
    ]
    if not found:
        raise NothingFoundError(
            "The lake",
            f"complete transaction {gtid}",
            f"no entry of it was ever stored, or it is not whole yet: {complete_words(sources)}",
        )
    first = min(position.lineage for position in found)  # a later lineage has copies
    return max(position for position in found if position.lineage == first)


def _entries_of(pipeline: Pipeline, gtid: str) -> Iterable[tuple[datetime, SourcePosition]]:
    """Yield the positions of all entries of a transaction, with their windows.

    Only cells are read whose runs have the GTID's number.
    """
    found = server_and_number(gtid)
    cells = [
        row.cell
        for row in pipeline.ledger.windows()
        if found is None
        or any(one.server == found[0] and one.first <= found[1] <= one.last for run in row.runs for one in run.servers)
    ]
    condition = f"gtid = '{gtid}'"  # its form was checked: no quote is in it
    for one in _entries(pipeline, cells, condition, instead="name a position, a time or a window instead of the GTID"):
        yield one.window_start, one.position


@dataclass(slots=True)
class _Histories:
    """The lineages of a topic, looked at once for as many cells as one look holds."""

    pipeline: Pipeline
    look: Look | None = None

    def of(self, cells: Sequence[Cell]) -> TopicHistory:
        """Return the history that tells the lineages of some cells."""
        if self.look is None or not set(cells) <= set(self.look.entries):
            found = looks(self.pipeline, known_tables(self.pipeline))
            self.look = next(one for one in found if set(cells) <= set(one.entries))
        return self.look.topic.history


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry: its window, the source's time, and its position."""

    window_start: datetime
    event_time: datetime
    position: SourcePosition


def _entries(
    pipeline: Pipeline, cells: Sequence[Cell], condition: str, *, instead: str, histories: _Histories | None = None
) -> Iterator[_Entry]:
    """Yield the entries of some cells that fulfil an Iceberg filter; ``histories`` are kept for further calls.

    Raises:
        RowsRemovedError: Retention has removed entries of the cells; ``instead`` is what a person may ask for then.
    """
    if not cells:
        return
    refuse_removed_entries(pipeline, cells, consequence=instead)
    history = (histories or _Histories(pipeline)).of(cells)
    for cell in cells:
        place = f"kafka_partition = {cell.kafka_partition} and window_start = '{cell.window.start.isoformat()}'"
        found = pipeline.lake.scan(pipeline.path("entries"), columns=_PLACED, where=f"{place} and {condition}")
        assert found is not None, "its windows are stored"
        rows = pa.RecordBatch.from_pydict({name: found[name].combine_chunks() for name in _PLACED})
        lineages = entry_lineages(rows, history.rules(cell))
        places = source_positions(rows.append_column("lineage", pa.array(lineages))).to_pylist()
        for time, at in zip(rows["event_time"].to_pylist(), places, strict=True):
            yield _Entry(cell.window.start, time, SourcePosition(**at))


def position_at_time(sources: SchemaSources, time: datetime) -> SourcePosition:
    """Return the position of the last transaction before the first one that was committed behind a time.

    Times of commits are whole seconds in MySQL's binlog; what was committed within the second of ``time`` counts.

    Raises:
        NothingFoundError: The format tells no commits, no transaction behind the time is complete yet, or all are behind it.
        RowsRemovedError: Retention has removed entries around the time.
    """
    pipeline, grid, reached = sources.pipeline, sources.pipeline.grid, sources.frontier
    sought = f"tables as of {time:%Y-%m-%d %H:%M:%S} UTC"
    if Evidence.TRANSACTIONS not in pipeline.settings.traits.evidence:
        hint = f"{pipeline.settings.format} tells no commits, so name a window or a position"
        raise NothingFoundError("The lake", sought, hint)
    refuse_later(sources, time, sought="tables")
    cuts = {row.window.start: row.cut for row in pipeline.ledger.cuts()}
    here = grid.containing(time) or grid.at(0)
    start, known, behind = grid.previous(here) or here, set[SourcePosition](), None
    histories = _Histories(pipeline)
    window: Window | None = start  # clocks of a source and of a broker may differ
    while window is not None and reached.window is not None and window.start <= reached.window:
        commits = list(_commits(sources, window, histories))
        known |= {one.position for one in commits}
        later = [one.position for one in commits if one.event_time > time]
        behind = min([*later, *([] if behind is None else [behind])], default=None)
        cut = cuts.get(window.start)
        if behind is not None and cut is not None and cut >= behind:
            break
        window = grid.next(window)
    if behind is None:
        hint = f"no transaction behind that time is complete: {complete_words(sources)}"
        raise NothingFoundError("The lake", sought, hint)
    window = grid.previous(start)
    while not any(one < behind for one in known) and window is not None:
        known |= {one.position for one in _commits(sources, window, histories)}
        window = grid.previous(window)
    found = max((one for one in known if one < behind), default=None)
    if found is None:
        raise NothingFoundError(
            "The lake", sought, f"the first transaction that it has was committed later, at {behind}"
        )
    return found


def _commits(sources: SchemaSources, window: Window, histories: _Histories) -> Iterator[_Entry]:
    """Yield the ends of transactions in a window, as far as the frontier holds them."""
    cells = sources.pipeline.cells([window])
    condition = "(message_type = 'COMMIT' or message_type = 'DDL')"
    instead = "name a window instead of the time"
    for one in _entries(sources.pipeline, cells, condition, instead=instead, histories=histories):
        if sources.frontier.holds(one.window_start, one.position):
            yield one


def frontier_words(sources: SchemaSources) -> str:
    """Return the frontier in words: ``window 2026-01-05-07:00, which stands at 0:3:700``."""
    reached, cut = sources.frontier.window, sources.frontier.cut
    if reached is None:
        return "nothing"
    window = sources.pipeline.grid.of_start(reached).key
    return f"window {window}" + ("" if cut is None else f", which stands at {cut}")


def complete_words(sources: SchemaSources, limit: SourcePosition | None = None) -> str:
    """Return what is complete in words, with the position up to which it is, where one is given."""
    reached = sources.frontier.window
    if reached is None:
        return "no window is complete yet"
    shown = f"everything up to window {sources.pipeline.grid.of_start(reached).key} is complete"
    shown += "" if limit is None else f", up to position {limit}"
    return shown + (f"; {sources.later} later windows wait for one that is missing" if sources.later else "")
