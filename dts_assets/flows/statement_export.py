"""The statements of a subscription in the order of the source, with its DDL between them.

They are made from changelogs, whichever tables have the layer ``sql``. Windows are read one after the other. A row is given once
no later window can have an earlier one, as the counts of the windows tell. So little is held, however much there is.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.known_tables import known_sources, known_tables
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.flows.sorted_spool import SortedSpool
from dts_assets.flows.statement_layer import WrittenColumns
from dts_assets.flows.statement_tasks import BATCH_BYTES
from dts_assets.model.collections import is_collection
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.pauses import windows_lacking
from dts_assets.stages.change_columns import TIME, held_by
from dts_assets.stages.event_order import in_possible_order
from dts_assets.stages.sql_dialect import Dialect
from dts_assets.stages.statement_script import (
    ROW_KIND,
    Script,
    ddl_script_rows,
    statement_script_rows,
    without_truncations,
)
from dts_assets.stages.statements import READ_COLUMNS, moved_keys, moved_rows, statement_rows
from dts_assets.store.files import read_batches
from dts_assets.wire.ddl.chosen_statements import Choice, LeftOut
from dts_assets.wire.ddl.other_parts import Part

_WINDOWS_AT_ONCE = 50
"""Windows whose counts and files are looked up together."""

_DDL_COLUMNS = ("source_position", "kafka_partition", "kafka_offset", "database", "sql", "stage")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The statements that a person asks for.

    ``tables`` are globs, none for all tables.
    ``since`` is the first window that counts, ``until`` the first that does not; None stands for no bound. Tables may be called
    by their names in the lake or at the source, as ``routes`` tell them. With a ``frontier`` only changes and statements count
    that it holds. ``standing`` are tables that stand at earlier frontiers: those with changes between are noted. For a scratch
    server only tables of its ``databases`` count, and statements of the source are written anew.
    """

    dialect: Dialect
    tables: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    routes: Routes = NO_ROUTES
    frontier: Frontier | None = None
    standing: Mapping[TableId, Frontier] = field(default_factory=dict)
    databases: frozenset[str] | None = None

    def takes(self, table: TableId) -> bool:
        """Tell whether statements of a lake table are asked for."""
        return not self.tables or any(self.routes.means(table, glob) for glob in self.tables)

    def takes_source(self, source: TableId) -> bool:
        """Tell whether statements of a source table are asked for."""
        return self.takes(self.routes.lake_table(source))

    def holds(self, window: Window) -> bool:
        """Tell whether a window is in the range."""
        if self.frontier is not None and (self.frontier.window is None or window.start > self.frontier.window):
            return False
        return (self.since is None or window.start >= self.since) and (self.until is None or window.start < self.until)


@dataclass(slots=True)
class Exported:
    """The outcome of an export, which grows while it is read.

    ``refused`` are changes of which no statement can be made, ``quarantined`` those that could not be decoded. ``lacking`` are
    the tables that some windows lack, ``merged`` those of several shards, and ``collections`` those of documents; neither have
    statements. ``behind`` are tables with changes behind their own frontier. ``left_out`` are statements of the source, and
    ``parts`` those of chosen statements that were not written.
    """

    windows: int = 0
    changes: int = 0
    ddl: int = 0
    refused: int = 0
    quarantined: int = 0
    lacking: set[TableId] = field(default_factory=set)
    merged: set[TableId] = field(default_factory=set)
    collections: set[TableId] = field(default_factory=set)
    behind: set[TableId] = field(default_factory=set)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    parts: Counter[Part] = field(default_factory=Counter)

    @property
    def whole(self) -> bool:
        """True if the statements are all changes, and each statement of the source was understood."""
        missing = self.refused or self.quarantined or self.lacking or self.merged or self.collections
        return not (missing or self.left_out[LeftOut.NOT_READ])


def export_statements(pipeline: Pipeline, wanted: Wanted, exported: Exported, *, progress: Progress) -> Iterator[str]:
    """Yield a script in pieces that end with a line; ``exported`` counts them.

    Only windows count whose tables are made.

    Raises:
        LakeFormatError: Another version of dts-assets made the lake.
    """
    script = Script(wanted.dialect)
    reading = _Reading.of(pipeline, wanted, exported)
    yield script.opening(f"{pipeline.name}, {len(reading.windows)} windows, {wanted.dialect.name}")
    for rows in reading.in_order(progress):
        text = script.text(rows)
        exported.changes, exported.ddl = script.changes, script.ddl
        yield text


