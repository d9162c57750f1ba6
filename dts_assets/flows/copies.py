"""Copies in the ledger: begun, read chunk by chunk, ended, given up."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyiceberg.exceptions import NoSuchTableError

from dts_assets.errors import MissingSettingError
from dts_assets.errors.databases import CopyError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_of_copy
from dts_assets.flows.lease_keeper import keeper
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.reports import Progress
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind, CopyState
from dts_assets.model.foreign_keys import ForeignKey
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.settings.bootstrap import Bootstrap
from dts_assets.stages.copied_rules import NO_COPY_RULES, CopyRules
from dts_assets.stages.copied_texts import row_fields, stored_kind
from dts_assets.store.columns import copied_columns
from dts_assets.store.files import WrittenFile
from dts_assets.store.iceberg_tables import drop_columns
from dts_assets.store.schemas import copied_layout

Stop = Callable[[], bool]

BOUNDS = ("key_from", "key_until")
"""The columns of copied tables that an earlier version wrote, with values of keys that nobody reads."""


def never() -> bool:
    """Return False: nobody asks a copy to stop."""
    return False


@dataclass(frozen=True, slots=True)
class Copying:
    """The work of copies: the pipeline, what the configuration asks for, and the outside world.

    ``server_is_right`` is a person's word that a database which cannot be checked is the topic's.
    ``stops`` is asked before each chunk. A copy that stops goes on with the chunks that are left when it is asked for again.
    """

    pipeline: Pipeline
    bootstrap: Bootstrap
    spark: SparkProvider
    progress: Progress
    stops: Stop = never
    server_is_right: bool = False


def bootstrap_of(pipeline: Pipeline) -> Bootstrap:
    """Return the place that tables of a subscription are copied from.

    Raises:
        MissingSettingError: The configuration names none.
    """
    found = pipeline.settings.bootstrap
    if found is None:
        hint = "write bootstrap: from: jdbc: with url, user and password, or a folder of files (docs/copies.md)"
        raise MissingSettingError(pipeline.name, "place to copy tables from", hint)
    return found


def require_positions(pipeline: Pipeline, table: TableId, *, ids: bool = False) -> None:
    """Refuse topics whose messages tell no position that says what the rows of a copy hold.

    ``ids`` says that a message's id will do, too, as a person may declare it.

    Raises:
        CopyError: The format tells no such position, or several shards have their own.
    """
    order, what = pipeline.settings.traits.order, ""
    if order is not ChangeOrder.BINLOG_POSITION and not (ids and order is ChangeOrder.MESSAGE_ID):
        what = f"messages in {pipeline.settings.format} tell no position that says which changes rows of a copy hold"
    elif len({one.shard for one in pipeline.ledger.lineages()}) > 1:
        what = "its topic has several shards, whose positions have no common order"
    if not what:
        return
    raise CopyError(str(table), what, "let the vendor's task load the table")


def hold(work: Copying, table: TableId) -> AbstractContextManager[Turn]:
    """Hold the lease on the copy of a table: another process that copies it is waited for."""
    return keeper(work.pipeline.lake, work.pipeline.name).hold([f"copy of {table}"], work.progress)


def lineage_now(pipeline: Pipeline) -> int:
    """Return the lineage that a server's binlog has now: the last one that the topic has shown."""
    return max((one.lineage for one in pipeline.ledger.lineages()), default=0)


def unfinished(
    pipeline: Pipeline,
    table: TableId,
    columns: tuple[ColumnShape, ...],
    kind: CopyKind,
    origin: str,
    rules: CopyRules = NO_COPY_RULES,
) -> CopiedTable | None:
    """Return the copy of a table that was begun and not ended, None without one.

    One of another definition or another origin, or under other rules, is given up.
    """
    reading = [
        one
        for one in pipeline.ledger.copied_tables()
        if one.table == table and one.kind is kind and one.state is CopyState.READING
    ]
    wanted = (columns, origin, rules.passed, rules.passed_filter)
    found = next(
        (one for one in reversed(reading) if (one.columns, one.origin, one.passed, one.passed_filter) == wanted), None
    )
    for one in reading:
        if one is not found:
            give_up(pipeline, one)
    return found


def begin(
    pipeline: Pipeline,
    table: TableId,
    columns: tuple[ColumnShape, ...],
    kind: CopyKind,
    origin: str,
    chunks: Sequence[CopiedChunk],
    rules: CopyRules = NO_COPY_RULES,
    *,
    server: str = "",
    foreign_keys: tuple[ForeignKey, ...] = (),
    proves: bool = False,
) -> CopiedTable:
    """Enter a new copy into the ledger, and return it.

    ``rules`` are those that its rows pass when they are written, ``server`` says how its server is known to be the topic's.
    ``foreign_keys`` are those that the server shows. With the rows of one that ``proves`` it all rows are those of the source.
    """
    name, began = uuid.uuid4().hex[:12], datetime.now(UTC)
    copied = CopiedTable(
        name, table, kind, CopyState.READING, origin, columns, tuple(chunks), began,
        server=server, passed=rules.passed, passed_filter=rules.passed_filter, foreign_keys=foreign_keys, proves=proves,
    )  # fmt: skip
    pipeline.ledger.change_copied_tables(lambda rows: [*rows, copied])
    return copied


