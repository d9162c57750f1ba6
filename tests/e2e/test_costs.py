"""What the example and its definitions cost: CPU, memory, events and bytes, each below a bound that a regression exceeds.

Nothing is measured by the clock. CPU seconds are compared with those of a fixed computation in the same process, because they
depend on the machine. A bound is raised together with the figure that was measured, in the commit that explains why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from benchmarks.startup import prepare
from dts_assets.defs.assemble import assemble
from dts_assets.settings import load_settings
from tests.e2e.costs import ROOT, DemoCosts

pytestmark = [
    pytest.mark.more,
    pytest.mark.timeout(900),
    # Dagster reads a property of its own schedules that it has deprecated, to describe them.
    pytest.mark.filterwarnings(
        "ignore:Property .ScheduleDefinition.environment_vars. is deprecated:DeprecationWarning"
    ),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """What was measured, and by how much more it may be."""

    measured: float
    margin: float

    def is_exceeded(self, cost: float) -> bool:
        return cost > self.measured * self.margin


DEMO_CPU = Bound(23.6, 1.5)
"""CPU seconds of the demo by those of the reference computation: 22.5 to 23.6 (18.3 to 19.6 s by 0.81 to 0.85 s).

Measured on 2026-11-28, with a load of 4 to 14 on two cores. Machines differ, so half as much again is allowed.
"""

WORKER_PEAK = Bound(461, 1.15)
"""Megabytes of a Python worker of Spark in the demo: 409 to 461 on 2026-11-28, as it is seen ten times a second."""

CHUNK_PEAK = Bound(457, 1.15)
"""Megabytes of a worker that decodes chunks of 16 MB without Spark, on 2026-11-28.

They were 422 to 457 for changelogs and 365 to 397 for the other stages. The promise is 0.6 GB and six times the chunk: 701 MB.
"""

CHUNK_STAGES = {"raw", "entries", "changelogs"}

EVENTS_BY_PARTITION = Bound(3.29, 1.1)
"""Rows of Dagster's event log by materializations of a partition: 843 by 256 on 2026-11-29.

They were 682 while the checks `schema` and `paused_tables` stood once for all tables. Now there are 180 results of them: two for
each of the 90 pairs of a table and a window in which the table has changes.

One or two rows are messages without a type that depend on the time.
"""

MATERIALIZATIONS = 256
"""Partitions of assets of the example: 8 windows, of 4 Kafka partitions for 2 assets and of 12 tables with 2 assets."""

TYPED_EVENTS = Bound(830, 1.0)
"""Events of the demo's runs that have a type: 830 on 2026-11-29; see above."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """The description of a code location that Dagster sends to its web server: its bytes, and how many things it names."""

    size: int
    assets: int
    checks: int
    jobs: int
    sensors: int
    schedules: int


EXAMPLE = Definitions(444_623, assets=28, checks=41, jobs=8, sensors=3, schedules=1)
"""The example, 12 tables with a changelog and a snapshot each: measured on 2026-11-29, without the paths in the text.

Each snapshot has three checks of its own since then. With three for all it was 414,133 bytes.
"""

TABLES_200 = Definitions(3_475_645, assets=404, checks=605, jobs=8, sensors=3, schedules=1)
"""The same subscription with 200 tables of 15 columns: measured on 2026-11-29 (2,771,857 bytes with 8 checks)."""

SIZE_MARGIN = 1.1


def demo_faults(costs: DemoCosts) -> set[str]:
    """The names of what costs more than it may."""
    typed = costs.events - costs.kinds.get("message", 0)
    found = {
        "cpu": DEMO_CPU.is_exceeded(costs.demo / costs.reference),
        "worker": WORKER_PEAK.is_exceeded(costs.worker_peak),
        "events": EVENTS_BY_PARTITION.is_exceeded(costs.events / costs.partitions),
        "typed events": TYPED_EVENTS.is_exceeded(typed),
        "materializations": costs.partitions != MATERIALIZATIONS,
    }
    return {name for name, exceeded in found.items() if exceeded}


def definition_faults(found: Definitions, measured: Definitions) -> set[str]:
    """The names of what there is more or less of than there was, and ``size`` if there are too many bytes."""
    counts = asdict(found).items() - asdict(measured).items()
    too_large = Bound(measured.size, SIZE_MARGIN).is_exceeded(found.size)
    return {name for name, _ in counts if name != "size"} | ({"size"} if too_large else set())


