"""Entries decoded to changelog rows, without those that were delivered before, and counted; rows go to a sink.

Entries are decoded here in the same way from files in the lake (``flows/tables_tasks.py``) and from memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.column_rules import TableRules
from dts_assets.model.columns import Column
from dts_assets.model.foreign_keys import joined_spans
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Reason
from dts_assets.model.routes import NO_ROUTES, Routes
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType
from dts_assets.stages.changelog_rows import (
    ENTRY_COLUMNS,
    ROWS_BEFORE,
    changelog_rows,
    placed_at,
    stretches,
)
from dts_assets.stages.column_rules import RulesError, apply_rules
from dts_assets.stages.counted_rows import CountedRows
from dts_assets.stages.ddl_statements import Statement, changed_tables, ddl_rows, statements, truncation, truncations
from dts_assets.stages.entries_wanted import CellKey, EntriesWanted
from dts_assets.stages.entry_columns import entries_by_set, source_positions
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.filter_eras import LACKING, by_era
from dts_assets.stages.isolation import decoded_apart, rejection_of
from dts_assets.stages.joined_changes import joined_by_table
from dts_assets.stages.parent_changes import ParentChanges, parent_changes, parent_spans
from dts_assets.stages.partial_changes import without_partial
from dts_assets.stages.quarantine import Unusable, quarantine_rows
from dts_assets.stages.redelivered_entries import entry_keys
from dts_assets.stages.routed_changes import NO_SOURCES, ChangeRoutes
from dts_assets.stages.row_hash import row_hashes
from dts_assets.stages.rows_at_places import RowsAtPlaces
from dts_assets.stages.table_tallies import TableTally, TallyKey
from dts_assets.wire.columns.buffers import Bools, offsets_of
from dts_assets.wire.columns.table_changes import table_codes
from dts_assets.wire.format import MOST_CELLS, ChangesFormat, DecodedChanges, Rejected, TableChanges

CHUNK_BYTES = 16 << 20
MANY_TABLES = 100
MANY_TABLES_CHUNK_BYTES = 32 << 20
"""Above so many tables each chunk pays about 0.2 ms per table, so chunks grow."""

DML_ENTRY_COLUMNS = (
    *ENTRY_COLUMNS, "entry_number", "shard", "message_type", "database", "schema", "table", "rows", "payload",
)  # fmt: skip
"""The columns of ``entries`` that are decoded."""

_BYTES_OF_CELL = 4
"""Fewer bytes than a value takes in whole rows of most formats.

