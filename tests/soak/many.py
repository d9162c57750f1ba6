"""Very many mutated messages: slices of the example's recording with faults of all kinds at once, in several processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from multiprocessing import get_context

from dts_emulator.faults.injection import Kind
from dts_emulator.faults.recorded_topic import Topic
from tests.soak.mutations import Recording, Report, shop, slice_of

KINDS = (Kind.DROP, Kind.REPEAT, Kind.REREAD, Kind.FLIP, Kind.TRUNCATE, Kind.REORDER, Kind.CUT)
"""What can happen to a topic. A message in another partition, or an end that comes early, hides what else is lost there."""

_START, _HOURS = datetime(2026, 1, 5, tzinfo=UTC), 8
_WINDOW = timedelta(minutes=10)
_ONE_IN = 6
"""Messages for each fault: as many as leave two untouched ones between any two."""
_WORST = 50
"""Violations that are told; a mistake makes very many."""


def many(messages: int, *, processes: int, first_seed: int = 0) -> Report:
    """What became of so many mutated messages or somewhat more."""
    report = Report()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        seeds = count(first_seed)
        running = {pool.submit(one_run, next(seeds)) for _ in range(2 * processes)}
        while report.messages < messages and len(report.violations) < _WORST:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                report.add(one.result())
                running.add(pool.submit(one_run, next(seeds)))
        for one in running:
            one.cancel()
    return report


def one_run(seed: int) -> Report:
    """An hour of the recording with faults in it."""
    recording = _hour(seed % _HOURS)
    size = sum(map(len, recording.topic.partitions.values()))
    report = recording.mutated(seed=seed, kinds=KINDS, count=size // _ONE_IN).report()
    report.violations = [f"seed {seed}: {one}" for one in report.violations]
    return report


@cache
def _hour(number: int) -> Recording:
    start = _START + timedelta(hours=number)
    return Recording.of(slice_of(_whole(), start, start + timedelta(hours=1)), _WINDOW)


@cache
def _whole() -> Topic:
    return shop()


def table(report: Report) -> Iterator[str]:
    """For people: what became of the faults of each kind."""
    names = ("messages", "faults", "harmless", "found", "located", "not_knowable", "missed")
    yield "kind".ljust(12) + "".join(name.replace("_", " ").rjust(14) for name in names)
    for kind in KINDS:
        seen = report.kinds[kind]
        yield kind.value.ljust(12) + "".join(f"{getattr(seen, name):>14,}" for name in names)
    yield f"{report.messages:,} mutated messages, {report.rows:,} rows; {report.changed_rows:,} hold what a flip made of a value"
