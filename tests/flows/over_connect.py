"""``python -m tests.flows.over_connect FOLDER CAPTURE``: the flows on a Spark Connect server of their own, in a lake in FOLDER.

A process of its own, because one process cannot hold a classic session and one of Connect. The windows are made in an order that
has Spark merge, too. The last line says how many snapshots Arrow and Spark wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dts_assets.flows import snapshots
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.connect import server_process
from dts_assets.store.session import open_session
from tests.flows.harness import Bench
from tests.flows.history import WINDOWS

NAME = "bank"
CONFIGURATION = {"lake": {"warehouse": "./lake"}, "spark": {"conf": {"spark.sql.shuffle.partitions": "2"}}}


def location(folder: Path) -> LakeLocation:
    """The lake."""
    return LakeLocation(str(folder / "lake"))


def main() -> int:
    """The command."""
    folder, capture = map(Path, sys.argv[1:])
    written = {"arrow": 0, "spark": 0}
    commit, write = snapshots._commit, snapshots._write

    def counted_commit(*args: object) -> None:
        written["arrow"] += 1
        commit(*args)  # type: ignore[arg-type]

    def counted_write(*args: object) -> object:
        written["spark"] += 1
        return write(*args)  # type: ignore[arg-type]

    snapshots._commit, snapshots._write = counted_commit, counted_write  # type: ignore[assignment]
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": str(capture), "complete": True}},
        "partitions": 1,
        "window": {"every": "1h", "start": "2026-01-05T00:00Z"},
    }
    config = folder / "pipeline.yaml"
    config.write_text(json.dumps({**CONFIGURATION, "subscriptions": {"any": subscription}}))
    open_catalog(location(folder))
    with server_process(config, log=folder / "server.log") as address:
        session = open_session(location(folder), master=address)
        try:
            harness = Bench(session, location(folder), folder, "connect").open(capture, name=NAME)
            for number in reversed(range(WINDOWS)):
                harness.all(number)
            harness.settle()
        finally:
            session.stop()
    sys.stdout.write(json.dumps({"address": address, **written}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
