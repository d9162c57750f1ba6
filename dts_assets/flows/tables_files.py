"""The entries files that the tables of some windows are decoded from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.refreshes import run_of
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.appends import Appends
from dts_assets.store.lake import StoredFile


def entries_files(
    pipeline: Pipeline, windows: Iterable[Window], rows: Mapping[Cell, IngestWindow], appends: Appends
) -> dict[datetime, list[tuple[str, int]]]:
    """Return the entries files to decode by window start, ``{start: [("a.parquet", 7)]}``, with bytes.

    Of a window that is appended to they are the files with new entries.
    """
    starts = {window.start for window in windows}
    files = pipeline.lake.data_files(pipeline.path("entries"), {"window_start": starts})
    found: dict[datetime, list[tuple[str, int]]] = {}
    for cell, mine in files_of_cells(pipeline, files, {cell: row.refreshes for cell, row in rows.items()}).items():
        before = appends.marks.get(cell.window.start)
        end = 0 if before is None else before.ends[cell.kafka_partition]
        wanted = [file for file in mine if cell not in rows or _reaches_beyond(file, rows[cell], end)]
        found.setdefault(cell.window.start, []).extend((file.path, file.bytes) for file in wanted)
    return {start: some for start, some in found.items() if some}


def _reaches_beyond(file: StoredFile, row: IngestWindow, end: int) -> bool:
    """Return whether a file may have entries at or behind an offset."""
    run = run_of(file.path)
    ends = [one.end_offset for one in row.refreshes if one.run == run] or [row.offsets.end]
    return not end or max(ends) > end
