"""Clusters of real processes: the example equals the database on them, and a set-up that is wrong ends with its sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dts_assets.defs.failures import CANNOT_BE_RETRIED
from tests.remote.pythons import python_of_another_version, python_without, real_pythons
from tests.remote.standalone import StandaloneCluster

ROOT = Path(__file__).resolve().parents[2]
BUSY = 4
"""How much longer everything may take on a machine that has more to do."""

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster whose executors get no path from here."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), environment={"PYTHONPATH": ""}) as master:
        yield master


def checkout(folder: Path, master: str, **conf: str) -> Path:
    """The project's configuration on a cluster, with a lake and a Dagster home of its own."""
    config = yaml.safe_load((ROOT / "pipeline.yaml").read_text())
    config["spark"] = {"master": master, "conf": conf}
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "dagster_home").mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", folder / "dagster_home")
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return folder / "pipeline.yaml"


def environment(folder: Path) -> dict[str, str]:
    found = {**os.environ, "COLUMNS": "120", "DTS_ASSETS_CONFIG": str(folder / "pipeline.yaml")}
    for name in ("DAGSTER_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        found.pop(name, None)
    return found


def started(folder: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=1000)
    return process.returncode, output


def looked(folder: Path, master: str, conf: Mapping[str, str]) -> dict[str, Any]:
    _, output = ended(started(folder, "tests.remote.looks", str(folder), master, json.dumps(conf)))
    (told,) = [line for line in output.splitlines() if line.startswith('{"error')]
    found: dict[str, Any] = json.loads(told)
    sys.stdout.write(f"{found}\n")
    return found


EQUAL = "12 of 12 snapshots equal the database row by row"


def test_the_example_on_a_local_cluster_where_spark_merges_every_snapshot(tmp_path: Path) -> None:
    config = checkout(tmp_path, LOCAL_CLUSTER)
    code, output = ended(started(tmp_path, "tests.remote.example", str(config), "share"))
    assert code == 0, output
    assert EQUAL in output


def test_the_example_on_a_cluster_whose_python_has_no_dts_assets(standalone: str, tmp_path: Path) -> None:
    python = python_without(tmp_path / "bare")
    config = checkout(tmp_path, standalone, **{"spark.pyspark.python": str(python)})
    code, output = ended(started(tmp_path, "tests.remote.example", str(config)))
    assert code == 0, output
    assert EQUAL in output


def test_a_worker_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    cluster = StandaloneCluster(tmp_path / "cluster")
    with cluster as master:
        config = checkout(tmp_path, master)
        running = started(tmp_path, "tests.remote.example", str(config))
        entries = tmp_path / "lake" / "shop" / "entries"
        deadline = time.monotonic() + 300
        while not list(entries.rglob("*.parquet")) and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        killed = kill_tree(cluster.processes[0].pid)
        assert len(killed) >= 2, "a worker and its executor"
        code, output = ended(running)
    assert code == 0, output
    assert EQUAL in output


def kill_tree(process: int) -> list[int]:
    """Kill a process and all below it; return their ids."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    tree = [process]
    for one in tree:
        tree += [child for child, parent in parents.items() if parent == one]
    for one in tree:
        os.kill(one, signal.SIGKILL)
    return tree


def test_a_healthy_cluster_is_looked_at_in_a_moment(standalone: str, tmp_path: Path) -> None:
    found = looked(tmp_path, standalone, {})
    assert found["error"] == "", found
    assert found["cores"] == 2
    assert found["again"] < BUSY * 1, "the first look also starts the Python that the first job would start"


WRONG = {
    "a python that is not there": ("ExecutorPythonError", "there is no such file on the executors"),
    "a python of another version": ("ExecutorVersionError", "run Python 3.12"),
    "packages that are missing": ("ExecutorPackagesError", "msgspec is missing, ptars is missing"),
    "a python without Arrow": ("ExecutorPackagesError", "pyarrow is missing"),
    "a python that ends at once": ("ExecutorPythonError", "it ends before the first task"),
    "executors that are too large": ("NoExecutorsError", "each with 1 core and 64g of memory"),
}


def wrong(kind: str, folder: Path) -> dict[str, str]:
    """The settings of a set-up that is wrong."""
    match kind:
        case "a python that is not there":
            python = folder / "gone" / "python"
        case "a python of another version":
            python = python_of_another_version(folder / "other")
        case "packages that are missing":
            python = python_without(folder / "lacking", "ptars", "msgspec")
        case "a python without Arrow":
            python = python_without(folder / "lacking", "pyarrow")
        case "a python that ends at once":
            python = folder / "python"
            python.write_text("#!/bin/sh\nexit 3\n")
            python.chmod(0o755)
        case _:
            waits = "spark.scheduler.maxRegisteredResourcesWaitingTime"
            return {"spark.executor.memory": "64g", "spark.executor.cores": "1", waits: "10s"}
    return {"spark.pyspark.python": str(python)}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_set_up_ends_with_its_sentence(kind: str, standalone: str, tmp_path: Path) -> None:
    found = looked(tmp_path, standalone, wrong(kind, tmp_path))
    error, said = WRONG[kind]
    assert (found["error"], said in found["sentence"]) == (error, True), found
    assert found["failed"] < BUSY * 10, "an executor was there, or its time is over"


@pytest.mark.parametrize("python", real_pythons(), ids=lambda path: path.parents[1].name)
def test_a_real_python_of_another_version(python: Path, standalone: str, tmp_path: Path) -> None:
    found = looked(tmp_path, standalone, {"spark.pyspark.python": str(python)})
    assert found["error"] == "ExecutorVersionError", found


def test_the_command_and_the_run_in_dagster_say_the_sentence(
    standalone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checkout(tmp_path, standalone, **wrong("a python that is not there", tmp_path))
    code, output = ended(started(tmp_path, "dts_assets", "run", "--config", str(config)))
    assert code == 13, output
    assert (
        f"Spark's executors cannot start their Python {tmp_path / 'gone' / 'python'}: there is no such file" in output
    )
    assert "Traceback" not in output
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster_home"))
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster_home")) as instance:
        (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
    assert run.tags[CANNOT_BE_RETRIED] == "ExecutorPythonError"


def test_a_master_that_is_not_there_is_said_before_dagster_starts(tmp_path: Path) -> None:
    config = checkout(tmp_path, "spark://127.0.0.1:1")
    code, output = ended(started(tmp_path, "dts_assets", "run", "--config", str(config)))
    assert code == 13, output
    assert "No Spark answers at spark://127.0.0.1:1: connection refused." in output
