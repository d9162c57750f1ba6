"""The positions of the changes that windows up to a frontier have kept of some tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId


def kept_positions(
    rows: Iterable[WindowTable], tables: Collection[TableId], frontier: Frontier
) -> tuple[tuple[SourcePosition, SourcePosition], ...]:
    """Return the first and last positions of changes, each pair of one list of columns in one window."""
    found: list[tuple[SourcePosition, SourcePosition]] = []
    for row in _kept(rows, tables, frontier):
        if row.lists:
            found += [(one.first, one.last) for one in row.lists]
        elif row.first_position is not None and row.last_position is not None:
            found.append((row.first_position, row.last_position))
    return tuple(found)


def first_lacking(
    rows: Iterable[WindowTable], tables: Collection[TableId], frontier: Frontier
) -> SourcePosition | None:
    """Return the first position of windows whose changes lack columns; None without any."""
    found = (row.first_position for row in _kept(rows, tables, frontier) if row.absent_rows)
    return min((one for one in found if one is not None), default=None)


def _kept(rows: Iterable[WindowTable], tables: Collection[TableId], frontier: Frontier) -> Iterator[WindowTable]:
    for row in rows:
        if row.table in tables and row.kept and frontier.window is not None and row.window_start <= frontier.window:
            yield row
