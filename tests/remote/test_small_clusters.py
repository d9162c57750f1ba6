"""Spark Connect and a local cluster make the tables of a small pipeline, equal to those that are made without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.this_process import this_process
from tests.flows.harness import SYSTEM, Bench
from tests.flows.in_process import bench_in_process
from tests.flows.over_connect import location
from tests.flows.short import in_window, items, three_windows
from tests.flows.source import write_capture
from tests.remote.small_pipeline import CONNECT, NAME, WINDOWS, open_small

ROOT = Path(__file__).resolve().parents[2]
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
TABLES = ("items", "orders")
pytestmark = [pytest.mark.more, pytest.mark.spark, pytest.mark.timeout(600)]

Rows = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Expected:
    """A capture, and every row of every table that the flows make of it in one process."""

    capture: Path
    rows: Rows


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    folder = tmp_path_factory.mktemp("expected")
    messages = [
        message
        for message in three_windows(*map(items, TABLES)).messages
        if any(in_window(message, number) for number in range(WINDOWS))
    ]
    capture = write_capture(folder / "capture", messages)
    harness = open_small(bench_in_process(folder, NAME), capture)
    harness.all()
    return Expected(capture, harness.everything())


def made_on(spark: str, folder: Path, capture: Path) -> dict[str, Any]:
    """What the command says that made the tables on a Spark."""
    unwanted = ("SPARK_REMOTE", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    done = subprocess.run(
        [sys.executable, "-m", "tests.remote.small_pipeline", str(folder), str(capture), spark],
        cwd=ROOT, env={name: value for name, value in os.environ.items() if name not in unwanted},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def differing(found: Rows, expected: Rows) -> list[str]:
    """The tables that only one of them has, and those with other rows."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


@pytest.mark.parametrize("spark", [CONNECT, LOCAL_CLUSTER])
def test_tables_are_those_that_are_made_without_spark(spark: str, expected: Expected, tmp_path: Path) -> None:
    said = made_on(spark, tmp_path, expected.capture)
    assert said == {"cores": 2, "small": len(TABLES), "shared": len(TABLES)}
    made = open_small(Bench(this_process(), location(tmp_path), tmp_path, NAME), expected.capture)
    assert differing(made.everything(), expected.rows) == []
    assert made.settle() == 0, "nothing is missing, and the sums of the snapshots are right"


def test_the_comparison_finds_a_row_more_a_row_less_and_a_table_less(expected: Expected) -> None:
    tables = {f"{layer}.bank.{name}" for layer in ("changelog", "snapshot") for name in TABLES}
    assert expected.rows.keys() == {*SYSTEM, *tables}
    filled = [name for name, rows in expected.rows.items() if rows]
    assert len(filled) >= 8
    for name in filled:
        rows = expected.rows[name]
        assert differing({**expected.rows, name: [*rows, rows[0]]}, expected.rows) == [name]
        assert differing({**expected.rows, name: rows[1:]}, expected.rows) == [name]
        without = {other: rows for other, rows in expected.rows.items() if other != name}
        assert differing(without, expected.rows) == [name]
