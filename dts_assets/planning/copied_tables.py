"""The windows that take the rows of copies, and moments that lie inside a copy.

A copy is an input of the first window whose cut reaches its greatest high watermark. Then every change that came while the rows
were read is in the lake, and the stream decides about each of them. A window that cannot be made again, as its entries were
removed, takes none any more: the next one does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.copied_tables import CopiedTable, CopyKind
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.message_retention import ENTRIES, NOTHING_REMOVED, Removed
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.staleness import input_text
from dts_assets.planning.topic_lineages import Lineages

COPY_INPUT = "copy:"
"""The beginning of the names under which windows record the copies that their changelogs have."""


def copies_in_force(copies: Iterable[CopiedTable]) -> list[CopiedTable]:
    """Return the copies that count, of those that windows take, in the order of their begin.

    A copy of a whole table does not where a later one empties the table before, or at, a position of its rows: nothing else would
    take them away.
    """
    inputs = sorted(
        (one for one in copies if one.is_input and one.low is not None), key=lambda one: (one.began, one.copy)
    )
    found: list[CopiedTable] = []
    least: dict[TableId, SourcePosition] = {}
    for copy in reversed(inputs):
        low, last, border = copy.low, copy.last_low, least.get(copy.table)
        if low is None or last is None or copy.kind is CopyKind.REPAIR:
            found.append(copy)
            continue
        if border is None or last < border:
            found.append(copy)
        least[copy.table] = low if border is None else min(border, low)
    return found[::-1]


def windows_of_copies(
    copies: Iterable[CopiedTable], windows: Iterable[datetime], reached: Callable[[datetime], SourcePosition | None]
) -> dict[datetime, tuple[CopiedTable, ...]]:
    """Return the copies that each window takes, by window start, in the order of their begin.

    A copy stays with the window that has taken it. ``windows`` are the starts of stored windows, ``reached`` gives the position
    that each reaches. Windows that take no copy are left out.
    """
    inputs = [one for one in copies if one.is_input]
    starts, furthest = list[datetime](), list[SourcePosition]()
    for start in sorted(windows) if any(one.window_start is None for one in inputs) else ():
        at = reached(start)
        if at is not None and (not furthest or at > furthest[-1]):  # no earlier window reaches further
            starts.append(start)
            furthest.append(at)
    taken: dict[str, datetime] = {}
    for copy in inputs:
        if copy.window_start is not None:
            taken[copy.copy] = copy.window_start
        elif copy.high is not None and (place := bisect_left(furthest, copy.high)) < len(starts):
            taken[copy.copy] = starts[place]
    found: dict[datetime, list[CopiedTable]] = {}
    for copy in copies_in_force(one for one in inputs if one.copy in taken):
        found.setdefault(taken[copy.copy], []).append(copy)
    return {start: tuple(some) for start, some in found.items()}


@dataclass(frozen=True, slots=True)
class Copies:
    """The tables that were copied beside the stream, and the rows that retention has removed."""

    tables: tuple[CopiedTable, ...] = ()
    removed: Removed = NOTHING_REMOVED

    def by_window(
        self,
        windows: Mapping[datetime, Collection[IngestWindow]],
        reached: Callable[[datetime], SourcePosition | None],
    ) -> dict[datetime, tuple[CopiedTable, ...]]:
        """Return the copies that each window takes, by window start; see :func:`windows_of_copies`.

        ``windows`` has the marks of ingest of each.
        """
        cells = {start: [row.cell for row in rows] for start, rows in windows.items()}
        makeable = (start for start, some in cells.items() if not self.removed.among(ENTRIES, some))
        return windows_of_copies(self.tables, makeable, reached)


NO_COPIES = Copies()


def reached_by(rows: Iterable[IngestWindow], lineages: Lineages, cut: SourcePosition | None) -> SourcePosition | None:
    """Return the position that a window reaches: its cut, or its last entry where messages tell no CHECKPOINT.

    ``rows`` are the marks of ingest of the window.
    """
    if cut is not None:
        return cut
    found = [
        SourcePosition(lineages.of_run(row.kafka_partition, run, epoch=row.epoch)[1], run.last.file, run.last.position)
        for row in rows
        for run in row.runs
    ]
    return max(found, default=None)


def copies_inputs(copies: Iterable[CopiedTable]) -> tuple[str, ...]:
    """Return the inputs of a window that takes some copies: ``("copy:5d41402abc4b=1200 rows",)``."""
    return tuple(input_text(f"{COPY_INPUT}{one.copy}", f"{one.rows} rows") for one in copies)


def copied_meanwhile(copies: Iterable[CopiedTable], frontier: Frontier) -> frozenset[TableId]:
    """Return the tables that nobody knows as of a frontier, because a copy was not complete then.

    They are tables whose first rows are a copy which was made later, and those of which rows were being read. A frontier without
    a cut holds whole windows, and with them the copies that these take.
    """
    found, position = set(), frontier.cut
    for copy in copies_in_force(copies):
        low, high = copy.low, copy.high
        if low is None or high is None or copy.kind is CopyKind.REPAIR:
            continue
        is_first, start = copy.kind is CopyKind.BOOTSTRAP, copy.window_start
        if position is not None:
            is_later, was_read = position < low, low <= position < high
        else:
            is_later, was_read = start is not None and frontier.window is not None and start > frontier.window, False
        if was_read or (is_first and is_later):
            found.add(copy.table)
    return frozenset(found)


def taken_by(copies: Iterable[CopiedTable], windows: Mapping[datetime, Collection[CopiedTable]]) -> dict[str, datetime]:
    """Return the windows that copies are taken by for the first time, by the names of the copies."""
    starts = {copy.copy: start for start, some in windows.items() for copy in some}
    return {one.copy: starts[one.copy] for one in copies if one.window_start is None and one.copy in starts}
