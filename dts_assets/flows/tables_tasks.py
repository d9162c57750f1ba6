"""The work of one Spark task of the tables run: entries become changelog files of all tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from dts_assets.flows.apart import fault_at
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.table_rules import refused_by_rules
from dts_assets.model.collections import is_collection
from dts_assets.model.column_rules import TableRules
from dts_assets.model.columns import Column
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.planning.pauses import Fault
from dts_assets.stages.changelog_decoder import DML_ENTRY_COLUMNS, ChangelogDecoder
from dts_assets.stages.copied_entries import COPIED_COLUMNS, CopiedPart, without_kafka
from dts_assets.stages.ddl_statements import DDL_ENTRY_COLUMNS
from dts_assets.stages.document_rows import as_stored
from dts_assets.stages.entries_wanted import EntriesWanted
from dts_assets.stages.table_tallies import TableTally, TallyKey
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.wire.format import ChangesFormat

Done = TypeVar("Done")

_BUFFER_BYTES = 256 << 20
"""Rows that all writers of a task hold together."""


@dataclass(frozen=True, slots=True)
class TableTarget:
    """One table to decode: its stored columns, where its changelog files go, and its rules; None without any."""

    columns: tuple[Column, ...]
    target: WriteTarget
    rules: TableRules | None = None


@dataclass(frozen=True, slots=True)
class TablesTask:
    """The decoding of some entries files.

    The files of a window follow each other in ``paths``; ``bytes`` is their size in the store, by window start. ``sources`` are
    the source tables of each table, where there are routes. With ``copied`` the files are those of a copied table, and not of
    entries.
    """

    paths: tuple[str, ...]
    bytes: Mapping[datetime, int]
    format: ChangesFormat
    tables: Mapping[TableId, TableTarget]
    quarantine: WriteTarget
    ddl: WriteTarget
    entries_store: FileStore
    wanted: EntriesWanted
    routes: Routes = NO_ROUTES
    sources: Mapping[TableId, tuple[TableId, ...]] = field(default_factory=dict)
    copied: CopiedPart | None = None


@dataclass(slots=True)
class TablesResult:
    """Changelog files by table, each of one window, quarantine files, and tallies.

    ``decoder`` names the parser and its version. ``seconds`` is how long the task took, by the clock of the worker, shared out
    over its windows by their bytes. ``faults`` are those of tables whose rows could not be written: they have no files.
    ``compared`` are the tallies of rows before the end of compared cells, ``compared_paths`` the paths of their files; no other
    tally has these rows. ``left_out`` are the tables that have entries and were not to be decoded.
    """

    files: dict[TableId, tuple[WrittenFile, ...]]
    quarantine_files: tuple[WrittenFile, ...]
    ddl_files: tuple[WrittenFile, ...]
    tallies: dict[TallyKey, TableTally]
    unsigned: frozenset[TaughtType]
    unknown: dict[str, int] = field(default_factory=dict)
    decoder: str = ""
    seconds: dict[datetime, float] = field(default_factory=dict)
    faults: dict[TableId, Fault] = field(default_factory=dict)
    compared: dict[TallyKey, TableTally] = field(default_factory=dict)
    compared_paths: frozenset[str] = frozenset()
    left_out: frozenset[TableId] = frozenset()

    def without(self, tables: Collection[TableId]) -> TablesResult:
        """Return the result without the files, the counts and the surprises of some tables."""
        return replace(
            self,
            files={table: files for table, files in self.files.items() if table not in tables},
            tallies={key: tally for key, tally in self.tallies.items() if key[2] not in tables},
            compared={key: tally for key, tally in self.compared.items() if key[2] not in tables},
            unsigned=frozenset(one for one in self.unsigned if one.table not in tables),
        )


def decode_changes(task: TablesTask, attempt: str) -> TablesResult:
    """Decode the DML entries of some files into changelog rows, and write them.

    There is one file per table and window.
    """
    began = time.monotonic()
    columns = {table: target.columns for table, target in task.tables.items()}
    with ExitStack() as opened:
        files = _Files(task, attempt, opened)
        rules = {table: target.rules for table, target in task.tables.items() if target.rules is not None}
        decoder = ChangelogDecoder(
            task.format, columns, task.wanted, files, rules=rules, routes=task.routes, sources=task.sources
        )
        _read(task, decoder)
        for table, clause in decoder.refused.items():
            files.refuse(table, refused_by_rules(table, clause))
        closed = files.close()
    took, whole = time.monotonic() - began, max(1, sum(task.bytes.values()))
    return TablesResult(
        closed.changelogs, closed.quarantine, closed.ddl, decoder.tallies, frozenset(decoder.unsigned), decoder.unknown,
        task.format.decoder, {start: took * size / whole for start, size in task.bytes.items()}, files.faults,
        decoder.compared, closed.compared, frozenset(decoder.left_out),
    )  # fmt: skip


def _read(task: TablesTask, decoder: ChangelogDecoder) -> None:
    """Give a decoder the entries of a task's files, or those that its copied rows are."""
    if task.copied is not None:
        if task.copied.empties:
            decoder.read_statements([task.copied.emptying()])
        rows = read_batches(task.entries_store, task.paths, COPIED_COLUMNS)
        decoder.read(task.copied.entries(rows))
        return
    if task.wanted.statements or task.wanted.loads:
        decoder.read_statements(read_batches(task.entries_store, task.paths, (*DDL_ENTRY_COLUMNS, "shard")))
    decoder.read(read_batches(task.entries_store, task.paths, DML_ENTRY_COLUMNS, batch_bytes=decoder.chunk_bytes))


