"""Copies of tables of a running database: chunk by chunk, resumable, while writes go on at the source.

A chunk is committed to ``shop.copies.shopdb.orders`` before the ledger tells that it was read. A copy that was killed goes on
with the chunks that are left. When all are read the copy is an input of a window (``flows/copied_changes.py``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dts_assets.errors.databases import CopyError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copies import (
    Copying,
    add_chunks,
    begin,
    finish,
    give_up,
    hold,
    lineage_now,
    prepare,
    require_positions,
    unfinished,
)
from dts_assets.flows.jdbc_rows import ReadChunk, add_driver, read_chunks
from dts_assets.flows.reports import rate
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.sources.mysql_server import MySqlServer, SourceTable

_TRIES = 10
"""The number of times that a table without a key is read because somebody wrote meanwhile."""


def server_of(bootstrap: Bootstrap) -> MySqlServer:
    """Return the database that a bootstrap reads; it has one."""
    jdbc = bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    return MySqlServer(jdbc.place)


def copy_from_database(work: Copying, server: MySqlServer, table: TableId, kind: CopyKind) -> CopiedTable:
    """Copy a table, or go on with a copy of it that was begun, and return it.

    A copy that was stopped or given up meanwhile is returned as it stands. ``server`` is connected.

    Raises:
        CopyError: The table cannot be copied, or its definition has changed meanwhile.
        DatabaseError: The database refuses to be read, or does not answer.
    """
    pipeline = work.pipeline
    require_positions(pipeline, table)
    with hold(work, table):
        source, origin = server.table(table), f"jdbc {server.place}"
        copied = unfinished(pipeline, table, source.columns, kind, origin)
        if copied is None:
            chunks = _chunks(work, server, source)
            copied = begin(pipeline, table, source.columns, kind, origin, chunks)
            about = f", about {source.estimated_rows:,} rows" if source.estimated_rows else ""
            work.progress(f"copy: {table} begins, in {len(chunks)} chunks{about}")
        else:
            work.progress(f"copy: {table} goes on: {len(copied.left)} of {len(copied.chunks)} chunks are left")
        prepare(pipeline, copied)
        return _read(work, server, source, copied)


def _chunks(work: Copying, server: MySqlServer, source: SourceTable) -> list[CopiedChunk]:
    bounds = [] if source.key is None else server.key_bounds(source, rows=work.bootstrap.chunk_rows)
    return [CopiedChunk(number, *pair) for number, pair in enumerate(pairwise([None, *bounds, None]))]


def _read(work: Copying, server: MySqlServer, source: SourceTable, copied: CopiedTable) -> CopiedTable:
    """Read the chunks that are left, as many at once as there are connections, and return the copy.

    Raises:
        CopyError: The definition of the table has changed meanwhile.
    """
    began, done, total, exact = time.monotonic(), 0, len(copied.chunks), server.is_mariadb
    if copied.left and work.bootstrap.source.jdbc is not None:
        add_driver(work.spark(), work.bootstrap.source.jdbc)
    while copied.left:
        if work.stops():
            work.progress(f"copy: {copied.table} was stopped; it goes on where it is when it is asked for again")
            return copied
        read = _read_wave(work, server, source, copied, copied.left[: work.bootstrap.connections], exact=exact)
        if server.table(source.table).columns != copied.columns:
            give_up(work.pipeline, copied)
            raise CopyError(str(copied.table), "its definition changed while it was read", "copy it again")
        files = [file for one in read for file in one.files]
        copied = add_chunks(work.pipeline, copied, [one.chunk for one in read], files)
        if copied.state is CopyState.CANCELLED:
            work.progress(f"copy: {copied.table} was given up")
            return copied
        done += sum(one.chunk.rows or 0 for one in read)
        told = rate(done, "rows", time.monotonic() - began)
        work.progress(f"copy: {copied.table}: {total - len(copied.left)} of {total} chunks, {told}")
        _spare(work.bootstrap, done, began)
    return finish(work.pipeline, copied)


def _read_wave(
    work: Copying,
    server: MySqlServer,
    source: SourceTable,
    copied: CopiedTable,
    wave: Sequence[CopiedChunk],
    *,
    exact: bool,
) -> list[ReadChunk]:
    """Return chunks that were read between two looks at the binlog.

    A table without a key, whose rows no later change could mend, is read again until nobody wrote meanwhile.

    Raises:
        CopyError: Somebody always wrote.
    """
    pipeline, jdbc = work.pipeline, work.bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    lineage, path = lineage_now(pipeline), copies_path(pipeline, copied.table)
    for _ in range(_TRIES):
        target, low = pipeline.lake.target(path, pipeline.new_run()), server.place_of_binlog()
        read = read_chunks(
            work.spark(), jdbc, source, wave, target, copy=copied.copy, lineage=lineage, since=low, tells_position=exact
        )
        end = server.place_of_binlog()
        high = SourcePosition(lineage, end.file, end.position)
        if exact or source.has_key or low == end:
            return [replace(one, chunk=replace(one.chunk, high=one.chunk.high or high)) for one in read]
        pipeline.lake.discard(path, [file for one in read for file in one.files])
    what = f"it has no primary key, and in {_TRIES} tries somebody wrote to the server while it was read"
    raise CopyError(str(copied.table), what, "copy it in a quiet time, or from a dump with its position")


def _spare(bootstrap: Bootstrap, rows: int, began: float) -> None:
    """Wait until the source has borne no more rows in a second than it is to."""
    if bootstrap.rows_per_second is not None:
        time.sleep(max(0.0, began + rows / bootstrap.rows_per_second - time.monotonic()))
