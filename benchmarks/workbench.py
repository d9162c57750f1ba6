"""A subscription over made-up traffic in a temporary folder: what benchmarks of whole flows run on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import format_traffic
from benchmarks.traffic import START, Shape, Table, write_capture
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.spans import Span
from dts_assets.model.windows import Window
from dts_assets.settings import Subscription
from dts_assets.settings.models import FOLDER_KEY, NAME_KEY
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.lake import Lake
from dts_assets.store.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _NoSpark:
    """The settings of a session for flows whose tasks are called without Spark."""

    conf: Mapping[str, str]


NO_SPARK: Any = _NoSpark({"spark.master": "local[1]"})
"""A stand-in for a session whose tasks run one after the other in this process."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A capture on disk, with ``payload`` bytes of message values.

    ``format`` is how they are encoded, ``schema`` the file that they are read with.
    """

    folder: Path
    partitions: int
    windows: int
    payload: int
    every: timedelta = timedelta(hours=1)
    format: str = "dts-protobuf"
    schema: Path | None = None


@dataclass(frozen=True, slots=True)
class Workbench:
    """A folder with a lake, and a Spark session with the lake as its catalog.

    ``session`` is None where tasks run without Spark.
    """

    folder: Path
    lake: LakeLocation
    session: SparkSession | None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        assert self.session is not None, "this workbench has none"
        return self.session

    def record(
        self,
        name: str,
        tables: Sequence[Table],
        shape: Shape,
        *,
        size: int,
        seed: int,
        partitions: int,
        windows: int,
        later: int | Sequence[int] | None = None,
    ) -> Recording:
        """Record a capture of fresh traffic.

        Behind the first window only ``later`` tables change: a number for all windows, or one for each.
        """
        folder = self.folder / name
        payload = write_capture(
            folder, tables, shape, size=size, seed=seed, partitions=partitions, windows=windows, later=later
        )  # fmt: skip
        return Recording(folder, partitions, windows, payload)

    def record_format(
        self, name: str, chosen: str, *, size: int, seed: int, partitions: int, windows: int
    ) -> Recording:
        """Record a capture of fresh traffic in a format whose messages stand alone."""
        folder = self.folder / name
        payload = format_traffic.write_capture(
            folder, chosen, size=size, seed=seed, partitions=partitions, windows=windows
        )
        content, schema = format_traffic.FORMATS[chosen].schema, None
        if content is not None:
            schema = self.folder / f"{name}.avsc"
            schema.write_bytes(content())
        return Recording(folder, partitions, windows, payload, format=chosen, schema=schema)

    def pipeline(self, name: str, recording: Recording) -> Pipeline:
        """Open a subscription over a capture, under a name of its own in the lake."""
        subscription = Subscription.model_validate(
            {
                "format": recording.format,
                **({} if recording.schema is None else {"schema": str(recording.schema)}),
                "source": {"capture": {"path": str(recording.folder), "complete": True}},
                "partitions": recording.partitions,
                "window": {
                    "every": recording.every,
                    "start": START,
                    "end": START + recording.every * recording.windows,
                },
                NAME_KEY: name,
                FOLDER_KEY: self.folder / name,
            }
        )
        return Pipeline(subscription, CaptureSource(str(recording.folder), recording.partitions), Lake(self.lake))


@contextmanager
def workbench(*, cores: int = 2) -> Iterator[Workbench]:
    """Yield a workbench on ``local[cores]``; the folder and the session go with it."""
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        lake = LakeLocation(str(Path(folder) / "lake"))
        open_catalog(lake)  # makes the folder and the catalog's tables
        spark = open_session(lake, {"spark.log.level": "ERROR"}, master=f"local[{cores}]", name="dts-assets-benchmarks")
        try:
            yield Workbench(Path(folder), lake, spark)
        finally:
            spark.stop()


def whole(pipeline: Pipeline) -> Span:
    """Every Kafka partition and window of a subscription that ends."""
    return Span(tuple(pipeline.kafka_partitions), all_windows(pipeline))


def all_windows(pipeline: Pipeline) -> tuple[Window, ...]:
    """Every window of a subscription that ends."""
    end = pipeline.settings.window.end
    assert end is not None
    return tuple(pipeline.grid.until(end))
