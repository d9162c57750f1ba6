"""The time that a person waits for a fresh process: many definitions, or one window from nothing.

``python -m benchmarks.startup`` prints a table and, as its last line, one JSON object. Every turn is a fresh process of ours and
one of the peer's, by turns; what counts is wall time from the start of the process to its end, the least of several turns.

- ``assets-N``: a configuration whose registry has N/2 tables of 15 columns, so N table assets, loaded into a repository as every
  Dagster process does. The peer imports Dagster and makes as many bare ``dg.AssetSpec`` without deps, partitions or metadata.
- ``cold-window``: raw_envelopes, entries, changelogs and snapshots of one window of the example (four Kafka partitions, twelve
  tables) with an empty lake and an empty instance, by the two jobs, in one process as ``dts-assets run`` does. The peer imports
  Dagster, opens the same Spark session and collects ``spark.range(1)``: less than any Spark job can take.

A ratio is the peer's time by ours: 1 is no time of our own. ``figures`` has both in seconds, and for ``assets-N`` ``beyond``:
what is left of ours after ``import dagster``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import Options, finish

HOUSE = Path(__file__).resolve().parent.parent
WINDOW = "2026-01-05-00:00"
CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {capture}, complete: true}}}}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z, end: 2026-01-05T08:00Z}}
    tables: {{include: ["shopdb.*"]}}
"""


def load_ours(_: str) -> dict[str, float]:
    """Load the definitions of the configuration that the environment names."""
    began = time.perf_counter()
    import dagster  # noqa: F401

    imported = time.perf_counter()
    from dts_assets.definitions import defs

    found = len(defs.get_repository_def().asset_graph.get_all_asset_keys())
    return {"assets": found, "beyond": time.perf_counter() - imported, "import": imported - began}


def load_bare(assets: str) -> dict[str, float]:
    """Load as many bare specs."""
    import dagster as dg

    specs = [dg.AssetSpec(["shop", "table", str(number)]) for number in range(int(assets))]
    repository = dg.Definitions(specs).get_repository_def()
    return {"assets": len(repository.asset_graph.get_all_asset_keys())}


def run_window(_: str) -> dict[str, float]:
    """Run both jobs of one window.

    Raises:
        SystemExit: A job failed.
    """
    import dagster as dg

    from dts_assets.definitions import defs
    from dts_assets.defs.partitions import RANGE_END, RANGE_START

    cells = {RANGE_START: f"p00|{WINDOW}", RANGE_END: f"p03|{WINDOW}"}
    with dg.DagsterInstance.from_config(os.environ["DAGSTER_HOME"]) as instance:
        for job, tags in (("shop_ingest", cells), ("shop_tables", {RANGE_START: WINDOW, RANGE_END: WINDOW})):
            if not defs.resolve_job_def(job).execute_in_process(instance=instance, tags=tags).success:
                raise SystemExit(f"{job} failed")
    return {}


def run_trivial(_: str) -> dict[str, float]:
    """Do the least that a Dagster process with Spark can do."""
    import dagster  # noqa: F401

    from dts_assets.flows.pipeline import lake_location
    from dts_assets.settings import load_settings
    from dts_assets.store.session import open_session

    assert open_session(lake_location(load_settings())).range(1).collect()[0][0] == 0
    return {}


CHILDREN: Mapping[str, Callable[[str], dict[str, float]]] = {
    "load-ours": load_ours,
    "load-bare": load_bare,
    "run-window": run_window,
    "run-trivial": run_trivial,
}


@dataclass(frozen=True, slots=True)
class Case:
    """Our child process and the peer's; ``tables`` are made up, 0 stands for the example's own."""

    name: str
    ours: str
    peer: str
    tables: int


CASES = (
    *(Case(f"assets-{2 * tables}", "load-ours", "load-bare", tables) for tables in (10, 100, 1000)),
    Case("cold-window", "run-window", "run-trivial", 0),
)


