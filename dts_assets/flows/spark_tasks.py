"""Spark as the runner of tasks that read and write files themselves.

A task's bulk never crosses into the JVM: its specification goes out pickled, its result (file names and counts) comes back
pickled, and Spark does what it is good at: placing, retrying and spreading tasks. It works alike on classic sessions and on
Spark Connect.

Long work says how far it is. Spark gives results back when a whole job has ended, and what a running job has done can be asked
on classic sessions only; so many tasks go out as several jobs, of about :data:`JOB_SECONDS` each by the speed so far, two at a
time so that no core waits for the last task of a job.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.unexpected import without_values
from dts_assets.flows.executors import count_cores
from dts_assets.flows.reports import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

JOB_SECONDS = 15.0
"""The seconds that a job of a long piece of work should take.

With two at a time there is news every ten seconds or so; a job more costs 0.2 to 0.4 s on two busy cores, so shorter ones
cost too much (400 tasks in jobs of 4 s: a fifth).
"""

TASKS_PER_CORE = 16
"""The least number of tasks that a job has for each core.

Work with no more tasks is one job.
"""

SAY_EVERY = 10.0
"""Seconds between two lines of progress."""

_JOBS_AT_ONCE = 2

_PIECE = pa.schema([("share", pa.int32()), ("piece", pa.binary()), ("said", pa.binary())])
_RESULT = pa.schema([("number", pa.int64()), ("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class Watched:
    """A piece of work as it is reported: ``entries: 120 of 400 partitions, after 95 s``.

    ``tasks`` is what a task stands for, in the plural; ``amount`` puts weights into words, done and total.
    """

    name: str
    tasks: str
    amount: Callable[[int, int], str]
    progress: Progress


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task, str], Result],
    *,
    weight: Callable[[Task], int],
    watched: Watched | None = None,
) -> list[Result]:
    """Return the results of all tasks, in their order.

    Tasks are spread over a few Spark tasks of about the same ``weight`` together, two for each core: what a Spark
    task costs before it does anything is paid once for all of a group. ``work`` gets a task and a name for the attempt,
    which goes into the names of files that it writes. An error meant for people is raised here as itself; the attempt is not
    repeated, since the same input would fail again, and no further job is begun.
    """
    if not tasks:
        return []
    weights = [weight(task) for task in tasks]
    cores = count_cores(spark)
    waiting = deque(sorted(range(len(tasks)), key=lambda one: -weights[one]))
    results: dict[int, Result] = {}
    meter = _Meter(watched, weights)
    with ThreadPoolExecutor(_JOBS_AT_ONCE) as pool:
        jobs: set[Future[dict[int, Result]]] = set()
        while waiting or jobs:
            while waiting and len(jobs) < _JOBS_AT_ONCE:
                numbers = _next_job(waiting, weights, least=TASKS_PER_CORE * cores, size=meter.speed * JOB_SECONDS)
                slots = [[numbers[at] for at in slot] for slot in _spread([weights[one] for one in numbers], 2 * cores)]
                jobs.add(pool.submit(_run_job, spark, slots, tasks, work))
            ended, jobs = wait(jobs, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in ended:
                done = job.result()
                results |= done
                meter.add(done)
            meter.say()
    return [results[number] for number in range(len(tasks))]


def _next_job(waiting: deque[int], weights: Sequence[int], *, least: int, size: float) -> list[int]:
    """Take the next tasks off the queue.

    They are at least ``least``, then more up to a weight of ``size`` together.
    """
    taken: list[int] = []
    load = 0
    while waiting and (len(taken) < least or load + weights[waiting[0]] <= size):
        number = waiting.popleft()
        taken.append(number)
        load += weights[number]
    return taken


def _run_job(
    spark: SparkSession, slots: Sequence[Sequence[int]], tasks: Sequence[Task], work: Callable[[Task, str], Result]
) -> dict[int, Result]:
    """Run one Spark job with one Spark task for each slot, and return the results by number."""
    pickled = {number: pickle.dumps(tasks[number]) for slot in slots for number in slot}

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = _attempt_name()
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                for number in slots[slot]:
                    try:
                        with _no_values_in_errors():
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
    return results


def run_shuffled(
    spark: SparkSession,
    tasks: Sequence[Task],
    split: Callable[[Task, str], Iterator[tuple[int, Any]]],
    merge: Callable[[int, Iterator[Any], str], Result],
    *,
    shares: int,
) -> list[Result]:
    """Return what ``merge`` makes of each share, in no order; an empty share has no result.

    ``split`` gives the pieces of a task with the numbers of their shares, below ``shares``; ``merge`` gets all pieces of one
    share, in no order. A piece is bytes, or a small value that says something else. Spark carries the pieces as bytes, and keeps
    them on disk where memory is short. An error meant for people is raised here as itself.
    """
    pickled = [pickle.dumps(task) for task in tasks]
    slots = min(len(pickled), 2 * count_cores(spark))

    def split_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                for number in range(slot, len(pickled), slots):
                    try:
                        with _no_values_in_errors():
                            for share, piece in split(pickle.loads(pickled[number]), _attempt_name()):
                                row = {
                                    "share": share,
                                    **({"piece": piece} if isinstance(piece, bytes) else _said(piece)),
                                }
                                yield pa.RecordBatch.from_pylist([row], schema=_PIECE)
                    except DtsAssetsError as error:
                        yield pa.RecordBatch.from_pylist([{"share": 0, **_said(error)}], schema=_PIECE)

    def merge_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for share, pieces in groupby(rows, key=itemgetter("share")):
            try:
                with _no_values_in_errors():
                    result: Any = merge(share, map(_piece, pieces), _attempt_name())
            except DtsAssetsError as error:
                result = error
            yield pa.RecordBatch.from_pylist([{"number": share, "result": pickle.dumps(result)}], schema=_RESULT)

    split_off = spark.range(0, slots, 1, slots).mapInArrow(split_all, "share int, piece binary, said binary")
    shared = split_off.repartition(shares, "share").sortWithinPartitions("share")
    results = [
        pickle.loads(row["result"]) for row in shared.mapInArrow(merge_all, "number long, result binary").collect()
    ]
    for result in results:
        if isinstance(result, DtsAssetsError):
            raise result
    return results


def run_partitions(
    frame: DataFrame, work: Callable[[int, str, Iterable[pa.RecordBatch]], Result], *, partitions: int
) -> list[Result]:
    """Return the results of a function of the rows of each partition of a DataFrame, in order.

    ``work`` gets the number of the partition, a name for the attempt, and the rows. An error meant for people is raised here as
    itself.
    """

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        try:
            with _no_values_in_errors():
                result: Any = work(number, _attempt_name(), batches)
        except DtsAssetsError as error:
            result = error
        yield pa.RecordBatch.from_pylist([{"number": number, "result": pickle.dumps(result)}], schema=_RESULT)

    rows = frame.mapInArrow(each, "number long, result binary").collect()
    results = {row["number"]: pickle.loads(row["result"]) for row in rows}
    for result in results.values():
        if isinstance(result, DtsAssetsError):
            raise result
    return [results[number] for number in range(partitions)]


@contextmanager
def _no_values_in_errors() -> Iterator[None]:
    """Leave out texts of errors that nobody expected. Spark writes them into its log, and gives them to the driver."""
    try:
        yield
    except Exception as error:
        bare = without_values(error)
        raise bare from bare.__cause__


def _said(value: Any) -> dict[str, bytes]:
    return {"said": pickle.dumps(value)}


def _piece(row: dict[str, Any]) -> Any:
    if row["said"] is None:
        return row["piece"]
    said = pickle.loads(row["said"])
    if isinstance(said, DtsAssetsError):
        raise said
    return said


def _attempt_name() -> str:
    context = TaskContext.get()
    return "task" if context is None else f"{context.partitionId():05d}-{context.attemptNumber()}"


@dataclass(slots=True)
class _Meter:
    """The progress of a piece of work, and the time of its last report."""

    watched: Watched | None
    weights: Sequence[int]
    began: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    tasks: int = 0
    weight: int = 0

    @property
    def speed(self) -> float:
        """Weight done in a second so far."""
        return self.weight / max(1e-3, time.monotonic() - self.began)

    def add(self, done: Collection[int]) -> None:
        """Count tasks that have ended."""
        self.tasks += len(done)
        self.weight += sum(self.weights[number] for number in done)

    def say(self) -> None:
        """Report a line, if the last one is long ago."""
        now = time.monotonic()
        if self.watched is None or now - self.said < SAY_EVERY:
            return
        self.said = now
        amount = self.watched.amount(self.weight, sum(self.weights))
        done = f"{self.tasks:,} of {len(self.weights):,} {self.watched.tasks}"
        self.watched.progress(f"{self.watched.name}: {done}, {amount}, after {now - self.began:.0f} s")


def _spread(weights: Sequence[int], most: int) -> list[list[int]]:
    """Return numbers of tasks in at most ``most`` groups of about the same weight, heavy ones first."""
    groups: list[list[int]] = [[] for _ in range(min(most, len(weights)))]
    loads = [0] * len(groups)
    for number in sorted(range(len(weights)), key=lambda one: -weights[one]):
        lightest = min(range(len(groups)), key=lambda one: (loads[one], len(groups[one])))
        groups[lightest].append(number)
        loads[lightest] += weights[number]
    return groups
