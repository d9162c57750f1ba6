"""Two windows of a small pipeline on a Spark of their own: ``python -m tests.remote.small_pipeline FOLDER CAPTURE SPARK``.

SPARK is a master, or ``connect`` for a Spark Connect server that ends with this command. The lake lies in FOLDER. A process of
its own, because one process has one Spark. The last line is a JSON object: the cores that were found, and how many snapshots were
made by single tasks and by shares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from dts_assets.flows import executors, snapshot_jobs
from dts_assets.flows.executors import count_cores, require_executors
from dts_assets.store.catalog import open_catalog
from dts_assets.store.session import open_session, spark_conf
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.over_connect import CONFIGURATION, counted_merges, location, server_process
from tests.flows.short import LANES

CONNECT = "connect"
NAME = "small"
WINDOWS = 2


def open_small(bench: Bench, capture: Path) -> Harness:
    """The subscription, whose grid has two windows."""
    return bench.open(capture, name=NAME, partitions=LANES, window={"end": border(WINDOWS)})


def make_tables(harness: Harness) -> dict[str, int]:
    """Make both windows, the snapshots of the first by single tasks and those of the second by shares, as many changes are."""
    with counted_merges() as written:
        harness.all(0)
        with patch.object(snapshot_jobs.Merge, "is_small", False):
            harness.all(1)
    return written


@contextmanager
def _spark(folder: Path, capture: Path, spark: str) -> Iterator[str]:
    """Yield the address of a server, or the master as it is given."""
    if spark != CONNECT:
        yield spark
        return
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": str(capture), "complete": True}},
        "partitions": LANES,
        "window": {"every": "1h", "start": "2026-01-05T00:00Z"},
    }
    config = folder / "pipeline.yaml"
    config.write_text(json.dumps({**CONFIGURATION, "subscriptions": {"any": subscription}}))
    with server_process(config, folder / "server.log") as address:
        yield address


def main() -> int:
    """The command."""
    folder, capture, chosen = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    lake = location(folder)
    open_catalog(lake)
    own = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    with _spark(folder, capture, chosen) as master:
        session = open_session(lake, {} if chosen == CONNECT else own, master=master)
        try:
            require_executors(session, master, {} if chosen == CONNECT else spark_conf(lake, own, master=master))
            with patch.object(executors, "local_cores", return_value=None):  # as if a server's master was a cluster
                cores = count_cores(session)
            written = make_tables(open_small(Bench(session, lake, folder, NAME), capture))
        finally:
            session.stop()
    sys.stdout.write(json.dumps({"cores": cores, **written}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
