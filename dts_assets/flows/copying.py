"""Copies of tables, made beside the stream: chunk by chunk, resumable, while writes go on at the source.

A chunk is committed to ``shop.copies.shopdb.orders`` before the ledger tells that it was read. A copy that was killed goes on
with the chunks that are left. When all are read the copy is an input of a window (``flows/copied_changes.py``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

from dts_assets.errors.databases import CopyError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.jdbc_rows import ReadChunk, read_chunks
from dts_assets.flows.lease_keeper import keeper
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress, rate
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.sources.mysql_server import MySqlServer, SourceTable
from dts_assets.stages.copied_texts import stored_kind
from dts_assets.store.columns import copied_columns
from dts_assets.store.schemas import copied_layout

TRIES = 10
"""How often a table without a key is read again because somebody wrote meanwhile."""

Stop = Callable[[], bool]


def never() -> bool:
    """Return False: nobody asks the copy to stop."""
    return False


@dataclass(frozen=True, slots=True)
class Copying:
    """The work of a copy: the pipeline, what is asked for, and the outside world."""

    pipeline: Pipeline
    bootstrap: Bootstrap
    server: MySqlServer
    spark: SparkProvider
    progress: Progress
    stops: Stop = never


def server_of(bootstrap: Bootstrap) -> MySqlServer:
    """Return the database that a bootstrap reads; it has one."""
    jdbc = bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    return MySqlServer(jdbc.host, jdbc.port, jdbc.user, jdbc.password)


def copy_table(work: Copying, table: TableId, kind: CopyKind) -> CopiedTable:
    """Copy a table, or go on with a copy of it that was begun, and return it.

    A copy that was stopped or cancelled meanwhile is returned as it stands.

    Raises:
        CopyError: The table cannot be copied, or its definition has changed meanwhile.
        DatabaseError: The database refuses to be read, or does not answer.
    """
    pipeline = work.pipeline
    if pipeline.settings.traits.order is not ChangeOrder.BINLOG_POSITION:
        what = (
            f"messages in {pipeline.settings.format} tell no place in the binlog, which says what rows of a copy hold"
        )
        raise CopyError(str(table), what, "let the task itself load the table")
    pipeline.check_shape()
    with keeper(pipeline.lake, pipeline.name).hold([f"copy of {table}"], work.progress), work.server.connected():
        source = work.server.table(table)
        copied = _unfinished(pipeline, source, kind)
        if copied is None:
            copied = _begun(work, source, kind)
        else:
            work.progress(f"copy: {table} goes on: {len(copied.left)} of {len(copied.chunks)} chunks are left")
        _prepare(pipeline, copied)
        return _read(work, source, copied)


def _unfinished(pipeline: Pipeline, source: SourceTable, kind: CopyKind) -> CopiedTable | None:
    """Return the copy of a table that was begun and not ended; one of another definition is given up."""
    reading = [
        one
        for one in pipeline.ledger.copied_tables()
        if one.table == source.table and one.kind is kind and one.state is CopyState.READING
    ]
    if reading and reading[-1].columns == source.columns:
        return reading[-1]
    for one in reading:
        _change(pipeline, one.copy, _cancelled)
    return None


def _begun(work: Copying, source: SourceTable, kind: CopyKind) -> CopiedTable:
    """Enter a new copy into the ledger, with its chunks, and return it."""
    bounds: Sequence[str] = ()
    if source.key is not None:
        bounds = list(work.server.key_bounds(source, rows=work.bootstrap.chunk_rows))
    borders = [None, *bounds, None]
    chunks = tuple(CopiedChunk(number, *pair) for number, pair in enumerate(pairwise(borders)))
    origin = f"jdbc {work.server.place}"
    copied = CopiedTable(
        uuid.uuid4().hex[:12], source.table, kind, CopyState.READING, origin, source.columns, chunks, datetime.now(UTC)
    )
    work.pipeline.ledger.change_copied_tables(lambda rows: [*rows, copied])
    about = f", about {source.estimated_rows:,} rows" if source.estimated_rows else ""
    work.progress(f"copy: {source.table} begins, in {len(chunks)} chunks{about}")
    return copied


def _prepare(pipeline: Pipeline, copied: CopiedTable) -> None:
    columns = [(one.name, stored_kind(one)) for one in copied.columns]
    path = copies_path(pipeline, copied.table)
    pipeline.lake.ensure(path, copied_layout(copied.table, columns))
    pipeline.lake.evolve(path, copied_columns(columns))


def _read(work: Copying, source: SourceTable, copied: CopiedTable) -> CopiedTable:
    """Read the chunks that are left, as many at once as there are connections, and return the copy.

    Raises:
        CopyError: The definition of the table has changed meanwhile.
    """
    pipeline, began, done = work.pipeline, time.monotonic(), 0
    exact = work.server.is_mariadb
    while copied.left:
        if work.stops():
            work.progress(f"copy: {copied.table} was stopped; it goes on where it is when it is asked for again")
            return copied
        wave = copied.left[: work.bootstrap.connections]
        read = _read_wave(work, source, copied, wave, exact=exact)
        now = work.server.table(source.table)
        if now.columns != copied.columns:
            _change(pipeline, copied.copy, _cancelled)
            raise CopyError(str(copied.table), "its definition changed while it was read", "copy it again")
        files = [file for one in read for file in one.files]
        numbers = {one.chunk.number for one in read}
        path = copies_path(pipeline, copied.table)
        pipeline.lake.replace(path, {"copy": {copied.copy}, "chunk": numbers}, files)
        found = _change(pipeline, copied.copy, partial(CopiedTable.with_chunks, read=tuple(one.chunk for one in read)))
        if found is None or found.state is CopyState.CANCELLED:
            work.progress(f"copy: {copied.table} was cancelled")
            pipeline.lake.replace(path, {"copy": {copied.copy}}, ())
            return copied if found is None else found
        copied, done = found, done + sum(one.chunk.rows or 0 for one in read)
        total = len(copied.chunks)
        work.progress(
            f"copy: {copied.table}: {total - len(copied.left)} of {total} chunks, "
            f"{rate(done, 'rows', time.monotonic() - began)}"
        )
        _bear(work.bootstrap, done, began)
    return _finished(pipeline, copied)


def _read_wave(
    work: Copying, source: SourceTable, copied: CopiedTable, wave: Sequence[CopiedChunk], *, exact: bool
) -> list[ReadChunk]:
    """Return chunks that were read between two looks at the binlog.

    A table without a key, whose rows no later change could mend, is read again until nobody wrote meanwhile.

    Raises:
        CopyError: Somebody always wrote.
    """
    pipeline, jdbc = work.pipeline, work.bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    lineage = max((one.lineage for one in pipeline.ledger.lineages()), default=0)
    path = copies_path(pipeline, copied.table)
    for _ in range(TRIES):
        target, low = pipeline.lake.target(path, pipeline.new_run()), work.server.place_of_binlog()
        read = read_chunks(
            work.spark(), jdbc, source, wave, target, copy=copied.copy, lineage=lineage, since=low, tells_position=exact
        )
        end = work.server.place_of_binlog()
        high = SourcePosition(lineage, end.file, end.position)
        if exact or source.has_key or low == end:
            return [replace(one, chunk=replace(one.chunk, high=one.chunk.high or high)) for one in read]
        pipeline.lake.discard(path, [file for one in read for file in one.files])
    what = f"it has no primary key, and in {TRIES} tries somebody wrote to the server while it was read"
    raise CopyError(str(copied.table), what, "copy it in a quiet time, or from a dump with its position")


def _bear(bootstrap: Bootstrap, rows: int, began: float) -> None:
    """Wait until the source has borne no more rows in a second than it is to."""
    if bootstrap.rows_per_second is not None:
        time.sleep(max(0.0, began + rows / bootstrap.rows_per_second - time.monotonic()))


def _finished(pipeline: Pipeline, copied: CopiedTable) -> CopiedTable:
    found = _change(
        pipeline,
        copied.copy,
        lambda row: (
            replace(row, state=CopyState.COPIED, ended=datetime.now(UTC)) if row.state is CopyState.READING else row
        ),
    )
    return copied if found is None else found


def _change(pipeline: Pipeline, copy: str, change: Callable[[CopiedTable], CopiedTable]) -> CopiedTable | None:
    """Change the row of a copy in the ledger, and return it; None if there is no such row any more."""
    pipeline.ledger.change_copied_tables(lambda rows: [change(one) if one.copy == copy else one for one in rows])
    return next((one for one in pipeline.ledger.copied_tables() if one.copy == copy), None)


def _cancelled(row: CopiedTable) -> CopiedTable:
    return replace(row, state=CopyState.CANCELLED, ended=datetime.now(UTC))


def cancel_copies(pipeline: Pipeline, tables: Iterable[TableId]) -> list[CopiedTable]:
    """Give up the copies of tables that are being read, and return them. Their rows leave the lake."""
    named = set(tables)
    given_up = [one for one in pipeline.ledger.copied_tables() if one.table in named and one.state is CopyState.READING]
    for one in given_up:
        _change(pipeline, one.copy, _cancelled)
        pipeline.lake.replace(copies_path(pipeline, one.table), {"copy": {one.copy}}, ())
    return given_up
