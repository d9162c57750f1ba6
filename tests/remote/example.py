"""The example through Dagster, judged by the database's dump: ``python -m tests.remote.example CONFIG [merge]``.

With ``merge`` Spark merges every snapshot, so that executors load the catalog's classes; the example is small enough for tasks
to do it otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dts_assets.errors import DtsAssetsError
from dts_assets.flows import snapshots
from dts_emulator.commands.demo_run import run_demo


def main() -> int:
    """The command."""
    if sys.argv[2:] == ["merge"]:
        snapshots.REFRESH_ROWS = -1
    try:
        return run_demo(Path(sys.argv[1]))
    except DtsAssetsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
