"""``python -m tests.flows.over_connect FOLDER CAPTURE``: the flows on a Spark Connect server of their own, in a lake in FOLDER.

A process of its own, because one process cannot hold a classic session and one of Connect. The last line says how
many snapshots were made by single tasks and by shares, and how many cores the server has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dts_assets.flows import executors, snapshot_jobs, snapshot_merges
from dts_assets.flows.executors import count_cores, require_executors
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.session import open_session
from tests.flows.harness import Bench
from tests.flows.history import WINDOWS

NAME = "bank"
CONFIGURATION = {"lake": {"warehouse": "./lake"}, "spark": {"conf": {"spark.sql.shuffle.partitions": "2"}}}


def location(folder: Path) -> LakeLocation:
    """The lake."""
    return LakeLocation(str(folder / "lake"))


@contextmanager
def server_process(config: Path, log: Path) -> Iterator[str]:
    """Yield the address of a server in a child process, which ends with this process even if that is killed."""
    command = [sys.executable, "-m", "dts_assets", "spark-server", "--config", str(config), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, "--end-with-input"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True, env=environment,
        )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = next((line.strip() for line in process.stdout if line.startswith("sc://")), None)
        assert address is not None, f"{log} says why"
        try:
            yield address
        finally:
            process.stdin.close()


@contextmanager
def counted_merges() -> Iterator[dict[str, int]]:
    """Yield how many snapshots were made by single tasks (``small``) and by shares (``shared``) since the block began."""
    written = {"small": 0, "shared": 0}
    small, shared = snapshot_merges._merge_small, snapshot_merges._merge_shared

    def counted_small(pipeline: Any, layer: Any, merges: Any, session: Any) -> Any:
        written["small"] += len(merges)
        return small(pipeline, layer, merges, session)

    def counted_shared(*args: Any) -> Any:
        written["shared"] += 1
        return shared(*args)

    with (
        patch.object(snapshot_merges, "_merge_small", counted_small),
        patch.object(snapshot_merges, "_merge_shared", counted_shared),
    ):
        yield written


def main() -> int:
    """The command."""
    folder, capture = map(Path, sys.argv[1:])
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": str(capture), "complete": True}},
        "partitions": 1,
        "window": {"every": "1h", "start": "2026-01-05T00:00Z"},
    }
    config = folder / "pipeline.yaml"
    config.write_text(json.dumps({**CONFIGURATION, "subscriptions": {"any": subscription}}))
    open_catalog(location(folder))
    with counted_merges() as written, server_process(config, folder / "server.log") as address:
        session = open_session(location(folder), master=address)
        try:
            require_executors(session, address, {})
            with patch.object(executors, "local_cores", return_value=None):  # as if its master was a cluster
                cores = count_cores(session)
            harness = Bench(session, location(folder), folder, "connect").open(capture, name=NAME)
            for number in reversed(range(WINDOWS)):
                harness.all(number)
            with patch.object(snapshot_jobs.Merge, "is_small", False):  # as if there were many changes
                harness.tables(0)
                harness.settle()
        finally:
            session.stop()
    sys.stdout.write(json.dumps({"address": address, "cores": cores, **written}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
