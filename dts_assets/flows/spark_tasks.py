"""Spark as the runner of tasks that read and write files themselves.

A task's bulk never crosses into the JVM: its specification goes out pickled, its result (file names and counts) comes back
pickled, and Spark does what it is good at: placing, retrying and spreading tasks. It works alike on classic sessions and on
Spark Connect.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from dts_assets.errors import DtsAssetsError

Task = TypeVar("Task")
Result = TypeVar("Result")

_RESULT = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def run_tasks(spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task, str], Result]) -> list[Result]:
    """The results of all tasks, in their order, each computed in a Spark task of its own.

    ``work`` gets a task and a name for the attempt, which goes into the names of files that it writes. An error meant for
    people is raised here as itself; the attempt is not repeated, since the same input would fail again.
    """
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = "task" if context is None else f"{context.partitionId():05d}-{context.attemptNumber()}"
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    result: Any = work(pickle.loads(pickled[number]), attempt)
                except DtsAssetsError as error:
                    result = error
                yield pa.RecordBatch.from_pylist([{"number": number, "result": pickle.dumps(result)}], schema=_RESULT)

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(each, "number long, result binary")
    results: dict[int, Any] = {row["number"]: pickle.loads(row["result"]) for row in frame.collect()}
    for result in results.values():
        if isinstance(result, DtsAssetsError):
            raise result
    return [results[number] for number in range(len(tasks))]
