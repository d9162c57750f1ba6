"""``python -m tests.live``: the soak of ``make soak``. Exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from dts_emulator.machine.signals import interrupted_by_signals
from tests.live.soak import default_options, report, soak


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.live", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=900.0, help="of random faults, after each has come alone (default 900)"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: another one each time")
    parser.add_argument("--keep", type=Path, help="a folder to keep lake and logs in (default: a temporary one)")
    parser.add_argument("--no-single-faults", action="store_true", help="begin with random faults at once")
    chosen = parser.parse_args()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    say(f"soak of {chosen.seconds:.0f} s, seed {chosen.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as folder,
        interrupted_by_signals(),
    ):
        found = soak(
            default_options(chosen.keep or Path(folder) / "live", seed=chosen.seed),
            seconds=chosen.seconds,
            say=say,
            one_by_one=not chosen.no_single_faults,
        )
    for line in report(found):
        say(line)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
