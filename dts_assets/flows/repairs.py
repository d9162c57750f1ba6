"""Single rows taken from the source because they differed: changes with the operation ``repair``, seen in the changelog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from dts_assets.errors.databases import CopyError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copies import add_chunks, begin, finish, prepare
from dts_assets.flows.jdbc_rows import stored_rows
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.store.files import TableWriter


def enter_repair(
    pipeline: Pipeline,
    table: TableId,
    columns: tuple[ColumnShape, ...],
    at: SourcePosition,
    *,
    rows: pa.RecordBatch,
    removed: pa.RecordBatch,
    origin: str,
) -> CopiedTable:
    """Enter rows of a source table as they were at a position, and return their copy.

    ``rows`` are those that the source has, ``removed`` those that it has not, of which the key counts: each has a column of texts
    (or bytes) for every one of ``columns``. The window whose cut reaches the position takes them. Rows that changed later stay.

    Raises:
        CopyError: The table has no primary key, so that nothing tells its rows apart.
    """
    if not any(column.is_key for column in columns):
        raise CopyError(str(table), "it has no primary key that tells its rows apart", "resync it")
    copied = begin(pipeline, table, columns, CopyKind.REPAIR, origin, [CopiedChunk(0, None, None)])
    prepare(pipeline, copied)
    path, read_at = copies_path(pipeline, table), datetime.now(UTC)
    chunk = replace(copied.chunks[0], low=at, high=at, rows=rows.num_rows + removed.num_rows, read_at=read_at)
    target = pipeline.lake.target(path, pipeline.new_run())
    with TableWriter(target) as writer:
        for batch in _numbered(copied, chunk, columns, read_at, rows, removed):
            writer.write_partition((copied.copy, 0), batch)
        copied = add_chunks(pipeline, copied, [chunk], writer.close())
    return finish(pipeline, copied)


def _numbered(
    copied: CopiedTable,
    chunk: CopiedChunk,
    columns: tuple[ColumnShape, ...],
    read_at: datetime,
    rows: pa.RecordBatch,
    removed: pa.RecordBatch,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the source has, and behind them those that it has not."""
    before = 0
    for batch, gone in ((rows, False), (removed, True)):
        if batch.num_rows:
            yield stored_rows(copied.copy, chunk, columns, batch, read_at, before, removed=gone)
            before += batch.num_rows
