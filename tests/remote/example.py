"""The example through Dagster, judged by the database's dump: ``python -m tests.remote.example CONFIG [share]``.

With ``share`` the changes of every snapshot are shared out over tasks, as many changes are; the example is small enough for
single tasks otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dts_assets.errors import DtsAssetsError
from dts_assets.flows.snapshot_jobs import Merge
from dts_emulator.commands.demo_run import run_demo


def main() -> int:
    """The command."""
    if sys.argv[2:] == ["share"]:
        Merge.is_small = False  # type: ignore[assignment,method-assign]
    try:
        return run_demo(Path(sys.argv[1]))
    except DtsAssetsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
