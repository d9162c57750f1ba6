"""``python -m tests.remote.demo_by_spark CONFIG``: the demo of a configuration, in which Spark merges every snapshot.

The example's changes are so few that tasks would take them over, and Spark's own catalog would never be asked.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dts_assets.errors import DtsAssetsError
from dts_assets.flows import snapshots
from dts_emulator.commands.demo_run import run_demo


def main() -> int:
    """The command."""
    snapshots.REFRESH_ROWS = -1
    try:
        return run_demo(Path(sys.argv[1]))
    except DtsAssetsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
