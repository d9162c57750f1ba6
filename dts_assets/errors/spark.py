"""Errors of the Spark that computes: of its master, its executors and their Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from dts_assets.errors.machine import MachineError

_PYTHON_SETTING = "spark.pyspark.python (under spark.conf in the configuration)"


@dataclass(eq=False)
class UnreachableMasterError(MachineError):
    """A Spark master that does not answer. ``reason`` is a clause: "connection refused"."""

    retriable: ClassVar[bool] = True

    master: str
    reason: str

    def message(self) -> str:
        """Return the master, the reason and the way out."""
        return (
            f"No Spark answers at {self.master}: {self.reason}. Check spark.master, or spark.remote, in the configuration; if it "
            f"is starting, run it again."
        )


@dataclass(eq=False)
class NoExecutorsError(MachineError):
    """A cluster that gave no executor for a while.

    ``wanted`` says what an executor takes: "1 core and 4g of memory"; it is empty where that is the cluster's default.
    """

    retriable: ClassVar[bool] = True

    master: str
    seconds: float
    wanted: str = ""

    def message(self) -> str:
        """Return the master, the time, and the reasons that there can be."""
        size = f", each with {self.wanted}" if self.wanted else ""
        return (
            f"The Spark at {self.master} gave no executor within {self.seconds:.0f} s{size}: other applications hold its cores, "
            f"no worker is that large, or its workers cannot reach this machine. Free some, ask for less (spark.executor.memory, "
            f"spark.executor.cores, spark.cores.max), or name an address of this machine that they reach (spark.driver.host); "
            f"run it again."
        )


@dataclass(eq=False)
class ExecutorPythonError(MachineError):
    """A Python that executors cannot start.

    ``python`` is its path, empty where it is not known; ``reason`` is a clause: "there is no such file on the executors".
    """

    python: str
    reason: str

    def message(self) -> str:
        """Return the path, the reason, and the setting that names the path."""
        return (
            f"Spark's executors cannot start their Python {self.python or '(PYSPARK_PYTHON)'}: {self.reason}. Name one that "
            f"every executor has, with the packages of dts-assets, in {_PYTHON_SETTING}."
        )


@dataclass(eq=False)
class ExecutorVersionError(MachineError):
    """Executors whose Python has another minor version: tasks cannot be sent from one to the other.

    ``found`` and ``needed`` are versions such as "3.12"; ``python`` is the path of the executors' Python.
    """

    python: str
    _: KW_ONLY
    found: str
    needed: str

    def message(self) -> str:
        """Return the path, both versions, and the setting that names the path."""
        return (
            f"Spark's executors run Python {self.found} ({self.python}), and this process runs Python {self.needed}; both must "
            f"be of one version. Name a Python {self.needed} of the executors in {_PYTHON_SETTING}, or start dts-assets with "
            f"Python {self.found}."
        )


@dataclass(eq=False)
class ExecutorPackagesError(MachineError):
    """Executors whose Python lacks packages, or has packages that do not fit.

    ``wrong`` has a clause for each: "pyarrow is missing", "pandas is 1.5.3 and not 2.x". ``host`` is one of the executors'.
    """

    python: str
    host: str
    wrong: Sequence[str]

    def message(self) -> str:
        """Return the Python, every package, and the way out."""
        where = _place(self.python, self.host)
        return (
            f"The Python of Spark's executors{where} does not fit: {', '.join(self.wrong)}. dts-assets brings itself to them, "
            f"and the packages that it needs must be there: install those of requirements.lock, or name a Python that has them "
            f"in {_PYTHON_SETTING}."
        )


@dataclass(eq=False)
class OtherCodeError(MachineError):
    """Executors that lack dts-assets, or run another version of it than the driver, so that results could differ.

    ``host`` is one of the executors', empty where it is not known.
    """

    python: str
    host: str
    _: KW_ONLY
    missing: bool

    def message(self) -> str:
        """Return the place, what is wrong there, and the way out."""
        what = "have no dts-assets" if self.missing else "run another version of dts-assets than this process"
        return (
            f"Spark's executors{_place(self.python, self.host)} {what}. A Spark Connect server of dts-assets spark-server "
            f"brings it to them, if it was started after the last update; on any other, install the version of this process."
        )


@dataclass(eq=False)
class UnusableSparkError(MachineError):
    """A Spark that does not start, or that cannot run one small job. ``reason`` is a clause."""

    master: str
    reason: str

    def message(self) -> str:
        """Return the master, the reason, and the place of the details."""
        return (
            f"The Spark at {self.master} cannot be used: {self.reason}. Check spark.master and spark.conf in the configuration; "
            f"the log of this run and those of the executors say more."
        )


def _place(python: str, host: str) -> str:
    """Return the parts of a place that are known: `` (/opt/python on worker-1)``."""
    known = " on ".join(filter(None, [python, host]))
    return f" ({known})" if known else ""
