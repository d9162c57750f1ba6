"""The time from a commit in the database until its rows are visible in the snapshots.

``python -m benchmarks.freshness`` starts a private MariaDB with a workload (500 row changes a second in 20 tables), the emulator,
a Kafka broker with four partitions, a warm Spark Connect server and Dagster with ``live: true``, lets it run for ten minutes and
prints, as its last line, one JSON object.

- ``p50``, ``p95``: seconds from commit to visible over all row changes of the measured stretch, by what is promised: 60 and 120.
  A change is visible when the ledger's mark says that all snapshots hold it (``dts_emulator.live.freshness_meter``); it counts
  from the workload's note before its commit, so up to a fifth of a second too long.
- a table of processor time says where the machine's time goes, by groups of processes, and one of runs what Dagster's took.

The stretch begins when the snapshots have moved on three times, and what was committed in it is waited for.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from benchmarks.command import Options, finish
from benchmarks.live_pipeline import live_pipeline
from benchmarks.processor_time import living, seconds_by_group
from dts_emulator.live.freshness_meter import Freshness, freshness, visible_rows
from dts_emulator.live.live_stack import WORKLOAD, LiveStack

PROMISED = {"p50": 60.0, "p95": 120.0}
_WARM_UP = 300.0
_CATCH_UP = 300.0
_SAY_EVERY = 15.0

_BELOW = {
    "dagster api grpc": "run workers",
    "org.apache.spark": "Python workers of Spark",
}
"""Processes whose children are groups of their own, by a part of their command lines."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The runs of one job in the stretch, and how many of them failed.

    ``waited`` and ``took`` are medians of seconds: from the request to the start, and from the start to the end.
    """

    runs: int
    failed: int
    waited: float
    took: float


def main() -> int:
    """Run the command."""
    options = Options("freshness", __doc__)
    options.add_live(seconds=600, rate=500, tables=20, window="5m", what="the measured stretch")
    chosen = options.parse_args()
    with live_pipeline(chosen) as (stack, _):
        figures = measure(stack, seconds=chosen.seconds)
    ratios = {name: round(figures[name] / promised, 3) for name, promised in PROMISED.items() if figures[name]}
    finish("freshness", ratios, figures)
    return 0 if figures["visible"] == figures["rows"] else 1


def measure(stack: LiveStack, *, seconds: float) -> dict[str, Any]:
    """Return the figures of so many seconds, such as ``{"p50": 7.1, "p95": 11.0}``."""
    _warm_up(stack)
    roots = _roots(stack)
    before, load, begin = seconds_by_group(living(), roots, _BELOW), os.getloadavg(), time.time()
    print(f"measured from now on for {seconds:.0f} s; load {load[0]:.1f}", flush=True)
    said = begin
    while time.time() - begin < seconds:
        time.sleep(1)
        stack.check()
        if time.time() - said >= _SAY_EVERY:
            said = time.time()
            print(_line(stack, begin=begin), flush=True)
    end, load = time.time(), os.getloadavg()
    after = seconds_by_group(living(), roots, _BELOW)
    stack.supervisor.stop(WORKLOAD)
    found = _catch_up(stack, begin=begin, end=end)
    spent = {group: after[group] - before.get(group, 0.0) for group in after}
    runs = _runs(stack, begin=begin, end=end)
    moved = [sighting.time for sighting in stack.cuts.sightings if begin <= sighting.time <= end]
    refresh = statistics.median(after - before for before, after in pairwise(moved)) if len(moved) > 1 else None
    _show(found, spent, runs, seconds=end - begin, load=load)
    print(f"the ledger's cuts were written {len(moved)} times, {refresh or 0:.1f} s apart in the median")
    return {
        "seconds": round(end - begin, 1),
        **_rounded(asdict(found), without=("since",)),
        "load": round(load[0], 2),
        "refreshes": len(moved),
        "seconds_between_refreshes": None if refresh is None else round(refresh, 2),
        "processor": _rounded(spent),
        "runs": {job: _rounded(asdict(times)) for job, times in runs.items()},
    }


def _warm_up(stack: LiveStack) -> None:
    """Wait until the snapshots have moved three times: sessions are warm then.

    Raises:
        SystemExit: They have not moved in time.
    """

    def warm() -> bool:
        commits, _ = stack.commits.read(), stack.cuts.read()
        # What is visible now was all committed after the first run had begun.
        return len({sighting.place for sighting in stack.cuts.sightings}) >= 3 and bool(commits)

    if not stack.wait_until(warm, seconds=_WARM_UP):
        raise SystemExit(f"freshness: the snapshots had not moved three times after {_WARM_UP:.0f} s")


def _catch_up(stack: LiveStack, *, begin: float, end: float) -> Freshness:
    def found() -> Freshness:
        return freshness(stack.commits.read(), stack.cuts.read(), begin=begin, end=end)

    stack.wait_until(lambda: (now := found()).visible == now.rows, seconds=_CATCH_UP)
    return found()


def _line(stack: LiveStack, *, begin: float) -> str:
    commits, sightings, now = stack.commits.read(), stack.cuts.read(), time.time()
    found, since = freshness(commits, sightings, begin=begin), freshness(commits, sightings).since
    behind = 0.0 if since is None else now - since
    p50, p95 = ("-" if value is None else f"{value:.0f} s" for value in (found.p50, found.p95))
    runs = stack.runs()
    return (
        f"{now - begin:4.0f} s: {commits[-1].rows:,} committed, {visible_rows(commits, stack.cuts.place):,} visible, "
        f"{behind:.0f} s behind, p50 {p50}, p95 {p95}, {runs.done} runs done, {runs.failed} failed; "
        f"load {os.getloadavg()[0]:.1f}"
    )


def _roots(stack: LiveStack) -> dict[str, int]:
    """Return the processes that live all the time, by their names in the table."""
    roots = {name: stack.supervisor.pid(name) for name in stack.supervisor.names}
    roots["benchmark"] = os.getpid()
    for number, process in living().items():
        if stack.server.socket is not None and f"--socket={stack.server.socket}" in process.command:
            roots["MariaDB"] = number
    assert stack.broker.pid is not None
    roots["Kafka"] = stack.broker.pid
    return roots


def _runs(stack: LiveStack, *, begin: float, end: float) -> dict[str, RunTimes]:
    """Return the runs that ended in the stretch, by job."""
    query = "{ runsOrError(limit: 2000) { ... on Runs { results { jobName status creationTime startTime endTime } } } }"
    ended = [
        run
        for run in stack.ask(query)["runsOrError"]["results"]
        if run["endTime"] is not None and run["startTime"] is not None and begin <= run["endTime"] <= end
    ]
    return {
        job: RunTimes(
            len(mine),
            sum(run["status"] != "SUCCESS" for run in mine),
            statistics.median(run["startTime"] - run["creationTime"] for run in mine),
            statistics.median(run["endTime"] - run["startTime"] for run in mine),
        )
        for job in sorted({run["jobName"] for run in ended})
        if (mine := [run for run in ended if run["jobName"] == job])
    }


def _show(
    found: Freshness, spent: Mapping[str, float], runs: Mapping[str, RunTimes], *, seconds: float, load: Sequence[float]
) -> None:
    print(f"\n{found.rows:,} row changes in {seconds:.0f} s, {found.visible:,} visible; load at the end {load[0]:.1f}")
    for name, value in (("p50", found.p50), ("p95", found.p95), ("worst", found.worst)):
        print(f"{name:>6} {'-' if value is None else f'{value:.1f} s'}")
    cores = os.cpu_count() or 1
    print(f"\n{'processor time':<26} {'s':>8} {'of ' + str(cores) + ' cores':>11}")
    for group, value in sorted(spent.items(), key=lambda pair: -pair[1]):
        print(f"{group:<26} {value:8.1f} {value / seconds / cores:11.1%}")
    total = sum(spent.values())
    print(f"{'together':<26} {total:8.1f} {total / seconds / cores:11.1%}")
    print(f"\n{'runs of job':<26} {'runs':>6} {'failed':>7} {'waited s':>9} {'took s':>8}")
    for job, times in runs.items():
        print(f"{job:<26} {times.runs:6} {times.failed:7} {times.waited:9.1f} {times.took:8.1f}")


def _rounded(values: Mapping[str, Any], *, without: Sequence[str] = ()) -> dict[str, Any]:
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in values.items()
        if name not in without
    }


if __name__ == "__main__":
    sys.exit(main())