So such rows are decoded a chunk at a time.
"""

_PLACE = ["kafka_partition", "window_start", "last_offset"]
_CELL = ("kafka_partition", "window_start")


NO_RULES: Mapping[TableId, TableRules] = MappingProxyType({})


class ChangelogSink(Protocol):
    """The place where decoded rows go, batch by batch."""

    def rows(self, table: TableId, rows: pa.RecordBatch, *, compared: bool = False) -> None:
        """Take changelog rows of a table; ``compared`` says that they are before the end of a compared cell."""

    def rejected(self, rows: pa.RecordBatch) -> None:
        """Take rows of ``quarantine``."""

    def statements(self, rows: pa.RecordBatch) -> None:
        """Take rows of ``ddl``."""


class ChangelogDecoder:
    """One pass over entries. Its tallies, unsigned columns and unknown things are those of all that was read.

    The rows of ``compared`` are in no other tally: those before the end of compared cells. ``left_out`` are the tables that have
    entries and are not decoded. ``refused`` has the tables whose rules cannot judge a change, each with a clause
    that says why; rows of them may have been written before.
    """

    def __init__(
        self,
        wire: ChangesFormat,
        columns: Mapping[TableId, tuple[Column, ...]],
        wanted: EntriesWanted,
        sink: ChangelogSink,
        *,
        rules: Mapping[TableId, TableRules] = NO_RULES,
        routes: Routes = NO_ROUTES,
        sources: Mapping[TableId, tuple[TableId, ...]] = NO_SOURCES,
    ) -> None:
        self._format = wire
        self._places = RowsAtPlaces()
        self._columns = columns
        self._rules = rules
        self._keys = {table: [one.name for one in some if one.is_key] for table, some in columns.items()}
        decoded = {table: rules[table].decoded if table in rules else one for table, one in columns.items()}
        self._routes = ChangeRoutes(decoded, routes, sources)
        self._emptied = ChangeRoutes(columns, routes, sources)
        self._lake_tables = self._emptied.lake_tables
        self._wanted = wanted
        self._sink = sink
        few = len(columns) <= MANY_TABLES and not routes.has_shards
        self.chunk_bytes = CHUNK_BYTES if few else MANY_TABLES_CHUNK_BYTES
        self._enough = self.chunk_bytes // 3 if few else self.chunk_bytes // 2  # to join batches is to copy them
        self.tallies: defaultdict[TallyKey, TableTally] = defaultdict(TableTally)
        self.compared: defaultdict[TallyKey, TableTally] = defaultdict(TableTally)
        self.left_out: set[TableId] = set()
        self.refused: dict[TableId, str] = {}
        self.unsigned: set[TaughtType] = set()
        self.unknown: Counter[str] = Counter()

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Decode the DML among entries; each batch is of one cell."""
        for chunk in self._chunks(batches):
            self._decode(chunk)

    def read_statements(self, batches: Iterable[pa.RecordBatch]) -> None:
        """List the statements that count, and write a truncation into the changelog of every table that one empties.

        A full load that replaces a table empties it, too.
        """
        for batch in batches:
            self._read_loads(batch)
            ddl = batch.filter(pc.equal(batch["message_type"], "DDL"))
            if not ddl.num_rows:
                continue
            cell = _cell_of(ddl)
            least = self._wanted.from_offsets.get(cell, 0)
            counted = pa.array(sorted(one for one in self._wanted.statements.get(cell, ()) if one >= least), pa.int64())
            ddl = ddl.filter(pc.is_in(ddl["last_offset"], value_set=counted))
            lineages = entry_lineages(ddl, self._wanted.rules.get(cell, {}))
            ddl = ddl.append_column("lineage", pa.array(lineages))
            found = statements(ddl)
            if found:
                self._sink.statements(ddl_rows(ddl, found))
            for changes in truncations(found, self._emptied):
                self._write(self._rows(changes, ddl))
            self._count_statements(cell, found, ddl)

    def _count_statements(self, cell: CellKey, found: list[Statement], ddl: pa.RecordBatch) -> None:
        """Count the statements of a cell that may have changed tables beyond their events."""
        (partition, start), positions = cell, source_positions(ddl)
        until = self._wanted.compared_until.get(cell, 0)
        for row, table in changed_tables(found, self._lake_tables):
            tallies = self.compared if ddl["last_offset"][row].as_py() < until else self.tallies
            position = SourcePosition(**positions[row].as_py())
            tallies[start, partition, table].merge(TableTally(statements=1, first=position, last=position))

    def _read_loads(self, batch: pa.RecordBatch) -> None:
        """Write the truncations of the full loads that begin in a batch of one cell."""
        if not batch.num_rows or not self._wanted.loads:
            return
        cell = _cell_of(batch)
        for load in self._wanted.loads.get(cell, ()):
            source = TableId(load.database, load.schema, load.table)
            table = self._emptied.emptied_table(source)
            rows = np.flatnonzero(batch["last_offset"].to_numpy() == load.offset)
            if len(rows) and table is not None and load.offset >= self._wanted.from_offsets.get(cell, 0):
                changes = truncation(int(rows[0]), source, table, self._emptied)
                self._write(self._rows(changes, placed_at(batch, load.emptied_at)))

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield DML entries in batches of about a chunk of payload."""
        pending: list[pa.RecordBatch] = []
        size = 0
        for dml in map(self._changes_only, batches):
            pending.append(dml)
            size += dml["payload"].nbytes
            if size >= self._enough:
                yield _joined(pending)
                pending, size = [], 0
        if pending:
            yield _joined(pending)

    def _changes_only(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the DML entries of a cell that were not delivered before.

        With each comes its ``lineage``, and the rows that came before it at its place.
        """
        wanted = self._wanted
        dml = entries.filter(pc.equal(entries["message_type"], "DML"))
        if not dml.num_rows:
            nothing = pa.array([], pa.int32())
            return dml.append_column("lineage", nothing).append_column(ROWS_BEFORE, nothing)
        cell, fresh = _cell_of(dml), np.ones(dml.num_rows, np.bool_)
        before = wanted.redelivered.get(cell)
        if before is not None:
            fresh = ~np.isin(entry_keys(dml["last_offset"], dml["entry_number"]), before)
        dml = dml.append_column(ROWS_BEFORE, pa.array(self._rows_before(cell, dml, fresh)))
        if wanted.from_offsets:
            new = np.asarray(pc.greater_equal(dml["last_offset"], wanted.from_offsets.get(cell, 0)))
            dml, fresh = dml.filter(pa.array(new)), fresh[new]
        self._count(dml)
        if before is not None:
            dml = dml.filter(pa.array(fresh))
        rules = wanted.rules.get(cell, {})
        lineages = entry_lineages(dml, rules) if rules or before is not None else np.zeros(dml.num_rows, np.int32)
        rows_before = dml.num_columns - 1
        return dml.add_column(rows_before, "lineage", pa.array(lineages))

    def _rows_before(self, cell: CellKey, dml: pa.RecordBatch, fresh: Bools) -> npt.NDArray[np.int32]:
        if self._format.traits.order is ChangeOrder.BINLOG_POSITION and not self._format.traits.rows_apart:
            return self._places.before(cell, dml, fresh)
        return np.zeros(len(dml), np.int32)

    def _count(self, dml: pa.RecordBatch) -> None:
        """Add up the rows that entries of one cell announce, by table."""
        if not dml.num_rows:
            return
        partition, start = _cell_of(dml)
        named = pa.table({name: dml[name] for name in ("database", "schema", "table", "rows")})
        for row in named.group_by(["database", "schema", "table"]).aggregate([("rows", "sum")]).to_pylist():
            table = self._routes.table(TableId(row["database"] or "", row["schema"] or "", row["table"] or ""))
            if table is None:
                continue
            if table not in self._columns:
                self.left_out.add(table)
            elif row["rows_sum"]:
                self.tallies[start, partition, table].announced += row["rows_sum"]

    def _decode(self, entries: pa.RecordBatch) -> None:
        for piece in self._pieces(entries):
            for source_set, rows in entries_by_set(piece) if self._routes.by_set else (("", piece),):
                self._decode_piece(rows, source_set)

    def _pieces(self, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield entries in order, a call's cells at a time, without those that are too large alone.

        A row may be sent in two bytes and have four thousand columns. An entry that has more cells than a call may decode, and
        more than bytes, goes to quarantine.
        """
        cells, sizes = self._cells(entries), np.diff(offsets_of(entries["payload"]))
        if cells.sum() <= max(MOST_CELLS, int(sizes.sum()) // _BYTES_OF_CELL):
            yield entries
            return
        large = (cells > MOST_CELLS) & (cells > sizes)
        for row in np.flatnonzero(large).tolist():
            detail = f"its rows and columns make {cells[row]} cells of {sizes[row]} bytes"
            self._reject(Rejected(row, None, Reason.TOO_LARGE, detail, entries["payload"][row].as_py()), entries)
        entries, cells = entries.filter(pa.array(~large)), cells[~large]
        start = total = 0
        for row, count in enumerate(cells.tolist()):
            if total + count > MOST_CELLS and row > start:
                yield entries.slice(start, row - start)
                start, total = row, 0
            total += count
        yield entries.slice(start)

    def _cells(self, entries: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the number of cells that each entry fills in the changelog of its table."""
        tables = self._routes.by_source
        wanted, codes = table_codes(entries, tables)
        widths = np.fromiter(map(len, tables.values()), np.int64, len(tables))
        cells = np.zeros(entries.num_rows, np.int64)
        cells[wanted] = entries["rows"].fill_null(0).to_numpy()[wanted].astype(np.int64) * widths[codes]
        return cells

    def _decode_piece(self, entries: pa.RecordBatch, source_set: str) -> None:
        if not entries.num_rows:
            return
        for some, found in decoded_apart(partial(self._changes, source_set=source_set), entries):
            if isinstance(found, Exception):
                self._reject(Rejected(0, None, *rejection_of(found), some["payload"][0].as_py()), some)
                continue
            decoded, made, of_parents = found
            for rows in made:
                self._write(rows)
            self._count_of_parents(of_parents, some)
            self.unsigned |= {
                replace(one, table=self._routes.table(one.table) or one.table) for one in decoded.unsigned
            }
            self.unknown.update(decoded.unknown)
            for rejection in decoded.rejected:
                self._reject(rejection, some)

    def _changes(
        self, entries: pa.RecordBatch, *, source_set: str
    ) -> tuple[DecodedChanges, list[CountedRows], list[ParentChanges]]:
        """Return what entries of a set hold, and the rows of the changelogs.

        With them come the changes that foreign keys may pass on. Nothing is written yet.
        """
        decoded = self._format.changes(entries, self._routes.by_source)
        if self._wanted.partial:
            decoded = without_partial(decoded, entries, self._wanted.partial)
        apart = self._format.traits.rows_apart
        routed = self._routed(decoded.tables, source_set)
        made = (
            self._ruled(some, entries, rules, rows_apart=apart, lacks=lacks)
            for source, changes in routed
            for some, rules, lacks in by_era(changes, entries, self._rules.get(changes.table), source)
        )
        # Rules may leave a parent's change out, and the server passes it on all the same.
        of_parents = (parent_changes(changes, self._keys.get(changes.table, ())) for _, changes in routed)
        return decoded, [rows for rows in made if rows is not None], [one for one in of_parents if one is not None]

    def _routed(self, tables: Iterable[TableChanges], source_set: str) -> list[tuple[TableId, TableChanges]]:
        """Return the changes of lake tables, each with its source table.

        It is one of several source tables where these are judged alike.
        """
        alike = dict[object, tuple[TableId, list[TableChanges]]]()
        for one in tables:
            routed, source = self._routes.routed(one, source_set), one.table.of_set(source_set)
            rules, key = self._rules.get(routed.table), None
            if rules is not None and rules.differ_by_source:
                key = (routed.table, *(replace(era, source=None) for era in rules.of_source(source).eras))
            alike.setdefault(key, (source, []))[1].append(routed)
        return [(source, joined) for source, some in alike.values() for joined in joined_by_table(some)]

    def _ruled(
        self,
        changes: TableChanges,
        entries: pa.RecordBatch,
        rules: TableRules | None,
        *,
        rows_apart: bool,
        lacks: bool,
    ) -> CountedRows | None:
        """Return the rows of a table under its rules; None if they cannot judge a change.

        ``lacks`` says that an event lacks a column of the filter.
        """
        if rules is None:
            return self._rows(changes, entries, rows_apart=rows_apart)
        if lacks:
            self.refused[changes.table] = LACKING
            return None
        try:
            ruled = apply_rules(changes, rules)
        except RulesError as error:
            self.refused[changes.table] = str(error)
            return None
        made = self._rows(ruled.changes, entries, rows_apart=rows_apart)
        if not len(ruled.left_out):
            return made
        return replace(made, left_out=entries.select(_PLACE).take(pa.array(ruled.left_out)))

    def _rows(self, changes: TableChanges, entries: pa.RecordBatch, *, rows_apart: bool = False) -> CountedRows:
        deletes_first = self._format.traits.order is ChangeOrder.ARRIVAL
        rows = changelog_rows(changes, entries, rows_apart=rows_apart, deletes_first=deletes_first)
        return CountedRows(changes.table, rows, row_hashes(rows, changes.own), changes.keys, changes.carried)

    def _write(self, made: CountedRows) -> None:
        rows = made.rows
        if made.left_out is not None:
            self._count_left_out(made.table, made.left_out)
        if not rows.num_rows:
            return
        if self._wanted.compared_until:
            for start, end in stretches(rows):
                self._write_apart(made.part(start, end))
            return
        self._sink.rows(made.table, rows)
        self._add(made, self.tallies)

    def _write_apart(self, made: CountedRows) -> None:
        """Write rows of one cell, those before the end of a compared cell apart from all others."""
        until = self._wanted.compared_until.get(_cell_of(made.rows), 0)
        before = made.rows["kafka_offset"].to_numpy() < until
        for mask, tallies in ((before, self.compared), (~before, self.tallies)):
            if mask.any():
                part = made.chosen(mask)
                self._sink.rows(part.table, part.rows, compared=tallies is self.compared)
                self._add(part, tallies)

    def _add(self, made: CountedRows, tallies: defaultdict[TallyKey, TableTally]) -> None:
        rows = made.rows
        for start, end in stretches(rows):
            partition, window = rows["kafka_partition"][start].as_py(), rows["window_start"][start].as_py()
            found = made.part(start, end).tally(self._columns[made.table])
            tallies[window, partition, made.table].merge(found)

    def _count_left_out(self, table: TableId, places: pa.RecordBatch) -> None:
        """Count changes that a row filter left out; ``places`` are at least one."""
        for start, end in stretches(places):
            cell = _cell_of(places.slice(start, 1))
            offsets = places["last_offset"].to_numpy()[start:end]
            before = int(np.count_nonzero(offsets < self._wanted.compared_until.get(cell, 0)))
            for tallies, count in ((self.compared, before), (self.tallies, end - start - before)):
                if count:
                    tallies[cell[1], cell[0], table].filtered += count

    def _count_of_parents(self, found: list[ParentChanges], entries: pa.RecordBatch) -> None:
        """Note where changes stand that foreign keys may pass on."""
        until = self._wanted.compared_until
        ends = (
            [until.get(cell, 0) for cell in zip(*(entries[name].to_pylist() for name in _CELL), strict=True)]
            if until
            else 0
        )
        before = entries["last_offset"].to_numpy() < np.array(ends)
        for one in parent_spans(found, entries, before):
            partition, start = (entries[name][one.row].as_py() for name in _CELL)
            tally = (self.compared if before[one.row] else self.tallies)[start, partition, one.table]
            if one.is_delete:
                tally.deletes = joined_spans(tally.deletes, one.span)
            else:
                tally.moves = joined_spans(tally.moves, one.span)

    def _reject(self, rejection: Rejected, entries: pa.RecordBatch) -> None:
        names = ("kafka_partition", "window_start", "last_offset", "rows", "database", "schema", "table")
        row = {name: entries[name][rejection.index].as_py() for name in names}
        source = TableId(row["database"] or "", row["schema"] or "", row["table"] or "")
        tally = self.tallies[row["window_start"], row["kafka_partition"], table := self._routes.table(source) or source]
        tally.quarantined += row["rows"] or 0
        tally.quarantined_entries += 1
        offset, detail = row["last_offset"], f"{source}: {rejection.detail}"
        # The payload has values that rules keep out of typed tables; it stands in entries, which name the offset.
        payload = b"" if table in self._rules else rejection.payload
        found = Unusable(offset, offset, rejection.reason, detail, payload)
        cell = {name: row[name] for name in ("kafka_partition", "window_start")}
        self._sink.rejected(quarantine_rows([found], **cell, stage="tables"))


def _cell_of(entries: pa.RecordBatch) -> CellKey:
    return entries["kafka_partition"][0].as_py(), entries["window_start"][0].as_py()


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
