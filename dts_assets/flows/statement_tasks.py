"""The work of one task: changelog files of a table and a window become rows of statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from dts_assets.flows.apart import fault_at
from dts_assets.model.key_periods import ToldColumns
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.stages.statements import READ_COLUMNS, StatementTable, statement_rows
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches

LAYER = "sql"

BATCH_BYTES = 8 << 20
"""The bytes of changelog rows that become statements at a time; these are a few times as long."""


@dataclass(frozen=True, slots=True)
class StatementTask:
    """The changelog files of a lake table and a window, and the place for its statements.

    Statements name the source's ``table``.
    """

    lake_table: TableId
    table: StatementTable
    window_start: datetime
    paths: tuple[str, ...]
    bytes: int
    told: Mapping[int, ToldColumns]
    store: FileStore
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The files of a task, and how many changes have no statement.

    ``fault`` is that of a table whose files cannot be made.
    """

    table: TableId
    window_start: datetime
    files: tuple[WrittenFile, ...] = ()
    refused: int = 0
    fault: Fault | None = None


def write_statements(task: StatementTask, attempt: str) -> StatementResult:
    """Write the statements of a task.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    table, refused = task.lake_table, 0
    try:
        with TableWriter(task.target, attempt) as writer:
            for rows, count in rows_of_files(task.table, task.paths, task.told, task.store):
                writer.write_partition((task.window_start,), rows)
                refused += count
            return StatementResult(table, task.window_start, writer.close(), refused)
    except Exception as error:
        return StatementResult(table, task.window_start, fault=fault_at(LAYER, error))


def rows_of_files(
    table: StatementTable, paths: tuple[str, ...], told: Mapping[int, ToldColumns], store: FileStore
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield rows of statements for the changes of some changelog files, and how many of these have none."""
    for changes in read_batches(store, paths, READ_COLUMNS, batch_bytes=BATCH_BYTES):
        yield statement_rows(changes, table, told)
