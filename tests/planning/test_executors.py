"""Executors as they are judged: their cores, the time that they have to come, and what the texts of Spark stand for."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dts_assets.errors.spark import (
    ExecutorPackagesError,
    ExecutorPythonError,
    ExecutorVersionError,
    NoExecutorsError,
    OtherCodeError,
    UnusableSparkError,
)
from dts_assets.planning.executors import (
    PACKAGES,
    ExecutorFacts,
    cores_at_once,
    fault_of_facts,
    fault_of_start,
    fault_of_text,
    no_executors,
    seconds_for_executors,
    series,
)

HOUSE = Path(__file__).parents[2]
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
HERE = ExecutorFacts("/here/python", "", {"pyarrow": "26.0.1", "ptars": "0.0.25"}, code="abc")
THERE = replace(HERE, python="/there/python", host="worker")


@pytest.mark.parametrize(
    ("conf", "counted", "cores"),
    [
        ({}, 2, 2),
        ({}, 0, 1),
        ({"spark.task.cpus": "2"}, 8, 4),
        ({"spark.task.cpus": "16"}, 8, 1),
        ({"spark.dynamicAllocation.maxExecutors": "10"}, 2, 2),
        ({**DYNAMIC}, 3, 3),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "10"}, 2, 10),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "10", "spark.executor.cores": "4"}, 2, 40),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "infinity"}, 6, 6),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "2", "spark.executor.cores": "1"}, 6, 6),
    ],
)
def test_cores_are_counted_or_declared(conf: Mapping[str, str], counted: int, cores: int) -> None:
    assert cores_at_once(conf, counted=counted) == cores


@pytest.mark.parametrize(
    ("master", "said", "seconds"),
    [
        ("spark://host:7077", None, 20),
        ("local-cluster[2,1,1024]", None, 20),
        ("yarn", None, 120),
        ("k8s://https://host", None, 120),
        ("yarn", "90s", 90),
        ("yarn", "2m", 120),
        ("spark://host:7077", "5000ms", 5),
        ("spark://host:7077", "7", 7),
        ("spark://host:7077", "soon", 20),
    ],
)
def test_executors_have_a_time_to_come(master: str, said: str | None, seconds: float) -> None:
    conf = {} if said is None else {"spark.scheduler.maxRegisteredResourcesWaitingTime": said}
    assert seconds_for_executors(master, conf) == seconds


def test_the_size_of_an_executor_that_nobody_gave_is_said() -> None:
    error = no_executors("spark://host:7077", {"spark.executor.memory": "9g", "spark.executor.cores": "1"}, seconds=10)
    assert "gave no executor within 10 s, each with 1 core and 9g of memory:" in str(error)
    assert error.retriable
    bare = no_executors("spark://host:7077", {}, seconds=10)
    assert isinstance(bare, NoExecutorsError)
    assert "within 10 s: other applications" in str(bare)


class TestFacts:
    def test_executors_like_the_driver_are_no_fault(self) -> None:
        assert fault_of_facts([THERE, THERE], here=HERE) is None
        assert fault_of_facts([], here=HERE) is None
        assert fault_of_facts([replace(THERE, packages={"pyarrow": "26.1.0", "ptars": ""})], here=HERE) is None

    def test_every_package_that_does_not_fit_is_named_at_once(self) -> None:
        unfit = replace(THERE, packages={"pyarrow": "14.0.0", "ptars": None}, broken="ModuleNotFoundError: ptars")
        fault = fault_of_facts([THERE, unfit], here=HERE)
        assert isinstance(fault, ExecutorPackagesError)
        assert fault.wrong == ("ptars is missing", "pyarrow is 14.0.0 and not 26.x")
        assert "(/there/python on worker) does not fit: ptars is missing, pyarrow is 14.0.0 and not 26.x." in str(fault)

    def test_a_package_that_cannot_be_imported_says_why(self) -> None:
        fault = fault_of_facts([replace(THERE, broken="ImportError: libarrow.so.2600")], here=HERE)
        assert isinstance(fault, ExecutorPackagesError)
        assert "libarrow.so.2600" in str(fault)

    @pytest.mark.parametrize(("code", "said"), [("", "have no dts-assets"), ("def", "run another version")])
    def test_other_code_is_refused(self, code: str, said: str) -> None:
        fault = fault_of_facts([replace(THERE, code=code)], here=HERE)
        assert isinstance(fault, OtherCodeError)
        assert said in str(fault)

    @pytest.mark.parametrize(
        ("version", "found"),
        [("26.0.1", "26"), ("0.12.0", "0.12"), ("0.0.25", "0.0.25"), ("2.0.0rc1", "2"), ("x", "x")],
    )
    def test_versions_have_a_series(self, version: str, found: str) -> None:
        assert series(version) == found


NOT_THERE = (
    "An error occurred while calling o74.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (127.0.0.1 executor 1): "
    'java.io.IOException: Cannot run program "/no/such/python": error={}, {}\n\tat java.base/java.lang.ProcessBuilder'
)
OTHER_PYTHON = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 "
    "than that in driver: 3.11, PySpark cannot run with different minor versions.\nPlease check environment variables"
)
NO_MODULE = (
    "Error from python worker:\n  Traceback (most recent call last):\n  ModuleNotFoundError: No module named '{}'\n"
)


class TestTexts:
    def fault(self, text: str, python: str = "/opt/python", master: str = "spark://host:7077") -> Exception:
        return fault_of_text(text, master=master, python=python, needed="3.11")

    @pytest.mark.parametrize(
        ("code", "said", "reason"),
        [
            (2, "No such file or directory", "no such file"),
            (13, "Permission denied", "not executable"),
            (8, "x", "error 8"),
        ],
    )
    def test_a_python_that_is_not_there(self, code: int, said: str, reason: str) -> None:
        fault = self.fault(NOT_THERE.format(code, said))
        assert isinstance(fault, ExecutorPythonError)
        assert fault.python == "/no/such/python"
        assert reason in str(fault)

    def test_a_python_of_another_version(self) -> None:
        fault = self.fault(OTHER_PYTHON)
        assert isinstance(fault, ExecutorVersionError)
        assert (fault.found, fault.needed) == ("3.12", "3.11")

    @pytest.mark.parametrize(
        ("module", "package"),
        [("pyarrow.lib", "pyarrow"), ("google.protobuf", "protobuf"), ("confluent_kafka", "confluent-kafka")],
    )
    def test_a_package_that_is_missing(self, module: str, package: str) -> None:
        fault = self.fault(NO_MODULE.format(module))
        assert isinstance(fault, ExecutorPackagesError)
        assert fault.wrong == (f"{package} is missing",)

    def test_a_place_that_is_not_known_is_not_told(self) -> None:
        for module in ("pyarrow", "dts_assets"):
            assert "()" not in str(self.fault(NO_MODULE.format(module), python=""))

    def test_a_module_of_python_itself_is_missing_where_python_is_older(self) -> None:
        fault = self.fault(NO_MODULE.format("importlib.resources.abc"))
        assert isinstance(fault, ExecutorPythonError)
        assert "its version is another one (it has no module importlib.resources.abc)" in str(fault)

    def test_dts_assets_itself_is_missing(self) -> None:
        fault = self.fault(NO_MODULE.format("dts_assets"))
        assert isinstance(fault, OtherCodeError)
        assert fault.missing

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("SparkException: \nError from python worker:\n  Segmentation fault", "it ends before the first task"),
            (
                "Job aborted due to stage failure: Master removed our application: FAILED",
                "as soon as they have started",
            ),
            (
                "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)",
                "as soon as they have started",
            ),
            ("something that nobody has seen", "one small job of Python failed"),
        ],
    )
    def test_other_failures_have_a_sentence_without_sparks_text(self, text: str, said: str) -> None:
        fault = self.fault(text)
        assert said in str(fault)
        assert "Segmentation" not in str(fault)

    def test_a_servers_token_is_not_told(self) -> None:
        assert "hunter2" not in str(self.fault("x", master="sc://host:15002/;token=hunter2"))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("org.apache.spark.SparkException: Could not parse Master URL: 'sparc://host'", "none that Spark knows"),
            ("org.apache.spark.SparkException: Invalid master URL: spark://host", "none that Spark knows"),
            ("either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment.", "YARN is found by"),
            ("Application has been killed. Reason: All masters are unresponsive! Giving up.", "no Spark master"),
            ("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.", "no Spark master"),
            ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "it did not start"),
        ],
    )
    def test_a_spark_that_does_not_start_says_why(self, text: str, said: str) -> None:
        fault = fault_of_start(text, master="sparc://host")
        assert isinstance(fault, UnusableSparkError)
        assert said in str(fault)


def test_what_may_pass_is_asked_again_and_what_needs_a_person_is_not() -> None:
    assert NoExecutorsError("yarn", 120).retriable
    lasting = (
        ExecutorPythonError("p", "r"),
        ExecutorVersionError("p", found="3.12", needed="3.11"),
        ExecutorPackagesError("p", "h", ("w",)),
        OtherCodeError("p", "h", missing=True),
        UnusableSparkError("m", "r"),
    )
    assert not any(error.retriable for error in lasting)
    assert {error.exit_code for error in lasting} == {13}


def imported_by(paths: Iterator[Path]) -> set[str]:
    """The first parts of all modules that some files import, wherever in the file."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.more
def test_every_package_that_tasks_import_is_looked_for() -> None:
    code = (
        "import sys; from dts_assets.flows.spark_daemon import import_tasks; import_tasks(); "
        "print(*(name for name in sys.modules if name.startswith('dts_assets.')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, timeout=60, check=True
    )
    files = {HOUSE / f"{name.replace('.', '/')}.py" for name in told.stdout.split()}
    rooms = (
        path
        for room in ("wire", "stages", "sources", "protocol")
        for path in (HOUSE / "dts_assets" / room).rglob("*.py")
        if "pymysql" not in path.read_text("utf-8")  # of a database, which the driver asks
    )
    tasks = {path for path in files if path.is_file() and path.parent.name != "settings"}  # which the driver reads
    imported = imported_by(iter({*tasks, *rooms})) - set(sys.stdlib_module_names)
    known = {module.partition(".")[0] for module in PACKAGES.values()}
    assert imported - {"dts_assets", "pyspark", "py4j", ""} <= known
    assert {"pyarrow", "pyiceberg", "google"} <= imported
