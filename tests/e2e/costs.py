"""What the example costs: ``python -m tests.e2e.costs FOLDER`` runs ``dts-assets demo`` in a project in FOLDER.

The last line is a JSON object, the fields of :class:`DemoCosts`. A process of its own, because it adopts and waits for every
process that the demo starts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.processor_time import cost_of_command, living

ROOT = Path(__file__).resolve().parents[2]
WORKER = "dts_assets.flows.spark_daemon"
"""A part of the command line of Spark's Python workers and of the process that they are forked from."""

_BETWEEN = 0.1


@dataclass(frozen=True, slots=True)
class DemoCosts:
    """CPU seconds, megabytes of a Spark Python worker, and rows of Dagster's event log."""

    reference: float
    """CPU seconds of the reference computation, the mean of a run before the demo and a run after it."""

    demo: float
    """CPU seconds of the demo with all processes that it starts."""

    worker_peak: float
    """The most megabytes that a Python worker of Spark had."""

    events: int
    """The events of all runs."""

    partitions: int
    """The materializations of partitions of assets."""

    kinds: dict[str, int]
    """The events by type."""


def reference_seconds() -> float:
    """Return the CPU seconds of a fixed computation: a loop in Python, and sorting and adding in numpy, in one thread."""
    start = time.process_time()
    words: Counter[str] = Counter()
    for number in range(1_200_000):
        words[str(number * 7919 % 1000)] += number & 3
    assert words["0"] == sum(number & 3 for number in range(1_200_000) if number * 7919 % 1000 == 0)
    values = np.random.default_rng(1).random(2_000_000)
    for _ in range(4):
        values = np.sort(values)[::-1] * 0.5 + np.roll(values, 1)
    assert np.isfinite(values).all()
    return time.process_time() - start


def project(folder: Path) -> dict[str, str]:
    """Make a copy of the project's configuration with a lake and a Dagster home of its own; return the environment of both."""
    shutil.copy(ROOT / "pipeline.yaml", folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    home = folder / "dagster_home"
    home.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    ours = {"DAGSTER_HOME": str(home), "DTS_ASSETS_CONFIG": str(folder / "pipeline.yaml"), "PYTHONPATH": str(ROOT)}
    return {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"} | ours


def high_water_mark(process: int) -> int:
    """Return the most bytes of memory that a process had, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


@contextmanager
def worker_peak() -> Iterator[list[int]]:
    """Yield a list whose one number grows to the most bytes that a Python worker of Spark below this process had."""
    found, done = [0], threading.Event()

    def below(process: int) -> bool:
        while process > 1 and process != os.getpid():
            process = processes[process].parent if process in processes else 0
        return process == os.getpid()

    processes = living()

    def watch() -> None:
        nonlocal processes
        while not done.wait(_BETWEEN):
            processes = living()
            ours = [number for number, one in processes.items() if WORKER in one.command and below(number)]
            found[0] = max(found[0], *map(high_water_mark, ours), 0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def event_kinds(home: Path) -> Counter[str]:
    """Return how many events of each type all runs of a Dagster instance have stored, ``message`` for those without a type."""
    import dagster as dg

    os.environ["DAGSTER_HOME"] = str(home)
    kinds: Counter[str] = Counter()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for run in instance.get_runs():
            for entry in instance.all_logs(run.run_id):
                kinds[entry.dagster_event_type.value if entry.dagster_event_type else "message"] += 1
    return kinds


def demo_costs(folder: Path) -> DemoCosts:
    """Run the demo and measure it."""
    environment = project(folder)
    before = reference_seconds()
    with worker_peak() as peak:
        demo, _ = cost_of_command([sys.executable, "-m", "dts_assets", "demo"], folder=folder, environment=environment)
    reference = (before + reference_seconds()) / 2
    kinds = event_kinds(Path(environment["DAGSTER_HOME"]))
    return DemoCosts(
        reference, demo, peak[0] / 1e6, kinds.total(), kinds["ASSET_MATERIALIZATION"], dict(sorted(kinds.items()))
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(demo_costs(Path(sys.argv[1])))) + "\n")
