"""The backlog: the tables of which some layer may lack changes. No other table is looked at.

A run enters a table before it writes the table's changelog, under its own name. It takes the table out when all layers hold all
changes of the changelog. A table stays while changes wait for a later frontier, while it is paused, and after a run that was
killed. A run takes out its own rows and those that it has seen before it began: rows of a run that has overtaken it stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence

from dts_assets.model.ledger_rows import BacklogTable, IngestWindow
from dts_assets.model.tables import TableId
from dts_assets.planning.named_tables import may_mean_any, tables_named

_ALL_LOOKED_AT = TableId("", "", "")
"""The table of the row that says with which layers the backlog is kept. No table of a source has an empty name."""


def backlog_of(rows: Iterable[BacklogTable], layers: Iterable[str]) -> frozenset[TableId] | None:
    """Return the tables in the backlog; None if any table may lack changes.

    Any table may before the first run that looks at all of them, and once there are other ``layers``, or layers of other tables:
    ``snapshot``, ``history shopdb.orders``.
    """
    tables = {row.table: row.run for row in rows}
    known = tables.pop(_ALL_LOOKED_AT, None) == _layers_text(layers)
    return frozenset(tables) if known else None


def layers_asked_for(rows: Iterable[BacklogTable], layers: Iterable[str]) -> str:
    """Return a text that names the layers which tables are to have: ``layers:5d41402abc4b``.

    It is empty if all tables were looked at with these layers, and before the first run that looks at all of them.
    """
    made = next((row.run for row in rows if row.table == _ALL_LOOKED_AT), None)
    asked = _layers_text(layers)
    return "" if made in (None, asked) else f"layers:{hashlib.sha256(asked.encode()).hexdigest()[:12]}"


def concerned_tables(
    backlog: frozenset[TableId] | None,
    cells: Iterable[IngestWindow],
    *,
    described: Iterable[TableId],
    counted: Iterable[TableId],
    tables: Collection[TableId],
    lake_table: Callable[[TableId], TableId] = lambda source: source,
) -> frozenset[TableId] | None:
    """Return the tables that a run may have work for; None stands for all tables.

    Args:
        backlog: The tables in the backlog.
        cells: The marks of ingest of the windows that the run makes.
        described: The tables that entries of these windows describe.
        counted: The tables that have counts of these windows: their rows may go.
        tables: The known source tables. A statement may change a table without an entry in the windows.
        lake_table: The function that gives the lake table of a source table.
    """
    cells = list(cells)
    if backlog is None or any(map(may_mean_any, cells)):
        return None
    return backlog.union(described, counted, map(lake_table, tables_named(cells, tables)))


def entered(rows: Sequence[BacklogTable], tables: Iterable[TableId], run: str) -> list[BacklogTable]:
    """Return the rows of the backlog with tables that a run is about to write."""
    return _sorted({*rows, *(BacklogTable(table, run) for table in tables)})


def taken_out(
    rows: Iterable[BacklogTable],
    *,
    seen: Collection[BacklogTable],
    run: str,
    done: Collection[TableId],
    layers: Iterable[str],
    all_tables: Collection[TableId] = (),
) -> list[BacklogTable]:
    """Return the rows of the backlog without tables of which no layer lacks a change.

    Args:
        rows: The rows as they stand.
        seen: The rows as they stood when the run was planned.
        run: The name of the run.
        done: The tables that lack nothing any more.
        layers: The titles of all layers.
        all_tables: All tables, if the run was to look at all of them; those that are not done may lack changes.
    """
    done, seen = frozenset(done), frozenset(seen)
    kept = {row for row in rows if row.table not in done or not (row.run == run or row in seen)}
    if all_tables:
        kept = {row for row in kept if row.table != _ALL_LOOKED_AT}
        kept |= {BacklogTable(table, run) for table in all_tables if table not in done}
        kept.add(BacklogTable(_ALL_LOOKED_AT, _layers_text(layers)))
    return _sorted(_one_row_each(kept, run, seen))


def _one_row_each(rows: Iterable[BacklogTable], run: str, seen: Collection[BacklogTable]) -> set[BacklogTable]:
    """Return rows in which a table that waits stands once, and not once for each run."""
    found = set(rows)
    mine = {row.table for row in found if row.run == run}
    return {row for row in found if row.run == run or row not in seen or row.table not in mine}


def _sorted(rows: Iterable[BacklogTable]) -> list[BacklogTable]:
    return sorted(rows, key=lambda row: (*row.table.names, row.run))


def _layers_text(layers: Iterable[str]) -> str:
    return ",".join(sorted(layers))
