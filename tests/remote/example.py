"""The example through Dagster, judged by the database's dump: ``python -m tests.remote.example CONFIG [merge]``.

With ``merge`` Spark merges every snapshot, so that executors load the catalog's classes; the example is small enough for tasks
to do it otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dts_assets.flows import snapshots
from dts_emulator.commands.demo_run import run_demo

if __name__ == "__main__":
    if sys.argv[2:] == ["merge"]:
        snapshots.REFRESH_ROWS = -1
    sys.exit(run_demo(Path(sys.argv[1])))
