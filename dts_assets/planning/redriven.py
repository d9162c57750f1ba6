"""The work of a redrive: entries and tables that are made again from rows in quarantine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from dts_assets.model.ledger_rows import Cut, IngestWindow, QuarantineRow
from dts_assets.model.message_retention import ENTRIES
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.planning.message_retention import Unmakeable
from dts_assets.planning.work import Work


def quarantined_cells(rows: Iterable[QuarantineRow], grid: WindowGrid) -> frozenset[Cell]:
    """Return the cells that rows in quarantine came from."""
    return frozenset(Cell(row.kafka_partition, grid.of_start(row.window_start)) for row in rows)


def can_be_redriven(
    rows: Iterable[QuarantineRow],
    unmakeable: Unmakeable,
    marks: Callable[[Collection[Window]], Iterable[IngestWindow]],
) -> tuple[list[QuarantineRow], list[QuarantineRow]]:
    """Return the rows whose messages or entries are still there, and all others.

    ``marks`` gives the marks of entries of some windows. Where nothing was removed, it is not asked.
    """
    rows, grid = list(rows), unmakeable.grid
    if grid is None or not unmakeable.removed.rows:
        return rows, []
    windows = {cell.window for cell in quarantined_cells(rows, grid)}
    kept = {row.cell for row in marks(windows) if unmakeable.sources_of(row)}
    partitions = {row.kafka_partition for row in rows} | {cell.kafka_partition for cell in kept}
    cells = (Cell(partition, window) for window in windows for partition in partitions)
    without_entries = {cell.window.start for cell in unmakeable.removed.among(ENTRIES, cells)}

    def stays(row: QuarantineRow) -> bool:
        cell = Cell(row.kafka_partition, grid.of_start(row.window_start))
        return row.window_start in without_entries or (row.stage == "entries" and cell in kept)

    return [row for row in rows if not stays(row)], [row for row in rows if stays(row)]


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
