"""A bare capture read without a configuration.

Its changelogs are made in a lake of their own, in this process.

The steps are those of any subscription, so copies that were delivered again are found as they are there. No JVM is started.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.find_work import find_work
from dts_assets.flows.layers import CHANGELOG
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.reports import Progress
from dts_assets.flows.tables import materialize_tables
from dts_assets.flows.this_process import this_process
from dts_assets.planning.rectangles import rectangles, window_runs
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY, Subscription
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.lake import Lake

MOST_PARTITIONS = 100
"""The most Kafka partitions of a topic, as in the settings."""

_DAY = timedelta(days=1)


def open_capture(capture: Path, folder: Path, **settings: Any) -> Pipeline:
    """Return a pipeline for a capture whose lake lies in an empty folder.

    ``settings`` are keys of a subscription, the format among them.

    Raises:
        CaptureError: The folder holds no capture.
        pydantic.ValidationError: A setting is wrong.
    """
    marks = CaptureSource(str(capture), MOST_PARTITIONS, complete=True).watermarks()
    earliest = min((mark.earliest for mark in marks.values() if mark.earliest is not None), default=None)
    partitions = max((number for number, mark in marks.items() if mark.latest is not None), default=0) + 1
    midnight = None if earliest is None else earliest.replace(hour=0, minute=0, second=0, microsecond=0)
    values = {
        "source": {"capture": {"path": str(capture), "complete": True}},
        "partitions": partitions,
        "window": {"every": _DAY, "start": midnight or "1970-01-01T00:00Z"},
        "tables": {"include": ["*"]},
        **settings,
        NAME_KEY: "capture",
        FOLDER_KEY: folder,
    }
    subscription = Subscription.model_validate(values)
    source = CaptureSource(str(capture), subscription.partitions, complete=True)
    return Pipeline(subscription, source, Lake(LakeLocation(str(folder / "lake"))), (CHANGELOG,))


def make_changelogs(pipeline: Pipeline, *, progress: Progress) -> None:
    """Make the changelogs of everything in a capture that is complete.

    Raises:
        CaptureError: A file of the capture cannot be read.
    """
    spark = this_process
    while not (work := find_work(pipeline)).nothing:
        for span in rectangles(work.ingest):
            materialize_raw(pipeline, span, spark=spark, progress=progress)
            materialize_entries(pipeline, span, spark=spark, progress=progress)
        for span in rectangles(work.stale_entries):
            materialize_entries(pipeline, span, spark=spark, progress=progress)
        if not (work.ingest or work.stale_entries):
            for windows in window_runs(work.tables):
                materialize_tables(pipeline, windows, spark=spark, progress=progress)
