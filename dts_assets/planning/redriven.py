"""The work of a redrive: entries and tables that are made again from rows in quarantine."""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.model.ledger_rows import Cut, QuarantineRow
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.work import Work


def quarantined_cells(rows: Iterable[QuarantineRow], grid: WindowGrid) -> frozenset[Cell]:
    """Return the cells that rows in quarantine came from."""
    return frozenset(Cell(row.kafka_partition, grid.of_start(row.window_start)) for row in rows)


def entries_to_redrive(rows: Iterable[QuarantineRow], grid: WindowGrid) -> Work:
    """Return the entries to make again.

    They are of the cells in which messages, fragments or entries could not be used.
    """
    cells = quarantined_cells((row for row in rows if row.stage == "entries"), grid)
    return Work((), tuple(sorted(cells)), ())


def tables_to_redrive(rows: Iterable[QuarantineRow], left: Iterable[QuarantineRow], cuts: Iterable[Cut]) -> Work:
    """Return the tables to make again, where entries have changed or a change could not be used.

    ``left`` is the quarantine after the entries were made again. Tables that are not in ``cuts`` come with their first run.
    """
    still = {_key(row) for row in left if row.stage == "entries"}
    changed = {row.window_start for row in rows if row.stage == "tables" or _key(row) not in still}
    return Work((), (), tuple(cut.window for cut in cuts if cut.window.start in changed))


def _key(row: QuarantineRow) -> tuple[object, ...]:
    return row.kafka_partition, row.window_start, row.stage, row.first_offset, row.last_offset, row.reason
