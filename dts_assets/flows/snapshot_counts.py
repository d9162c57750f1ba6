"""The counts of the ledger that plans of snapshots need, read once for all tables of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from threading import Lock

from dts_assets.flows.following import ChangesOrigin
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.model.key_periods import KeyPeriod, KeySpan, periods_between, spans_of
from dts_assets.model.routes import Routes
from dts_assets.model.tables import TableId
from dts_assets.planning.counts_needed import StoredSnapshot, counts_needed
from dts_assets.planning.snapshot_plans import TableWindow, windows_by_table
from dts_assets.stages.followed_schemas import FollowedTable


class Counts:
    """The counts of tables in the windows that their plans need. Tables are planned side by side."""

    def __init__(self, pipeline: Pipeline, stored: Iterable[StoredSnapshot], run: Collection[datetime]) -> None:
        """Read what plans need of some snapshots as they stand, in a run over some windows."""
        self._ledger = pipeline.ledger
        self._reading = Lock()
        self._all: Mapping[TableId, tuple[TableWindow, ...]] | None = None
        needed = counts_needed(stored, run=run)
        if needed.all:
            self._needed = self._all = windows_by_table(self._ledger.window_tables())
            return
        rows = self._ledger.window_tables([pipeline.grid.of_start(start) for start in needed.starts])
        rows += [] if needed.since is None else self._ledger.window_tables(since=needed.since)
        self._needed = windows_by_table(rows)

    def windows(self, table: TableId) -> tuple[TableWindow, ...]:
        """Return the counts of a table that its plan needs, by window."""
        return self._needed.get(table, ())

    def truncating(self, table: TableId) -> frozenset[datetime]:
        """Return all windows with truncations of a table."""
        return frozenset(window.window_start for window in self.of_all_time(table) if window.truncations)

    def told_keys(self, table: TableId) -> tuple[KeyPeriod, ...]:
        """Return the primary keys that all windows of a table tell."""
        return tuple(period for window in self.of_all_time(table) for period in window.keys)

    def keys_of_rows(self, routes: Routes, followed: FollowedTable) -> tuple[KeySpan, ...]:
        """Return the keys that changes of a table tell under all names that its rows had.

        The table is not merged.
        """
        return spans_of(
            period
            for origin in followed.origins
            if (table := routes.decoded_table(origin.table)) is not None
            for period in periods_between(self.told_keys(table), origin.since, origin.until)
        )

    def of_all_time(self, table: TableId) -> tuple[TableWindow, ...]:
        """Return the counts of a table in all windows, by window."""
        with self._reading:
            if self._all is None:
                self._all = windows_by_table(self._ledger.window_tables())
        return self._all.get(table, ())


def with_facts_of(job: SnapshotJob, counts: Counts, origins: Iterable[ChangesOrigin]) -> SnapshotJob:
    """Return a job that knows what changes under former names of its table are like."""
    plan, windows = job.plan, [one for origin in origins for one in counts.of_all_time(origin.table)]
    state = replace(
        plan.state,
        absent=plan.state.absent or any(one.absent_rows for one in windows),
        moves=plan.state.moves or any(one.partial_moves for one in windows),
        unfit=plan.state.unfit or any(one.invalid_values for one in windows),
    )
    truncating = job.truncating.union(one.window_start for one in windows if one.truncations)
    plan = replace(plan, state=state, fold_absent=state.absent, follow_moves=state.moves)
    return replace(job, truncating=truncating, plan=plan)