def prepare(pipeline: Pipeline, copied: CopiedTable) -> None:
    """Let the copied table in the lake have all columns of a copy."""
    kinds, path = [stored_kind(one) for one in copied.columns], copies_path(pipeline, copied.table)
    names = [one.name for one in copied.columns]
    pipeline.lake.ensure(path, copied_layout(copied.table, zip(names, kinds, strict=True)))
    drop_columns(pipeline.lake.catalog, pipeline.lake.identifier(path), BOUNDS)
    fields = row_fields(pipeline.lake.target(path, "").arrow_schema.field("row").type, copied.columns)
    pipeline.lake.evolve(path, copied_columns(zip(fields, kinds, strict=True)))


def add_chunks(
    pipeline: Pipeline, copied: CopiedTable, chunks: Collection[CopiedChunk], files: Sequence[WrittenFile]
) -> CopiedTable:
    """Commit the files of chunks that were read, then note them, and return the copy.

    The rows of a copy that was given up meanwhile leave the lake again.
    """
    path = copies_path(pipeline, copied.table)
    try:
        pipeline.lake.replace(path, {"copy": {copied.copy}, "chunk": {one.number for one in chunks}}, files)
    except NoSuchTableError:  # it was taken out of the lake meanwhile
        pipeline.lake.discard(path, files)
        return _present(pipeline, copied)
    found = change(
        pipeline,
        copied.copy,
        lambda row: row.with_chunks(tuple(chunks)) if row.state is CopyState.READING else row,
    )
    if not found.has_rows:
        clear(pipeline, found)
    return found


def finish(pipeline: Pipeline, copied: CopiedTable) -> CopiedTable:
    """Note that a copy is whole, so that a window takes it, and return it.

    Earlier copies of the table that have passed other rules cannot be decoded any more. They are dropped, and the table begins
    with the new one.
    """
    earlier = [one for one in pipeline.ledger.copied_tables() if one.table == copied.table and one.is_input]
    clashing = [one for one in earlier if one.has_rows and rules_of_copy(pipeline, one).clash is not None]
    drops = {one.copy for one in clashing if copied.kind is not CopyKind.REPAIR}
    begins = any(one.kind is not CopyKind.REPAIR for one in clashing if one.copy in drops)
    now = datetime.now(UTC)

    def whole(row: CopiedTable) -> CopiedTable:
        if row.copy in drops:
            return row.ending(CopyState.DROPPED, now)
        if row.copy != copied.copy or row.state is not CopyState.READING:
            return row
        return replace(row.ending(CopyState.COPIED, now), kind=CopyKind.BOOTSTRAP if begins else row.kind)

    pipeline.ledger.change_copied_tables(lambda rows: [whole(one) for one in rows])
    for one in pipeline.ledger.copied_tables():
        if one.copy in drops:
            clear(pipeline, one)
    return _present(pipeline, copied)


def give_up(pipeline: Pipeline, copied: CopiedTable) -> None:
    """Note that a copy was given up, and take its rows out of the lake."""

    def cancelled(row: CopiedTable) -> CopiedTable:
        return row.ending(CopyState.CANCELLED, datetime.now(UTC)) if row.state is CopyState.READING else row

    found = change(pipeline, copied.copy, cancelled)
    if not found.has_rows:
        clear(pipeline, found)


def clear(pipeline: Pipeline, copied: CopiedTable) -> None:
    """Take the rows of a copy out of the lake.

    Their files go with the versions that hold them.
    """
    path = copies_path(pipeline, copied.table)
    if pipeline.lake.table(path) is not None:
        pipeline.lake.replace(path, {"copy": {copied.copy, copied.part}}, ())


def cancel_copies(pipeline: Pipeline, tables: Iterable[TableId]) -> list[CopiedTable]:
    """Give up the copies of tables that are being read, and return them."""
    named = set(tables)
    reading = [one for one in pipeline.ledger.copied_tables() if one.table in named and one.state is CopyState.READING]
    for one in reading:
        give_up(pipeline, one)
    return reading


def change(pipeline: Pipeline, copy: str, how: Callable[[CopiedTable], CopiedTable]) -> CopiedTable:
    """Change the row of a copy in the ledger, and return it."""
    pipeline.ledger.change_copied_tables(lambda rows: [how(one) if one.copy == copy else one for one in rows])
    return next(one for one in pipeline.ledger.copied_tables() if one.copy == copy)


def _present(pipeline: Pipeline, copied: CopiedTable) -> CopiedTable:
    """Return the row of a copy as the ledger has it now."""
    return next(one for one in pipeline.ledger.copied_tables() if one.copy == copied.copy)
