"""A stand-in for Spark's session that runs the tasks of a flow in this process, without a JVM.

It does what :mod:`dts_assets.flows.spark_tasks` asks of a session, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows in parts: each part is the share of one task of Spark. They are made when they are collected."""

    parts: Callable[[], Iterable[Iterable[pa.RecordBatch]]]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Frame:
        """Return a frame with one part for each number."""
        return cls(lambda: [[pa.RecordBatch.from_pydict({"id": pa.array([number], pa.int64())})] for number in numbers])

    def mapInArrow(self, work: Work, schema: str) -> Frame:
        """Return the results of a function of the batches of each part."""
        return Frame(lambda: (work(part) for part in self.parts()))

    def repartition(self, count: int, column: str) -> Frame:
        """Return rows in other parts, where rows with equal values in a column come to one part.

        A part may have several values.
        """

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
        """Return each part with its rows in the order of a column."""
        return Frame(lambda: (sorted(part, key=lambda one: one.column(column)[0].as_py()) for part in self.parts()))

    def collect(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [row for part in self.parts() for made in part for row in made.to_pylist()]


class _Conf:
    def get(self, name: str, default: str = "") -> str:
        return "local[2]" if name == "spark.master" else default


class ThisProcess:
    """The part of a session of Spark that tasks need."""

    conf = _Conf()

    def range(self, start: int, end: int, step: int, parts: int) -> Frame:
        """Return a frame of numbers, one in each part."""
        return Frame.of(range(start, end, step))


def this_process() -> SparkSession:
    """Return this process in the place of a session of Spark."""
    return cast("SparkSession", ThisProcess())
