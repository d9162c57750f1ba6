"""The last flow: snapshots and histories brought to the frontier, table by table, side by side."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock

from dts_assets.flows.apart import do_apart
from dts_assets.flows.layers import CHANGELOG, HISTORY, SNAPSHOT, Layer, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import LayerOutcome
from dts_assets.flows.snapshot_compaction import convert_rows
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.flows.snapshot_merges import STATE_PROPERTY, MergedRows, merge_rows
from dts_assets.flows.snapshot_steps import merge_in_steps
from dts_assets.flows.tables_plan import MARKED
from dts_assets.model.columns import has_key, matched_by
from dts_assets.model.key_periods import KeyPeriod
from dts_assets.model.removals import ALL_REMOVED
from dts_assets.model.tables import TableId
from dts_assets.planning.counts_needed import StoredSnapshot, counts_needed
from dts_assets.planning.cuts import not_behind
from dts_assets.planning.snapshot_plans import (
    EMPTY_STATE,
    SnapshotState,
    TableWindow,
    plan_snapshot,
    replaced_windows,
    windows_by_table,
)
from dts_assets.store.lake import StoredFile, TableState
from dts_assets.store.schemas import history_layout, snapshot_layout

_LAYOUTS = {SNAPSHOT.name: snapshot_layout, HISTORY.name: history_layout}


def advance_rows(work: LayerWork, layer: Layer) -> dict[TableId, LayerOutcome]:
    """Bring the snapshots or histories of the work's tables to its frontier.

    A table in which nothing changed is not committed. A table whose step fails has the fault in its outcome.

    Raises:
        OvertakenError: Another run of the tables has taken over.
        StaleGenerationError: Another run has written a snapshot since this one was planned.
    """
    pipeline, progress = work.pipeline, work.progress
    unconverted = convert_rows(pipeline, layer, work.tables, spark=work.spark, progress=progress)
    tables = [table for table in work.tables if table not in unconverted]
    opened = do_apart(layer.name, tables, lambda table: _opened(work, layer, table))
    counts = _Counts(pipeline, opened.results.values(), {window.start for window in work.windows})
    planned = do_apart(
        layer.name, opened.results, lambda table: _job(work, layer, table, opened.results[table], counts)
    )
    jobs, faults = list(planned.results.values()), {**unconverted, **opened.faults, **planned.faults}
    pipeline.ledger.require_turn(MARKED, work.turn)  # so changelogs, counts and snapshots were read of one state
    busy = [job for job in jobs if not job.plan.nothing]
    merged = MergedRows()
    if busy:
        began = time.monotonic()
        progress(f"{layer.name}: {len(busy)} of {len(jobs)} tables have changes to apply")
        merged = merge_rows(pipeline, layer, [job for job in busy if not job.has_steps], work.spark(), progress)
        for job in busy:
            if job.has_steps:
                progress(f"{layer.name}: the primary key of {job.table} changes amid the changes")
                merged.add(merge_in_steps(pipeline, job, work.spark()))
        faults |= merged.faults
        stand = sum(job.table not in faults for job in busy)
        progress(f"{layer.name}: {stand} tables stand at the frontier after {time.monotonic() - began:.1f} s")
    done = {job.table for job in busy} - faults.keys()
    by_table = {job.table: job for job in jobs if job.table not in faults}
    told = do_apart(
        layer.name, by_table, lambda table: _outcome(pipeline, by_table[table], merged, committed=table in done)
    )
    return {**told.results, **{table: LayerOutcome(fault=one) for table, one in (faults | dict(told.faults)).items()}}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A layer's table as it stands: its Iceberg snapshot, that of its changelog, and its state.

    The Iceberg snapshots are None before the first commit. ``anew`` says that all rows are made anew: because somebody asked for
    it, because other columns are asked for, or because another program has committed to the table, so that nothing is known of
    its rows. ``laid_out`` says that files have another layout from now on.
    """

    current: int | None
    changelog: int | None
    stored: StoredSnapshot
    anew: bool
    laid_out: bool


