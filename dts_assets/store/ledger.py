"""The ledger of a subscription: reading its rows, and replacing the rows of a span.

Rows of a UTC day share a file. A replacement reads the days it touches, changes its own rows and writes each day anew, all in
one commit that is refused if anybody else replaced one of these days meanwhile; then it starts again. So rows of other spans
are never lost, and a span's rows change all at once. Tables that do not exist yet read as empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from dts_assets.errors import LakeTableError, StaleGenerationError
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.ledger_rows import (
    BacklogTable,
    Comparison,
    Cut,
    IngestWindow,
    Lease,
    LedgerRow,
    PausedTable,
    QuarantineRow,
    RawWindow,
    SettledDay,
    TableShapeRow,
    WindowTable,
)
from dts_assets.model.lineages import Lineage
from dts_assets.model.message_retention import RemovedRows
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.turns import NOBODY, Turn
from dts_assets.model.windows import Window, day_of
from dts_assets.store.commit import Assertion, Rectangle, files_in, replace
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.iceberg_tables import ensure_table, with_all_columns
from dts_assets.store.ledger_files import files_by_day, live_files, read_files, rows_of_file, rows_of_tables
from dts_assets.store.marks_by_day import MarksByDay
from dts_assets.store.rows import Kind, from_arrow, to_arrow
from dts_assets.store.schemas import DAY, SYSTEM_TABLES
from dts_assets.store.turns import entering, has_turn, having, require_turn
from dts_assets.store.types import arrow_schema
from dts_assets.store.versions import refuse_set_back
from dts_assets.store.write_targets import write_target

Chosen: TypeAlias = Callable[[pa.Table], pa.ChunkedArray]
"""A function that marks the rows of an Arrow table that a replacement removes: one boolean per row."""


class Ledger:
    """The ledger tables of one subscription.

    Readers take windows, or None for all rows, and return rows in key order.
    """

    def __init__(self, catalog: Catalog, subscription: str) -> None:
        self._catalog = catalog
        self._subscription = subscription

    def raw_windows(self, windows: Iterable[Window] | None = None) -> list[RawWindow]:
        """Return the marks of raw, by window and Kafka partition."""
        return sorted(self._read(RawWindow, "raw_windows", windows), key=lambda row: (row.window, row.kafka_partition))

    def windows(self, windows: Iterable[Window] | None = None) -> list[IngestWindow]:
        """Return the marks of ingest, by window and Kafka partition."""
        return sorted(self._read(IngestWindow, "windows", windows), key=lambda row: (row.window, row.kafka_partition))

    def cuts(self, windows: Iterable[Window] | None = None) -> list[Cut]:
        """Return the marks of the tables runs, by window."""
        return sorted(self._read(Cut, "cuts", windows), key=lambda row: row.window)

    def window_tables(
        self, windows: Iterable[Window] | None = None, *, since: datetime | None = None
    ) -> list[WindowTable]:
        """Return the counts of each table in some windows (None: all), by window, table and Kafka partition.

        Of the windows that start before ``since`` no file is read.
        """
        rows = self._read(WindowTable, "window_tables", windows, since=since)
        return sorted((row for row in rows if since is None or row.window_start >= since), key=_by_window)

    def of_tables(self, tables: Collection[TableId]) -> tuple[list[TableShapeRow], list[WindowTable]]:
        """Return the shapes and the counts of some tables in all windows, without those of others."""
        shapes, counts = self._table("table_shapes"), self._table("window_tables")
        return (
            [] if shapes is None else rows_of_tables(shapes, TableShapeRow, tables),
            [] if counts is None else rows_of_tables(counts, WindowTable, tables),
        )

    def table_shapes(self, windows: Iterable[Window] | None = None) -> list[TableShapeRow]:
        """Return the shapes that events described, by window, Kafka partition, table and first position."""
        rows = self._read(TableShapeRow, "table_shapes", windows)

        def key(row: TableShapeRow) -> tuple[Any, ...]:
            return row.window_start, row.kafka_partition, row.table, str(row.first_position), str(row.columns)

        return sorted(rows, key=key)

    def marks_by_day(self) -> MarksByDay:
        """Return the marks of raw, entries and tables as they stand now. Those of raw are the oldest."""
        found: dict[str, tuple[Table, Mapping[int, tuple[DataFile, ...]]]] = {}
        files: dict[int, list[str]] = defaultdict(list)
        for name in ("raw_windows", "windows", "cuts"):
            table = self._table(name)
            if table is not None:
                found[name] = table, files_by_day(table)
                for day, some in found[name][1].items():
                    files[day] += sorted(file.file_path for file in some)
        return MarksByDay({day: tuple(paths) for day, paths in files.items()}, found)

    def settled_days(self) -> list[SettledDay]:
        """Return the days in whose windows nothing was left to do, by day."""
        return sorted(self._read(SettledDay, "settled_days", None), key=lambda row: row.day)

    def change_settled_days(self, change: Callable[[Sequence[SettledDay]], Sequence[SettledDay]]) -> None:
        """Replace all settled days by the result of ``change``; see ``_change_all``."""
        self._change_all("settled_days", SettledDay, change)

    def comparisons(self) -> list[Comparison]:
        """Return what messages behind falling ids turned out to be, by window, Kafka partition and offset."""
        rows = self._read(Comparison, "comparisons", None)
        return sorted(rows, key=lambda row: (row.window, row.kafka_partition, row.offset))

    def lineages(self) -> list[Lineage]:
        """Return the lineages of the topic, by number."""
        return sorted(self._read(Lineage, "lineages", None), key=lambda row: row.lineage)

    def leases(self) -> tuple[list[Lease], tuple[str, ...]]:
        """Return the leases by part, and the files that they stand in."""
        table = self._ensure("leases")
        files = files_in(table, {})
        rows = sorted((row for file in files for row in rows_of_file(table, file, Lease, ())), key=lambda row: row.part)
        return rows, tuple(file.file_path for file in files)

    def paused_tables(self) -> list[PausedTable]:
        """Return the tables that stand still, by name."""
        return sorted(self._read(PausedTable, "paused_tables", None), key=lambda row: row.table)

    def change_paused_tables(self, change: Callable[[Sequence[PausedTable]], Sequence[PausedTable]]) -> None:
        """Replace all pauses by the result of ``change``; see ``_change_all``. A person and a run may write at once."""
        self._change_all("paused_tables", PausedTable, change)

    def backlog(self) -> list[BacklogTable]:
        """Return the tables of which some layer may lack changes, by name and run."""
        return sorted(self._read(BacklogTable, "backlog", None))

    def change_backlog(self, change: Callable[[Sequence[BacklogTable]], Sequence[BacklogTable]]) -> None:
        """Replace the whole backlog by the result of ``change``; see ``_change_all``."""
        self._change_all("backlog", BacklogTable, change)

    def removed_rows(self) -> list[RemovedRows]:
        """Return what retention has removed, in order of layers and windows."""
        return sorted(self._read(RemovedRows, "removed_rows", None), key=lambda row: (row.layer, row.since))

    def change_removed_rows(self, change: Callable[[Sequence[RemovedRows]], Sequence[RemovedRows]]) -> None:
        """Replace all that is known of removals by the result of ``change``; see ``_change_all``."""
        self._change_all("removed_rows", RemovedRows, change)

    def copied_tables(self) -> list[CopiedTable]:
        """Return the tables that were copied beside the stream, by their begin."""
        return sorted(self._read(CopiedTable, "copied_tables", None), key=lambda row: (row.began, row.copy))

    def change_copied_tables(self, change: Callable[[Sequence[CopiedTable]], Sequence[CopiedTable]]) -> None:
        """Replace all copied tables by the result of ``change``; see ``_change_all``."""
        self._change_all("copied_tables", CopiedTable, change)

    def replace_leases(self, rows: Sequence[Lease], *, base: Collection[str]) -> None:
        """Make ``rows`` all the leases, if they still stand in the files ``base``.

        Raises:
            StaleGenerationError: Somebody else was faster.
        """
        table = self._ensure("leases")
        written = _write(table, [((), _arrow(table, rows))])
        self._commit(table, "leases", {}, written, base)

    def quarantine(self, *, payload: bool = False) -> list[QuarantineRow]:
        """Return the rows in quarantine, by window, Kafka partition and offset; with bytes only if ``payload``."""
        rows = self._read(QuarantineRow, "quarantine", None, without=() if payload else ("payload",))
        return sorted(
            rows, key=lambda row: (row.window_start, row.kafka_partition, row.stage, row.first_offset or 0, row.reason)
        )

    def enter_turn(self, names: Iterable[str], turn: Turn) -> None:
        """Enter a writer's name in some tables.

        From then on no other writer of these parts marks anything there. A table in which the name stands already is not written.

        Raises:
            LakeChangeError: Other writers kept a table busy all the time.
        """
        for name in names:
            table = self._ensure(name)
            if not has_turn(table, turn):
                nothing: Rectangle = {DAY: ()}
                replace(self._catalog, self._identifier(name), nothing, (), assertion=entering(turn))

    def require_turn(self, names: Iterable[str], turn: Turn) -> None:
        """Raise an error unless a writer's name stands in some tables.

        Raises:
            OvertakenError: Another writer has entered its name.
        """
        for name in names:
            require_turn(self._ensure(name), turn)

    def replace_raw_windows(self, cells: Iterable[Cell], rows: Sequence[RawWindow], *, turn: Turn = NOBODY) -> None:
        """Make ``rows`` all the marks of raw of ``cells``; raises as :meth:`replace_windows` does."""
        self._replace_cells("raw_windows", cells, rows, turn)

    def replace_windows(self, cells: Iterable[Cell], rows: Sequence[IngestWindow], *, turn: Turn = NOBODY) -> None:
        """Make ``rows`` all the marks of ingest of ``cells``.

        Raises:
            OvertakenError: The name of ``turn`` does not stand any more.
        """
        self._replace_cells("windows", cells, rows, turn)

    def replace_table_shapes(
        self, cells: Iterable[Cell], rows: Sequence[TableShapeRow], *, turn: Turn = NOBODY
    ) -> None:
        """Make ``rows`` all the shapes of ``cells``.

        Raises:
            OvertakenError: The name of ``turn`` does not stand any more.
        """
        self._replace_cells("table_shapes", cells, rows, turn)

    def replace_comparisons(self, cells: Iterable[Cell], rows: Sequence[Comparison]) -> None:
        """Make ``rows`` all the comparisons of ``cells``."""
        self._replace_cells("comparisons", cells, rows, NOBODY)

    def replace_cuts(self, windows: Iterable[Window], rows: Sequence[Cut], *, turn: Turn = NOBODY) -> None:
        """Make ``rows`` all the marks of the tables runs of ``windows``.

        Raises:
            OvertakenError: The name of ``turn`` does not stand any more.
        """
        starts = {window.start for window in windows}
        self._replace("cuts", starts, lambda table: _starts_in(table, starts), rows, turn)

    def replace_window_tables(
        self,
        windows: Iterable[Window],
        rows: Sequence[WindowTable],
        *,
        tables: Collection[TableId] | None = None,
        besides: Collection[TableId] = (),
        turn: Turn = NOBODY,
    ) -> None:
        """Make ``rows`` all the counts of ``tables`` (None: of every table) in ``windows``; those of ``besides`` stay.

        Raises:
            OvertakenError: The name of ``turn`` does not stand any more.
        """
        starts = {window.start for window in windows}

        def chosen(table: pa.Table) -> pa.ChunkedArray:
            mask = _starts_in(table, starts)
            if tables is None and not besides:
                return mask
            names = zip(*(table[part].to_pylist() for part in ("database", "schema", "table")), strict=True)
            ids = (TableId(*name) for name in names)
            taken = [(tables is None or one in tables) and one not in besides for one in ids]
            return pc.and_(mask, pa.chunked_array([taken], pa.bool_()))

        self._replace("window_tables", starts, chosen, rows, turn)

    def replace_lineages(self, rows: Sequence[Lineage]) -> None:
        """Make ``rows`` all the lineages of the topic; equal rows are not written again."""
        if self.lineages() == list(rows):
            return
        self._change_all("lineages", Lineage, lambda _: rows)

    def _change_all(self, name: str, kind: type[Kind], change: Callable[[Sequence[Kind]], Sequence[Kind]]) -> None:
        """Replace all rows of a table by the result of ``change``; equal rows are not written again.

        ``change`` gets the stored rows. It is called again if somebody else was faster.
        """

        def attempt() -> None:
            table = self._ensure(name)
            files = files_in(table, {})
            stored = [row for file in files for row in rows_of_file(table, file, kind, ())]
            rows = list(change(stored))
            if rows != stored:
                written = _write(table, [((), _arrow(table, rows))])
                self._commit(table, name, {}, written, [file.file_path for file in files])

        until_it_gets_through(self._qualified(name), attempt, lost=(StaleGenerationError,))

    def _replace_cells(self, name: str, cells: Iterable[Cell], rows: Sequence[LedgerRow], turn: Turn) -> None:
        by_partition: dict[int, set[datetime]] = defaultdict(set)
        for cell in cells:
            by_partition[cell.kafka_partition].add(cell.window.start)
        starts = {start for found in by_partition.values() for start in found}

        def chosen(table: pa.Table) -> pa.ChunkedArray:
            mask = pa.chunked_array([pa.repeat(False, table.num_rows)])
            for kafka_partition, found in by_partition.items():
                mask = pc.or_(
                    mask, pc.and_(pc.equal(table["kafka_partition"], kafka_partition), _starts_in(table, found))
                )
            return mask

        self._replace(name, starts, chosen, rows, turn)

    def _replace(
        self, name: str, starts: Collection[datetime], chosen: Chosen, rows: Sequence[LedgerRow], turn: Turn
    ) -> None:
        """Replace the rows that ``chosen`` marks, in the days of ``starts``, by ``rows``.

        Raises:
            LakeTableError: ``chosen`` does not mark one of ``rows``.
            OvertakenError: The name of ``turn`` does not stand any more.
            StaleGenerationError: Other runs replaced the days each time that this one tried.
        """
        days = {day_of(start) for start in starts}

        def attempt() -> None:
            table = self._ensure(name) if rows else self._table(name)
            if table is None:
                return
            require_turn(table, turn)  # asked again by the commit; here it spares the writing
            files = files_in(table, {DAY: days})
            old = read_files(table, files)
            gone = chosen(old)
            if not rows and not pc.any(gone).as_py():
                return
            new = _arrow(table, rows)
            if rows and not pc.all(chosen(new)).as_py():
                raise LakeTableError(
                    self._qualified(name), "a row was given that lies outside of the cells that are being replaced"
                )
            whole = pa.concat_tables([old.filter(pc.invert(gone)), new])
            written = _write(table, [((day,), whole.filter(_day_is(whole, day))) for day in sorted(days)])
            base = [file.file_path for file in files]
            self._commit(table, name, {DAY: days}, written, base, having(turn) if turn.names else None)

        until_it_gets_through(self._qualified(name), attempt, lost=(StaleGenerationError,))

    def _commit(
        self,
        table: Table,
        name: str,
        rectangle: Rectangle,
        written: Sequence[WrittenFile],
        base: Collection[str],
        assertion: Assertion | None = None,
    ) -> None:
        """Commit files in place of ``base``. They are removed if they surely were not committed.

        Raises:
            OvertakenError: The assertion does not hold.
            StaleGenerationError: Somebody else was faster.
        """
        try:
            replace(self._catalog, self._identifier(name), rectangle, written, base=base, assertion=assertion)
        except StaleGenerationError as error:
            for file in () if error.unsure else written:
                with suppress(OSError):
                    table.io.delete(file.path)
            raise

    def _read(
        self,
        kind: type[Kind],
        name: str,
        windows: Iterable[Window] | None,
        *,
        without: Sequence[str] = (),
        since: datetime | None = None,
    ) -> list[Kind]:
        table = self._table(name)
        if table is None:
            return []
        if since is not None:
            days = [files for day, files in sorted(files_by_day(table).items()) if day >= day_of(since)]
            return [row for files in days for file in files for row in rows_of_file(table, file, kind, without)]
        if windows is None:
            return [row for file in live_files(table) for row in rows_of_file(table, file, kind, without)]
        starts = {window.start for window in windows}
        by_day = files_by_day(table)
        rows = read_files(table, [file for day in sorted(set(map(day_of, starts))) for file in by_day.get(day, ())])
        return from_arrow(kind, rows.filter(_starts_in(rows, starts)))

    def _table(self, name: str) -> Table | None:
        try:
            table = refuse_set_back(self._catalog.load_table(self._identifier(name)))
            return self._with_all_columns(name, table)
        except NoSuchTableError:
            return None

    def _ensure(self, name: str) -> Table:
        table = ensure_table(self._catalog, self._identifier(name), SYSTEM_TABLES[name])
        return self._with_all_columns(name, table)

    def _with_all_columns(self, name: str, table: Table) -> Table:
        return with_all_columns(self._catalog, self._identifier(name), SYSTEM_TABLES[name], table)

    def _identifier(self, name: str) -> tuple[str, str]:
        return (self._subscription, name)

    def _qualified(self, name: str) -> str:
        return f"{self._subscription}.{name}"


def _starts_in(table: pa.Table, starts: Collection[datetime]) -> pa.ChunkedArray:
    column = table["window_start"]
    return pc.is_in(column, value_set=pa.array(list(starts), column.type))


def _day_is(table: pa.Table, day: int) -> pa.ChunkedArray:
    days = pc.cast(pc.floor_temporal(table["window_start"], unit="day"), pa.date32())
    return pc.equal(pc.cast(days, pa.int32()), day)


def _arrow(table: Table, rows: Sequence[LedgerRow]) -> pa.Table:
    return to_arrow(rows, arrow_schema(table.schema()))


def _write(table: Table, pieces: Iterable[tuple[tuple[int, ...], pa.Table]]) -> tuple[WrittenFile, ...]:
    """Write rows in this process, one file per piece: a partition tuple and its rows, ``((20458,), <rows>)``."""
    with TableWriter(write_target(table, "ledger")) as writer:
        for partition, rows in pieces:
            for batch in rows.combine_chunks().to_batches():
                writer.write_partition(partition, batch)
        return writer.close()


def _by_window(row: WindowTable) -> tuple[datetime, TableId, int]:
    return row.window_start, row.table, row.kafka_partition
