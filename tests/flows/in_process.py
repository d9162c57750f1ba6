"""Flows without a JVM: a stand-in for Spark's session that runs the tasks of a flow in this process.

Only what writes files itself can run: raw, entries, changelogs, redeliveries and snapshots with few changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from dts_assets.store.catalog import LakeLocation
from tests.flows.harness import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Frame:
    numbers: range
    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def mapInArrow(self, work: Any, schema: str) -> _Frame:
        return _Frame(self.numbers, work)

    def collect(self) -> list[dict[str, Any]]:
        assert self.work is not None
        batch = pa.RecordBatch.from_pydict({"id": pa.array(self.numbers, pa.int64())})
        return [row for made in self.work([batch]) for row in made.to_pylist()]


class _Conf:
    def get(self, name: str, default: str = "") -> str:
        return "local[2]" if name == "spark.master" else default


class NeedsSpark(ConnectionError):
    """A snapshot whose windows were made again is merged by Spark, which is away: no fault of its table."""


class InProcess:
    """What :func:`dts_assets.flows.spark_tasks.run_tasks` asks of a session."""

    conf = _Conf()

    def newSession(self) -> None:
        raise NeedsSpark

    def range(self, start: int, end: int, step: int, parts: int) -> _Frame:
        return _Frame(range(start, end, step))


def bench_in_process(folder: Path, prefix: str) -> Bench:
    """Return a maker of subscriptions in a lake of its own whose flows need no JVM."""
    session = cast("SparkSession", InProcess())
    return Bench(session, LakeLocation(str(folder / "lake")), folder, prefix)