class _Files:
    """The files that the rows of a task are written to, one for each table and window.

    ``opened`` removes what was written if the task fails. A table whose rows cannot be written loses its files, and its further
    rows are left out; all others go on.
    """

    def __init__(self, task: TablesTask, attempt: str, opened: ExitStack) -> None:
        self._task = task
        self._attempt = attempt
        self._opened = opened
        self._tables: dict[tuple[TableId, bool], TableWriter] = {}
        self.faults: dict[TableId, Fault] = {}
        self._quarantine = opened.enter_context(TableWriter(task.quarantine, attempt))
        self._ddl = opened.enter_context(TableWriter(task.ddl, attempt))

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        if is_collection(self._task.tables[table].columns):
            rows = as_stored(rows)
        if self._task.copied is not None:
            rows = without_kafka(rows)
        if table not in self.faults:
            self._apart(table, lambda: self._writer(table, compared=compared).write(rows))

    def _writer(self, table: TableId, *, compared: bool) -> TableWriter:
        writer = self._tables.get((table, compared))
        if writer is None:
            share = max(1 << 20, _BUFFER_BYTES // max(1, len(self._task.tables)))
            target = self._task.tables[table].target
            writer = self._opened.enter_context(TableWriter(target, self._attempt, buffer_bytes=share))
            self._tables[table, compared] = writer
        return writer

    def _apart(self, table: TableId, step: Callable[[], Done]) -> Done | None:
        """Return the result of a step of one table; None if it failed.

        A table that failed has no files any more.

        Raises:
            Exception: The step failed with an error that concerns the run and not the table.
        """
        try:
            return step()
        except Exception as error:
            self.faults[table] = fault_at(CHANGELOG.name, error)
        self._abort(table)
        return None

    def _abort(self, table: TableId) -> None:
        for compared in (False, True):
            if (writer := self._tables.pop((table, compared), None)) is not None:
                writer.abort()

    def refuse(self, table: TableId, fault: Fault) -> None:
        """Remove the files of a table that its rules refuse."""
        self.faults[table] = fault
        self._abort(table)

    def rejected(self, rows: pa.RecordBatch) -> None:
        self._quarantine.write(rows)

    def statements(self, rows: pa.RecordBatch) -> None:
        self._ddl.write(rows)

    def close(self) -> _Closed:
        """Finish all files."""
        changelogs: dict[TableId, tuple[WrittenFile, ...]] = {}
        compared: list[str] = []
        for (table, before), writer in list(self._tables.items()):
            files = self._apart(table, writer.close) or ()
            changelogs[table] = (*changelogs.get(table, ()), *files)
            compared += [file.path for file in files if before]
        changelogs = {table: files for table, files in changelogs.items() if table not in self.faults}
        return _Closed(changelogs, frozenset(compared), self._quarantine.close(), self._ddl.close())


@dataclass(frozen=True, slots=True)
class _Closed:
    """The files of changelogs by table, and all others.

    ``compared`` are the paths of changelog files with rows before the end of compared cells.
    """

    changelogs: dict[TableId, tuple[WrittenFile, ...]]
    compared: frozenset[str]
    quarantine: tuple[WrittenFile, ...]
    ddl: tuple[WrittenFile, ...]
