"""Flows without a JVM: a stand-in for Spark's session that runs the tasks of a flow in this process.

Whatever a flow asks of Spark is done here, one task after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from dts_assets.store.catalog import LakeLocation
from tests.flows.harness import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Frame:
    """Rows in parts: each part is what one task of Spark would get."""

    parts: Callable[[], Iterable[Iterable[pa.RecordBatch]]]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Frame:
        return cls(lambda: [[pa.RecordBatch.from_pydict({"id": pa.array([number], pa.int64())})] for number in numbers])

    def mapInArrow(self, work: Work, schema: str) -> Frame:
        return Frame(lambda: (work(part) for part in self.parts()))

    def repartition(self, count: int, column: str) -> Frame:
        """Rows with equal values in a column come to one part; a part may have several values."""

        def shuffled() -> Iterator[list[pa.RecordBatch]]:
            shares: dict[int, list[pa.RecordBatch]] = {}
            for part in self.parts():
                for batch in part:
                    for row in batch.to_pylist():
                        made = pa.RecordBatch.from_pylist([row], schema=batch.schema)
                        shares.setdefault(row[column] * 7 % max(1, count - 1), []).append(made)
            yield from shares.values()

        return Frame(shuffled)

    def sortWithinPartitions(self, column: str) -> Frame:
        return Frame(lambda: (sorted(part, key=lambda one: one.column(column)[0].as_py()) for part in self.parts()))

    def collect(self) -> list[dict[str, Any]]:
        return [row for part in self.parts() for made in part for row in made.to_pylist()]


class _Conf:
    def get(self, name: str, default: str = "") -> str:
        return "local[2]" if name == "spark.master" else default


class InProcess:
    """What :mod:`dts_assets.flows.spark_tasks` asks of a session."""

    conf = _Conf()

    def range(self, start: int, end: int, step: int, parts: int) -> Frame:
        return Frame.of(range(start, end, step))


def bench_in_process(folder: Path, prefix: str) -> Bench:
    """Return a maker of subscriptions in a lake of its own whose flows need no JVM."""
    session = cast("SparkSession", InProcess())
    return Bench(session, LakeLocation(str(folder / "lake")), folder, prefix)
