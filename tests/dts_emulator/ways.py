"""Ways in which the windows of a recorded life are made, all of which have one end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import FIRST, HOUR, Life
from tests.flows.harness import Harness, refresh, settle_open
from tests.flows.in_process import bench_in_process

EVERYWHERE: dict[str, Any] = {"tables": {"include": ["d.*", "e.*"]}}
"""The options of a subscription to all tables of lives."""


def window_by_window(harness: Harness, life: Life, seed: int) -> None:
    for number in windows_of(life):
        harness.all(number)
    harness.settle()


def at_once(harness: Harness, life: Life, seed: int) -> None:
    harness.settle()


def in_any_order(harness: Harness, life: Life, seed: int) -> None:
    """One window is made again behind the others."""
    random, numbers = Random(seed), list(windows_of(life))
    random.shuffle(numbers)
    for number in (*numbers, random.choice(numbers)):
        harness.all(number)
    harness.settle()


def as_it_grows(life: Life, folder: Path, seed: int, *, pieces: int) -> Harness:
    """A lake whose last window is read while it is open, piece by piece of the recording."""
    recorded("dts-protobuf", life.transactions, folder, **EVERYWHERE)
    (file,) = (folder / "capture").glob("*.parquet")
    messages = pq.read_table(file)
    file.unlink()
    live = {"every": HOUR, "start": FIRST, "end": FIRST + (windows_of(life).stop + 1) * HOUR, "live": True}
    harness = bench_in_process(folder, "live").open(
        folder / "capture", partitions=1, complete=False, window=live, source_time_zone="+00:00", **EVERYWHERE
    )
    random = Random(seed)
    cuts = sorted(random.sample(range(1, messages.num_rows), min(pieces, messages.num_rows) - 1))
    for start, end in pairwise([0, *cuts, messages.num_rows]):
        pq.write_table(messages.slice(start, end - start), folder / "capture" / f"part-{start:05d}.parquet")
        refresh(harness)
    settle_open(harness, rounds=9)
    return harness


def windows_of(life: Life) -> range:
    """The numbers of the windows in which something happens in a life."""
    return range((life.moments[-1].at - FIRST) // HOUR + 1)


WAYS: list[Callable[[Harness, Life, int], None]] = [window_by_window, at_once, in_any_order]
