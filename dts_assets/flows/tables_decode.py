"""The decoding of a tables run: entries of all Kafka partitions become changelog files of all tables."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.errors import StaleGenerationError
from dts_assets.flows.apart import do_apart, refuse_shared
from dts_assets.flows.conversions import convert_changelogs
from dts_assets.flows.copied_changes import copied_tasks
from dts_assets.flows.copied_rules import refused_copies
from dts_assets.flows.executors import count_cores
from dts_assets.flows.filter_statements import statements_of_run
from dts_assets.flows.known_tables import (
    known_sources,
    known_tables,
    ruled_tables,
    widen_unsigned,
)
from dts_assets.flows.lake_shapes import routed_shapes
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.redelivered import NOTHING_BEFORE, Redelivered, find_redelivered_changes
from dts_assets.flows.removed_rows import refuse_tables_again
from dts_assets.flows.reports import Progress, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.flows.split_places import windows_with_split_places
from dts_assets.flows.table_routes import refused_by_routes, refused_by_sets
from dts_assets.flows.table_rules import tables_to_refuse, with_lists
from dts_assets.flows.tables_plan import MARKED, TablesPlan
from dts_assets.flows.tables_tasks import TablesResult, TablesTask, TableTarget, decode_changes
from dts_assets.flows.taught_types import remember_taught
from dts_assets.model.column_rules import TableRules
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.refreshes import run_of
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.planning.backlog import entered
from dts_assets.planning.mark_changes import contradicts
from dts_assets.planning.pauses import Fault
from dts_assets.planning.task_shares import shared_files
from dts_assets.planning.topic_marks import same_rows
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.redelivered_entries import EntryKeys
from dts_assets.store.columns import changelog_columns
from dts_assets.store.schemas import changelog_layout
from dts_assets.store.stored_files import StoredFile
from dts_assets.wire.ddl.schema_history import SourceStatement


@dataclass(frozen=True, slots=True)
class Decoded:
    """The files that the tasks of a run have written and that are not committed yet.

    ``tables`` are the changelogs with the columns that they were written with, ``before`` the changes that were delivered before,
    ``seconds`` the time that the decoding took. ``heads`` are the Iceberg snapshots that the changelogs stood at. ``faults`` are
    those of tables that could not be opened or written, which ``tables`` and the results leave out.
    """

    tables: Mapping[TableId, tuple[Column, ...]]
    results: tuple[TablesResult, ...] = ()
    before: Redelivered = NOTHING_BEFORE
    heads: Mapping[TableId, int | None] = field(default_factory=dict)
    seconds: float = 0.0
    faults: Mapping[TableId, Fault] = field(default_factory=dict)


def decode_tables(pipeline: Pipeline, plan: TablesPlan, *, spark: SparkProvider, progress: Progress) -> Decoded:
    """Take back the marks of the windows whose rows change, and decode the entries of the plan.

    Raises:
        RowsRemovedError: Retention has removed entries of the plan, or such as they have to be compared with.
    """
    if not plan.writes:
        return Decoded(plan.changelogs)
    cells, suspicions = pipeline.cells(plan.windows_again), plan.history.suspicions
    compared = (other for cell in cells if cell in suspicions for other in suspicions[cell].earlier)
    refuse_tables_again(pipeline, cells, compared)
    pipeline.ledger.require_turn(MARKED, plan.turn)
    # First, since a run that finds no marks does not look for tables to which statements may have moved rows of these.
    pipeline.ledger.change_backlog(lambda rows: entered(rows, plan.changelogs, plan.run))
    _take_back_marks(pipeline, plan)
    counted = (row for row in plan.counted if row.window_start in plan.appends.marks and row.table in plan.changelogs)
    before = find_redelivered_changes(
        pipeline, plan.history, plan.windows_again, plan.tables,
        base=plan.base("redeliveries", [window.start for window in plan.windows_again]), ends=plan.appends.from_offsets,
        counted=counted, spark=spark, progress=progress,
    )  # fmt: skip
    if before.moved:
        progress(f"identity: {len(before.moved)} open windows are made again; other changes than before are copies")
        plan = plan.with_moved(before.moved)
        _take_back_marks(pipeline, plan)
    began = time.monotonic()
    decoded = _decode(pipeline, plan, plan.changelogs, before, spark, progress)
    if split := windows_with_split_places(pipeline, plan, decoded.results):
        progress(f"changelog: {len(split)} open windows are made again; changes at one place of the log came in pieces")
        plan, before = plan.with_moved(split), replace(before, moved=before.moved | split)
        _take_back_marks(pipeline, plan)
        decoded = _decode(pipeline, plan, plan.changelogs, before, spark, progress)
    surprises = {one for result in decoded.results for one in result.unsigned}
    if surprises and (wider := _widened(pipeline, decoded.tables, surprises)) is not None:
        count = len({(one.table, one.column) for one in surprises})
        progress(f"changelog: {count} columns hold unsigned values; decoding again with wider types")
        again = _decode(pipeline, plan, wider, before, spark, progress)
        decoded = replace(again, faults={**decoded.faults, **again.faults})
    unknown = Counter[str]()
    for result in decoded.results:
        unknown.update(result.unknown)
    if unknown:
        kept = ", ".join(f"{what}: {count}" for what, count in sorted(unknown.items()))
        progress(f"changelog: kept as text or bytes although this version does not know it: {kept}")
    return replace(decoded, seconds=time.monotonic() - began)


def _take_back_marks(pipeline: Pipeline, plan: TablesPlan) -> None:
    """Remove the marks of windows whose rows are about to change.

    A killed run must not leave an old mark on new rows.

    Raises:
        OvertakenError: Another run has taken over.
    """
    changing = [
        mark.window
        for mark in plan.marks
        if mark.window.start not in plan.appends.marks
        and (row := plan.stored.get(mark.window.start)) is not None
        and contradicts(row, mark)
        and not same_rows(row, mark, paused=plan.paused)
    ]
    pipeline.ledger.require_turn(MARKED, plan.turn)
    if changing:
        pipeline.ledger.replace_cuts(changing, [], turn=plan.turn)


def _widened(
    pipeline: Pipeline, tables: Mapping[TableId, tuple[Column, ...]], surprises: Collection[TaughtType]
) -> dict[TableId, tuple[Column, ...]] | None:
    """Return tables with wider columns for unsigned values, None if nothing can be widened."""
    if not widen_unsigned(pipeline, surprises):
        return None
    return {table: columns for table, columns in known_tables(pipeline).items() if table in tables}


def _decode(
    pipeline: Pipeline,
    plan: TablesPlan,
    tables: Mapping[TableId, tuple[Column, ...]],
    before: Redelivered,
    spark: SparkProvider,
    progress: Progress,
) -> Decoded:
    said = statements_of_run(pipeline, plan)
    rules = ruled_tables(pipeline, tables, said)
    routes = pipeline.settings.routes
    sources = known_sources(pipeline) if routes else {}
    shapes = pipeline.ledger.table_shapes(plan.windows_again) if rules or routes else []
    rules = with_lists(rules, routed := routed_shapes(pipeline, shapes), routes)
    tables = {table: rules[table].stored if table in rules else columns for table, columns in tables.items()}
    refused = tables_to_refuse(rules, routed)
    refused |= refused_by_routes(routes, {table: some for table, some in sources.items() if table in tables}, shapes)
    copied = [one for some in plan.brought.values() for one in some]
    refused |= refused_copies(pipeline, copied, tables, said)
    refused |= refused_by_sets(pipeline, (one.table for one in copied), tables)
    tables = {table: columns for table, columns in tables.items() if table not in refused}
    unconverted = convert_changelogs(pipeline, tables, spark=spark, progress=progress)
    tables = {table: columns for table, columns in tables.items() if table not in unconverted}
    opened = do_apart(
        CHANGELOG.name, tables, lambda table: _opened(pipeline, plan, table, tables[table], rules.get(table))
    )
    session = spark()
    targets = {table: target for table, (_, target) in opened.results.items()}
    known = {table: some for table, some in sources.items() if table in targets}
    tasks = _tasks(pipeline, plan, targets, before, known, said, cores=count_cores(session))
    progress(f"changelog: decoding {len(plan.again)} windows of {len(opened.results)} tables")
    watched = Watched("changelog", "parts", of_bytes, progress)
    done = run_tasks(session, tasks, decode_changes, weight=lambda task: sum(task.bytes.values()), watched=watched)
    unwritten = {table: fault for result in done for table, fault in result.faults.items()}
    refuse_shared({table for result in done for table in (*result.files, *result.faults)}, unwritten)
    for table in unwritten:
        path = pipeline.table_path(CHANGELOG.name, table)
        pipeline.lake.discard(path, (file for result in done for file in result.files.get(table, ())))
    return Decoded(
        {table: tables[table] for table in opened.results if table not in unwritten},
        tuple(result.without(unwritten) for result in done),
        before,
        {table: head for table, (head, _) in opened.results.items()},
        faults={**refused, **unconverted, **opened.faults, **unwritten},
    )


def _opened(
    pipeline: Pipeline, plan: TablesPlan, table: TableId, columns: tuple[Column, ...], rules: TableRules | None
) -> tuple[int | None, TableTarget]:
    """Return the Iceberg snapshot that a changelog stands at, and the place of its files.

    The changelog has all columns then.
    """
    path = pipeline.table_path(CHANGELOG.name, table)
    there = pipeline.lake.ensure(path, changelog_layout(table, columns))
    remember_taught(pipeline, table, columns, there)
    head = there.current_snapshot()
    pipeline.lake.evolve(path, changelog_columns(columns))
    target = TableTarget(columns, pipeline.lake.target(path, plan.run), rules)
    return None if head is None else head.snapshot_id, target


def _tasks(
    pipeline: Pipeline,
    plan: TablesPlan,
    targets: Mapping[TableId, TableTarget],
    before: Redelivered,
    sources: Mapping[TableId, tuple[TableId, ...]],
    said: Sequence[SourceStatement],
    *,
    cores: int,
) -> list[TablesTask]:
    """Return the tasks that write to changelogs, enough for so many ``cores``.

    ``sources`` are those of each table, and ``said`` the statements that are stored after the run.
    """
    lake = pipeline.lake
    paths = [pipeline.path(name) for name in ("quarantine", "ddl")]
    for path in paths:
        lake.ensure_system_table(path)
    quarantine, ddl = (lake.target(path, plan.run) for path in paths)
    redelivered, wire, store = before.entries, pipeline.format, lake.file_store(pipeline.path("entries"))
    tasks = [
        TablesTask(
            paths,
            sizes,
            wire,
            targets,
            quarantine,
            ddl,
            store,
            _wanted(pipeline, plan, redelivered, sizes),
            pipeline.settings.routes,
            sources,
        )
        for paths, sizes in shared_files(_entries_files(pipeline, plan), cores=cores)
    ]
    return [*tasks, *copied_tasks(pipeline, plan.brought, targets, quarantine, ddl, sources, said)]


def _wanted(
    pipeline: Pipeline, plan: TablesPlan, redelivered: Mapping[Cell, EntryKeys], starts: Iterable[datetime]
) -> EntriesWanted:
    """Return the entries of some windows that count; ``redelivered`` were delivered before."""
    cells = {
        (partition, start): Cell(partition, pipeline.grid.of_start(start))
        for start in starts
        for partition in pipeline.kafka_partitions
    }
    statements, loads = plan.history.statements, plan.history.loads
    offsets, compared = plan.appends.from_offsets, plan.appends.compared_until
    partial = plan.history.partial.by_cell
    return EntriesWanted(
        rules={key: found for key, cell in cells.items() if (found := plan.history.rules(cell))},
        redelivered={key: redelivered[cell] for key, cell in cells.items() if cell in redelivered},
        statements={key: statements[cell] for key, cell in cells.items() if cell in statements},
        loads={key: loads[cell] for key, cell in cells.items() if cell in loads},
        from_offsets={key: offsets[key] for key in cells if key in offsets},
        compared_until={key: compared[key] for key in cells if key in compared},
        partial={key: partial[key] for key in cells if key in partial},
    )


def _entries_files(pipeline: Pipeline, plan: TablesPlan) -> dict[datetime, list[tuple[tuple[str, ...], int]]]:
    """Return the entries files to decode of each cell by window start, ``{start: [(("a.parquet",), 7)]}``, with bytes.

    Of a window that is appended to they are the files with new entries.

    Raises:
        StaleGenerationError: The files of a cell are not those that its mark stands for.
    """
    rows = plan.ingested
    files = pipeline.lake.data_files(
        pipeline.path("entries"), {"window_start": {window.start for window in plan.windows_again}}
    )
    found: dict[datetime, list[tuple[tuple[str, ...], int]]] = {}
    by_cell = files_of_cells(pipeline, files, rows)
    _require_rows(pipeline, by_cell, [row for cell, row in rows.items() if cell.window in plan.windows_again])
    for cell, mine in by_cell.items():
        before = plan.appends.marks.get(cell.window.start)
        end = 0 if before is None else before.ends[cell.kafka_partition]
        wanted = [file for file in mine if cell not in rows or _reaches_beyond(file, rows[cell], end)]
        if wanted:
            paths = tuple(file.path for file in wanted)
            found.setdefault(cell.window.start, []).append((paths, sum(file.bytes for file in wanted)))
    return found


def _require_rows(pipeline: Pipeline, files: Mapping[Cell, Sequence[StoredFile]], rows: Iterable[IngestWindow]) -> None:
    """Refuse cells whose files are not those that their marks stand for.

    Another process may have refreshed an open window and compacted its files since the marks were read.

    Raises:
        StaleGenerationError: The files of a cell hold more or fewer entries than its mark says.
    """
    for row in rows:
        expected = row.counts.data + row.counts.control
        stored = sum(file.rows for file in files.get(row.cell, ()))
        if stored != expected:
            raise StaleGenerationError(
                f"{pipeline.name}.entries", expected=f"{expected} entries of {row.cell}", found=f"{stored}"
            )


def _reaches_beyond(file: StoredFile, row: IngestWindow, end: int) -> bool:
    """Return whether a file may have entries at or behind an offset."""
    run = run_of(file.path)
    ends = [one.end_offset for one in row.refreshes if one.run == run] or [row.offsets.end]
    return not end or max(ends) > end
