"""The third flow: entries of whole windows into changelogs and snapshots of all tables, marked in ``cuts``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dts_assets.errors import IncompleteWindowError, NotReadyError
from dts_assets.flows.compaction import compact_changelogs, needs_compaction
from dts_assets.flows.growing import Growing, find_growing, open_windows
from dts_assets.flows.known_tables import known_tables, register_shapes, widen_unsigned
from dts_assets.flows.layers import CHANGELOG, EVERYTHING, Layer, LayerWork, Selection
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.redelivered import NOTHING_BEFORE, Redelivered, find_redelivered_changes
from dts_assets.flows.redelivered_tasks import EntryKeys
from dts_assets.flows.reports import LayerOutcome, Progress, TablesReport, WindowReport, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.flows.table_reports import changes_by_window, stored_tallies, summed, table_reports
from dts_assets.flows.tables_commit import (
    commit_changelogs,
    commit_system_rows,
    tallies_of,
    unbalanced_tables,
    window_tables_of,
)
from dts_assets.flows.tables_files import entries_files, shared_out
from dts_assets.flows.tables_tasks import (
    CellKey,
    TablesResult,
    TablesTask,
    TableTally,
    TableTarget,
    decode_changes,
)
from dts_assets.flows.upkeep import expire_old_snapshots
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.ledger_rows import Cut, IngestWindow
from dts_assets.model.lineages import LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.cuts import frontier, window_cut
from dts_assets.planning.snapshot_plans import Chain
from dts_assets.planning.topic_history import TopicHistory
from dts_assets.planning.topic_marks import proven_anew, same_rows
from dts_assets.stages.entry_facts import merge_shapes
from dts_assets.store.columns import changelog_columns
from dts_assets.store.locks import hold_lock
from dts_assets.store.schemas import DDL, QUARANTINE, changelog_layout
from dts_assets.wire.format import TableShape


@dataclass(frozen=True, slots=True)
class _Known:
    """What was decided about the entries of a run before they are decoded."""

    history: TopicHistory
    before: Redelivered
    growing: Growing
    run: str

    def rules(self, pipeline: Pipeline, starts: Iterable[datetime]) -> dict[CellKey, dict[str, LineageRule]]:
        """The rules of the cells of some windows that are not all of lineage 0."""
        cells = [
            Cell(partition, pipeline.grid.of_start(start))
            for start in starts
            for partition in pipeline.kafka_partitions
        ]
        return {
            (cell.kafka_partition, cell.window.start): found for cell in cells if (found := self.history.rules(cell))
        }

    def statements(self, starts: Collection[datetime]) -> dict[CellKey, frozenset[int]]:
        """The offsets of the DDL of some windows that counts."""
        return {
            (cell.kafka_partition, cell.window.start): offsets
            for cell, offsets in self.history.statements.items()
            if cell.window.start in starts
        }

    def redelivered(self, starts: Collection[datetime]) -> dict[CellKey, EntryKeys]:
        """The entries of some windows that were delivered before."""
        return {
            (cell.kafka_partition, cell.window.start): keys
            for cell, keys in self.before.entries.items()
            if cell.window.start in starts
        }


def materialize_tables(
    pipeline: Pipeline,
    windows: Sequence[Window],
    *,
    selection: Selection = EVERYTHING,
    spark: SparkProvider,
    progress: Progress,
) -> TablesReport:
    """Make the changelogs of some windows and bring the snapshots to the frontier.

    Raises NotReadyError if a Kafka partition of a window has no entries yet, IncompleteWindowError where incomplete windows
    block, IncompatibleLakeError where the lake was built otherwise. A run of only some tables does not mark its windows.
    """
    waits = "tables: another run of them is going on in this lake; waiting for it to end"
    with hold_lock(pipeline.lake.location, f"{pipeline.name}-tables", on_wait=lambda: progress(waits)):
        return _materialize(pipeline, sorted(windows), selection, spark, progress)


def _materialize(
    pipeline: Pipeline, windows: Sequence[Window], selection: Selection, spark: SparkProvider, progress: Progress
) -> TablesReport:
    began = time.monotonic()
    pipeline.check_shape()
    ingested = {row.cell: row for row in pipeline.ledger.windows()}
    _require_ready(pipeline, windows, ingested)
    tables = _tables_of(pipeline, windows)
    topic = pipeline.topic_marks(ingested.values(), tables)
    marks = [topic.mark(window) for window in windows]
    _refuse_incomplete(pipeline, marks, ingested)
    stored = {row.window.start: row for row in pipeline.ledger.cuts()}
    marked = {mark.window: mark for mark in marks if selection.whole and same_rows(stored.get(mark.window.start), mark)}
    if marked:
        progress(f"tables: {len(marked)} windows keep their rows; what is known of them has changed")
    again = [mark for mark in marks if mark.window not in marked]
    made_again = [mark.window for mark in again]
    growing = find_growing(pipeline, again, stored, ingested) if selection.whole else Growing({})
    changelogs = _chosen(tables, CHANGELOG, selection)
    results: list[TablesResult] = []
    before = NOTHING_BEFORE
    run = pipeline.new_run()
    if made_again and (changelogs or selection.whole):
        _take_back_marks(pipeline, [mark for mark in marks if mark.window.start not in growing.onto], stored)
        before = find_redelivered_changes(pipeline, topic.history, made_again, tables, spark=spark, progress=progress)
        known = _Known(topic.history, before, growing, run)
        results = _changelogs(pipeline, made_again, changelogs, known, spark, progress)
    if selection.of(CHANGELOG) is None:
        commit_system_rows(pipeline, made_again, results, growing)
    made = stored_tallies(pipeline, [mark.window for mark in growing.onto.values()])
    for key, tally in tallies_of(results).items():
        made.setdefault(key, TableTally()).merge(tally)
    unbalanced: dict[datetime, tuple[str, ...]] = {}
    if selection.whole or changelogs:
        rows = window_tables_of(made, before.changes(changelogs), dict.fromkeys(growing.to_go_on(again, ingested), run))
        unbalanced = unbalanced_tables(rows)
        chosen = None if selection.whole else selection.of(CHANGELOG)
        pipeline.ledger.replace_window_tables(made_again, rows, tables=chosen)
    made |= stored_tallies(pipeline, list(marked))
    cuts = {start: window_cut(row) for start, row in stored.items()}
    first = pipeline.first_window()
    if selection.whole:
        stood_at = frontier(cuts, pipeline.grid, first=first).cut
        made_marks = growing.marked(again, ingested, run=run, results=results, stood_at=stood_at)
        marks = sorted([*made_marks, *proven_anew(marked.values(), stored)], key=lambda mark: mark.window)
        cuts |= {mark.window.start: window_cut(mark) for mark in marks}
    chains = {
        mark.window.start: Chain(mark.chain, frozenset(mark.made_by))
        for mark in (*stored.values(), *marks)
        if mark.chain
    }
    reached = frontier(cuts, pipeline.grid, first=first)
    outcomes = _advance_layers(pipeline, selection, windows, reached, chains, spark, progress)
    if selection.whole:
        pipeline.ledger.replace_lineages(topic.history.lineages.all)
        pipeline.ledger.replace_cuts(windows, marks)
        still_open = open_windows(ingested.values())
        scattered = [
            mark for mark in marks if needs_compaction(len(mark.made_by), still_open=mark.window.start in still_open)
        ]
        compact_changelogs(pipeline, scattered, tables, spark=spark, progress=progress)
        expire_old_snapshots(pipeline, {table for result in results for table in result.files})
    changes = changes_by_window(made)
    seconds = summed(pair for result in results for pair in result.seconds.items())
    reports = tuple(
        WindowReport(
            mark,
            _applied(mark.window, reached),
            changes.get(start, 0),
            seconds.get(start, 0.0),
            unbalanced.get(start, ()),
        )
        for mark, start in ((mark, mark.window.start) for mark in marks)
    )
    decoder = next((result.decoder for result in results), "")
    tables_made = table_reports(pipeline, results, made, outcomes)
    return TablesReport(reports, tables_made, time.monotonic() - began, decoder)


def _require_ready(pipeline: Pipeline, windows: Sequence[Window], ingested: Mapping[Cell, IngestWindow]) -> None:
    missing: dict[str, list[int]] = {}
    for window in windows:
        for partition in pipeline.kafka_partitions:
            row = ingested.get(Cell(partition, window))
            if row is None:
                missing.setdefault(window.key, []).append(partition)
    if missing:
        raise NotReadyError(pipeline.name, missing)


def _refuse_incomplete(pipeline: Pipeline, marks: Iterable[Cut], ingested: Mapping[Cell, IngestWindow]) -> None:
    """Where incomplete windows block: name their incomplete Kafka partitions, or the window if it shows only over all of them."""
    incomplete: dict[str, list[str]] = {}
    for mark in marks:
        if mark.completeness is not Completeness.INCOMPLETE:
            continue
        rows = [ingested[Cell(partition, mark.window)] for partition in pipeline.kafka_partitions]
        own = {str(row.cell): row.problems for row in rows if row.completeness is Completeness.INCOMPLETE}
        for where, problems in (own or {mark.window.key: mark.problems}).items():
            incomplete[where] = [problem.code.value for problem in problems]
    if incomplete and pipeline.settings.on_incomplete == "block":
        raise IncompleteWindowError(pipeline.name, incomplete)


def _tables_of(pipeline: Pipeline, windows: Sequence[Window]) -> dict[TableId, tuple[Column, ...]]:
    """Every known table, those of these windows among them even if the registry file never heard of them."""
    shapes = merge_shapes(
        {TableShape(row.table, row.columns): row.first_position or SourcePosition(0, 0, 0)}
        for row in pipeline.ledger.table_shapes(windows)
    )
    register_shapes(pipeline, shapes)
    return known_tables(pipeline)


def _chosen(
    tables: Mapping[TableId, tuple[Column, ...]], layer: Layer, selection: Selection
) -> dict[TableId, tuple[Column, ...]]:
    return {
        table: columns
        for table, columns in tables.items()
        if layer.has_table(columns) and selection.takes(layer, table)
    }


def _changelogs(
    pipeline: Pipeline,
    windows: Sequence[Window],
    tables: Mapping[TableId, tuple[Column, ...]],
    known: _Known,
    spark: SparkProvider,
    progress: Progress,
) -> list[TablesResult]:
    """Decode and write the changelogs of all tables on Spark, then commit them side by side."""
    began = time.monotonic()
    results = _decode(pipeline, windows, tables, known, spark, progress)
    surprises = {pair for result in results for pair in result.unsigned}
    if surprises:
        unwritten = frozenset(table for table, _ in surprises if not _has_rows(pipeline, CHANGELOG, table))
        if widen_unsigned(pipeline, surprises, empty=unwritten):
            progress(f"changelog: {len(surprises)} columns hold unsigned values; decoding again with wider types")
            for table in unwritten:
                pipeline.lake.catalog.drop_table(pipeline.lake.identifier(pipeline.table_path(CHANGELOG.name, table)))
            tables = {table: columns for table, columns in known_tables(pipeline).items() if table in tables}
            results = _decode(pipeline, windows, tables, known, spark, progress)
    unknown = Counter[str]()
    for result in results:
        unknown.update(result.unknown)
    if unknown:
        kept = ", ".join(f"{what}: {count}" for what, count in sorted(unknown.items()))
        progress(f"changelog: kept as text or bytes although this version does not know it: {kept}")
    commit_changelogs(pipeline, windows, tables, results, known.growing, progress, began)
    return results


def _decode(
    pipeline: Pipeline,
    windows: Sequence[Window],
    tables: Mapping[TableId, tuple[Column, ...]],
    known: _Known,
    spark: SparkProvider,
    progress: Progress,
) -> list[TablesResult]:
    run = known.run
    targets: dict[TableId, TableTarget] = {}
    for table, columns in tables.items():
        path = pipeline.table_path(CHANGELOG.name, table)
        pipeline.lake.ensure(path, changelog_layout(columns))
        pipeline.lake.evolve(path, changelog_columns(columns))
        targets[table] = TableTarget(columns, pipeline.lake.target(path, run))
    for name, system in (("quarantine", QUARANTINE), ("ddl", DDL)):
        pipeline.lake.ensure(pipeline.path(name), system)
    quarantine, ddl = (pipeline.lake.target(pipeline.path(name), run) for name in ("quarantine", "ddl"))
    by_window = entries_files(pipeline, windows, known.history.rows, known.growing)
    tasks = [
        TablesTask(
            paths,
            sizes,
            pipeline.format,
            targets,
            quarantine,
            ddl,
            pipeline.lake.location.file_store_properties,
            known.rules(pipeline, sizes),
            known.redelivered(sizes),
            known.statements(sizes),
            {cell: offset for cell, offset in known.growing.from_offsets.items() if cell[1] in sizes},
        )
        for paths, sizes in shared_out(by_window)
    ]
    progress(f"changelog: decoding {len(windows)} windows of {len(tables)} tables")
    watched = Watched("changelog", "parts", of_bytes, progress)
    return run_tasks(spark(), tasks, decode_changes, weight=lambda task: sum(task.bytes.values()), watched=watched)


def _has_rows(pipeline: Pipeline, layer: Layer, table: TableId) -> bool:
    return pipeline.lake.state(pipeline.table_path(layer.name, table)) is not None


def _take_back_marks(pipeline: Pipeline, marks: Iterable[Cut], stored: Mapping[datetime, Cut]) -> None:
    """Remove the marks of windows that are about to hold something else: a killed run must not leave an old mark on new rows."""
    changing = [
        mark.window
        for mark in marks
        if (row := stored.get(mark.window.start)) is not None
        and row.generation != mark.generation
        and not same_rows(row, mark)
    ]
    if changing:
        pipeline.ledger.replace_cuts(changing, [])


def _advance_layers(
    pipeline: Pipeline,
    selection: Selection,
    windows: Sequence[Window],
    reached: Frontier,
    chains: Mapping[datetime, Chain],
    spark: SparkProvider,
    progress: Progress,
) -> dict[str, Mapping[TableId, LayerOutcome]]:
    """Bring the layers that are made from other layers to the frontier: ``{"snapshot": {orders: LayerOutcome(True, 7, 70)}}``."""
    tables, outcomes = known_tables(pipeline), dict[str, Mapping[TableId, LayerOutcome]]()
    for layer in pipeline.layers:
        source = layer.made_from
        if layer.make is None or source is None:
            continue
        chosen = _chosen(tables, layer, selection)
        stored = {table: columns for table, columns in chosen.items() if _has_rows(pipeline, source, table)}
        work = LayerWork(pipeline, stored, tuple(windows), reached, chains, spark, progress)
        outcomes[layer.name] = layer.make(work)
    return outcomes


def _applied(window: Window, reached: Frontier) -> bool:
    return reached.window is not None and window.start <= reached.window
