"""The pauses of a subscription.

Tables are paused by a failed run or by a person, and resumed by a person alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from dts_assets.flows.known_tables import known_tables, stored_tables
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.schema_stops import accept_changes
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Standing, new_pauses, standings


def table_standings(pipeline: Pipeline) -> tuple[Standing, ...]:
    """Return the state of every table of a subscription, by name.

    Those that the settings left out later are among them.
    """
    ledger = pipeline.ledger
    known = known_tables(pipeline)
    left_out = [
        table for table in stored_tables(pipeline) if table not in known and pipeline.is_stored(CHANGELOG, table)
    ]
    return standings(known, ledger.paused_tables(), ledger.cuts(), left_out=left_out)


def paused_here(pipeline: Pipeline) -> dict[TableId, PausedTable]:
    """Return the pauses of the tables that the settings take; those of removed tables are among them."""
    known = known_tables(pipeline)
    return {row.table: row for row in pipeline.ledger.paused_tables() if row.table in known}


def pause_tables(pipeline: Pipeline, rows: Sequence[PausedTable]) -> tuple[PausedTable, ...]:
    """Store pauses, and return those that are new: a table that stands still already keeps its first pause.

    A run that is going on does not see them; the next one does.
    """
    added: tuple[PausedTable, ...] = ()

    def change(stored: Sequence[PausedTable]) -> Sequence[PausedTable]:
        nonlocal added
        added = new_pauses(rows, stored)
        return (*stored, *added)

    pipeline.ledger.change_paused_tables(change)
    return added


def paused_by_person(pipeline: Pipeline, tables: Collection[TableId], *, reason: str) -> tuple[PausedTable, ...]:
    """Pause tables for a person, and return the pauses that are new.

    Raises:
        IncompatibleLakeError: The lake was built with other settings.
    """
    now = datetime.now(UTC)
    pipeline.check_shape()
    return pause_tables(pipeline, [PausedTable(table, "", reason, PausedBy.PERSON, now) for table in tables])


def resume_tables(pipeline: Pipeline, tables: Collection[TableId]) -> tuple[PausedTable, ...]:
    """End the pauses of some tables, and return them; removed tables stay removed.

    Windows that lack these tables are stale from then on. Schema changes at which tables stopped are taken over.
    """
    ended: tuple[PausedTable, ...] = ()

    def change(stored: Sequence[PausedTable]) -> Sequence[PausedTable]:
        nonlocal ended
        ended = tuple(row for row in stored if row.table in tables and not row.is_removed)
        return [row for row in stored if row not in ended]

    accept_changes(pipeline, tables)
    pipeline.ledger.change_paused_tables(change)
    return ended
