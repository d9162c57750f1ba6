"""Copies of tables of a running database: chunk by chunk, resumable, while writes go on at the source.

A chunk is committed to ``shop.copies.shopdb.orders`` before the ledger tells that it was read. A copy that was killed goes on
with the chunks that are left. When all are read the copy is an input of a window (``flows/copied_changes.py``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError

from dts_assets.errors.databases import CopyError
from dts_assets.errors.sources import DatabaseError, UnreachableDatabaseError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import (
    Copying,
    add_chunks,
    begin,
    change,
    finish,
    give_up,
    lineage_now,
    prepare,
    require_positions,
    unfinished,
)
from dts_assets.flows.jdbc_rows import ReadChunk, add_driver, read_chunks, write_chunk
from dts_assets.flows.reports import rate
from dts_assets.flows.shown_keys import shown_keys
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.sources.live_database import SourceMoment, TableAlteredError, locked_moment_of, moment_of
from dts_assets.sources.mysql_server import BinlogPlace, MySqlServer, SourceTable, sql_table
from dts_assets.stages.copied_rules import CopyRules
from dts_assets.stages.copied_texts import copied_type, copy_query


def server_of(bootstrap: Bootstrap) -> MySqlServer:
    """Return the database that a bootstrap reads; it has one."""
    jdbc = bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    return MySqlServer(jdbc.place)


def copy_from_database(work: Copying, server: MySqlServer, known: str, table: TableId, kind: CopyKind) -> CopiedTable:
    """Copy a table, or go on with a copy of it that was begun, and return it.

    A copy that was stopped or given up meanwhile is returned as it stands. ``server`` is connected, and ``known`` says how
    it is known to be the topic's.

    Raises:
        CopyError: The table cannot be copied, or its definition has changed meanwhile.
        DatabaseError: The database refuses to be read, or does not answer.
    """
    pipeline = work.pipeline
    require_positions(pipeline, table)
    source, origin = server.table(table), f"jdbc {server.place}"
    rules = rules_to_pass(pipeline, table, source.columns)
    copied = unfinished(pipeline, table, source.columns, kind, origin, rules)
    if copied is None:
        chunks = _chunks(work, server, source)
        copied = begin(
            pipeline,
            table,
            source.columns,
            kind,
            origin,
            chunks,
            rules,
            server=known,
            foreign_keys=shown_keys(server, table),
        )
        about = f", about {source.estimated_rows:,} rows" if source.estimated_rows else ""
        work.progress(f"copy: {table} begins, in {len(chunks)} chunks{about}")
    else:
        copied = change(pipeline, copied.copy, lambda row: replace(row, server=known))
        work.progress(f"copy: {table} goes on: {len(copied.left)} of {len(copied.chunks)} chunks are left")
    prepare(pipeline, copied)
    return _read(work, server, source, copied, rules)


def _chunks(work: Copying, server: MySqlServer, source: SourceTable) -> list[CopiedChunk]:
    bounds = [] if source.key is None else server.key_bounds(source, rows=work.bootstrap.chunk_rows)
    return [CopiedChunk(number, *pair) for number, pair in enumerate(pairwise([None, *bounds, None]))]


def _read(
    work: Copying, server: MySqlServer, source: SourceTable, copied: CopiedTable, rules: CopyRules
) -> CopiedTable:
    """Read the chunks that are left, as many at once as there are connections, and return the copy.

    Raises:
        CopyError: The definition of the table has changed meanwhile.
    """
    began, done, total, exact = time.monotonic(), 0, len(copied.chunks), server.is_mariadb and source.has_transactions
    jdbc = work.bootstrap.source.jdbc
    if copied.left and jdbc is not None and not _reads_at_a_moment(source, exact=exact):
        add_driver(work.spark(), jdbc)
    while copied.left:
        if work.stops():
            work.progress(f"copy: {copied.table} was stopped; it goes on where it is when it is asked for again")
            return copied
        try:
            wave = copied.left[: work.bootstrap.connections]
            read = _read_wave(work, server, source, copied, wave, rules, exact=exact)
            altered = server.table(source.table).columns != copied.columns
        except TableAlteredError:
            altered = True
        except NoSuchTableError:
            raise CopyError(str(copied.table), "it was taken out of the lake meanwhile", "add it again first") from None
        if altered:
            give_up(work.pipeline, copied)
            raise CopyError(str(copied.table), "its definition changed while it was read", "copy it again")
        files = [file for one in read for file in one.files]
        copied = add_chunks(work.pipeline, copied, [one.chunk for one in read], files)
        if copied.state is not CopyState.READING:
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
    rules: CopyRules,
    *,
    exact: bool,
) -> list[ReadChunk]:
    """Return chunks that were read between two looks at the binlog.

    Raises:
        CopyError: Rows came from another server.
        CopyError: The server does not tell the position of a moment.
        TableAlteredError: The table was altered while it was read.
        UnreachableDatabaseError: The server does not answer.
    """
    pipeline, jdbc = work.pipeline, work.bootstrap.source.jdbc
    assert jdbc is not None, "the caller looks at the kind of source"
    if _reads_at_a_moment(source, exact=exact):
        return [_read_at_a_moment(work, server, source, copied, rules)]
    lineage, path = lineage_now(pipeline), copies_path(pipeline, copied.table)
    target, low = pipeline.lake.target(path, pipeline.new_run()), server.place_of_binlog()
    read = read_chunks(
        work.spark(), jdbc, source, wave, target, rules,
        copy=copied.copy, lineage=lineage, since=low, tells_position=exact,
    )  # fmt: skip
    end = server.place_of_binlog()
    _refuse_elsewhere(copied.table, read, low, end)
    high = SourcePosition(lineage, end.file, end.position)
    return [replace(one, chunk=replace(one.chunk, high=one.chunk.high or high)) for one in read]


def _refuse_elsewhere(table: TableId, read: Sequence[ReadChunk], low: BinlogPlace, end: BinlogPlace) -> None:
    """Refuse chunks whose rows tell a place that the checked server's binlog did not reach meanwhile.

    An address may lead to one of several servers, and each connection to another one.

    Raises:
        CopyError: There is such a chunk.
    """
    for one in read:
        at = one.chunk.high
        if at is not None and not (low.file, low.position) <= (at.file, at.position) <= (end.file, end.position):
            what = "its rows are of another server than the one that was looked at, so the address leads to several"
            raise CopyError(str(table), what, "name the one whose binlog the task reads")


def _reads_at_a_moment(source: SourceTable, *, exact: bool) -> bool:
    """Tell whether a table is read at one moment.

    No later change could mend its rows, and the sessions of Spark's tasks cannot tell the position of their snapshot, or of rows
    that stand in no snapshot.
    """
    return not exact and not source.has_key


def _read_at_a_moment(
    work: Copying, server: MySqlServer, source: SourceTable, copied: CopiedTable, rules: CopyRules
) -> ReadChunk:
    """Read a table without a key at one moment.

    Where its engine has no transactions, the moment is held by a lock. The driver of the small questions reads it.

    Raises:
        CopyError: The server does not tell the position of a moment.
        TableAlteredError: The table was altered while it was read.
        UnreachableDatabaseError: The server does not answer.
    """
    pipeline, (chunk,) = work.pipeline, copied.left
    target = pipeline.lake.target(copies_path(pipeline, copied.table), pipeline.new_run())
    query, names = copy_query(sql_table(source.table), source.columns, key=None, tells_position=False)
    kinds = [copied_type(one) for one in source.columns]

    def batches(moment: SourceMoment) -> Iterator[pa.RecordBatch]:
        for rows in moment.batches(f"SELECT {', '.join(names)} FROM {query}"):
            columns = zip(*rows, strict=True)
            yield pa.record_batch([pa.array(*pair) for pair in zip(columns, kinds, strict=True)], names=list(names))

    try:
        if not source.has_transactions:
            engine = f"engine {source.engine}, which has no transactions"
            work.progress(f"copy: {copied.table} has no key and the {engine}: nobody can write to it while it is read")
        held = moment_of(server.place) if source.has_transactions else locked_moment_of(server.place, source.table)
        with held as moment:
            if not moment.surely:
                why = "was found without a lock: a commit under way may be missing. Grant RELOAD to be sure"
                work.progress(f"copy: {copied.table} has no key, and its position {moment} {why}")
            at = SourcePosition(lineage_now(pipeline), moment.file, moment.position)
            at_once = replace(chunk, low=at, high=at)
            return write_chunk(target, copied.copy, at_once, source.columns, batches(moment), "0", at.lineage, rules)
    except UnreachableDatabaseError:
        raise
    except DatabaseError as error:
        what = f"it has no primary key, and {error.what}"
        raise CopyError(str(copied.table), what, "copy it again then, or from a dump with its position") from None


def _spare(bootstrap: Bootstrap, rows: int, began: float) -> None:
    """Wait until the source has borne no more rows in a second than it is to."""
    if bootstrap.rows_per_second is not None:
        time.sleep(max(0.0, began + rows / bootstrap.rows_per_second - time.monotonic()))
