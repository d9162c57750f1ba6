"""Single rows taken from the source because they differed: changes with the operation ``repair``, seen in the changelog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dts_assets.errors.databases import CopyError
from dts_assets.flows.compared_tables import ComparedTable
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copies import add_chunks, begin, finish, prepare, require_positions
from dts_assets.flows.differing_rows import Differences
from dts_assets.flows.jdbc_rows import stored_rows
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import ColumnShape, quoted
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import SourceMoment
from dts_assets.sources.mysql_server import sql_table
from dts_assets.stages.copied_texts import as_copied, stored_kind, text_of
from dts_assets.store.files import TableWriter

_AT_ONCE = 200
"""Keys that one statement asks for."""


def repair_rows(
    pipeline: Pipeline, moment: SourceMoment, at: SourcePosition, table: ComparedTable, found: Differences
) -> CopiedTable:
    """Take the rows that differ from the source at a held moment, and return their copy.

    ``at`` is the lake's position of the moment.

    Raises:
        CopyError: The table has no primary key, or a position of its rows is not told by messages.
        TableAlteredError: The source has altered the table since.
    """
    source = table.source
    require_positions(pipeline, source)
    described = moment.tables()[source]
    columns = tuple(one.shape for one in described.columns)
    keys = tuple((one.source.name, one.column.name) for one in table.key)
    if not keys or {name for name, _ in keys} != {one.name for one in columns if one.is_key}:
        raise CopyError(str(source), "nothing tells its rows apart in the lake as at the source", "resync it")
    there = [one.source for one in found.rows if one.source is not None]
    gone = [one.lake for one in found.rows if one.source is None and one.lake is not None]
    removed = [as_copied(_key_values(keys, column, gone), stored_kind(column)) for column in columns]
    return enter_repair(
        pipeline, source, columns, at,
        rows=_rows_of(moment, source, columns, keys, there),
        removed=pa.RecordBatch.from_arrays(removed, names=[one.name for one in columns]),
        origin=f"verify {moment.place}",
    )  # fmt: skip


def _key_values(keys: Sequence[tuple[str, str]], column: ColumnShape, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return the values of a key's column in rows of the lake; other columns are NULL."""
    name = next((ours for theirs, ours in keys if theirs == column.name), None)
    if name is None:
        return pa.nulls(len(rows), pa.binary() if stored_kind(column) == "binary" else pa.string())
    return pa.array([row[name] for row in rows])


def _rows_of(
    moment: SourceMoment,
    table: TableId,
    columns: tuple[ColumnShape, ...],
    keys: Sequence[tuple[str, str]],
    rows: Sequence[Mapping[str, Any]],
) -> pa.RecordBatch:
    """Return rows of the source with some keys as a copy has them."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rows), _AT_ONCE):
        wanted = [
            " AND ".join(f"{quoted(theirs)} = {moment.literal(row[ours])}" for theirs, ours in keys)
            for row in rows[start : start + _AT_ONCE]
        ]
        texts = ", ".join(map(text_of, columns))
        found += moment.rows(f"SELECT {texts} FROM {sql_table(table)} WHERE ({') OR ('.join(wanted)})")
    kinds = [pa.binary() if stored_kind(one) == "binary" else pa.string() for one in columns]
    arrays = [pa.array([row[place] for row in found], kind) for place, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


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
