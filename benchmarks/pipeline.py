"""The speed at which a whole pipeline catches up with a topic, with everything on.

``python -m benchmarks.pipeline`` lets a workload fill a topic of four partitions through MariaDB and the emulator while Dagster's
daemon is away, then starts the daemon and takes the time until the snapshots of all tables stand behind the last commit. Then
the same messages are read from the same broker once more, and as many bytes of the same raw, entries and changelog tables are
written without decoding (benchmarks/floor.py). The last line is one JSON object.

- ``floor``: our time over the floor's. The floor has no snapshots, no ledger, no daemon, no sensors and no process to start; it
  runs in a Spark session that is warm.
- ``work``: the same from the start of the first run on, without the daemon's start, the sensors' ticks and the queue.

Payload are the bytes of message values. Nothing is written to the database while the pipeline catches up.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import floor
from benchmarks.command import Options, finish, load, say
from benchmarks.live_pipeline import live_pipeline
from benchmarks.workbench import Workbench
from dts_assets.store.session import open_session
from dts_emulator.live.freshness_meter import visible_rows
from dts_emulator.live.live_stack import CODE, DAEMON, SPARK, WEBSERVER, WORKLOAD, LiveStack

_PATIENCE = 1200.0
_SAY_EVERY = 10.0
_CORES = 2


def main() -> int:
    """Run the command."""
    options = Options("pipeline", __doc__)
    options.add_live(seconds=90, rate=5000, tables=20, window="1m", what="how long the topic is filled")
    chosen = options.parse_args()
    with live_pipeline(chosen, without={DAEMON}) as (stack, folder):
        figures = measure(stack, folder, seconds=chosen.seconds)
    took, least = figures["seconds"], figures["seconds_of_the_floor"]
    ratios = {"floor": round(took / least, 1), "work": round((took - figures["seconds_to_first_run"]) / least, 1)}
    finish("pipeline", ratios, figures)
    return 0


def measure(stack: LiveStack, folder: Path, *, seconds: float) -> dict[str, Any]:
    """Fill the topic, catch up, and do the least that this can cost."""
    time.sleep(seconds)
    stack.supervisor.stop(WORKLOAD)
    rows = stack.commits.read()[-1].rows
    say(f"{rows:,} row changes are committed; the daemon starts")
    begin = time.time()
    stack.supervisor.start(stack.children[DAEMON])
    _catch_up(stack)
    took = time.time() - begin
    runs = stack.ask("{ runsOrError { ... on Runs { results { jobName startTime endTime } } } }")["runsOrError"][
        "results"
    ]
    started = sorted((run for run in runs if run["startTime"] is not None), key=lambda run: run["startTime"])
    for run in started:
        ended = "is still at it" if run["endTime"] is None else f"ended after {run['endTime'] - begin:.1f} s"
        say(f"{run['jobName']} started after {run['startTime'] - begin:.1f} s and {ended}")
    first = started[0]["startTime"] - begin
    load_then = load()
    for name in (DAEMON, CODE, WEBSERVER, SPARK):
        stack.supervisor.stop(name)
    payload = sum(row.bytes for row in stack.pipeline.ledger.raw_windows())
    floored = _floor(stack, folder)
    say(
        f"{payload / 1e6:.0f} MB in {took:.1f} s, {first:.1f} s of them to the first run; the floor took {floored:.1f} s"
    )
    return {
        "rows": rows,
        "payload_megabytes": round(payload / 1e6, 1),
        "seconds": round(took, 1),
        "seconds_to_first_run": round(first, 1),
        "seconds_of_the_floor": round(floored, 2),
        "rows_per_second": round(rows / took),
        "runs": len(runs),
        "load": load_then,
    }


def _catch_up(stack: LiveStack) -> None:
    """Wait until all snapshots hold all that was committed.

    Raises:
        SystemExit: They did not get there in time.
    """
    commits, said = stack.commits.read(), time.monotonic()

    def caught_up() -> bool:
        nonlocal said
        stack.cuts.read()
        if time.monotonic() - said > _SAY_EVERY:
            said = time.monotonic()
            seen = visible_rows(commits, stack.cuts.place)
            say(f"{seen:,} of {commits[-1].rows:,} visible; load {load()[0]:.1f}")
        return stack.cuts.place is not None and stack.cuts.place >= commits[-1].place

    if not stack.wait_until(caught_up, seconds=_PATIENCE, every=0.5):
        raise SystemExit(f"pipeline: the snapshots had not caught up after {_PATIENCE:.0f} s")


def _floor(stack: LiveStack, folder: Path) -> float:
    """Seconds of the floor, in a session that has done it once before."""
    model, place = stack.pipeline, stack.pipeline.lake.location
    template = floor.make_template(model, folder / "template")
    spark = open_session(place, {"spark.log.level": "ERROR"}, master=f"local[{_CORES}]", name="dts-assets-benchmarks")
    try:
        bench = Workbench(folder, place, spark)
        floor.run(bench, "floor_warm", model, template)
        begin = time.perf_counter()
        floor.run(bench, "floor", model, template)
        return time.perf_counter() - begin
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
