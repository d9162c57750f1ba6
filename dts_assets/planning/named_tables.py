"""The tables that the statements of a window may change, as ingest noted them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dts_assets.model.emptied_tables import emptied_among
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.statement_words import tables_in_words
from dts_assets.model.tables import TableId


def may_mean_any(cell: IngestWindow) -> bool:
    """Return whether a cell's statements may mean any table: theirs were too many, or were not noted."""
    unnamed = cell.altering and not (cell.altered or cell.unread)
    return bool(unnamed) or (cell.emptying != 0 and not cell.emptied)


def tables_named(cells: Iterable[IngestWindow], tables: Collection[TableId]) -> frozenset[TableId]:
    """Return those of some source tables that the statements of cells name.

    None of these statements may mean any table.
    """
    cells = list(cells)
    named = {table for cell in cells for table in (*cell.emptied, *cell.altered)}
    unread = {words for cell in cells for words in cell.unread}
    return frozenset(emptied_among(named, tables)).union(*(tables_in_words(words, tables) for words in unread))
