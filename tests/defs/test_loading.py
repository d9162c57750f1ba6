"""Definitions load in every Dagster process: without a network, a JVM or an engine, and in little time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    from tests.defs.projects import Project

LOAD = """
import gc, json, socket, subprocess, sys, time

began = time.process_time()
import dagster
dagster_took = time.process_time() - began

def refuse(*_, **__):
    raise AssertionError("definitions reach for the network or start a process")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
subprocess.Popen = refuse

began = time.process_time()
from dts_assets.definitions import defs
keys = defs.resolve_asset_graph().get_all_asset_keys()
took = time.process_time() - began

engines = ("pyspark", "py4j", "pyiceberg", "pyarrow", "pandas", "numpy", "ptars", "dagster_pyspark", "google.protobuf.pyext")
runs = ("dts_assets.model.ledger_rows", "dts_assets.wire.ddl", "dts_assets.stages", "dts_assets.flows.reports", "tenacity")
print(json.dumps({
    "keys": len(keys), "engines": [name for name in engines if name in sys.modules], "dagster": dagster_took, "beyond": took,
    "runs": [name for name in runs if name in sys.modules], "collects": gc.isenabled(), "kept": gc.get_freeze_count(),
}))
"""

TABLES = 300


def test_definitions_load_without_network_jvm_or_engine_and_quickly(project: Project) -> None:
    columns = [("id", "int", True), *((f"c{number}", "string", False) for number in range(20))]
    project.register({TableId("shopdb", "", f"t{number:03d}"): columns for number in range(TABLES)})
    environment = {**os.environ, "DTS_ASSETS_CONFIG": str(project.config)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["keys"] == 4 + 2 * TABLES
    assert found["engines"] == []
    assert found["runs"] == []  # modules that runs alone need, of which each costs every process a few milliseconds
    assert found["collects"]
    assert found["kept"] > 100_000  # objects that no look for garbage comes to again
    # Seconds of this process's own, so that a busy machine does not count; a slow one is allowed what Dagster takes there.
    assert found["beyond"] < max(2.0, found["dagster"]), found
    assert not (project.folder / "lake").exists()