def _opened(work: LayerWork, layer: Layer, table: TableId) -> _Opened:
    """Open the table of a layer, and compare its changelog with the one that it was made from.

    The table has all columns then.
    """
    pipeline, path = work.pipeline, work.pipeline.table_path(layer.name, table)
    columns = tuple(work.tables[table])
    opened = pipeline.lake.ensure(path, _LAYOUTS[layer.name](table, columns))
    pipeline.lake.evolve(path, layer.columns_of(pipeline.settings, table, columns))
    laid_out = pipeline.lake.lay_out(path, opened, layer.layout(pipeline.settings, table))
    current, before = stored_state(pipeline, layer.name, table)
    anew = current is not None and (
        work.anew or STATE_PROPERTY not in current.properties or before.added != layer.added(pipeline.settings, table)
    )
    before = EMPTY_STATE if anew else before
    path = pipeline.table_path(CHANGELOG.name, table)
    changelog = pipeline.lake.state(path)
    replaced: frozenset[datetime] = frozenset()
    if before.changelog_snapshot is not None and changelog is not None:
        old, now = pipeline.lake.files_apart(path, before.changelog_snapshot, changelog.snapshot_id)
        replaced = replaced_windows(_by_window(old), _by_window(now), state=before, chains=work.chains_kept(table))
    lacked_nothing = work.backlog is not None and table not in work.backlog
    return _Opened(
        None if current is None else current.snapshot_id,
        None if changelog is None else changelog.snapshot_id,
        StoredSnapshot(
            before,
            replaced,
            lacked_nothing,
            is_new=lacked_nothing
            and before == EMPTY_STATE
            and _by_window(pipeline.lake.data_files(path)).keys() <= {window.start for window in work.windows},
        ),
        anew,
        laid_out,
    )


class _Counts:
    """The counts of tables in the windows that their plans need. Tables are planned side by side."""

    def __init__(self, pipeline: Pipeline, opened: Iterable[_Opened], run: Collection[datetime]) -> None:
        self._ledger = pipeline.ledger
        self._reading = Lock()
        self._all: Mapping[TableId, tuple[TableWindow, ...]] | None = None
        needed = counts_needed((one.stored for one in opened), run=run)
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
        return frozenset(window.window_start for window in self._of_all_time(table) if window.truncations)

    def told_keys(self, table: TableId) -> tuple[KeyPeriod, ...]:
        """Return the primary keys that all windows of a table tell."""
        return tuple(period for window in self._of_all_time(table) for period in window.keys)

    def _of_all_time(self, table: TableId) -> tuple[TableWindow, ...]:
        with self._reading:
            if self._all is None:
                self._all = windows_by_table(self._ledger.window_tables())
        return self._all.get(table, ())


def _job(work: LayerWork, layer: Layer, table: TableId, opened: _Opened, counts: _Counts) -> SnapshotJob:
    before = opened.stored.state
    planned = partial(
        plan_snapshot,
        before,
        not_behind(work.frontier(table), before.frontier),
        changelog_snapshot=opened.changelog,
        windows=counts.windows(table),
        replaced=opened.stored.replaced,
        chains=work.chains,
        anew=opened.anew,
        added=layer.added(work.pipeline.settings, table),
    )
    plan = planned()
    if plan.doubts_keys:
        plan = planned(told=counts.told_keys(table))
    columns = tuple(work.tables[table])
    return SnapshotJob(
        layer,
        table,
        matched_by(columns, plan.spans[-1].columns) if plan.spans else columns,
        before,
        plan,
        opened.current,
        counts.truncating(table) if plan.rebuilds else frozenset(),
        work.turn,
        opened.laid_out,
    )


def stored_state(pipeline: Pipeline, layer: str, table: TableId) -> tuple[TableState | None, SnapshotState]:
    """Return the Iceberg snapshot of a layer's table, and the state that it carries."""
    stored = pipeline.lake.state(pipeline.table_path(layer, table))
    text = None if stored is None else stored.properties.get(STATE_PROPERTY)
    return stored, EMPTY_STATE if text is None else SnapshotState.of_text(text)


def _by_window(files: Iterable[StoredFile]) -> dict[datetime, frozenset[str]]:
    found: dict[datetime, set[str]] = {}
    for file in files:
        found.setdefault(file.partition["window_start"], set()).add(file.path)
    return {start: frozenset(paths) for start, paths in found.items()}


def changelog_versions(pipeline: Pipeline, layer: str, table: TableId) -> tuple[int, ...]:
    """Return the Iceberg snapshot of the changelog that a layer's table was made from.

    The next run works on the difference to it.
    """
    made_from = stored_state(pipeline, layer, table)[1].changelog_snapshot
    return () if made_from is None else (made_from,)


def _outcome(pipeline: Pipeline, job: SnapshotJob, merged: MergedRows, *, committed: bool) -> LayerOutcome:
    size = pipeline.lake.size(pipeline.table_path(job.layer.name, job.table))
    return LayerOutcome(
        committed,
        None if size is None else size.rows,
        None if size is None else size.bytes,
        waits=job.plan.state.waits_from is not None,
        not_removed=None if has_key(job.columns) else merged.not_removed.get(job.table, ALL_REMOVED),
        worn=job.laid_out,
    )
