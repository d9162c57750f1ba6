"""Following a source live: what has come goes through all flows, again and again, in one process and one Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dts_assets.errors import DtsAssetsError, NotClosedError
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.reports import EntriesReport, Progress, RawReport, TablesReport
from dts_assets.flows.tables import materialize_tables

PACE = timedelta(seconds=10)
"""Between the beginnings of two refreshes at least: nothing becomes visible before the next CHECKPOINT, and the vendor sends one
every ten seconds."""

PATIENCE = timedelta(minutes=2)
"""How long a trouble may last that can pass by itself, such as a broker that is being restarted."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What one refresh made, step by step."""

    raw: tuple[RawReport, ...]
    entries: tuple[EntriesReport, ...]
    tables: tuple[TablesReport, ...]

    @property
    def nothing(self) -> bool:
        """Whether nothing had come."""
        return not (self.raw or self.entries or self.tables)


def first_open(pipeline: Pipeline) -> datetime:
    """The start of the first window that is open and followed. Raises NotClosedError if no message was ever seen."""
    followed = find_work(pipeline).followed
    if not followed:
        raise NotClosedError(pipeline.name, ["of the open window"], latest=None)
    return min(cell.window.start for cell in followed)


def refresh(pipeline: Pipeline, since: datetime, *, spark: SparkProvider, progress: Progress) -> Refreshed:
    """Bring everything of the windows from ``since`` on to where the source is now: closed windows first, then the open one."""
    runs = find_work(pipeline).within(since=since).ingest_runs()
    fresh = [run.span for run in runs if not run.entries_only]
    raw = tuple(materialize_raw(pipeline, span, spark=spark, progress=progress) for span in fresh)
    entries = tuple(materialize_entries(pipeline, run.span, spark=spark, progress=progress) for run in runs)
    tables = tuple(
        materialize_tables(pipeline, windows, spark=spark, progress=progress)
        for windows in find_work(pipeline).within(since=since).tables_runs()
    )
    return Refreshed(raw, entries, tables)


def follow(
    open_pipeline: Callable[[], Pipeline],
    since: datetime,
    *,
    lasts: timedelta,
    spark: SparkProvider,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Refreshed]:
    """Refresh until ``lasts`` has gone by, and give each refresh that found something.

    An error that may pass by itself is said and waited out for :data:`PATIENCE`, then raised; any other one is raised at once.
    The configuration is read anew for each refresh, so that ``open_pipeline`` is called every time.
    """
    began = clock()
    well = began
    while clock() - began < lasts.total_seconds():
        at = clock()
        try:
            done = refresh(open_pipeline(), since, spark=spark, progress=progress)
        except DtsAssetsError as error:
            if not error.retriable or clock() - well > PATIENCE.total_seconds():
                raise
            progress(f"follow: {error} Trying again in {PACE.total_seconds():.0f} s.")
        else:
            well = clock()
            if not done.nothing:
                yield done
        sleep(max(0.0, PACE.total_seconds() - (clock() - at)))
