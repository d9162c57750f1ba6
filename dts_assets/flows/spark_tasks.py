"""Spark as the runner of tasks that read and write files themselves.

A task's bulk never crosses into the JVM: its specification goes out pickled, its result (file names and counts) comes back
pickled, and Spark does what it is good at: placing, retrying and spreading tasks. It works alike on classic sessions and on
Spark Connect.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from dts_assets.errors import DtsAssetsError

Task = TypeVar("Task")
Result = TypeVar("Result")

_RESULT = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def run_tasks(
    spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task, str], Result], *, weight: Callable[[Task], int]
) -> list[Result]:
    """The results of all tasks, in their order.

    Tasks are spread over a few Spark tasks of about the same ``weight`` together, two for each core: a Spark task with a Python
    worker costs a tenth of a second and more before it does anything. ``work`` gets a task and a name for the attempt, which
    goes into the names of files that it writes. An error meant for people is raised here as itself; the attempt is not
    repeated, since the same input would fail again.
    """
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]
    slots = _spread([weight(task) for task in tasks], 2 * _cores(spark))

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = "task" if context is None else f"{context.partitionId():05d}-{context.attemptNumber()}"
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                for number in slots[slot]:
                    try:
                        result: Any = work(pickle.loads(pickled[number]), attempt)
                    except DtsAssetsError as error:
                        result = error
                    row = {"number": number, "result": pickle.dumps(result)}
                    yield pa.RecordBatch.from_pylist([row], schema=_RESULT)

    frame = spark.range(0, len(slots), 1, len(slots)).mapInArrow(each, "number long, result binary")
    results: dict[int, Any] = {row["number"]: pickle.loads(row["result"]) for row in frame.collect()}
    for result in results.values():
        if isinstance(result, DtsAssetsError):
            raise result
    return [results[number] for number in range(len(tasks))]


def _cores(spark: SparkSession) -> int:
    """How many tasks run at once; 16 on a cluster, whose size a session does not know."""
    local = re.fullmatch(r"local\[(\d+|\*)\]", str(spark.conf.get("spark.master", "")))
    if local is None:
        return 16
    return (os.cpu_count() or 2) if local.group(1) == "*" else int(local.group(1))


def _spread(weights: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of tasks in at most ``most`` groups of about the same weight, heavy ones first."""
    groups: list[list[int]] = [[] for _ in range(min(most, len(weights)))]
    loads = [0] * len(groups)
    for number in sorted(range(len(weights)), key=lambda one: -weights[one]):
        lightest = min(range(len(groups)), key=lambda one: (loads[one], len(groups[one])))
        groups[lightest].append(number)
        loads[lightest] += weights[number]
    return groups
