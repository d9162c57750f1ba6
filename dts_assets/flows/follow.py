"""The live run: all flows again and again, in one process and one Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dts_assets.errors.windows import NotClosedError
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.pipeline import Pipeline, SparkProvider
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.reports import EntriesReport, Progress, RawReport, TablesReport
from dts_assets.flows.tables import materialize_tables
from dts_assets.flows.upkeep import NO_UPKEEP, Upkeep, keep_up
from dts_assets.store.contention import explained_trouble

PACE = timedelta(seconds=10)
"""The least time between the beginnings of two refreshes.

Nothing becomes visible before the next CHECKPOINT, and the vendor sends one every ten seconds.
"""

UPKEEP_SECONDS = 4.0
"""The seconds before the next refresh that upkeep asks for.

That of a closed window of twenty tables takes two or three.
"""

LATEST_UPKEEP = 30
"""The refreshes for which upkeep waits at most: five minutes, or longer where refreshes are slow."""

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


def refresh(
    pipeline: Pipeline,
    since: datetime,
    *,
    spark: SparkProvider,
    progress: Progress,
    defer: Callable[[Upkeep], None] | None = None,
) -> Refreshed:
    """Read, decode and apply all messages that have come, in the windows from ``since`` on.

    Closed windows come first, then the open one. ``defer`` gets the upkeep that is left; see
    :func:`dts_assets.flows.tables.materialize_tables`.
    """
    runs = find_work(pipeline).within(since=since).ingest_runs()
    fresh = [run.span for run in runs if not run.entries_only]
    raw = tuple(materialize_raw(pipeline, span, spark=spark, progress=progress) for span in fresh)
    entries = tuple(materialize_entries(pipeline, run.span, spark=spark, progress=progress) for run in runs)
    tables = tuple(
        materialize_tables(pipeline, windows, spark=spark, progress=progress, defer=defer)
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
    well, worked, left = began, False, _Left(spark, progress)
    while clock() - began < lasts.total_seconds():
        at = clock()
        try:
            pipeline = open_pipeline()
            done = refresh(pipeline, since, spark=spark, progress=progress, defer=left.add)
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
            left.keep_up(pipeline, spare=PACE.total_seconds() - (clock() - at))
        sleep(max(0.0, PACE.total_seconds() - (clock() - at)))
    left.refreshes = LATEST_UPKEEP
    left.keep_up(open_pipeline(), spare=PACE.total_seconds())


@dataclass(slots=True)
class _Left:
    """The upkeep that refreshes have left.

    It is done when there is time before the next refresh, so that no row waits for it. Where no file is to be put in order, old
    Iceberg snapshots alone are to expire, which is worth a turn now and then.
    """

    spark: SparkProvider
    progress: Progress
    upkeep: Upkeep = NO_UPKEEP
    refreshes: int = 0

    def add(self, upkeep: Upkeep) -> None:
        """Take the upkeep of a run to what is left."""
        self.upkeep = self.upkeep.and_then(upkeep)

    def keep_up(self, pipeline: Pipeline, *, spare: float) -> None:
        """Do what is left if there are some seconds to spare, or if it has waited for long.

        Raises:
            Exception: A step failed with an error that does not pass by itself.
        """
        self.refreshes += 1
        now = spare >= UPKEEP_SECONDS and (self.upkeep.closed or bool(self.upkeep.scattered))
        if self.upkeep == NO_UPKEEP or not (now or self.refreshes >= LATEST_UPKEEP):
            return
        try:
            keep_up(pipeline, self.upkeep, spark=self.spark, progress=self.progress)
        except Exception as found:
            error = explained_trouble(found)
            if error is None or not (error.retriable or error.while_restarting):
                raise
            self.progress(f"follow: {error} The upkeep of files waits.")
        else:
            self.upkeep, self.refreshes = NO_UPKEEP, 0