def definitions_of(folder: Path, tables: int) -> Definitions:
    """The definitions of a project with so many tables; 0 stands for those of the example."""
    prepare(folder, tables)
    config = folder / "pipeline.yaml"
    described = RepositorySnap.from_def(assemble(load_settings(config), config).get_repository_def())
    text = serialize_value(described).replace(str(folder), "").replace(str(ROOT), "")
    return Definitions(
        len(text),
        len(described.asset_nodes),
        len(described.asset_check_nodes or ()),
        len(described.job_datas or ()),
        len(described.sensors),
        len(described.schedules),
    )


def in_a_process(*command: str) -> dict[str, Any]:
    """The JSON object that a command of this checkout prints as its last line."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *command],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=850, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.e2e
@pytest.mark.spark
def test_the_demo_costs_what_it_did(tmp_path: Path) -> None:
    costs = DemoCosts(**in_a_process("tests.e2e.costs", str(tmp_path)))
    sys.stdout.write(f"{costs}\n")
    assert demo_faults(costs) == set(), costs


TODAY = DemoCosts(0.83, 19.4, 461.0, 840, 256, {"ASSET_MATERIALIZATION": 256, "message": 10})
"""What was measured, as an example for the bounds."""


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        ({}, set()),
        ({"demo": 2 * TODAY.demo}, {"cpu"}),
        ({"demo": 2 * TODAY.demo, "reference": 2 * TODAY.reference}, set()),
        ({"worker_peak": 2 * TODAY.worker_peak}, {"worker"}),
        ({"events": 2 * TODAY.events}, {"events", "typed events"}),
        ({"events": TODAY.events + 1}, {"typed events"}),
        ({"events": TODAY.events + 128, "kinds": {"message": 138}}, {"events"}),
        ({"events": 2 * TODAY.events, "partitions": 512}, {"typed events", "materializations"}),
        ({"partitions": 255}, {"materializations"}),
    ],
    ids=lambda one: " ".join(sorted(one)) or "nothing",
)
def test_a_bound_of_the_demo_is_exceeded_by_twice_as_much(changed: dict[str, Any], faults: set[str]) -> None:
    assert demo_faults(replace(TODAY, **changed)) == faults


def chunk_faults(peaks: dict[str, float]) -> set[str]:
    """The stages whose peak is beyond the bound."""
    return {stage for stage in CHUNK_STAGES if CHUNK_PEAK.is_exceeded(peaks[stage])}


def test_a_worker_takes_the_memory_that_it_did() -> None:
    said = in_a_process("benchmarks.memory", "--case", "chunk-16", "--megabytes", "32", "--seed", "7")
    peaks = said["figures"]["chunk-16"]
    sys.stdout.write(f"{peaks}\n")
    assert min(peaks[stage] for stage in CHUNK_STAGES) > 100
    assert chunk_faults(peaks) == set(), peaks


@pytest.mark.parametrize("stage", sorted(CHUNK_STAGES))
def test_a_bound_of_memory_is_exceeded_by_twice_as_much(stage: str) -> None:
    peaks = dict.fromkeys(CHUNK_STAGES, CHUNK_PEAK.measured)
    assert chunk_faults(peaks) == set()
    assert chunk_faults({**peaks, stage: 2 * CHUNK_PEAK.measured}) == {stage}


@pytest.mark.parametrize(("tables", "measured"), [(0, EXAMPLE), (200, TABLES_200)], ids=["the example", "200 tables"])
def test_definitions_are_as_large_as_they_were(tables: int, measured: Definitions, tmp_path: Path) -> None:
    found = definitions_of(tmp_path / "project", tables)
    sys.stdout.write(f"{found}\n")
    assert definition_faults(found, measured) == set(), found


def test_twice_as_many_tables_exceed_the_bounds_of_definitions(tmp_path: Path) -> None:
    found = definitions_of(tmp_path / "project", 400)
    assert definition_faults(found, TABLES_200) == {"size", "assets", "checks"}
    for name in ("checks", "jobs", "sensors", "schedules"):
        assert definition_faults(replace(EXAMPLE, **{name: 2 * getattr(EXAMPLE, name)}), EXAMPLE) == {name}
    assert definition_faults(replace(EXAMPLE, size=2 * EXAMPLE.size), EXAMPLE) == {"size"}
