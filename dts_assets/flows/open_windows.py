"""Windows that are read while open: whose files belong to them, and one writer at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeAlias

from pyiceberg.manifest import DataFile

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.ledger_rows import IngestWindow, RawWindow
from dts_assets.model.refreshes import run_of, runs_of
from dts_assets.model.spans import Cell, Span, partition_key
from dts_assets.planning.rectangles import rectangles
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import WrittenFile
from dts_assets.store.lake import StoredFile
from dts_assets.store.locks import hold_lock

Keep: TypeAlias = Callable[[DataFile], bool]
"""The rule that tells which files inside a rectangle stay when it is replaced."""


@contextmanager
def cells_alone(pipeline: Pipeline, span: Span, progress: Progress) -> Iterator[None]:
    """Hold the locks of a span's Kafka partitions: other runs of raw or entries wait for them.

    Two runs that append to one window at once would each take the other's rows for the leftovers of a killed run.
    """
    with ExitStack() as held:
        for partition in span.kafka_partitions:
            key = partition_key(partition)
            wait = f"{key} is being read by another run; waiting for it to end"
            name = f"{pipeline.name}-{key}"
            held.enter_context(hold_lock(pipeline.lake.location, name, on_wait=partial(progress, wait)))
        yield


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


def replace_cells(
    pipeline: Pipeline,
    path: tuple[str, ...],
    files: Mapping[Cell, Iterable[WrittenFile]],
    appends: Mapping[Cell, RawWindow | IngestWindow],
    *,
    beside: Mapping[str, Collection[str]] = {},
) -> None:
    """Commit the new files of some cells, in few rectangles; ``beside`` bounds further partition fields.

    Cells of ``appends`` keep the files of the readings that these marks stand for.
    """
    added = kept(runs_of(row.refreshes) for row in appends.values())
    for cells, keep in ((files.keys() - appends.keys(), None), (appends.keys(), added)):
        for span in rectangles(cells):
            rectangle: Rectangle = {
                "kafka_partition": set(span.kafka_partitions),
                "window_start": {window.start for window in span.windows},
                **beside,
            }
            pipeline.lake.replace(path, rectangle, [file for cell in span.cells() for file in files[cell]], keep=keep)
