"""Every benchmark runs to its last line, on as little as it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.format_traffic import FORMATS
from benchmarks.pairs import OWN_FIGURES, own_costs

HOUSE = Path(__file__).parents[2]
TINY: dict[str, list[str]] = {
    "decode": ["--case", "2t-30c-20r", "--megabytes", "1", "--turns", "1"],
    "decode_json": ["--case", "15c-20r", "--megabytes", "1", "--turns", "1"],
    "documents": ["--megabytes", "1", "--turns", "1", "--documents", "500", "--changes", "50"],
    "decode_avro": ["--case", "15c-1t", "--megabytes", "1", "--turns", "1"],
    "reassembly": ["--case", "split", "--megabytes", "2", "--turns", "1"],
    "truth": ["--megabytes", "1", "--tables", "2", "--turns", "1"],
    "memory": ["--case", "chunk-16", "--megabytes", "1"],
    "window": ["--megabytes", "1", "--tables", "1", "--turns", "1", "--format", "dts-protobuf"],
    "backfill": ["--megabytes", "1", "--tables", "1", "--windows", "2"],
    "source": ["--megabytes", "1", "--turns", "1"],
    "startup": ["--case", "assets-20", "--turns", "1"],
    "definitions": ["--case", "tables-1000", "--turns", "1"],
    "snapshot": ["--changes", "3000", "--rows", "2000", "--times", "1", "--commits", "1"],
    "many_tables": ["--tables", "4", "--changing", "2", "--megabytes", "0.2", "--windows", "2"],
    "thousand_tables": ["--tables", "4", "--megabytes", "0.2"],
    "many_windows": ["--rows", "2000", "--changes", "100", "--windows", "2"],
    "moments": ["--rows", "3000", "--turns", "1"],
    "flink": ["--case", "20r", "--changes", "3000", "--turns", "1"],
    "copies": ["--rows", "2000", "--chunk-rows", "1000", "--turns", "1"],
    "sums": ["--megabytes", "1", "--tables", "2", "--turns", "1"],
    "verification": ["--tables", "3", "--rows", "300", "--turns", "1"],
    "age": ["--days", "5", "--partitions", "2", "--turns", "1"],
}
SPARK, KAFKA = pytest.mark.spark, pytest.mark.kafka
LONG = pytest.mark.long
MARKS = {
    "memory": [LONG],
    "documents": [SPARK, LONG],
    "window": [SPARK, LONG],
    "backfill": [SPARK, LONG],
    "snapshot": [SPARK, LONG],
    "many_tables": [SPARK, LONG],
    "thousand_tables": [SPARK, LONG],
    "many_windows": [SPARK, LONG],
    "source": [SPARK, KAFKA, LONG],
    "flink": [SPARK, LONG],
    "copies": [SPARK, LONG],
}
LIVE = {
    "pipeline": ["--seconds", "5", "--rate", "200", "--tables", "4"],
    "freshness": ["--seconds", "15", "--rate", "100", "--tables", "4", "--window", "1m"],
}


def run(name: str, options: list[str]) -> dict[str, Any]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DTS_ASSETS_CONFIG")
    }
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", *options]
    done = subprocess.run(command, cwd=HOUSE, env=environment, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert last.keys() == {"benchmark", "ratios", "figures"}
    assert last["benchmark"] == name
    assert last["ratios"]
    assert last["figures"]
    assert all(ratio >= 0 for ratio in last["ratios"].values())
    assert bool(own_costs(name, last["figures"])) is (name in OWN_FIGURES), "what make bench-pairs compares is there"
    return last


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in TINY])
def test_it_runs(name: str) -> None:
    run(name, TINY[name])


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.database
@pytest.mark.kafka
@pytest.mark.parametrize("name", LIVE)
def test_one_with_a_live_pipeline_runs(name: str) -> None:
    run(name, LIVE[name])


@pytest.mark.long
@pytest.mark.spark
def test_a_window_of_each_format_is_timed() -> None:
    chosen = [option for name in sorted(FORMATS) for option in ("--format", name)]
    assert run("window", [*chosen, "--megabytes", "1", "--turns", "1"])["ratios"].keys() == FORMATS.keys()


@pytest.mark.long
@pytest.mark.spark
def test_a_cold_window_is_timed() -> None:
    found = run("startup", ["--case", "cold-window", "--turns", "1"])
    assert found["ratios"].keys() == {"cold-window"}


def test_every_benchmark_has_its_run_here() -> None:
    commands = {
        path.stem for path in (HOUSE / "benchmarks").glob("[!_]*.py") if '__name__ == "__main__"' in path.read_text()
    }
    assert commands - {"pairs"} == {*TINY, *LIVE}, "pairs runs the others; tests/benchmarks/test_pairs.py tests it"
