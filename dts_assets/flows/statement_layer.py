"""The layer ``sql``: the statements of a table's changes, made from its changelog window by window.

The statements of a window are made again when its changelog has other files. Where files have only come, as in a window that
grows, the statements of the new files are added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from dts_assets.flows.apart import do_apart, refuse_shared
from dts_assets.flows.known_tables import known_sources, source_types
from dts_assets.flows.lake_shapes import lake_shapes
from dts_assets.flows.layers import CHANGELOG, SQL, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.reports import LayerOutcome, of_bytes
from dts_assets.flows.spark_tasks import Watched, run_tasks
from dts_assets.flows.statement_tasks import StatementResult, StatementTask, write_statements
from dts_assets.flows.tables_plan import MARKED
from dts_assets.model.collections import is_collection
from dts_assets.model.column_rules import RuleOf, rule_on
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.tables import TableId
from dts_assets.model.told_places import told_places
from dts_assets.planning.told_columns import Cells, told_columns
from dts_assets.stages.sql_dialect import Dialect, SqlColumn
from dts_assets.stages.sql_dialects import dialect_of
from dts_assets.stages.statements import StatementTable
from dts_assets.store.commit import stands_at
from dts_assets.store.schemas import statement_layout
from dts_assets.store.stored_files import StoredFile

STATE_PROPERTY = "dts-assets.statements"
"""The property of an Iceberg snapshot that names the changelog and the dialect of its statements."""

_TEXT = "varchar(255)"


@dataclass(frozen=True, slots=True)
class _State:
    """The Iceberg snapshot of the changelog that statements were made from, None before the first, and their dialect."""

    changelog: int | None = None
    dialect: str = ""

    @classmethod
    def of_text(cls, text: str | None) -> _State:
        return cls() if text is None else cls(**json.loads(text))

    @property
    def text(self) -> str:
        return json.dumps({"changelog": self.changelog, "dialect": self.dialect})


@dataclass(frozen=True, slots=True)
class _Job:
    """The windows of a table whose statements are made.

    ``current`` is the present Iceberg snapshot of the layer's table, None before the first commit. Of the windows in ``replaced``
    all statements are made, in ``appended`` those of new files; both have the changelog's files to read.
    """

    current: int | None
    state: _State
    before: _State
    replaced: Mapping[datetime, Sequence[StoredFile]] = field(default_factory=dict)
    appended: Mapping[datetime, Sequence[StoredFile]] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        return self.state == self.before

    @property
    def files(self) -> dict[datetime, Sequence[StoredFile]]:
        return {**self.replaced, **self.appended}


def write_layer(work: LayerWork) -> dict[TableId, LayerOutcome]:
    """Bring the statements of the work's tables up to their changelogs.

    A table in which nothing changed is not committed. A table whose step fails has the fault in its outcome.

    Raises:
        OvertakenError: Another run of the tables has taken over.
        StaleGenerationError: Another run has written statements since this one was planned.
    """
    pipeline, dialect = work.pipeline, dialect_of(work.pipeline.settings.sql.dialect)
    tables = {table: columns for table, columns in work.tables.items() if not is_collection(columns)}
    planned = do_apart(SQL.name, tables, partial(_job, work, dialect))
    pipeline.ledger.require_turn(MARKED, work.turn)
    busy = {table: job for table, job in planned.results.items() if not job.nothing}
    results = _made(work, dialect, busy)
    faults = dict(planned.faults) | {one.table: one.fault for one in results if one.fault is not None}
    refuse_shared([table for table, job in busy.items() if job.files], faults)
    for one in results:
        if one.table in faults:
            pipeline.lake.discard(pipeline.table_path(SQL.name, one.table), one.files)
    by_table: dict[TableId, list[StatementResult]] = {table: [] for table in planned.results if table not in faults}
    for one in results:
        if one.table in by_table:
            by_table[one.table].append(one)
    done = do_apart(SQL.name, by_table, lambda table: _commit(pipeline, table, planned.results[table], by_table[table]))
    faults |= done.faults
    return {**done.results, **{table: LayerOutcome(fault=fault) for table, fault in faults.items()}}


def _job(work: LayerWork, dialect: Dialect, table: TableId) -> _Job:
    """Open the table of statements, and compare its changelog with the one that they were made from."""
    pipeline, lake = work.pipeline, work.pipeline.lake
    path, changelog_path = (pipeline.table_path(name, table) for name in (SQL.name, CHANGELOG.name))
    lake.ensure(path, statement_layout(table))
    lake.evolve(path, SQL.columns(()))
    stored, changelog = lake.state(path), lake.state(changelog_path)
    before = _State() if stored is None else _State.of_text(stored.properties.get(STATE_PROPERTY))
    current = None if stored is None else stored.snapshot_id
    state = _State(None if changelog is None else changelog.snapshot_id, dialect.name)
    if work.anew or before.changelog is None or before.dialect != dialect.name:
        files = _by_window(lake.data_files(changelog_path))
        gone = {file.partition["window_start"] for file in lake.data_files(path)}
        return _Job(current, state, _State(), {**dict.fromkeys(gone, ()), **files})
    if changelog is None or before.changelog == changelog.snapshot_id:
        return _Job(current, before, before)
    one, other = map(_by_window, lake.files_apart(changelog_path, before.changelog, changelog.snapshot_id))
    replaced, appended = {}, {}
    for start in {*one, *other}:
        old, new = ({file.path for file in files.get(start, ())} for files in (one, other))
        if old <= new:
            appended[start] = [file for file in other[start] if file.path not in old]
        else:
            replaced[start] = _all_files(pipeline, changelog_path, start, changelog.snapshot_id)
    return _Job(current, state, before, replaced, {start: files for start, files in appended.items() if files})


def _all_files(pipeline: Pipeline, path: Sequence[str], start: datetime, snapshot_id: int) -> list[StoredFile]:
    return pipeline.lake.data_files(path, {"window_start": {start}}, snapshot_id=snapshot_id)


def _by_window(files: Iterable[StoredFile]) -> dict[datetime, list[StoredFile]]:
    found: dict[datetime, list[StoredFile]] = {}
    for file in files:
        found.setdefault(file.partition["window_start"], []).append(file)
    return found


def _made(work: LayerWork, dialect: Dialect, jobs: Mapping[TableId, _Job]) -> list[StatementResult]:
    """Write the statements of all jobs, by one Spark job."""
    pipeline, run = work.pipeline, work.pipeline.new_run()
    starts = {start for job in jobs.values() for start, files in job.files.items() if files}
    if not starts:
        return []
    written = WrittenColumns.of(pipeline, starts, work.tables, dialect)
    tasks = [
        StatementTask(
            table,
            written.table(table, start),
            start,
            tuple(file.path for file in files),
            sum(file.bytes for file in files),
            written.told.get((start, table), {}),
            pipeline.lake.file_store(pipeline.table_path(CHANGELOG.name, table)),
            pipeline.lake.target(pipeline.table_path(SQL.name, table), run),
        )
        for table, job in jobs.items()
        for start, files in job.files.items()
        if files
    ]
    work.progress(f"sql: {len(jobs)} of {len(work.tables)} tables have statements to write, in {len(starts)} windows")
    watched = Watched(SQL.name, "parts", of_bytes, work.progress)
    return run_tasks(work.spark(), tasks, write_statements, weight=lambda task: task.bytes, watched=watched)


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns of tables as events of some windows described them, for statements in a dialect."""

    tables: Mapping[TableId, Sequence[Column]]
    types: Mapping[TableId, Mapping[str, str]]
    described: Mapping[tuple[datetime, TableId], Mapping[str, tuple[str, frozenset[str]]]]
    told: Cells
    dialect: Dialect
    rule_finder: Callable[[TableId], RuleOf]
    sources: Mapping[TableId, Sequence[TableId]]

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        starts: Collection[datetime],
        tables: Mapping[TableId, Sequence[Column]],
        dialect: Dialect,
    ) -> WrittenColumns:
        """Return the columns as the ledger knows them."""
        windows = [pipeline.grid.of_start(start) for start in sorted(starts)]
        shapes = [row for row in lake_shapes(pipeline, windows) if row.table in tables]
        counts = [row for row in pipeline.ledger.window_tables(windows) if row.table in tables]
        told = told_columns(counts, shapes, tables)
        rules, sources = partial(rule_finder, pipeline), known_sources(pipeline)
        return cls(tables, source_types(pipeline), _described(shapes, counts), told, dialect, rules, sources)

    def table(self, table: TableId, start: datetime) -> StatementTable:
        """Return a table as statements of a window name it."""
        types, described = self.types.get(table, {}), self.described.get((start, table), {})
        columns, rule_of = [], self.rule_finder(table)
        for column in self.tables[table]:
            name = next((name for name in column.source_names if name in described), column.source_names[0])
            kind, kinds = described.get(name, (types.get(column.name, ""), frozenset[str]()))
            if rule_on(column, rule_of) is not None:  # its values are texts, whatever they are at the source
                kind = _TEXT
            own = {column.own_type(one) for one in kinds}
            if len(own) == 1:  # values that the lake holds as text, since the column had other types in other windows
                column = replace(column, type=own.pop(), own_types=())
            columns.append(SqlColumn(column, name, kind))
        # A merged table has no statements, so there is one source table.
        return StatementTable(self.sources.get(table, (table,))[0], tuple(columns), self.dialect)


