"""The look at a cluster before anything runs there, and the number of its cores.

One small job on each session says in a sentence what a run would learn after many attempts: no master, no executor, a Python that
is not there or of another version, missing packages. Where tasks run in the driver's own processes there is nothing to look at.
"""

from __future__ import annotations

import json
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from os import cpu_count
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dts_assets.errors.spark import UnusableSparkError
from dts_assets.model.spark_masters import is_connect, local_cores, runs_here, without_parameters
from dts_assets.planning.executors import (
    PACKAGES,
    ExecutorFacts,
    cores_at_once,
    cores_settings,
    fault_of_facts,
    fault_of_start,
    fault_of_text,
    no_executors,
    seconds_for_executors,
)
from dts_assets.settings.environment import executors_python
from dts_assets.store.package import package_digest

ANSWER_SECONDS = 90.0
"""The longest time that the small job may take once there is an executor."""

_LOOK_EVERY = 0.1
_TASKS = 4
_MANY = 1 << 16
"""More rows than any cluster has cores, which Spark cuts into a part for each core."""

_counted: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
"""The cores of Spark Connect servers, which a query has to be asked for."""


@contextmanager
def explained_start(master: str) -> Iterator[None]:
    """Turn the failure of a cluster's session to start into a sentence.

    Raises:
        UnusableSparkError: Spark did not start.
    """
    if runs_here(master) or is_connect(master):
        yield
        return
    try:
        yield
    except (Py4JError, PySparkException, RuntimeError) as error:
        fault = fault_of_start(str(error), master=master)
        raise fault from error


def require_executors(session: SparkSession, master: str, conf: Mapping[str, str]) -> None:
    """Refuse a Spark whose executors cannot run tasks; ``conf`` are the settings that the session was opened with.

    Raises:
        MachineError: It has no executors, or their Python, its packages or its dts-assets are not those that are needed.
    """
    if runs_here(master):
        return
    names = {name: module for name, module in PACKAGES.items() if _installed(name) is not None}
    here = ExecutorFacts(sys.executable, "", {name: _installed(name) for name in names}, code=package_digest())
    looking = _in_the_background(lambda: _facts(session, names))
    try:
        found = _await(looking, session, master, conf)
    except (Py4JError, PySparkException) as error:
        python = "" if is_connect(master) else executors_python()
        needed = ".".join(platform.python_version_tuple()[:2])
        fault = fault_of_text(str(error), master=master, python=python, needed=needed)
        raise fault from error
    if (unfit := fault_of_facts(found, here=here)) is not None:
        raise unfit


def count_cores(session: SparkSession) -> int:
    """Return the number of tasks that run at once, as far as it is known now.

    A cluster says how many cores its executors have; it may get more of them while it runs.
    """
    local = local_cores(str(session.conf.get("spark.master", "")), here=cpu_count() or 2)
    if local is not None:
        return local
    if _is_classic(session):
        return _cores(session, session.sparkContext.defaultParallelism)
    if session not in _counted:
        parts = session.range(_MANY).select(F.spark_partition_id()).distinct().count()
        _counted[session] = _cores(session, parts)
    return _counted[session]


def _cores(session: SparkSession, counted: int) -> int:
    settings = {name: session.conf.get(name, None) for name in cores_settings()}
    return cores_at_once({name: value for name, value in settings.items() if value is not None}, counted=counted)


def _is_classic(session: SparkSession) -> bool:
    return hasattr(session, "newSession")


@cache
def _installed(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _in_the_background(work: Callable[[], list[ExecutorFacts]]) -> Future[list[ExecutorFacts]]:
    """Begin some work in a thread that keeps no process from ending."""
    found: Future[list[ExecutorFacts]] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name="executors-look", daemon=True).start()
    return found


def _await(
    looking: Future[list[ExecutorFacts]], session: SparkSession, master: str, conf: Mapping[str, str]
) -> list[ExecutorFacts]:
    """Return the facts that the job brings; wait for executors first.

    Raises:
        MachineError: No executor came in time, or those that came gave no answer.
    """
    began, patience = time.monotonic(), seconds_for_executors(master, conf)
    there = not _is_classic(session)  # a server does not tell
    while not wait([looking], timeout=_LOOK_EVERY).done:
        if not there and _has_executors(session):
            began, there = time.monotonic(), True
        if time.monotonic() - began > (ANSWER_SECONDS if there else patience):
            _give_up(session)
            unanswered = f"its executors gave no answer for {ANSWER_SECONDS:.0f} s"
            late = UnusableSparkError(without_parameters(master), unanswered)
            fault = late if there else no_executors(master, conf, seconds=patience)
            raise fault
    return looking.result()


def _has_executors(session: SparkSession) -> bool:
    context: Any = session.sparkContext._jsc
    return int(context.sc().getExecutorMemoryStatus().size()) > 1  # the driver is one of them


def _give_up(session: SparkSession) -> None:
    """Let the job go, so that the session can be closed."""
    with suppress(Py4JError, PySparkException):
        if _is_classic(session):
            session.sparkContext.cancelAllJobs()
        else:
            session.interruptAll()


def _facts(session: SparkSession, packages: Mapping[str, str]) -> list[ExecutorFacts]:
    """Return the facts of the places where a few tasks run.

    The job needs no package but PySpark, and not even dts-assets: its function travels by value.
    """
    look = F.udf(_look(dict(packages)), "string", useArrow=False)
    frame = session.range(0, _TASKS, 1, _TASKS).select(look("id"))
    return [ExecutorFacts(**json.loads(row[0])) for row in frame.collect()]


def _look(packages: dict[str, str]) -> Callable[[int], str]:
    """Return a function that tells the facts of the Python that it runs in, as JSON.

    It is sent as it stands, so it imports all that it needs.
    """

    def look(task: int) -> str:
        import json
        import socket
        import sys
        from contextlib import suppress
        from importlib import import_module, metadata
        from importlib.util import find_spec

        def found(name: str, module: str) -> str | None:
            try:
                if find_spec(module) is None:
                    return None
            except ImportError:
                return None
            try:
                return metadata.version(name) or ""
            except metadata.PackageNotFoundError:
                return ""

        there = {name: found(name, module) for name, module in packages.items()}
        broken, code = "", "of a version that has none" if find_spec("dts_assets") else ""
        with suppress(ImportError):
            code = import_module("dts_assets.store.package").package_digest()
            try:
                import_module("dts_assets.flows.spark_daemon").import_tasks()
            except Exception as error:
                broken = f"{type(error).__name__}: {error}"[:200]
        facts = {
            "python": sys.executable,
            "host": socket.gethostname(),
            "packages": there,
            "broken": broken,
            "code": code,
        }
        return json.dumps(facts)

    return look
