"""The executors of a Spark: the number of tasks at once, and the faults of their Python.

All is decided by settings, by the texts of errors, and by the facts that one small job brings back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.spark import (
    ExecutorPackagesError,
    ExecutorPythonError,
    ExecutorVersionError,
    NoExecutorsError,
    OtherCodeError,
    UnusableSparkError,
)
from dts_assets.model.spark_masters import is_on_this_machine, without_parameters

PACKAGES: Mapping[str, str] = {
    "confluent-kafka": "confluent_kafka",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pandas": "pandas",
    "protobuf": "google.protobuf",
    "ptars": "ptars",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pyiceberg": "pyiceberg",
    "sqlglot": "sqlglot",
    "tenacity": "tenacity",
}
"""The packages that tasks import, by the names under which they are installed, each with its module."""

EXECUTOR_SECONDS = 20.0
"""The seconds in which the first executor has to come.

A Java takes some of them to start, more on a machine that is busy.
"""

MANAGED_SECONDS = 120.0
"""The seconds in which the first executor has to come if a container is made for it."""

_WAIT_SETTING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""Spark's own name of the time in which executors have to come."""

_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def cores_at_once(conf: Mapping[str, str], *, counted: int) -> int:
    """Return the number of tasks that the executors of a cluster run at once, at least one.

    ``counted`` is the number of cores that they have now. Where Spark takes and gives back executors as tasks need them, the
    number that it may take counts, if it is declared.
    """
    cores = counted
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        most = _number(conf.get("spark.dynamicAllocation.maxExecutors"))
        cores = max(cores, most * max(1, _number(conf.get("spark.executor.cores"))))
    return max(1, cores // max(1, _number(conf.get("spark.task.cpus"))))


def _number(text: str | None) -> int:
    """Return a whole number that a setting has; 0 where it has none."""
    return int(text) if text is not None and text.isdecimal() else 0


def cores_settings() -> tuple[str, ...]:
    """Return the names of the settings that :func:`cores_at_once` looks at."""
    return (
        "spark.dynamicAllocation.enabled",
        "spark.dynamicAllocation.maxExecutors",
        "spark.executor.cores",
        "spark.task.cpus",
    )


def seconds_for_executors(master: str, conf: Mapping[str, str]) -> float:
    """Return the seconds in which the first executor of a cluster has to come.

    The user's own setting counts: it is the one by which Spark waits for executors.
    """
    said = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", conf.get(_WAIT_SETTING, ""))
    if said is not None and said.group(2) in _UNITS:
        return int(said.group(1)) * _UNITS[said.group(2)]
    managed = not (master.startswith("spark://") or is_on_this_machine(master))
    return MANAGED_SECONDS if managed else EXECUTOR_SECONDS


def no_executors(master: str, conf: Mapping[str, str], *, seconds: float) -> NoExecutorsError:
    """Return the error of a cluster that gave no executor; it names the size of an executor."""
    cores, memory = conf.get("spark.executor.cores"), conf.get("spark.executor.memory")
    parts = [f"{cores} core{'s' * (cores != '1')}"] if cores else []
    parts += [f"{memory} of memory"] if memory else []
    return NoExecutorsError(without_parameters(master), seconds, " and ".join(parts))


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """The facts that a small task finds where it runs, or the driver's own to compare them with.

    ``packages`` has the installed version of each package: empty if it has none to show, None if the package is missing.
    ``broken`` is why the modules of tasks cannot be imported, empty if they can. ``code`` is the digest of dts-assets' own
    modules, empty where they are missing.
    """

    python: str
    host: str
    packages: Mapping[str, str | None]
    broken: str = ""
    code: str = ""


def fault_of_facts(found: Iterable[ExecutorFacts], *, here: ExecutorFacts) -> DtsAssetsError | None:
    """Return the first error that the facts of executors stand for; None if tasks can run there."""
    for facts in found:
        wrong = list(_wrong_packages(facts.packages, here.packages))
        if facts.broken and not wrong:
            wrong.append(facts.broken)
        if wrong:
            return ExecutorPackagesError(facts.python, facts.host, tuple(wrong))
        if facts.code != here.code:
            return OtherCodeError(facts.python, facts.host, missing=not facts.code)
    return None


def series(version: str) -> str:
    """Return the part of a version within which a package stays compatible: ``26`` of ``26.0.1``, ``0.12`` of ``0.12.0``."""
    found = re.match(r"(?:0\.)*\d+", version)
    return version if found is None else found.group()


def _wrong_packages(found: Mapping[str, str | None], needed: Mapping[str, str | None]) -> Iterable[str]:
    for name, version in sorted(found.items()):
        there = needed.get(name)
        if version is None:
            yield f"{name} is missing"
        elif version and there and series(version) != series(there):
            yield f"{name} is {version} and not {series(there)}.x"


_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*)".*?error=(\d+)', re.DOTALL)
_OTHER_PYTHON = re.compile(r"worker has different version:? \(?'?(\d+\.\d+)'?\)? than that in driver")
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_IMPORT = re.compile(r"\b(\w*ImportError|SyntaxError): ([^\n]{1,160})")
_SILENT = re.compile(
    r"Error from python worker|Python worker|python daemon|pyspark[./]daemon|SparkException: EOFException"
)
_LOST = re.compile(r"Master removed our application|ExecutorLostFailure|Executor .{1,20} exited")
_NOT_PARSED = re.compile("(Could not parse|Invalid) master URL", re.IGNORECASE)
_NO_HADOOP = "HADOOP_CONF_DIR"
_GIVEN_UP = re.compile("All masters are unresponsive|stopped SparkContext")
_REASONS = {
    2: "there is no such file on the executors",
    13: "it is not executable there",
    20: "a part of its path is no folder",
}


