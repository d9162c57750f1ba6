"""Tasks placed by Spark: every result in its place, several jobs for many tasks, lines of progress that add up."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

import pyarrow as pa
import pyspark
import pytest

from dts_assets.errors.windows import NotClosedError
from dts_assets.flows import spark_tasks
from dts_assets.flows.reports import counted, of_bytes, rate
from dts_assets.flows.spark_daemon import without_archives
from dts_assets.flows.spark_tasks import Watched, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUSE = Path(__file__).parents[2]

Each = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass
class Session:
    """Runs the jobs of ``run_tasks`` in the thread that asks for them, as Spark does with one Spark task after the other."""

    jobs: list[int] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=lambda: {"spark.master": "local[2]"})

    def range(self, start: int, end: int, step: int, partitions: int) -> Job:
        assert (start, step, partitions) == (0, 1, end)
        self.jobs.append(partitions)
        return Job(partitions)


@dataclass
class Job:
    partitions: int
    each: Each | None = None

    def mapInArrow(self, each: Each, schema: str) -> Job:
        self.each = each
        return self

    def collect(self) -> list[dict[str, Any]]:
        assert self.each is not None
        slots = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(self.partitions))
        return [row for batch in self.each(slots) for row in batch.to_pylist()]


def square(task: int, attempt: str) -> int:
    return task * task


def watched(lines: list[str]) -> Watched:
    return Watched("squares", "numbers", counted("points"), lines.append)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
def test_every_task_has_its_result_in_its_place(count: int) -> None:
    session: Any = Session()
    assert run_tasks(session, range(count), square, weight=lambda task: 1 + task % 7) == [n * n for n in range(count)]
    assert all(partitions <= 4 for partitions in session.jobs), "two Spark tasks a core"


def test_few_tasks_are_one_job_and_none_is_no_job() -> None:
    session: Any = Session()
    run_tasks(session, range(32), square, weight=lambda task: 10**9)
    assert session.jobs == [4]
    assert run_tasks(session, [], square, weight=lambda task: 1) == []
    assert session.jobs == [4]


def test_many_slow_tasks_are_several_jobs_so_that_their_progress_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "SAY_EVERY", 0.0)
    monkeypatch.setattr(spark_tasks, "JOB_SECONDS", 0.05)
    lines: list[str] = []
    session: Any = Session()

    def slow(task: int, attempt: str) -> int:
        time.sleep(0.002)
        return task

    run_tasks(session, range(256), slow, weight=lambda task: 10, watched=watched(lines))
    assert 2 < len(session.jobs) <= 8, "at least 32 tasks a job"
    done = [int(line.split(" of 256 numbers, ")[0].removeprefix("squares: ")) for line in lines]
    assert done == sorted(done)
    assert lines[-1].startswith("squares: 256 of 256 numbers, 2,560 of 2,560 points, after ")


def test_work_that_ends_at_once_says_nothing() -> None:
    lines: list[str] = []
    session: Any = Session()
    run_tasks(session, range(20), square, weight=lambda task: 1, watched=watched(lines))
    assert lines == []


def test_an_error_for_people_comes_back_as_itself_and_no_further_job_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "JOB_SECONDS", 0.0)
    session: Any = Session()

    def refuse(task: int, attempt: str) -> int:
        raise NotClosedError("shop", ["p00|2026-01-05-00:00"], latest=None)

    with pytest.raises(NotClosedError, match="p00"):
        run_tasks(session, range(100), refuse, weight=lambda task: 1)
    assert len(session.jobs) <= 3


def test_amounts_in_words() -> None:
    assert of_bytes(1_234_000_000, 4_000_000_000) == "1.2 of 4.0 GB"
    assert of_bytes(0, 12_000) == "0.0 of 12.0 KB"
    assert counted("offsets")(1200, 3487) == "1,200 of 3,487 offsets"
    assert rate(4601, "row changes", 3.1) == "4,601 row changes in 3.1 s (1,484 a second)"
    assert rate(0, "row changes", 0.0) == "0 row changes in 0.0 s"


def test_archives_of_spark_leave_the_path_and_others_stay() -> None:
    lib = "/venv/lib/python3.11/site-packages/pyspark"
    others = [
        "/work",
        "/python311.zip",
        "/users/helpers.zip",
        "/jars/my-spark-core.jar",
        "/venv/lib/python3.11/site-packages",
    ]
    archives = [
        f"{lib}/python/lib/pyspark.zip", f"{lib}/python/lib/py4j-0.10.9.9-src.zip", f"{lib}/jars/spark-core_2.13-4.1.3.jar"
    ]  # fmt: skip
    assert without_archives([*others[:2], *archives, *others[2:]]) == others


@pytest.mark.more(after=1)
@pytest.mark.parametrize("alone", [False, True], ids=["installed", "in archives alone"])
def test_pyspark_comes_from_its_archives_where_it_is_not_installed(alone: bool) -> None:
    lib = Path(pyspark.__file__).parent / "python" / "lib"
    archives = [str(path) for path in sorted(lib.glob("*.zip"))]
    said = (
        "import sys; from dts_assets.flows.spark_daemon import prefer_installed; "
        f"sys.path[:0] = {archives}; prefer_installed(); import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    )
    command = [sys.executable, *(["-S"] if alone else []), "-c", said]
    told = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [".zip" in place for place in told.split()] == [alone, alone]


def worker_facts(task: int, attempt: str) -> tuple[int, int]:
    """The number of archives that a worker reads again before each task, and of objects that it never looks at for garbage."""
    archives = [one for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)]
    return len(archives), gc.get_freeze_count()


@pytest.mark.spark
def test_workers_read_no_archive_before_a_task_and_look_at_no_module_after_it(spark: SparkSession) -> None:
    for archives, frozen in run_tasks(spark, range(2), worker_facts, weight=lambda task: 1):
        assert archives == 0
        assert frozen > 10_000
