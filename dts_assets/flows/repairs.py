"""Single rows taken from the source because they differed: changes with the operation ``repair``, seen in the changelog."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.errors.databases import CopyError
from dts_assets.flows.compared_snapshots import rows_that_live
from dts_assets.flows.compared_tables import ComparedTable
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import add_chunks, begin, finish, prepare, require_positions
from dts_assets.flows.jdbc_rows import stored_rows
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.shown_keys import shown_keys
from dts_assets.model.columns import ColumnShape, quoted
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind
from dts_assets.model.differences import Differences
from dts_assets.model.foreign_keys import ForeignKey
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.sources.live_database import SourceMoment
from dts_assets.sources.mysql_server import sql_table
from dts_assets.stages.compared_rows import key_texts, lake_rows, text_schema
from dts_assets.stages.compared_values import ComparedColumn
from dts_assets.stages.copied_texts import as_copied, copied_type, stored_kind, text_of
from dts_assets.store.files import TableWriter, WriteTarget

_AT_ONCE = 200
"""Keys that one statement asks for."""


def repair_rows(
    pipeline: Pipeline,
    moment: SourceMoment,
    at: SourcePosition,
    table: ComparedTable,
    found: Differences,
    *,
    server: str = "",
) -> CopiedTable:
    """Take the rows that differ from the source at a held moment, and return their copy.

    ``at`` is the lake's position of the moment, ``server`` says how its server is known to be the topic's.

    Raises:
        CopyError: The table has no primary key, or a position of its rows is not told by messages.
        TableAlteredError: The source has altered the table since.
    """
    source = table.source
    require_positions(pipeline, source)
    described = moment.tables()[source]
    columns = tuple(one.shape for one in described.columns)
    names = {one.source.name for one in table.key}
    if not names or names != {one.name for one in columns if one.is_key}:
        raise CopyError(str(source), "nothing tells its rows apart in the lake as at the source", "resync it")
    keys = [one for one in table.by_value if one.server.name in names]
    there = {tuple(one.key.items()) for one in found.rows if one.server is not None or one.is_repeated}
    gone = {tuple(one.key.items()) for one in found.rows} - there
    return enter_repair(
        pipeline, source, columns, at,
        rows=_rows_of(moment, source, columns, keys, sorted(there, key=str)),
        removed=_keys_of(table, columns, keys, gone),
        origin=f"verify {moment.place}", server=server, foreign_keys=shown_keys(moment, source), proves=not found.more,
    )  # fmt: skip


def prove_rows(
    pipeline: Pipeline, moment: SourceMoment, at: SourcePosition, source: TableId, *, server: str = ""
) -> CopiedTable:
    """Note that all rows of a table are those of the source at a held moment.

    The note is a repair without rows.

    Raises:
        CopyError: A position of its rows is not told by messages.
    """
    require_positions(pipeline, source)
    columns = tuple(one.shape for one in moment.tables()[source].columns)
    nothing = pa.RecordBatch.from_pydict({one.name: pa.array([], copied_type(one)) for one in columns})
    return enter_repair(
        pipeline, source, columns, at, rows=nothing, removed=nothing, origin=f"verify {moment.place}", server=server,
        foreign_keys=shown_keys(moment, source), proves=True,
    )  # fmt: skip


_Key: TypeAlias = tuple[tuple[str, str | None], ...]
"""The key of a row that differs: texts by the lake's names."""


def _keys_of(
    table: ComparedTable, columns: Sequence[ColumnShape], keys: Sequence[ComparedColumn], gone: Collection[_Key]
) -> pa.RecordBatch:
    """Return rows that the lake alone has as a copy has them.

    They have their keys, as these stand in files, and NULL.
    """
    names, found = [one.name for one in keys], list[pa.RecordBatch]()
    texts = pa.Table.from_pylist([dict(key) for key in gone], text_schema(keys))
    for batch in rows_that_live(table.snapshot, names) if gone else ():
        among = pc.is_in(key_texts(lake_rows(batch, keys), names), value_set=key_texts(texts, names))
        found.append(batch.select(names).filter(among))
    rows = pa.Table.from_batches(found) if found else text_schema(keys).empty_table()
    ours = {one.server.name: rows[one.name].combine_chunks() for one in keys}
    copied = [as_copied(ours.get(one.name, pa.nulls(rows.num_rows, pa.string())), stored_kind(one)) for one in columns]
    return pa.RecordBatch.from_arrays(copied, names=[one.name for one in columns])


def _rows_of(
    moment: SourceMoment,
    table: TableId,
    columns: tuple[ColumnShape, ...],
    keys: Sequence[ComparedColumn],
    there: Sequence[_Key],
) -> pa.RecordBatch:
    """Return rows of the source with some keys as a copy has them."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(there), _AT_ONCE):
        wanted = [
            " AND ".join(f"{quoted(one.server.name)} = {one.literal(dict(key)[one.name] or '')}" for one in keys)
            for key in there[start : start + _AT_ONCE]
        ]
        texts = ", ".join(map(text_of, columns))
        found += moment.rows(f"SELECT {texts} FROM {sql_table(table)} WHERE ({') OR ('.join(wanted)})")
    kinds = [copied_type(one) for one in columns]
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
    server: str = "",
    foreign_keys: tuple[ForeignKey, ...] = (),
    proves: bool = False,
) -> CopiedTable:
    """Enter rows of a source table as they were at a position, and return their copy.

    ``rows`` are those that the source has, ``removed`` those that it has not, of which the key counts: each has a column of texts
    (or bytes) for every one of ``columns``. The window whose cut reaches the position takes them. Rows that changed later stay.
    ``foreign_keys`` are those that the source shows. ``proves`` says that the table has all rows of the source then.

    Raises:
        CopyError: The table has no primary key, so that nothing tells its rows apart.
    """
    if rows.num_rows + removed.num_rows and not any(column.is_key for column in columns):
        raise CopyError(str(table), "it has no primary key that tells its rows apart", "resync it")
    rules, chunks = rules_to_pass(pipeline, table, columns), [CopiedChunk(0, None, None)]
    copied = begin(
        pipeline,
        table,
        columns,
        CopyKind.REPAIR,
        origin,
        chunks,
        rules,
        server=server,
        foreign_keys=foreign_keys,
        proves=proves,
    )
    rows, removed = rules.applied(rows, columns), rules.applied(removed, columns, removed=True)
    prepare(pipeline, copied)
    path, read_at = copies_path(pipeline, table), datetime.now(UTC)
    chunk = replace(copied.chunks[0], low=at, high=at, rows=rows.num_rows + removed.num_rows, read_at=read_at)
    target = pipeline.lake.target(path, pipeline.new_run())
    with TableWriter(target) as writer:
        for batch in _numbered(target, copied, chunk, columns, read_at, rows, removed):
            writer.write_partition((copied.copy, 0), batch)
        copied = add_chunks(pipeline, copied, [chunk], writer.close())
    return finish(pipeline, copied)


def _numbered(
    target: WriteTarget,
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
            yield stored_rows(target, copied.copy, chunk, columns, batch, read_at, before, removed=gone)
            before += batch.num_rows
