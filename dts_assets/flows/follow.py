"""The live run: all flows again and again, in one process and one Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dts_assets.errors import NotClosedError
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.reports import EntriesReport, Progress, RawReport, TablesReport
from dts_assets.flows.tables import materialize_tables
from dts_assets.store.contention import explained_trouble

PACE = timedelta(seconds=10)
"""The least time between the beginnings of two refreshes.

Nothing becomes visible before the next CHECKPOINT, and the vendor sends one every ten seconds.
"""

PATIENCE = timedelta(minutes=2)
"""The longest time for which a passing trouble is waited out, such as a restart of the broker."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The reports of one refresh, step by step."""

    raw: tuple[RawReport, ...]
    entries: tuple[EntriesReport, ...]
    tables: tuple[TablesReport, ...]

    @property
    def nothing(self) -> bool:
        """True if no messages had come."""
        return not (self.raw or self.entries or self.tables)


def first_open(pipeline: Pipeline) -> datetime:
    """Return the start of the first window that is open and followed.

    Raises:
        NotClosedError: No window is open and followed: no message was ever seen, or the last window has closed.
    """
    followed = find_work(pipeline).followed
    if not followed:
        raise NotClosedError(pipeline.name, ["of the open window"], latest=None)
    return min(cell.window.start for cell in followed)


def refresh(pipeline: Pipeline, since: datetime, *, spark: SparkProvider, progress: Progress) -> Refreshed:
    """Read, decode and apply all messages that have come, in the windows from ``since`` on.

    Closed windows come first, then the open one.
    """
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
    """Refresh until ``lasts`` has gone by, and yield each refresh that found something.

    An error that may pass by itself is reported and waited out for :data:`PATIENCE`, then raised. So is an error that a broker
    gives while it restarts, once a refresh has succeeded: before, a wrong password is more likely. ``open_pipeline`` is called
    for each refresh, so that a changed configuration takes effect.

    Raises:
        DtsAssetsError: A refresh failed with an error that does not pass by itself, or did not pass in time.
    """
    began = clock()
    well, worked = began, False
    while clock() - began < lasts.total_seconds():
        at = clock()
        try:
            done = refresh(open_pipeline(), since, spark=spark, progress=progress)
        except Exception as found:
            error = explained_trouble(found)
            if error is None:
                raise
            passing = error.retriable or (error.while_restarting and worked)
            if not passing or clock() - well > PATIENCE.total_seconds():
                raise error from found
            progress(f"follow: {error} Trying again in {PACE.total_seconds():.0f} s.")
        else:
            well, worked = clock(), True
            if not done.nothing:
                yield done
        sleep(max(0.0, PACE.total_seconds() - (clock() - at)))
