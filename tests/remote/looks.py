"""A session on a cluster, and the look at its executors as runs take it.

    python -m tests.remote.looks FOLDER MASTER CONF

``CONF`` are Spark's settings as JSON. The last line says as JSON what came of it and how many seconds each step took: to open
the session, to get an executor (given up after some seconds), to look, and to look once more.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dts_assets.errors import DtsAssetsError
from dts_assets.flows import executors
from dts_assets.flows.executors import count_cores, explained_start, require_executors
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.session import open_session, spark_conf
from dts_emulator.machine.waiting import wait_until

PATIENCE = 15.0


def main() -> int:
    """Look, and say so."""
    folder, master, own = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    lake = LakeLocation(str(folder / "lake"))
    open_catalog(lake)
    told: dict[str, object] = {"error": "", "sentence": ""}
    began = time.monotonic()
    try:
        with explained_start(master):
            session = open_session(lake, own, master=master)
        told["opened"] = time.monotonic() - began
        began = time.monotonic()
        wait_until(lambda: executors._has_executors(session), seconds=PATIENCE)
        told["given"] = time.monotonic() - began
        conf = spark_conf(lake, own, master=master)
        for look in ("looked", "again"):
            began = time.monotonic()
            require_executors(session, master, conf)
            told[look] = time.monotonic() - began
        told["cores"] = count_cores(session)
    except DtsAssetsError as error:
        told |= {"error": type(error).__name__, "sentence": str(error), "failed": time.monotonic() - began}
    sys.stdout.write(f"\n{json.dumps(told)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
