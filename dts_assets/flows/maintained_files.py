"""Compaction of everything: the files of all closed windows, and of all snapshots and histories.

A run compacts what it has written. Files that it left, because it ended before, or because many windows were made by many small
runs, are found here by looking at the files themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from dts_assets.flows.apart import fault_at
from dts_assets.flows.compaction import compact_cells, compact_changelogs
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.maintained_tables import Path
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.flows.snapshot_compaction import worn_files
from dts_assets.flows.turns import ingest_turn
from dts_assets.model.columns import Column
from dts_assets.model.maintenance import Step, StepReport
from dts_assets.model.message_retention import ENTRIES, RAW
from dts_assets.model.refreshes import runs_of
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.compactions import is_worth_compacting


def compact_everything(
    pipeline: Pipeline,
    tables: Mapping[TableId, Sequence[Column]],
    *,
    dry_run: bool,
    spark: SparkProvider,
    progress: Progress,
) -> StepReport:
    """Compact what is worth it, and report it. It is the caller's turn in the tables."""
    scattered = {table: windows for table in sorted(tables) if (windows := _scattered_windows(pipeline, table))}
    cells = _scattered_cells(pipeline)
    worn = {
        layer.name: worn_files(
            pipeline, layer, {table: some for table, some in tables.items() if layer.takes(pipeline.settings, table)}
        )
        for layer in pipeline.layers
        if layer.compact is not None
    }
    paths: list[Path] = [pipeline.table_path(CHANGELOG.name, table) for table in scattered]
    paths += [pipeline.table_path(name, table) for name, some in worn.items() for table in some]
    paths += [pipeline.path(name) for name in (RAW, ENTRIES)] if cells else []
    details = [f"{'.'.join(path)}: {_files(pipeline, path):,} files" for path in paths]
    before, failed = sum(_files(pipeline, path) for path in paths), list[str]()
    if not dry_run:
        marks = {mark.window.start: mark for mark in pipeline.ledger.cuts()}
        for table, starts in scattered.items():
            mine = [marks[start] for start in sorted(starts) if start in marks and not marks[start].open_in]
            compact_changelogs(pipeline, mine, [table], spark=spark, progress=progress)
        for layer in pipeline.layers:
            if layer.compact is not None and worn[layer.name]:
                layer.compact(pipeline, {table: tables[table] for table in worn[layer.name]}, spark, progress)
        failed += _compact_cells(pipeline, cells, spark, progress)
    after = before if dry_run else sum(_files(pipeline, path) for path in paths)
    numbers = {"files_before": before, "files_after": after}
    return StepReport(Step.COMPACTION, len(paths), 0, numbers, tuple(details), tuple(failed))


def _files(pipeline: Pipeline, path: Path) -> int:
    state = pipeline.lake.state(path)
    return 0 if state is None else int(state.properties.get("total-data-files", 0))


def _scattered_windows(pipeline: Pipeline, table: TableId) -> frozenset[datetime]:
    """Return the starts of the windows whose changelog of a table lies in many files."""
    files = pipeline.lake.data_files(pipeline.table_path(CHANGELOG.name, table))
    counts = Counter(file.partition["window_start"] for file in files)
    return frozenset(start for start, count in counts.items() if is_worth_compacting(count))


def _scattered_cells(pipeline: Pipeline) -> frozenset[Cell]:
    """Return the cells whose raw or entries lie in many files."""
    found = set[Cell]()
    for name in (RAW, ENTRIES):
        counts = Counter(
            (file.partition["kafka_partition"], file.partition["window_start"])
            for file in pipeline.lake.data_files(pipeline.path(name))
        )
        found |= {
            Cell(partition, pipeline.grid.of_start(start))
            for (partition, start), count in counts.items()
            if is_worth_compacting(count)
        }
    return frozenset(found)


def _compact_cells(
    pipeline: Pipeline, cells: Collection[Cell], spark: SparkProvider, progress: Progress
) -> tuple[str, ...]:
    """Compact raw and entries of cells whose windows have closed, and return why some were not."""
    windows = sorted({cell.window for cell in cells})
    if not windows:
        return ()
    span = Span(tuple(sorted({cell.kafka_partition for cell in cells})), tuple(windows))
    try:
        with ingest_turn(pipeline, span, progress):
            raw = {row.cell: row for row in pipeline.ledger.raw_windows(windows)}
            rows = [
                row
                for row in pipeline.ledger.windows(windows)
                if row.cell in cells
                and row.cell in raw
                and row.closed_by is not ClosedBy.OPEN
                and (runs_of(row.refreshes) or runs_of(raw[row.cell].refreshes))
            ]
            compact_cells(pipeline, rows, raw, spark=spark, progress=progress)
    except Exception as error:  # the source may not answer, which says nothing about the tables
        return (f"{RAW}, {ENTRIES}: {fault_at(str(Step.COMPACTION), error).reason}",)
    return ()
