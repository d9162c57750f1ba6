"""The first tasks of a merge, before it is planned.

They find out what is computed again, where rows move, and which rows changes may mean that send a part of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_jobs import (
    SHARE_BYTES,
    SnapshotJob,
    are_many,
    changelog_files,
    merged_of_job,
    origin_files,
)
from dts_assets.flows.snapshot_tasks import LookTask
from dts_assets.model.frontier import EMPTY_FRONTIER
from dts_assets.planning.task_shares import by_size
from dts_assets.stages.change_columns import Counted


def looks_of(pipeline: Pipeline, job: SnapshotJob, run: str) -> Iterator[LookTask]:
    """Yield the tasks that find out which keys are computed again, and which rows stay together."""
    plan, before, after = job.plan, job.before, job.plan.state.frontier
    now, then = plan.state.changelog_snapshot, before.changelog_snapshot
    look = partial(_look, pipeline, job, run)
    whole = plan.rebuilds or plan.recomputes
    counted = Counted(after, EMPTY_FRONTIER if whole else before.frontier, emptied_at=job.since, until=job.until)
    starts = None if whole else plan.newer
    if plan.follow_moves:
        yield from look("moves", counted, starts, now)
    if merged_of_job(pipeline, job, counted, run).sends_parts and are_many(changelog_files(pipeline, job, starts, now)):
        yield from look("patterns", counted, starts, now)
    if plan.rebuilds:
        yield from look("truncations", Counted(after), job.truncating, now)
        yield from _looks_at_arrivals(pipeline, job, run)
        return
    if plan.suspect_until is not None:
        yield from look("keys", Counted(after, before.frontier, until=plan.suspect_until), plan.newer, now)
    if plan.replaced:
        yield from look("keys", Counted(after), plan.replaced, now)
        reached = before.frontier.window  # a table that goes back held changes of later windows
        yield from look("former keys", Counted(before.frontier), plan.replaced, then, reached=reached)


def _look(
    pipeline: Pipeline,
    job: SnapshotJob,
    run: str,
    sought: str,
    counted: Counted,
    starts: Collection[datetime] | None,
    version: int | None,
    *,
    reached: datetime | None = None,
) -> Iterator[LookTask]:
    files = changelog_files(pipeline, job, starts, version, reached=reached)
    merged = merged_of_job(pipeline, job, counted, run)
    for group in by_size(files, SHARE_BYTES):
        yield LookTask(merged, tuple(file.path for file in group), sought, sum(file.bytes for file in group))


def _looks_at_arrivals(pipeline: Pipeline, job: SnapshotJob, run: str) -> Iterator[LookTask]:
    """Yield the tasks that find truncations of tables from which rows came."""
    merged = merged_of_job(pipeline, job, Counted(job.plan.state.frontier), run)
    if job.history is None:
        return
    for number, origins in job.history.origins.items():
        files = {
            file.path: file
            for one in origins
            for file in origin_files(
                pipeline, job, one.table, one.changelog, {"window_start": {*job.history.truncating}}
            )
        }
        mine = replace(merged, changelogs=tuple(one.source for one in origins), eras=(), arrivals={})
        for group in by_size(files.values(), SHARE_BYTES):
            paths = tuple(file.path for file in group)
            yield LookTask(mine, paths, "truncations", sum(file.bytes for file in group), number)
