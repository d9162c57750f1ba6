"""Copies of tables as people ask for them, beside the live run.

Tables begin with a copy, or are copied anew because they went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from dts_assets.errors import LakeTableError, UnknownNameError
from dts_assets.errors.databases import CopyError
from dts_assets.errors.origins import concerns_table
from dts_assets.flows.copied_rules import lake_table_of
from dts_assets.flows.copies import Copying, hold
from dts_assets.flows.database_copies import copy_from_database, server_of
from dts_assets.flows.file_copies import copy_from_files, tables_of_files
from dts_assets.flows.kept_copies import lost_copies
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.server_identity import require_server
from dts_assets.model.copied_tables import CopiedTable, CopyKind, CopyState
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import WITHOUT_COPY


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The copies that were made, and the tables that had a copy before.

    ``failed`` has those that could not be copied, with sentences.
    """

    copied: tuple[CopiedTable, ...] = ()
    there: tuple[TableId, ...] = ()
    failed: Mapping[TableId, str] = field(default_factory=dict)


def tables_called(names: Iterable[str]) -> tuple[TableId, ...] | None:
    """Return the tables of names such as ``shopdb.orders``.

    None, which stands for all tables, is returned where there is no name.

    Raises:
        UnknownNameError: A name is none of a table.
    """
    found = [TableId(parts[0], parts[1] if len(parts) == 3 else "", parts[-1]) for parts in map(_parts_of, names)]
    return tuple(found) or None


def _parts_of(name: str) -> list[str]:
    parts = name.split(".")
    if len(parts) not in (2, 3) or not all(parts):
        raise UnknownNameError("The source of copies", f"table {name}", "write a table as shopdb.orders")
    return parts


def copy_tables(work: Copying, kind: CopyKind, tables: Collection[TableId] | None = None) -> CopyReport:
    """Copy the tables that the configuration names, or some of them, one after the other.

    A bootstrap passes over tables that were copied before. A resync needs ``tables``, and resumes them if they are paused: it
    ends what was wrong with them. A table that cannot be copied stops no other.

    Raises:
        OtherServerError: The database is not the topic's server.
        UncheckedServerError: That cannot be checked, and nobody answers for it.
        DatabaseError: The database refuses the user, or does not answer.
        UnknownNameError: The source has none of ``tables``.
        LakeTableError: The catalog or the store of the lake refuses.
    """
    pipeline = work.pipeline
    pipeline.check_shape()
    known_tables(pipeline)  # it says whether there are sets
    done, there, failed = list[CopiedTable](), list[TableId](), dict[TableId, str]()
    before = _copied(pipeline)
    with ExitStack() as opened:
        found = dict(_found(work, opened))
        _refuse_unknown(pipeline, tables, found)
        for table in sorted(found) if tables is None else sorted(tables):
            if work.stops():
                break
            if kind is CopyKind.BOOTSTRAP and table in before:
                there.append(table)
                continue
            try:
                _refuse_sets(pipeline, table)
                with hold(work, table):
                    # Whoever had the lease has perhaps copied the table since the first look.
                    if kind is CopyKind.BOOTSTRAP and table in _copied(pipeline):
                        work.progress(f"copy: {table} was copied by another process meanwhile")
                        there.append(table)
                    else:
                        done.append(found[table](kind))
            except CopyError as error:
                failed[table] = str(error)
            except LakeTableError as error:
                if not concerns_table(error):
                    raise
                failed[table] = str(error)
            if table in failed:
                work.progress(f"copy: {failed[table]}")
    _resume(pipeline, [one.table for one in done if one.state is CopyState.COPIED], kind)
    return CopyReport(tuple(done), tuple(there), failed)


def _copied(pipeline: Pipeline) -> frozenset[TableId]:
    return frozenset(one.table for one in pipeline.ledger.copied_tables() if one.state is CopyState.COPIED)


def _found(work: Copying, opened: ExitStack) -> Iterator[tuple[TableId, Callable[[CopyKind], CopiedTable]]]:
    """Yield the tables of the source that the configuration names, each with the function that copies it.

    The database stays connected while ``opened`` is.
    """
    takes = partial(_is_named, work)
    if work.bootstrap.source.jdbc is not None:
        server = opened.enter_context(server_of(work.bootstrap).connected())
        known = require_server(
            work.pipeline, server.connection, server.place, is_right=work.server_is_right, progress=work.progress
        )
        for table in server.tables(takes):
            yield table, partial(copy_from_database, work, server, known, table)
        return
    for one in tables_of_files(work):
        if takes(one.table):
            yield one.table, partial(copy_from_files, work, one)


def _refuse_sets(pipeline: Pipeline, table: TableId) -> None:
    """Refuse a table of which every set of a TDSQL has a part.

    Raises:
        CopyError: Messages tell the sets of rows, and the copy would not.
    """
    if pipeline.settings.routes.by_set:
        what = "its rows are those of several sets of a TDSQL, and a copy does not tell the set of a row"
        raise CopyError(str(table), what, "let its rows come by the topic")


def _is_named(work: Copying, table: TableId) -> bool:
    settings = work.pipeline.settings
    decoded = settings.routes.decoded_table(table) is not None if settings.routes else settings.tables.takes(table)
    return decoded and any(table.matches(glob) for glob in work.bootstrap.tables)


def _refuse_unknown(pipeline: Pipeline, tables: Collection[TableId] | None, found: Collection[TableId]) -> None:
    """Refuse tables that the source has not, or that the configuration does not name.

    Raises:
        UnknownNameError: There is such a table.
    """
    unknown = sorted(set(tables or ()).difference(found))
    if unknown:
        names = ", ".join(map(str, unknown))
        reason = f"bootstrap of {pipeline.name} finds {len(found)} tables by its globs"
        raise UnknownNameError("The source of copies", f"table {names}", reason)


def _resume(pipeline: Pipeline, tables: Iterable[TableId], kind: CopyKind) -> None:
    """End the pauses of tables that were copied anew, or that waited for nothing but their copy."""
    named = {lake_table_of(pipeline, one) for one in tables}
    lost = lost_copies(pipeline, named)
    paused = [
        row.table
        for row in pipeline.ledger.paused_tables()
        if row.table in named
        and not row.is_removed
        and (row.table not in lost if row.reason.startswith(WITHOUT_COPY) else kind is CopyKind.RESYNC)
    ]
    if paused:
        resume_tables(pipeline, paused)
