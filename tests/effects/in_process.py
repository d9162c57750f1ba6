"""What flows ask of Spark, in this process and without a JVM: tasks run one after the other, and a job is an effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.effects.effects import EffectFailed, Effects, Way
from tests.flows.in_process import Frame


@dataclass
class InProcess:
    """The part of a Spark session that :mod:`dts_assets.flows.spark_tasks` needs. A job is an effect."""

    effects: Effects

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.master": "local[1]"}

    def range(self, start: int, end: int, step: int, slots: int) -> _Frame:
        assert (start, step, end) == (0, 1, slots)
        return _Frame(self.effects, Frame.of(range(slots)))


@dataclass
class _Frame:
    effects: Effects
    frame: Frame

    def mapInArrow(self, each: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str) -> _Frame:
        return _Frame(self.effects, self.frame.mapInArrow(each, schema))

    def repartition(self, count: int, column: str) -> _Frame:
        return _Frame(self.effects, self.frame.repartition(count, column))

    def sortWithinPartitions(self, column: str) -> _Frame:
        return _Frame(self.effects, self.frame.sortWithinPartitions(column))

    def collect(self) -> list[dict[str, Any]]:
        way = self.effects.way_of("job of tasks")
        if way is Way.REFUSED:
            raise EffectFailed("no task was started")
        parts = list(self.frame.parts()) if way is not Way.CUT else _half(self.frame)
        rows = [row for part in parts for found in part for row in found.to_pylist()]
        if way in (Way.CUT, Way.UNHEARD):
            raise EffectFailed("the results of the tasks were lost")
        return rows


def _half(frame: Frame) -> list[Iterable[pa.RecordBatch]]:
    parts = list(frame.parts())
    return parts[: len(parts) // 2]
