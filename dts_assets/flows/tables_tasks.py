"""What one Spark task of the tables run does: entries files to the changelog files of every table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.redelivered_tasks import EntryKeys, entry_keys
from dts_assets.model.columns import Column
from dts_assets.model.lineages import LineageRule
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_rows import ENTRY_COLUMNS, changelog_rows, position_bounds
from dts_assets.stages.ddl_statements import DDL_ENTRY_COLUMNS, ddl_rows, statements, truncations
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.row_hash import Hashes, row_hashes, signed, summed
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.wire.columns.buffers import numbers_of
from dts_assets.wire.format import Rejected, TableChanges, WireFormat

CHUNK_BYTES = 16 << 20
MANY_TABLES = 100
MANY_TABLES_CHUNK_BYTES = 32 << 20
"""Above so many tables each chunk pays about 0.2 ms per table, so chunks grow."""

_BUFFER_BYTES = 256 << 20
"""Rows that all writers of a task hold together."""

_COLUMNS = (
    *ENTRY_COLUMNS,
    "entry_number",
    "shard",
    "message_type",
    "database",
    "schema",
    "table",
    "rows",
    "payload",
)

CellKey: TypeAlias = tuple[int, datetime]
"""Kafka partition, window start."""


@dataclass(frozen=True, slots=True)
class TableTarget:
    """One table to decode: its columns and where its changelog files go."""

    columns: tuple[Column, ...]
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class TablesTask:
    """Decode some entries files; those of a window follow each other. ``bytes`` is their size in the store, by window.

    ``rules`` tells lineages where not all is lineage 0, ``redelivered`` has the entries that are left out, ``statements`` the
    offsets of the DDL that counts; what it does is written to ``ddl``. Of cells in ``from_offsets`` only entries at or
    behind that offset are decoded.
    """

    paths: tuple[str, ...]
    bytes: Mapping[datetime, int]
    format: WireFormat
    tables: Mapping[TableId, TableTarget]
    quarantine: WriteTarget
    ddl: WriteTarget
    io_properties: Mapping[str, str]
    rules: Mapping[CellKey, Mapping[str, LineageRule]] = field(default_factory=dict)
    redelivered: Mapping[CellKey, EntryKeys] = field(default_factory=dict)
    statements: Mapping[CellKey, frozenset[int]] = field(default_factory=dict)
    from_offsets: Mapping[CellKey, int] = field(default_factory=dict)


@dataclass(slots=True)
class TableTally:
    """What was made of one table in one Kafka partition and window.

    ``announced`` are the rows that entries said they hold, before any was decoded: the other side of the equation.
    """

    announced: int = 0
    changes: int = 0
    quarantined: int = 0
    truncations: int = 0
    row_hash: int = 0
    absent_rows: int = 0
    invalid_values: int = 0
    first: SourcePosition | None = None
    last: SourcePosition | None = None
    latest_event: datetime | None = None

    def add(self, rows: pa.RecordBatch, hashes: Hashes) -> None:
        """Count changelog rows of one Kafka partition and window, given with their hashes."""
        truncations = int(pc.sum(pc.equal(rows["op"], "truncate")).as_py() or 0)
        self.changes += rows.num_rows - truncations
        self.truncations += truncations
        self.row_hash = signed(self.row_hash + summed(hashes))
        self.absent_rows += int(
            pc.sum(pc.greater(pc.fill_null(pc.list_value_length(rows["absent"]), 0), 0)).as_py() or 0
        )
        self.invalid_values += _length(rows["invalid"])
        self.see(*position_bounds(rows))
        self._see_event(pc.max(rows["event_time"]).as_py())

    def _see_event(self, latest: datetime | None) -> None:
        if latest is not None and (self.latest_event is None or latest > self.latest_event):
            self.latest_event = latest

    def see(self, first: SourcePosition, last: SourcePosition) -> None:
        """Widen the bounds."""
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def merge(self, other: TableTally) -> None:
        """Add what another task made of the same table, Kafka partition and window."""
        self.announced += other.announced
        self.changes += other.changes
        self.quarantined += other.quarantined
        self.truncations += other.truncations
        self.row_hash = signed(self.row_hash + other.row_hash)
        self.absent_rows += other.absent_rows
        self.invalid_values += other.invalid_values
        if other.first is not None and other.last is not None:
            self.see(other.first, other.last)
        self._see_event(other.latest_event)


TallyKey: TypeAlias = tuple[datetime, int, TableId]
"""Window start, Kafka partition, table."""


@dataclass(slots=True)
class TablesResult:
    """Changelog files by table, each of one window, quarantine files, and tallies.

    ``decoder`` names the parser and its version. ``seconds`` is how long the task took, by the clock of the worker, shared out
    over its windows by their bytes.
    """

    files: dict[TableId, tuple[WrittenFile, ...]]
    quarantine_files: tuple[WrittenFile, ...]
    ddl_files: tuple[WrittenFile, ...]
    tallies: dict[TallyKey, TableTally]
    unsigned: frozenset[tuple[TableId, str]]
    unknown: dict[str, int] = field(default_factory=dict)
    decoder: str = ""
    seconds: dict[datetime, float] = field(default_factory=dict)


def decode_changes(task: TablesTask, attempt: str) -> TablesResult:
    """Decode the DML entries of some files into changelog rows and write them, one file per table and window."""
    return _TablesRun(task, attempt).result()


class _TablesRun:
    """One attempt of one tables task."""

    def __init__(self, task: TablesTask, attempt: str) -> None:
        self._task = task
        self._attempt = attempt
        self._format = task.format
        self._columns = {table: target.columns for table, target in task.tables.items()}
        self._writers: dict[TableId, TableWriter] = {}
        self._rejected = TableWriter(task.quarantine, attempt)
        self._ddl = TableWriter(task.ddl, attempt)
        self._tallies: dict[TallyKey, TableTally] = {}
        self._unsigned: set[tuple[TableId, str]] = set()
        self._unknown: dict[str, int] = {}

    def result(self) -> TablesResult:
        began = time.monotonic()
        try:
            if self._task.statements:
                self._statements()
            for batch in self._chunks():
                self._decode(batch)
            files = {table: writer.close() for table, writer in self._writers.items()}
            quarantine_files, ddl_files = self._rejected.close(), self._ddl.close()
        except BaseException:
            for writer in (*self._writers.values(), self._rejected, self._ddl):
                writer.abort()
            raise
        took, whole = time.monotonic() - began, max(1, sum(self._task.bytes.values()))
        return TablesResult(
            files, quarantine_files, ddl_files, self._tallies, frozenset(self._unsigned), self._unknown, self._format.decoder,
            {start: took * size / whole for start, size in self._task.bytes.items()},
        )  # fmt: skip

    def _chunks(self) -> Iterator[pa.RecordBatch]:
        """DML entries in batches of about a chunk of payload."""
        few = len(self._columns) <= MANY_TABLES
        limit = CHUNK_BYTES if few else MANY_TABLES_CHUNK_BYTES
        enough = limit // 3 if few else limit // 2  # to put batches together is to copy them
        pending: list[pa.RecordBatch] = []
        size = 0
        batches = read_batches(self._task.io_properties, self._task.paths, _COLUMNS, batch_bytes=limit)
        for dml in map(self._changes_only, batches):
            pending.append(dml)
            size += dml["payload"].nbytes
            if size >= enough:
                yield _joined(pending)
                pending, size = [], 0
        if pending:
            yield _joined(pending)

    def _statements(self) -> None:
        """List the statements that count, and write a truncation into the changelog of every table that one empties."""
        for batch in read_batches(self._task.io_properties, self._task.paths, (*DDL_ENTRY_COLUMNS, "shard")):
            ddl = batch.filter(pc.equal(batch["message_type"], "DDL"))
            if not ddl.num_rows:
                continue
            cell = (ddl["kafka_partition"][0].as_py(), ddl["window_start"][0].as_py())
            least = self._task.from_offsets.get(cell, 0)
            counted = pa.array(sorted(one for one in self._task.statements.get(cell, ()) if one >= least), pa.int64())
            ddl = ddl.filter(pc.is_in(ddl["last_offset"], value_set=counted))
            lineages = entry_lineages(ddl, self._task.rules.get(cell, {}))
            ddl = ddl.append_column("lineage", pa.array(lineages))
            found = statements(ddl)
            if found:
                self._ddl.write(ddl_rows(ddl, found))
            for changes in truncations(found, self._columns):
                self._write(changes, ddl)

    def _changes_only(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """The DML entries of a batch that were not delivered before, with the ``lineage`` of each. A file holds one cell."""
        dml = entries.filter(pc.equal(entries["message_type"], "DML"))
        if dml.num_rows and self._task.from_offsets:
            cell = (dml["kafka_partition"][0].as_py(), dml["window_start"][0].as_py())
            dml = dml.filter(pc.greater_equal(dml["last_offset"], self._task.from_offsets.get(cell, 0)))
        lineages = np.zeros(dml.num_rows, np.int32)
        self._count(dml)
        if dml.num_rows and (self._task.rules or self._task.redelivered):
            cell = (dml["kafka_partition"][0].as_py(), dml["window_start"][0].as_py())
            before = self._task.redelivered.get(cell)
            if before is not None:
                fresh = ~np.isin(entry_keys(dml["last_offset"], dml["entry_number"]), before)
                dml = dml.filter(pa.array(fresh))
            lineages = entry_lineages(dml, self._task.rules.get(cell, {}))
        return dml.append_column("lineage", pa.array(lineages))

    def _count(self, dml: pa.RecordBatch) -> None:
        """Add up the rows that entries of one cell announce, by table."""
        if not dml.num_rows:
            return
        partition, start = dml["kafka_partition"][0].as_py(), dml["window_start"][0].as_py()
        named = pa.table({name: dml[name] for name in ("database", "schema", "table", "rows")})
        for row in named.group_by(["database", "schema", "table"]).aggregate([("rows", "sum")]).to_pylist():
            table = TableId(row["database"] or "", row["schema"] or "", row["table"] or "")
            if table in self._columns and row["rows_sum"]:
                self._tally(start, partition, table).announced += row["rows_sum"]

    def _decode(self, entries: pa.RecordBatch) -> None:
        if not entries.num_rows:
            return
        decoded = self._format.changes(entries, self._columns)
        for changes in decoded.tables:
            self._write(changes, entries)
        self._unsigned |= decoded.unsigned
        for what, count in decoded.unknown.items():
            self._unknown[what] = self._unknown.get(what, 0) + count
        for rejection in decoded.rejected:
            self._reject(rejection, entries)

    def _write(self, changes: TableChanges, entries: pa.RecordBatch) -> None:
        rows = changelog_rows(changes, entries)
        if not rows.num_rows:
            return
        writer = self._writers.get(changes.table)
        if writer is None:
            share = max(1 << 20, _BUFFER_BYTES // max(1, len(self._columns)))
            target = self._task.tables[changes.table].target
            writer = self._writers[changes.table] = TableWriter(target, self._attempt, buffer_bytes=share)
        writer.write(rows)
        hashes = row_hashes(rows)
        for start, end in _runs(rows):
            partition, window = rows["kafka_partition"][start].as_py(), rows["window_start"][start].as_py()
            self._tally(window, partition, changes.table).add(rows.slice(start, end - start), hashes[start:end])

    def _reject(self, rejection: Rejected, entries: pa.RecordBatch) -> None:
        names = ("kafka_partition", "window_start", "last_offset", "rows")
        row = {name: entries[name][rejection.index].as_py() for name in names}
        table = TableId(
            entries["database"][rejection.index].as_py() or "",
            entries["schema"][rejection.index].as_py() or "",
            entries["table"][rejection.index].as_py() or "",
        )
        self._tally(row["window_start"], row["kafka_partition"], table).quarantined += row["rows"] or 0
        self._rejected.write(
            pa.RecordBatch.from_pylist(
                [
                    {
                        "kafka_partition": row["kafka_partition"],
                        "window_start": row["window_start"],
                        "stage": "tables",
                        "first_offset": row["last_offset"],
                        "last_offset": row["last_offset"],
                        "reason": Reason(rejection.reason).value,
                        "detail": f"{table}: {rejection.detail}",
                        "payload": rejection.payload,
                    }
                ]
            ).cast(_QUARANTINE)
        )

    def _tally(self, window_start: datetime, kafka_partition: int, table: TableId) -> TableTally:
        return self._tallies.setdefault((window_start, kafka_partition, table), TableTally())


_QUARANTINE = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("stage", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("payload", pa.binary()),
    ]
)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]


def _runs(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Where rows of one Kafka partition and window begin and end: they come in the order of the files they were decoded from."""
    partitions, windows = numbers_of(rows["kafka_partition"]), numbers_of(rows["window_start"].view(pa.int64()))
    changes = (np.diff(partitions) != 0) | (np.diff(windows) != 0)
    return pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows])


def _length(maps: pa.MapArray) -> int:
    """How many items the maps hold together."""
    return maps.offsets[-1].as_py() - maps.offsets[0].as_py() if len(maps) else 0
