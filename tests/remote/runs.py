"""A run of a subscription in a process of its own, without a JVM, on the lake that its input names; it prints what it waits for.

    python -m tests.remote.runs FOLDER

``FOLDER`` has ``lake.json``, the capture, and gets the file ``go`` when all processes shall begin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dts_assets.flows.lease_keeper as keepers
from dts_assets.errors import DtsAssetsError
from dts_assets.flows import tables
from dts_assets.flows.find_work import find_work
from dts_assets.flows.tables_plan import plan_tables
from dts_assets.store import processes
from dts_assets.store.catalog import LakeLocation
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import InProcess
from tests.flows.short import LANES

NAME = "remote"


def open_remote(folder: Path) -> Harness:
    """Open the subscription of a folder."""
    lake = json.loads((folder / "lake.json").read_text())
    session: Any = InProcess()
    bench = Bench(session, LakeLocation(lake["warehouse"], lake["properties"]), folder, NAME)
    window = {"end": border(3), "live": True}
    return bench.open(folder / "capture", name=lake["name"], partitions=LANES, window=window, complete=False)


def run_once(harness: Harness, *, live: bool) -> None:
    """Do what there is to do, open windows only if ``live``."""
    before = {row.window.start: row for row in harness.pipeline.ledger.cuts()}
    work = find_work(harness.pipeline)
    for run in (work if live else work.without_live).ingest_runs():
        if not run.entries_only:
            harness.raw_of(run.span)
        harness.entries_of(run.span)
    with pytest.MonkeyPatch.context() as patch:
        # To make a window again takes a Spark, so nothing is made that the other run has made since this one asked.
        patch.setattr(tables, "plan_tables", lambda *args, **_: plan_tables(*args, before_waiting=before))
        for windows in find_work(harness.pipeline).tables_runs():
            harness.tables_of(windows)


def main() -> int:
    """Run until nothing is left, or for some rounds; errors that pass by themselves are waited out, as Dagster does."""
    folder, rounds, behind, kill_at = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    # A machine whose clock is behind or ahead: only the observer's own clock may count.
    setattr(keepers, "elapsed", lambda: processes.elapsed() + behind)  # noqa: B010
    if kill_at >= 0:
        _die_at_commit(kill_at)
    harness = open_remote(folder)
    while not (folder / "go").exists():
        time.sleep(0.01)
    for _ in range(rounds):
        try:
            run_once(harness, live=True)
        except DtsAssetsError as error:
            if not (error.retriable or type(error).__name__ == "NotReadyError"):
                raise
            sys.stdout.write(f"REFUSED {error}\n")
        for line in harness.lines:
            sys.stdout.write(f"{line}\n")
        harness.lines.clear()
    return 0


def _die_at_commit(number: int) -> None:
    from pyiceberg.table import Table

    real, seen = Table._do_commit, [0]

    def dying(table: Table, updates: Any, requirements: Any) -> None:
        seen[0] += 1
        if seen[0] > number:
            os.kill(os.getpid(), signal.SIGKILL)
        real(table, updates, requirements)

    setattr(Table, "_do_commit", dying)  # noqa: B010


if __name__ == "__main__":
    sys.exit(main())
