"""Which entries files the tables of some windows are decoded from, and how tasks share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from dts_assets.flows.growing import Growing
from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.refreshes import run_of
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.store.lake import StoredFile

_TASKS = 4
"""At least so many tasks for the cores to share, if there are so many files."""

_TASK_BYTES = 8 << 20
"""Stored bytes of small windows that one task takes together: about a chunk when they are unpacked."""


def entries_files(
    pipeline: Pipeline, windows: Iterable[Window], rows: Mapping[Cell, IngestWindow], growing: Growing
) -> dict[datetime, list[tuple[str, int]]]:
    """The entries files (path, bytes) to decode, by window; of windows that are added to those with new entries alone."""
    starts = {window.start for window in windows}
    files = pipeline.lake.data_files(pipeline.path("entries"), {"window_start": starts})
    found: dict[datetime, list[tuple[str, int]]] = {}
    for cell, mine in files_of_cells(pipeline, files, {cell: row.refreshes for cell, row in rows.items()}).items():
        before = growing.onto.get(cell.window.start)
        end = 0 if before is None else before.ends[cell.kafka_partition]
        wanted = [file for file in mine if cell not in rows or _reaches_beyond(file, rows[cell], end)]
        found.setdefault(cell.window.start, []).extend((file.path, file.bytes) for file in wanted)
    return {start: some for start, some in found.items() if some}


def _reaches_beyond(file: StoredFile, row: IngestWindow, end: int) -> bool:
    """Whether a file may have entries at or behind an offset."""
    run = run_of(file.path)
    ends = [one.end_offset for one in row.refreshes if one.run == run] or [row.offsets.end]
    return not end or max(ends) > end


def shared_out(
    windows: Mapping[datetime, Sequence[tuple[str, int]]],
) -> Iterator[tuple[tuple[str, ...], dict[datetime, int]]]:
    """Files (path, bytes) of windows as tasks take them: their paths, and their bytes by window.

    A large window is cut into several tasks if there are few; small ones are put together, since a chunk of many windows is
    decoded and counted in about the time of one.
    """
    total = sum(size for files in windows.values() for _, size in files)
    most = min(_TASK_BYTES, total // _TASKS)
    paths: list[str] = []
    sizes: dict[datetime, int] = {}
    for start, files in sorted(windows.items()):
        parts = _parts(files, max(1, _TASKS // len(windows)))
        for group, size in parts:
            if paths and (len(parts) > 1 or sum(sizes.values()) + size > most):
                yield tuple(paths), sizes
                paths, sizes = [], {}
            paths += group
            sizes[start] = sizes.get(start, 0) + size
    if paths:
        yield tuple(paths), sizes


def _parts(files: Iterable[tuple[str, int]], most: int) -> list[tuple[list[str], int]]:
    """Files (path, bytes) spread over at most so many groups of about the same size; each with its size."""
    groups: list[tuple[int, list[str]]] = [(0, []) for _ in range(most)]
    for path, size in sorted(files, key=lambda file: (-file[1], file[0])):
        number = min(range(most), key=lambda one: groups[one][0])
        groups[number] = (groups[number][0] + size, [*groups[number][1], path])
    return [(sorted(paths), size) for size, paths in groups if paths]