def statements_in_order(
    pipeline: Pipeline, wanted: Wanted, exported: Exported, *, progress: Progress
) -> Iterator[pa.Table]:
    """Yield the rows of a script (:data:`dts_assets.stages.statement_script.SCRIPT`), for whoever runs them.

    Raises:
        LakeFormatError: Another version of dts-assets made the lake.
    """
    yield from _Reading.of(pipeline, wanted, exported).in_order(progress)


def _parts(windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
    for first in range(0, len(windows), _WINDOWS_AT_ONCE):
        yield windows[first : first + _WINDOWS_AT_ONCE]


@dataclass(frozen=True, slots=True)
class _Files:
    """The changelog files of some windows, by window start and table, and the columns of their statements."""

    paths: Mapping[datetime, Mapping[TableId, Sequence[str]]]
    written: WrittenColumns


@dataclass(slots=True)
class _Reading:
    """The reading of changelogs and DDL, window by window."""

    pipeline: Pipeline
    wanted: Wanted
    tables: Mapping[TableId, Sequence[Column]]
    exported: Exported
    windows: Sequence[Window]
    choice: Choice
    copied: frozenset[TableId] = frozenset()
    statements_at: dict[datetime, list[tuple[int, int, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, wanted: Wanted, exported: Exported) -> _Reading:
        """Return the reading of what a person asks for, and note the tables without statements."""
        wanted = replace(wanted, routes=pipeline.settings.routes)
        tables = {table: columns for table, columns in known_tables(pipeline).items() if wanted.takes(table)}
        exported.merged = {table for table in tables if wanted.routes.shard_columns(table)}
        exported.collections = {table for table, columns in tables.items() if is_collection(columns)}
        without = exported.merged | exported.collections
        sources = known_sources(pipeline)
        databases = {
            table: {
                name for source in sources.get(table, (table,)) for name in (source.database, source.schema) if name
            }
            for table in tables.keys() - without
        }
        if wanted.databases is not None:
            databases = {table: names for table, names in databases.items() if names & wanted.databases}
        tables = {table: columns for table, columns in tables.items() if table in databases}
        choice = Choice(
            lambda source: pipeline.settings.decodes(source) and wanted.takes_source(source),
            frozenset(chain.from_iterable(databases.values())) if wanted.databases is None else wanted.databases,
            anew=wanted.databases is not None,
        )
        marks = [mark for mark in pipeline.ledger.cuts() if wanted.holds(mark.window)]
        exported.lacking = {table for table in windows_lacking(marks) if wanted.takes(table)}
        copied = frozenset(one.table for one in pipeline.ledger.copied_tables())
        return cls(pipeline, wanted, tables, exported, [mark.window for mark in marks], choice, copied)

    def in_order(self, progress: Progress) -> Iterator[pa.Table]:
        """Yield all rows in an order in which they are possible."""
        floors, changes = self.floors(self.windows), 0
        with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
            spool = SortedSpool(Path(folder))
            for some in _parts(self.windows):
                files = self.files(some)
                for window in some:
                    for rows in self.rows(window, files):
                        changes += pc.sum(pc.equal(rows["kind"], ROW_KIND)).as_py() or 0
                        spool.add(rows)
                    yield from in_possible_order(spool.until(floors[window.start]))
                self.exported.windows += len(some)
                progress(f"statements: {self.exported.windows:,} of {len(self.windows):,} windows, {changes:,} changes")
            yield from in_possible_order(spool.until(None))

    def floors(self, windows: Sequence[Window]) -> dict[datetime, SourcePosition | None]:
        """Return, for each window, the least position in all later ones; None behind the last row."""
        ddl = self._ddl_positions({window.start for window in windows})
        firsts: dict[datetime, SourcePosition] = {}
        for some in _parts(windows):
            for row in self.pipeline.ledger.window_tables(some):
                if row.table not in self.tables:
                    continue
                self.exported.quarantined += row.quarantined
                if row.first_position is not None:
                    known = firsts.get(row.window_start, row.first_position)
                    firsts[row.window_start] = min(known, row.first_position)
        for start, places in ddl.items():
            least = SourcePosition(*min(places))
            firsts[start] = min(firsts.get(start, least), least)
        found: dict[datetime, SourcePosition | None] = {}
        floor: SourcePosition | None = None
        for window in reversed(windows):
            found[window.start] = floor
            floor = min(filter(None, (floor, firsts.get(window.start))), default=None)
        return found

    def _ddl_positions(self, starts: Collection[datetime]) -> Mapping[datetime, list[tuple[int, int, int]]]:
        """Read the positions of all statements that will be written, by window start."""
        for start, rows in self._ddl(starts):
            kept, chosen = ddl_script_rows(rows, self.choice)
            self.exported.left_out += chosen.left_out
            self.exported.parts += chosen.parts
            places = zip(*(kept[name].to_pylist() for name in ("lineage", "file", "position")), strict=True)
            self.statements_at.setdefault(start, []).extend(places)
        return {start: places for start, places in self.statements_at.items() if places}

    def _ddl(self, starts: Collection[datetime]) -> Iterator[tuple[datetime, pa.RecordBatch]]:
        """Yield the statements of the source in some windows, with the start of their window."""
        path = self.pipeline.path("ddl")
        files = self.pipeline.lake.data_files(path, {"window_start": set(starts), "stage": {"tables"}})
        store = self.pipeline.lake.file_store(path)
        for file in files:
            for rows in read_batches(store, [file.path], _DDL_COLUMNS):
                start = file.partition["window_start"]
                yield start, self._held(rows.append_column("window_start", pa.array([start] * rows.num_rows, TIME)))

    def files(self, windows: Iterable[Window]) -> _Files:
        """Look up the changelog files of some windows, and the columns that are written of them."""
        pipeline, starts = self.pipeline, {window.start for window in windows}
        found: dict[datetime, dict[TableId, list[str]]] = {}
        for table in self.tables:
            path = pipeline.table_path(CHANGELOG.name, table)
            for file in pipeline.lake.data_files(path, {"window_start": starts}):
                found.setdefault(file.partition["window_start"], {}).setdefault(table, []).append(file.path)
        return _Files(found, WrittenColumns.of(pipeline, starts, self.tables, self.wanted.dialect))

    def rows(self, window: Window, files: _Files) -> Iterator[pa.Table]:
        """Yield the rows of a script for a window: its DDL, then all changes of its tables."""
        if self.statements_at.get(window.start):
            for _, rows in self._ddl({window.start}):
                yield ddl_script_rows(rows, self.choice)[0]
        # A truncation that a statement of the source has made is made by that statement here, too.
        at = frozenset(self.statements_at.get(window.start, ())) if self.wanted.dialect.runs_ddl else frozenset()
        for table, paths in files.paths.get(window.start, {}).items():
            store = self.pipeline.lake.file_store(self.pipeline.table_path(CHANGELOG.name, table))
            told = files.written.told.get((window.start, table), {})
            shape = files.written.table(table, window.start)
            for changes in read_batches(store, paths, READ_COLUMNS, batch_bytes=BATCH_BYTES):
                kept = without_truncations(self._held(changes, table), at)
                made, refused = statement_rows(kept, shape, told)
                self.exported.refused += refused
                moved = moved_keys(kept, shape, told)
                puts = moved_rows(kept, shape, told, moved) if table in self.copied else None
                yield statement_script_rows(made, moved, puts)

    def _held(self, rows: pa.RecordBatch, table: TableId | None = None) -> pa.RecordBatch:
        """Return the rows that the frontier holds; a table with some behind its own frontier is noted."""
        if self.wanted.frontier is None:
            return rows
        held = held_by(rows, self.wanted.frontier)
        own = None if table is None else self.wanted.standing.get(table)
        if table is not None and own is not None and (held & ~held_by(rows, own)).any():
            self.exported.behind.add(table)
        return rows if held.all() else rows.filter(pa.array(held))
