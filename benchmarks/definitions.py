"""The load of a code location with very many tables, against as many bare asset specs.

``python -m benchmarks.definitions`` prints a table and, as its last line, one JSON object. The registry of a configuration has
1,000 or 10,000 tables of 15 columns, each with a changelog and a snapshot. The peer is as many ``dg.AssetSpec``, with equal keys,
groups and partitions definitions and nothing else. Both run by turns, each in fresh processes; what counts are CPU seconds of the
whole process, imports included, the least of several turns.

- ``tables-N``: until the repository is there, as every process of Dagster loads it.
- ``tables-N-described``: until the description is written, too, that a code server sends to the web server and the daemon. Ours
  has the columns, owners, kinds and tags of every asset.

Ratio: our cost by the peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command import Options, finish, load, say
from benchmarks.startup import HOUSE, prepare

if TYPE_CHECKING:
    import dagster as dg

OURS, PEER = "ours", "peer"
LOADED, DESCRIBED = "loaded", "described"
CASES = {f"tables-{tables}": tables for tables in (1_000, 10_000)}


def _ours() -> dg.Definitions:
    from dts_assets.definitions import defs

    return defs


def _peer(tables: int) -> dg.Definitions:
    """Return bare specs with the keys, groups and partitions that our assets have."""
    import dagster as dg

    kafka = dg.StaticPartitionsDefinition([f"p{number:02}" for number in range(4)])
    hours = dg.TimeWindowPartitionsDefinition(
        start="2026-01-05-00:00", end="2026-01-05-08:00", cron_schedule="0 * * * *", fmt="%Y-%m-%d-%H:%M"
    )
    cells = dg.MultiPartitionsDefinition({"kafka_partition": kafka, "window": hours})
    specs = [dg.AssetSpec(["shop", name], group_name=f"shop_{name}") for name in ("topic", "maintenance")]
    specs += [
        dg.AssetSpec(["shop", name], group_name=f"shop_{name}", partitions_def=cells)
        for name in ("raw_envelopes", "entries")
    ]
    specs += [
        dg.AssetSpec(["shop", layer, "shopdb", f"table_{number:04d}"], group_name=f"shop_{layer}", partitions_def=hours)
        for number in range(tables)
        for layer in ("changelog", "snapshot")
    ]
    return dg.Definitions(specs)


def load_in_this_process(which: str, tables: int) -> dict[str, float]:
    """Load definitions and describe them, and return the CPU seconds of this process when each was done."""
    from dagster._core.remote_representation.external_data import RepositorySnap
    from dagster._serdes import serialize_value

    repository = (_ours() if which == OURS else _peer(tables)).get_repository_def()
    assets = len(repository.asset_graph.get_all_asset_keys())
    loaded = time.process_time()
    described = len(serialize_value(RepositorySnap.from_def(repository)))
    return {"assets": assets, "bytes": described, LOADED: loaded, DESCRIBED: time.process_time()}


def _in_fresh_process(which: str, tables: int, environment: Mapping[str, str]) -> dict[str, float]:
    """Return what a fresh process says of itself.

    Raises:
        SystemExit: The process failed, or loaded other assets than it should.
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.definitions", "--child", which, str(tables)]
    done = subprocess.run(command, cwd=HOUSE, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{which} failed:\n{done.stderr[-2000:]}")
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if said["assets"] != 2 * tables + 4:
        raise SystemExit(f"{which}: {said['assets']} assets were loaded for {tables} tables")
    return said


def measure(tables: int, *, turns: int) -> dict[str, dict[str, float]]:
    """Return the least CPU seconds of ours and of the peer, and the bytes of their descriptions."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = prepare(Path(folder) / "project", tables)
        for _ in range(turns):
            for which in (PEER, OURS):
                said = _in_fresh_process(which, tables, environment)
                before = found.get(which, said)
                found[which] = {name: min(value, before[name]) for name, value in said.items()}
    return found


def main() -> int:
    """Run the command."""
    options = Options("definitions", __doc__)
    options.add_cases(CASES)
    options.add_turns(3)
    options.add_argument("--child", nargs=2, metavar=("WHICH", "TABLES"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        print(json.dumps(load_in_this_process(chosen.child[0], int(chosen.child[1]))))
        return 0
    say(f"definitions: CPU seconds of a fresh process, least of {chosen.turns}; load {os.getloadavg()[0]:.1f}")
    figures, ratios = {}, {}
    for name in chosen.case or CASES:
        one = figures[name] = measure(CASES[name], turns=chosen.turns)
        for case, what in ((name, LOADED), (f"{name}-described", DESCRIBED)):
            ratios[case] = round(one[OURS][what] / one[PEER][what], 2)
            say(f"{case}: ours {one[OURS][what]:.2f} s, peer {one[PEER][what]:.2f} s, ratio {ratios[case]:.2f}")
    finish("definitions", ratios, {**figures, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
