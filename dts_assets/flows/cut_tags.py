"""Tags of snapshots at closed cuts, in the commits of their rows as far as that is possible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from dts_assets.flows.apart import fault_at
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT, LayerWork
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.cut_tags import TagChange
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.planning.cut_tags import (
    TAGGED_UNCHANGED,
    ClosedCut,
    closed_cuts,
    moved_cuts,
    newest_windows,
    tags_of_commit,
    tags_of_unchanged,
)
from dts_assets.planning.cuts import WindowCut, window_cut
from dts_assets.planning.snapshot_plans import EMPTY_STATE, SnapshotState
from dts_assets.store.tags import change_tags, cut_tags

if TYPE_CHECKING:
    from dts_assets.flows.snapshot_counts import Counts
    from dts_assets.flows.snapshot_jobs import SnapshotJob

_FURTHER = 2
"""The windows that are read beside the kept ones: one that is open, and one before all."""


def kept_cuts(pipeline: Pipeline, cuts: Mapping[datetime, WindowCut], reached: Frontier) -> tuple[ClosedCut, ...]:
    """Return the closed cuts whose tags are kept.

    ``cuts`` are those of windows that are not settled, by window start.
    """
    keep = pipeline.settings.cut_tags
    windows = newest_windows(pipeline.grid, reached, keep + _FURTHER) if keep else []
    settled = [window for window in windows if window.start not in cuts]
    stored = {row.window.start: window_cut(row) for row in pipeline.ledger.cuts(settled)} if settled else {}
    return closed_cuts({**stored, **cuts}, windows, keep=keep)


def tagged(work: LayerWork, job: SnapshotJob, counts: Counts) -> SnapshotJob:
    """Return a job with the tags that come with its commit."""
    if job.layer is not SNAPSHOT or work.closed is None:
        return job
    found = counts.of_all_time(job.table) if job.before == EMPTY_STATE else counts.windows(job.table)
    tags = tags_of_commit(
        work.closed,
        work.reached,
        before=job.before,
        plan=job.plan,
        windows=[one for one in found if one.has_rows or one.statements],
        stood=job.current is not None,
    )
    return replace(job, tags=tags)


def remove_moved_tags(
    pipeline: Pipeline, before: Mapping[datetime, WindowCut], after: Mapping[datetime, WindowCut], reached: Frontier
) -> None:
    """Remove the tags of cuts that stand elsewhere since their windows were made again.

    Rows that a later cut has brought may belong to an earlier cut now, and no commit of the table would tell.
    """
    if all(one.still_open or after[start] == one for start, one in before.items()):
        return
    now = kept_cuts(pipeline, after, reached)
    moved = moved_cuts(kept_cuts(pipeline, {**after, **before}, reached), now)
    for table in known_tables(pipeline) if moved else ():
        path = pipeline.table_path(SNAPSHOT.name, table)
        there = pipeline.lake.table(path)
        head = None if there is None else there.current_snapshot()
        if there is not None and head is not None and moved.intersection(found := cut_tags(there)):
            stay = TagChange(frozenset(found) - moved)
            change_tags(pipeline.lake.catalog, pipeline.lake.identifier(path), head.snapshot_id, stay)


def tag_unchanged(
    pipeline: Pipeline,
    tables: Collection[TableId],
    closed: Iterable[ClosedCut],
    reached: Frontier,
    *,
    without: Collection[TableId],
    progress: Progress,
) -> None:
    """Give tables in which nothing has changed the tag of the cut that a run has stopped at.

    Each is a commit of its own, without a file, so it is done where ``tables`` are few. Those of ``without`` have changed, or
    stand still.
    """
    closed = list(closed)
    if not closed or closed[-1].window.start != reached.window or len(tables) > TAGGED_UNCHANGED:
        return
    for table in tables:
        if table in without:
            continue
        try:
            _tag_unchanged(pipeline, table, closed, reached)
        except Exception as error:  # no row is wrong by it: the next change of the table brings the tag
            progress(f"tags: {table} gets its tag later: {fault_at('tags', error).reason}")


def _tag_unchanged(pipeline: Pipeline, table: TableId, closed: Iterable[ClosedCut], reached: Frontier) -> None:
    from dts_assets.flows.snapshot_merges import STATE_PROPERTY  # which needs Spark's classes

    path = pipeline.table_path(SNAPSHOT.name, table)
    there = pipeline.lake.table(path)
    head = None if there is None else there.current_snapshot()
    text = None if head is None or head.summary is None else head.summary.additional_properties.get(STATE_PROPERTY)
    if there is None or head is None or text is None:
        return
    change = tags_of_unchanged(closed, SnapshotState.of_text(text).frontier, cut_tags(there), reached)
    if change is not None:
        change_tags(pipeline.lake.catalog, pipeline.lake.identifier(path), head.snapshot_id, change)
