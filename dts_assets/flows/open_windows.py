"""Windows that are read while open: whose files belong to them, and what commits of them assert."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from pyiceberg.manifest import DataFile

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.ledger_rows import IngestWindow, RawWindow
from dts_assets.model.refreshes import run_of, runs_of
from dts_assets.model.spans import Cell, Span
from dts_assets.planning.rectangles import rectangles
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import WrittenFile
from dts_assets.store.stored_files import StoredFile

Keep: TypeAlias = Callable[[DataFile], bool]
"""The rule that tells which files inside a rectangle stay when it is replaced."""

FilesFound: TypeAlias = Mapping[Cell, Collection[str]]
"""The paths of the files in some cells when a run planned its work, which its commits assert."""


def kept(runs: Iterable[Iterable[str]]) -> Keep:
    """Return the rule that keeps the files of the runs that the ledger names.

    Other files were left behind by runs that were killed before they wrote their mark.
    """
    named = frozenset(run for some in runs for run in some)
    return lambda file: run_of(file.file_path) in named


def own_files(files: Iterable[StoredFile], runs: Sequence[str]) -> list[StoredFile]:
    """Return the files written by ``runs``, in run order; all files if ``runs`` is empty."""
    if not runs:
        return list(files)
    place = {run: number for number, run in enumerate(runs)}
    mine = [file for file in files if run_of(file.path) in place]
    return sorted(mine, key=lambda file: (place[run_of(file.path)], file.path))


def files_of_cells(
    pipeline: Pipeline, files: Iterable[StoredFile], rows: Mapping[Cell, RawWindow | IngestWindow]
) -> dict[Cell, list[StoredFile]]:
    """Return files of raw or entries by cell, in offset order.

    Only the files that the marks of the cells stand for are returned; of a cell without a mark they are all files.
    """
    found: dict[Cell, list[StoredFile]] = {}
    for file in files:
        cell = Cell(file.partition["kafka_partition"], pipeline.grid.of_start(file.partition["window_start"]))
        found.setdefault(cell, []).append(file)
    return {
        cell: own_files(some, runs_of(rows[cell].refreshes) if cell in rows else ()) for cell, some in found.items()
    }


def find_files(
    pipeline: Pipeline, path: tuple[str, ...], span: Span, *, beside: Mapping[str, Collection[str]] = {}
) -> FilesFound:
    """Return the paths of all files in the cells of a span, whoever wrote them."""
    rectangle: Rectangle = {
        "kafka_partition": set(span.kafka_partitions),
        "window_start": {window.start for window in span.windows},
        **beside,
    }
    found: dict[Cell, list[str]] = {}
    for file in pipeline.lake.data_files(path, rectangle):
        cell = Cell(file.partition["kafka_partition"], pipeline.grid.of_start(file.partition["window_start"]))
        found.setdefault(cell, []).append(file.path)
    return found


def replace_cells(
    pipeline: Pipeline,
    path: tuple[str, ...],
    files: Mapping[Cell, Iterable[WrittenFile]],
    appends: Mapping[Cell, RawWindow | IngestWindow],
    *,
    found: FilesFound,
    beside: Mapping[str, Collection[str]] = {},
) -> None:
    """Commit the new files of some cells, in few rectangles; ``beside`` bounds further partition fields.

    Cells of ``appends`` keep the files of the readings that these marks stand for. ``found`` are all files of the cells when
    the work was planned.

    Raises:
        StaleGenerationError: A rectangle holds other files than were found.
    """
    added = kept(runs_of(row.refreshes) for row in appends.values())
    for cells, keep in ((files.keys() - appends.keys(), None), (appends.keys(), added)):
        for span in rectangles(cells):
            rectangle: Rectangle = {
                "kafka_partition": set(span.kafka_partitions),
                "window_start": {window.start for window in span.windows},
                **beside,
            }
            new = [file for cell in span.cells() for file in files[cell]]
            base = [path for cell in span.cells() for path in found.get(cell, ())]
            pipeline.lake.replace(path, rectangle, new, base=base, keep=keep)