def fault_of_text(text: str, *, master: str, python: str, needed: str) -> DtsAssetsError:
    """Return the error that the text of a failed small job stands for.

    ``python`` is the path of the executors' Python, as far as it is known, and ``needed`` the version that the driver runs. No
    text of Spark is in the error, but names of modules and files.
    """
    if (no_program := _NO_PROGRAM.search(text)) is not None:
        code = int(no_program.group(2))
        return ExecutorPythonError(no_program.group(1), _REASONS.get(code, f"the system refuses it with error {code}"))
    if (other := _OTHER_PYTHON.search(text)) is not None:
        return ExecutorVersionError(python or "python3", found=other.group(1), needed=needed)
    if (no_module := _NO_MODULE.search(text)) is not None:
        module = no_module.group(1).partition(".")[0]
        if module in sys.stdlib_module_names:
            return ExecutorPythonError(python, f"its version is another one (it has no module {no_module.group(1)})")
        if module == "dts_assets":
            return OtherCodeError(python, "", missing=True)
        return ExecutorPackagesError(python, "", (f"{_package_of(module)} is missing",))
    if (broken := _IMPORT.search(text)) is not None:
        return ExecutorPackagesError(python, "", (": ".join(broken.groups()),))
    shown = without_parameters(master)
    if _LOST.search(text) is not None:
        return UnusableSparkError(shown, "its executors end as soon as they have started")
    if _SILENT.search(text) is not None:
        return ExecutorPythonError(python, "it ends before the first task")
    return UnusableSparkError(shown, "one small job of Python failed on it")


def fault_of_start(text: str, *, master: str) -> DtsAssetsError:
    """Return the error that the text of a failed start of Spark stands for."""
    shown = without_parameters(master)
    if _NOT_PARSED.search(text) is not None:
        reason = "its address is none that Spark knows (local[2], spark://host:7077, k8s://https://host:443, yarn)"
    elif _NO_HADOOP in text:
        reason = "YARN is found by HADOOP_CONF_DIR or YARN_CONF_DIR, and neither is set"
    elif _GIVEN_UP.search(text) is not None:
        reason = "what listens there is no Spark master, or one of another version of Spark, and has not taken this application"
    elif _LOST.search(text) is not None:
        reason = "its executors end as soon as they have started"
    else:
        reason = "it did not start"
    return UnusableSparkError(shown, reason)


def _package_of(module: str) -> str:
    """Return the name under which the package of a module is installed: ``confluent-kafka`` for ``confluent_kafka``."""
    return next((name for name, one in PACKAGES.items() if one.partition(".")[0] == module), module.replace("_", "-"))
