"""Rows of an Iceberg table in Arrow, file by file, also where files have deleted rows.

pyiceberg counts the rows of each such file one by one in Python: 10,000,000 rows of which 50,000 were deleted took 2.6 times what
they took before. Here pyiceberg reads a file as if nothing was deleted, and a mask takes the rows out. The rows are the same, in
the same order. One file is in memory at a time; pyiceberg begins with all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.table import FileScanTask, Table

from dts_assets.store.delete_files import live_rows
from dts_assets.store.file_stores import FileStore
from dts_assets.store.left_files import explained_absence


def read_rows(table: Table, columns: Sequence[str] = ("*",), where: str | None = None) -> pa.RecordBatchReader:
    """Return a reader of the rows of a table, a part at a time.

    ``where`` is a filter of Iceberg.

    Raises:
        LakeTableError: Files of the table are gone, now or while rows are read.
    """
    scan = table.scan(selected_fields=tuple(columns))
    scan = scan if where is None else scan.filter(where)
    schema = schema_to_pyarrow(scan.projection())
    reader = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
    with explained_absence(table):
        tasks = list(scan.plan_files())
    store = FileStore.of(table)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in tasks:
            by_mask = where is None and task.delete_files and _are_plain(task)
            found = _live(store, reader, task) if by_mask else reader.to_record_batches([task])
            with explained_absence(table):
                for batch in found:
                    yield batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _are_plain(task: FileScanTask) -> bool:
    """Return whether rows of a file are deleted by their numbers, in Parquet files."""
    return all(one.file_format == FileFormat.PARQUET for one in task.delete_files)


def _live(store: FileStore, reader: ArrowScan, task: FileScanTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are not deleted."""
    file, at = task.file, 0
    live = live_rows(store, file.file_path, file.record_count, [one.file_path for one in task.delete_files])
    for batch in reader.to_record_batches([FileScanTask(file)]):
        mine = live[at : at + batch.num_rows]
        at += batch.num_rows
        if mine.all():
            yield batch
            continue
        mask = pa.array(mine)  # column by column: a whole batch would be taken row by row
        yield pa.RecordBatch.from_arrays([one.filter(mask) for one in batch.columns], schema=batch.schema)
