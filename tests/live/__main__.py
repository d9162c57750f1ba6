"""``python -m tests.live``: the soak of ``make soak``, a hostile workload, or readers. Exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from dts_emulator.machine.signals import interrupted_by_signals
from tests.live.followers import live_with_followers
from tests.live.followers import report as followers_report
from tests.live.hostile import live_with_hostility
from tests.live.hostile import report as hostile_report
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
    parser.add_argument(
        "--hostile", type=float, help="instead, seconds of a hostile workload, after a quarter as long without"
    )
    parser.add_argument("--followed", type=float, help="instead, seconds in which readers follow the changelogs")
    chosen = parser.parse_args()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    say(f"seed {chosen.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as folder,
        interrupted_by_signals(),
    ):
        options = default_options(chosen.keep or Path(folder) / "live", seed=chosen.seed)
        if chosen.hostile:
            lived = live_with_hostility(options, usual=chosen.hostile / 4, seconds=chosen.hostile, say=say)
            lines, wrong = hostile_report(lived), lived.wrong
        elif chosen.followed:
            followed = live_with_followers(options, seconds=chosen.followed, say=say)
            lines, wrong = followers_report(followed), followed.wrong
        else:
            found = soak(options, seconds=chosen.seconds, say=say, one_by_one=not chosen.no_single_faults)
            lines, wrong = report(found), found.wrong
    for line in lines:
        say(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
