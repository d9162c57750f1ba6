"""``python -m tests.stateful``: random actions on a pipeline for some minutes. Exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.session import open_session
from tests.flows.harness import Bench
from tests.stateful.actions import WEIGHTS
from tests.stateful.machine import actions_of, make_small, play, report
from tests.stateful.world import tasks_here

CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
}
"""Plans that begin soon: for a handful of rows compiling them takes longer than running them."""


@contextmanager
def bench_in(folder: Path) -> Iterator[Bench]:
    """An empty lake with a warm Spark."""
    location = LakeLocation(str(folder / "lake"))
    open_catalog(location)
    session = open_session(location, CONF, master="local[2]", name="stateful")
    try:
        yield Bench(session, location, folder, "world")
    finally:
        session.stop()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.stateful", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first world; the next ones count on")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="after which no further world is begun (default 10)"
    )
    parser.add_argument("--length", type=int, default=30, help="actions in a world (default 30)")
    parser.add_argument("--actions", help="only these actions of the seed's plan, 0,4,7: to see a finding again")
    parser.add_argument("--kinds", help="only actions of these kinds: Write,RollBack,Run")
    parser.add_argument("--go-on", action="store_true", help="do not end at the first finding")
    parser.add_argument("--as-found", action="store_true", help="do not make a failing list shorter")
    chosen = parser.parse_args()
    kinds = [kind for kind in WEIGHTS if kind.__name__ in (chosen.kinds or "").split(",")]
    began, findings, worlds, actions, verdicts = time.monotonic(), 0, 0, 0, 0

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="dts-assets-", ignore_cleanup_errors=True) as folder,
        bench_in(Path(folder)) as bench,
        tasks_here(),
    ):
        seed = chosen.seed
        while worlds == 0 or (time.monotonic() - began < 60 * chosen.minutes and chosen.actions is None):
            numbers = map(int, chosen.actions.split(",")) if chosen.actions else range(chosen.length)
            listed = actions_of(seed, numbers, kinds)
            played = play(bench, seed, listed, say=say)
            worlds, actions, verdicts = worlds + 1, actions + len(played.done), verdicts + played.verdicts
            if played.finding is not None:
                findings += 1
                small, finding = played.done, played.finding
                if not chosen.as_found:
                    small, again = make_small(bench, seed, small, kind=finding.kind, say=say)
                    finding = again or finding
                for line in report(seed, small, finding, kinds=kinds):
                    say(line)
                if not chosen.go_on:
                    break
            seed += 1
    say(f"{worlds} worlds, {actions} actions, {verdicts} verdicts, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
