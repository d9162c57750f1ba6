"""Tables taken out of the lake, and added again.

A removed table stands still as a paused one does, and nobody misses it. Its entries stay, so that all its rows can be made again.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from dts_assets.flows.kept_copies import drop_copies, lost_copies
from dts_assets.flows.known_tables import register_removed
from dts_assets.flows.maintained_tables import layer_paths
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.removed_rows import refuse_removed_entries
from dts_assets.flows.reports import Progress
from dts_assets.flows.tables_plan import MARKED
from dts_assets.flows.turns import tables_turn
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import WITHOUT_COPY, copy_command, lacking_from_now_on, removed
from dts_assets.store.expiry import files_left

_REMOVED, _ADDED = "it was removed", "it was removed and is added again"


def remove_tables(pipeline: Pipeline, tables: Collection[TableId], *, progress: Progress) -> int:
    """Take tables out of the lake, and return how many lake tables were dropped.

    A run that works on the tables is waited for. A call that was stopped half way goes on when it is made again.

    Raises:
        IncompatibleLakeError: The lake was built with other settings.
    """
    dropped, others = 0, pipeline.other_tables()
    with tables_turn(pipeline, progress):
        now = datetime.now(UTC)
        # First the note: if the rest is stopped, no run makes the tables again.
        pipeline.ledger.change_paused_tables(lambda rows: removed(tables, rows, reason=_REMOVED, since=now))
        register_removed(pipeline)
        drop_copies(pipeline, tables)
        for table in sorted(tables):
            for path in reversed(layer_paths(pipeline, table)):  # also of layers that the settings no longer ask for
                gone = pipeline.lake.drop(path, others)
                if gone is not None:
                    left = f"; {files_left(gone.left)}" if gone.left else ""
                    progress(f"removal: the {path[1]} of {table} was dropped with its files{left}")
                    dropped += 1
    return dropped


def _waiting(pipeline: Pipeline, table: TableId, sources: Collection[TableId], now: datetime) -> PausedTable:
    """Return the pause of a table that lacks its copy."""
    commands = ", ".join(copy_command("copy", pipeline.name, source) for source in sources)
    return PausedTable(table, "", f"{WITHOUT_COPY}; copy it again: {commands}", PausedBy.PERSON, now)


def add_tables(pipeline: Pipeline, tables: Collection[TableId], *, progress: Progress) -> int:
    """Let removed tables come back, and return how many windows lack them.

    The next runs make these windows again for these tables alone, from the stored entries. A table that was copied lacks the rows
    of its copy: it stands still until it is copied again. Tables that are not removed stay as they are. A call that was stopped
    half way goes on when it is made again.

    Raises:
        IncompatibleLakeError: The lake was built with other settings.
        OvertakenError: Another run of the tables has taken over.
        RowsRemovedError: Retention has removed entries, so that the tables would lack their changes.
    """
    with tables_turn(pipeline, progress) as turn:
        there = {row.table for row in pipeline.ledger.paused_tables() if row.is_removed}
        chosen = sorted(there.intersection(tables))
        if not chosen:
            return 0
        pipeline.ledger.enter_turn(MARKED, turn)
        cuts = pipeline.ledger.cuts()
        cells = pipeline.cells(mark.window for mark in cuts)
        refuse_removed_entries(pipeline, cells, consequence="tables that come back would lack their changes")
        now = datetime.now(UTC)
        marks = lacking_from_now_on(cuts, chosen, reason=_ADDED, since=now)
        # First the marks: once the tables are no longer removed, each window says that it lacks them.
        pipeline.ledger.replace_cuts([mark.window for mark in marks], marks, turn=turn)
        drop_copies(pipeline, chosen)  # an earlier version left them when the tables were removed
        lost = lost_copies(pipeline, chosen)
        waiting = [_waiting(pipeline, table, sources, now) for table, sources in sorted(lost.items())]
        pipeline.ledger.change_paused_tables(lambda rows: [*(row for row in rows if row.table not in chosen), *waiting])
        for row in waiting:
            progress(f"tables: {row.table} stands still: {row.reason}")
        register_removed(pipeline)
    return len(marks)
