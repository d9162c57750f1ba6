"""A live pipeline under fire: a random workload with DDL, random faults, and in the end the database as the judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dts_emulator.live.freshness_meter import Freshness, freshness
from dts_emulator.live.live_stack import WORKLOAD, LiveOptions, LiveStack, Runs, live_stack
from dts_emulator.live.supervisor import Supervisor
from tests.live.faults import FAULTS, Fault
from tests.live.verdict import (
    catch_up,
    database_place,
    repeated_deliveries,
    source_end,
    stuck,
    unequal_as_they_stand,
    wrong,
)

BETWEEN_FAULTS = (8.0, 25.0)
"""Seconds, at random."""

_FIRST_TABLES = 400.0
CATCH_UP = 400.0
_LOOK_EVERY = 3
"""Faults, after which the snapshots are judged as they stand: another thing than what they become once all is at rest."""
_LONGEST_LOOK_LATER = 15.0
_LONGEST_RUN = 300.0
"""Seconds; beside others on two cores a run over a whole window has taken three minutes."""


@dataclass(slots=True)
class Findings:
    """What a soak did and found. ``wrong`` is empty if all is well."""

    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """How often each fault took effect, by name."""
    rows: int = 0
    looks: int = 0
    redelivered: int = 0
    runs: Runs | None = None
    freshness: Freshness | None = None


def soak(
    options: LiveOptions,
    *,
    seconds: float,
    say: Callable[[str], None],
    faults: Mapping[str, Fault] = FAULTS,
    between: tuple[float, float] = BETWEEN_FAULTS,
    one_by_one: bool = False,
) -> Findings:
    """Let it run for so long under ``faults``, then let it come to rest and judge it as it stood when the source did.

    With ``one_by_one`` each of them comes alone at first, and is got over before the next one. A fault that has taken no effect
    when the time is over is one of the things that are wrong: nothing was shown of it.
    """
    found, random = Findings(), Random(options.seed)
    supervisor: Supervisor
    with live_stack(options, say=say) as stack:
        supervisor = stack.supervisor
        wait_for_first_tables(stack)
        if one_by_one:
            _one_by_one(stack, found, random, faults=faults, say=say)
        for done in under_fire(stack, found.faults, random, seconds=seconds, faults=faults, between=between):
            _told(stack, found, random, done, say)
        found.wrong += [f"{name} could do nothing in {seconds:.0f} s" for name in faults if not found.faults[name]]
        supervisor.stop(WORKLOAD)
        end = source_end(stack, options.folder / "dumps" / "end")
        commits = stack.commits.read()
        found.rows = commits[-1].rows
        say(f"the workload has stopped after {found.rows:,} row changes")
        late = catch_up(stack, end, seconds=CATCH_UP)
        say("caught up" if not late else "not caught up")
        found.freshness = freshness(commits, stack.cuts.read())
        found.wrong += [*late, *wrong(stack, options.folder / "dumps", end=None if late else end)]
        found.redelivered = repeated_deliveries(stack)
        found.wrong += stuck(stack, older_than=_LONGEST_RUN)
        found.runs = stack.runs()
    left = supervisor.processes()
    if left:
        found.wrong.append(f"processes {sorted(left)} are left")
    return found


def wait_for_first_tables(stack: LiveStack) -> None:
    """Wait until a first window has its tables."""
    there = stack.wait_until(lambda: bool(stack.cuts.read()), seconds=_FIRST_TABLES)
    assert there, f"no tables after {_FIRST_TABLES:.0f} s"


def _one_by_one(
    stack: LiveStack, found: Findings, random: Random, *, faults: Mapping[str, Fault], say: Callable[[str], None]
) -> None:
    """Each fault alone: the snapshots get to where the database stood when it was over, and are equal to it there."""
    for name in sorted(faults):
        done = faults[name](stack, random)
        if done is None:
            say(f"{name} could do nothing yet")
            continue
        found.faults[name] += 1
        began = time.monotonic()
        if not stack.reach(database_place(stack), seconds=CATCH_UP):
            found.wrong.append(f"{done}, and {CATCH_UP:.0f} s later the snapshots stood at {stack.cuts.place}")
            return
        say(f"{done}; got over after {time.monotonic() - began:.0f} s")
        _look(stack, found, f"alone-{name}")


def _look(stack: LiveStack, found: Findings, name: str) -> None:
    found.wrong += unequal_as_they_stand(stack, stack.options.folder / "dumps" / name)
    found.looks += 1


def under_fire(
    stack: LiveStack,
    counted: Counter[str],
    random: Random,
    *,
    seconds: float,
    faults: Mapping[str, Fault],
    between: tuple[float, float],
    due: Callable[[str], bool] = lambda _: True,
) -> Iterator[str]:
    """Each fault once in random order, then again, for as long as there is time; what each of them did.

    One that could do nothing is not counted, and comes again as the last of its round. A round has the faults that are ``due``.
    """
    end, order = time.monotonic() + seconds, list[str]()
    while time.monotonic() < end:
        stack.wait_until(lambda: False, seconds=random.uniform(*between), every=0.5)
        if not order:
            order = sorted(filter(due, faults))
            random.shuffle(order)
        name = order.pop()
        done = faults[name](stack, random)
        if done is None:
            order.insert(0, name)
        else:
            counted[name] += 1
            yield done


def _told(stack: LiveStack, found: Findings, random: Random, done: str, say: Callable[[str], None]) -> None:
    """Say how the pipeline stands after a fault, and judge the snapshots after some of them."""
    commits, sightings = stack.commits.read(), stack.cuts.read()
    since = freshness(commits, sightings).since
    behind = 0.0 if since is None else time.time() - since
    say(f"{done}; {commits[-1].rows:,} row changes, {behind:.0f} s behind, load {os.getloadavg()[0]:.1f}")
    if found.faults.total() % _LOOK_EVERY == 0:
        time.sleep(random.uniform(0, _LONGEST_LOOK_LATER))
        _look(stack, found, f"look-{found.faults.total()}")


def report(found: Findings) -> list[str]:
    """What was found, in lines for a person."""
    fresh, runs = found.freshness, found.runs
    lines = [
        f"{found.rows:,} row changes under {found.faults.total()} faults; {found.redelivered:,} were delivered again"
    ]
    lines.append(f"snapshots were judged as they stood {found.looks} times, and once all was at rest")
    if fresh is not None and fresh.p50 is not None and fresh.p95 is not None:
        lines.append(f"visible after {fresh.p50:.0f} s (p50), {fresh.p95:.0f} s (p95), {fresh.worst:.0f} s (worst)")
    if runs is not None:
        lines.append(f"{runs.done} runs done, {runs.failed} failed")
    return [
        *lines,
        *(found.wrong or ["every snapshot equals the database, the ledger is whole, nothing is there twice"]),
    ]


def default_options(folder: Path, *, seed: int) -> LiveOptions:
    """A small live pipeline: eight tables, DDL now and then, windows of a minute, so that many open and close."""
    return LiveOptions(folder, rate=200, tables=8, every="1m", seed=seed, ddl=True)
