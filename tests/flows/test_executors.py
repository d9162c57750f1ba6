"""The look at executors with stand-ins for Spark: what is asked, how long it waits, and which sentence comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import cloudpickle

from dts_assets.errors.spark import (
    ExecutorPackagesError,
    ExecutorPythonError,
    ExecutorVersionError,
    NoExecutorsError,
    UnusableSparkError,
)
from dts_assets.flows import executors
from dts_assets.flows.executors import count_cores, explained_start, require_executors
from dts_assets.store.package import package_digest

HOUSE = Path(__file__).parents[2]
MASTER = "spark://host:7077"
HASTY = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "200ms"}


@dataclass(eq=False)
class Session:
    """A classic session of so many executors and cores."""

    conf: Mapping[str, str] = field(default_factory=lambda: {"spark.master": MASTER})
    cores: int = 2
    executors: int = 1
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def sparkContext(self) -> Any:
        status = SimpleNamespace(size=lambda: 1 + self.executors)
        java = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status))
        return SimpleNamespace(defaultParallelism=self.cores, _jsc=java, cancelAllJobs=self.cancelled.set)

    def newSession(self) -> None: ...


@dataclass(eq=False)
class Server:
    """A session of a Spark Connect server, which tells the parts that it cuts a range into."""

    parts: int
    conf: Mapping[str, str] = field(default_factory=lambda: {"spark.master": MASTER})
    asked: int = 0

    def range(self, *_: int) -> Any:
        self.asked += 1
        counted = SimpleNamespace(count=lambda: self.parts)
        return SimpleNamespace(select=lambda *_: SimpleNamespace(distinct=lambda: counted))


def test_local_masters_name_their_cores_and_nobody_is_asked() -> None:
    session: Any = SimpleNamespace(conf={"spark.master": "local[3]"})
    assert count_cores(session) == 3
    require_executors(session, "local[3]", {})


def test_a_cluster_is_asked_each_time_because_executors_come_and_go() -> None:
    session: Any = Session()
    assert count_cores(session) == 2
    session.cores = 48
    assert count_cores(session) == 48


def test_a_server_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.functions.spark_partition_id", lambda: None)
    server: Any = Server(parts=24)
    assert [count_cores(server), count_cores(server)] == [24, 24]
    assert server.asked == 1


def look_of(packages: dict[str, str]) -> Callable[[int], str]:
    return executors._look(packages)


def test_a_task_tells_what_it_finds_here() -> None:
    facts = json.loads(look_of({"pyarrow": "pyarrow", "no-such-package": "no_such.module"})(0))
    assert facts["python"] == sys.executable
    assert facts["packages"]["pyarrow"].partition(".")[0].isdecimal()
    assert facts["packages"]["no-such-package"] is None
    assert (facts["broken"], facts["code"]) == ("", package_digest())


def test_it_is_sent_without_dts_assets_and_says_that_there_is_none() -> None:
    code = (
        "import pickle, sys; look = pickle.loads(sys.stdin.buffer.read()); "
        "assert 'dts_assets' not in sys.modules; print(look(0))"
    )
    site_packages = next(path for path in sys.path if path.endswith("site-packages"))
    sent = cloudpickle.dumps(look_of({"six": "six"}))  # type: ignore[no-untyped-call]
    told = subprocess.run(
        [sys.executable, "-S", "-c", code], input=sent,
        cwd="/", env={"PYTHONPATH": site_packages}, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(told.stdout)["code"] == ""


def facts_that(monkeypatch: pytest.MonkeyPatch, work: Callable[[Session], Any]) -> None:
    monkeypatch.setattr(executors, "_facts", lambda session, packages: work(session))


def test_a_cluster_without_room_is_given_up_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    facts_that(monkeypatch, lambda session: session.cancelled.wait(10))
    session: Any = Session(executors=0)
    with pytest.raises(NoExecutorsError, match="gave no executor within 0 s, each with 9g of memory"):
        require_executors(session, MASTER, {**HASTY, "spark.executor.memory": "9g"})
    assert session.cancelled.is_set(), "the job does not wait any longer"


def test_executors_that_do_not_answer_are_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    facts_that(monkeypatch, lambda session: session.cancelled.wait(10))
    monkeypatch.setattr(executors, "ANSWER_SECONDS", 0.3)
    session: Any = Session()
    with pytest.raises(UnusableSparkError, match="gave no answer"):
        require_executors(session, MASTER, HASTY)


def test_an_executor_that_comes_late_has_its_time_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(session: Session) -> list[Any]:
        session.cancelled.wait(0.1)
        session.executors = 1
        session.cancelled.wait(0.4)
        return []

    facts_that(monkeypatch, work)
    session: Any = Session(executors=0)
    require_executors(session, MASTER, HASTY)


def test_a_time_out_of_the_job_itself_is_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(session: Session) -> Any:
        raise TimeoutError("of a socket")

    facts_that(monkeypatch, work)
    session: Any = Session()
    with pytest.raises(TimeoutError, match="of a socket"):
        require_executors(session, MASTER, {})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('java.io.IOException: Cannot run program "/gone": error=2, No such file', ExecutorPythonError),
        ("Python in worker has different version: 3.12 than that in driver: 3.11", ExecutorVersionError),
        ("ModuleNotFoundError: No module named 'ptars'", ExecutorPackagesError),
    ],
)
def test_a_failed_job_is_explained(monkeypatch: pytest.MonkeyPatch, text: str, kind: type[Exception]) -> None:
    def work(session: Session) -> Any:
        raise Py4JError(text)

    facts_that(monkeypatch, work)
    session: Any = Session()
    with pytest.raises(kind) as caught:
        require_executors(session, MASTER, {})
    assert isinstance(caught.value.__cause__, Py4JError), "the log has all of it"


def test_a_start_that_fails_is_explained_on_a_cluster_and_left_alone_elsewhere() -> None:
    with pytest.raises(UnusableSparkError, match="none that Spark knows"), explained_start("sparc://host"):
        raise Py4JError("Could not parse Master URL: 'sparc://host'")
    with pytest.raises(Py4JError), explained_start("local[2]"):
        raise Py4JError("x")


def test_a_daemon_without_the_packages_of_tasks_starts_nevertheless(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')")
    code = (
        "import pyspark.daemon; pyspark.daemon.manager = lambda: print('it serves'); "
        "from dts_assets.flows.spark_daemon import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        cwd=HOUSE, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "it serves"