def _described(
    shapes: Iterable[TableShapeRow], counts: Iterable[WindowTable]
) -> dict[tuple[datetime, TableId], dict[str, tuple[str, frozenset[str]]]]:
    """Return the type of each column as the last event of a window described it.

    All types that the column had in the window stand beside it.
    """
    found: dict[tuple[datetime, TableId], dict[str, tuple[str, frozenset[str]]]] = {}
    for _, row in sorted(told_places(shapes, counts), key=lambda one: one[0].end):
        mine = found.setdefault((row.window_start, row.table), {})
        for one in row.columns:
            before = mine.get(one.name, ("", frozenset()))[1]
            mine[one.name] = one.original_type, before | {one.original_type}
    return found


def _commit(pipeline: Pipeline, table: TableId, job: _Job, results: Collection[StatementResult]) -> LayerOutcome:
    """Commit the statements of a table: replaced windows first, then others with the new state."""
    path = pipeline.table_path(SQL.name, table)
    refused = {one.window_start: one.refused for one in results}
    if not job.nothing:
        head = job.current
        properties = {STATE_PROPERTY: job.state.text}
        files = {starts: [file for one in results if one.window_start in starts for file in one.files]
                 for starts in (frozenset(job.replaced), frozenset(job.appended))}  # fmt: skip
        if job.replaced:
            last = {} if job.appended else properties
            mine = files[frozenset(job.replaced)]
            done = pipeline.lake.replace(
                path, {"window_start": set(job.replaced)}, mine, properties=last, assertion=stands_at(head)
            )
            head = head if done.snapshot_id is None else done.snapshot_id
        if job.appended or not job.replaced:
            pipeline.lake.replace(
                path,
                {"window_start": set(job.appended)},
                files[frozenset(job.appended)],
                properties=properties,
                keep=lambda _: True,
                assertion=stands_at(head),
            )
    size = pipeline.lake.size(path)
    return LayerOutcome(
        not job.nothing,
        None if size is None else size.rows,
        None if size is None else size.bytes,
        waits=False,
        refused=refused,
    )


def changelog_versions(pipeline: Pipeline, table: TableId) -> tuple[int, ...]:
    """Return the Iceberg snapshot of the changelog that a table's statements were made from.

    The next run works on the difference to it.
    """
    stored = pipeline.lake.state(pipeline.table_path(SQL.name, table))
    made_from = None if stored is None else _State.of_text(stored.properties.get(STATE_PROPERTY)).changelog
    return () if made_from is None else (made_from,)