def prepare(folder: Path, tables: int) -> dict[str, str]:
    """Make a configuration, its registry and an empty instance, and return the environment that names them."""
    from dts_assets.model.tables import TableId
    from dts_assets.settings import load_settings
    from dts_assets.store.registry import RegisteredColumn, RegisteredTable, merge_registry

    home = folder / "home"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text((HOUSE / "dagster_home" / "dagster.yaml").read_text())
    config = folder / "pipeline.yaml"
    config.write_text(CONFIGURATION.format(capture=HOUSE / "examples" / "shop"))
    registry = load_settings(config).subscriptions["shop"].registry_path
    registry.parent.mkdir(parents=True, exist_ok=True)
    if tables:
        names = [("id", "bigint", True), *((f"column_{number}", "string", False) for number in range(14))]
        columns = tuple(RegisteredColumn(name, kind, kind, is_key) for name, kind, is_key in names)
        merge_registry(
            registry,
            [RegisteredTable(TableId("shopdb", "", f"table_{number:04d}"), columns) for number in range(tables)],
        )
    else:
        registry.write_text((HOUSE / "registry" / "shop.json").read_text())
    return {**os.environ, "DAGSTER_HOME": str(home), "DTS_ASSETS_CONFIG": str(config)}


def timed(child: str, environment: Mapping[str, str], tables: int) -> tuple[float, dict[str, float]]:
    """Return the wall seconds of a fresh process, and its own figures.

    Raises:
        SystemExit: The process failed.
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.startup", "--child", child, str(2 * tables)]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=HOUSE, env=dict(environment), capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{child} failed:\n{done.stderr[-2000:]}")
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took, said


def measure(case: Case, *, turns: int) -> dict[str, float]:
    """Return the least seconds of ours and of the peer; they run in turns.

    Raises:
        SystemExit: A process loaded other assets than it should.
    """
    best = {"seconds": float("inf"), "peer_seconds": float("inf")}
    for _ in range(turns):
        for name, child in (("peer_seconds", case.peer), ("seconds", case.ours)):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                took, said = timed(child, prepare(Path(folder) / "project", case.tables), case.tables)
            best[name] = min(best[name], took)
            if "beyond" in said:
                if said["assets"] != 2 * case.tables + 4:
                    raise SystemExit(f"{case.name}: {said['assets']} assets were loaded")
                best["beyond"] = min(best.get("beyond", float("inf")), said["beyond"])
    return best


def report(figures: Mapping[str, Mapping[str, float]]) -> None:
    """Print the last line."""
    ratios = {name: round(one["peer_seconds"] / one["seconds"], 3) for name, one in figures.items()}
    rounded = {name: {what: round(seconds, 3) for what, seconds in one.items()} for name, one in figures.items()}
    finish("startup", ratios, rounded)


def main() -> int:
    """Run the command."""
    options = Options("startup", __doc__)
    options.add_cases(case.name for case in CASES)
    options.add_turns(3)
    options.add_argument("--child", nargs=2, metavar=("NAME", "ASSETS"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        name, assets = chosen.child
        print(json.dumps(CHILDREN[name](assets)))
        return 0
    print(f"startup: wall seconds of a fresh process, least of {chosen.turns}; load {os.getloadavg()[0]:.1f}")
    print(f"{'case':>12} {'peer':>8} {'ours':>8} {'ratio':>7}  beyond import dagster")
    figures = {}
    for case in CASES:
        if not chosen.case or case.name in chosen.case:
            one = figures[case.name] = measure(case, turns=chosen.turns)
            beyond = f"{one['beyond']:.2f}" if "beyond" in one else ""
            ratio = one["peer_seconds"] / one["seconds"]
            print(
                f"{case.name:>12} {one['peer_seconds']:8.2f} {one['seconds']:8.2f} {ratio:7.2f}  {beyond}", flush=True
            )
    report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
