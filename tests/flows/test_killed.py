"""The driver is killed at random moments: no table is ever half done, and the next run ends with equal tables."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from random import Random

import pytest

from dts_assets.model.spans import Cell
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.killing import in_a_process
from tests.flows.short import LANES, items, three_windows, with_values
from tests.flows.source import DATABASE, write_capture
from tests.tiers import times

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("DTS_ASSETS_KILLS", times(1, 50)))
TABLES = ("one", "two")


def contents(harness: Harness) -> dict[str, list[str]]:
    """What each table holds of the second window (all, for snapshots), as text."""
    found = {f"snapshot {name}": harness.rows("snapshot", DATABASE, name) for name in TABLES}
    inside = {"raw": harness.rows("raw_envelopes"), "entries": harness.rows("entries")}
    inside |= {f"changelog {name}": harness.rows("changelog", DATABASE, name) for name in TABLES}
    start = harness.windows(1)[0].start
    for name, rows in inside.items():
        for partition in range(LANES):
            mine = [row for row in rows if row["window_start"] == start and row["kafka_partition"] == partition]
            found[f"{name} {partition}"] = mine
    return {name: sorted(map(repr, rows)) for name, rows in found.items()}


def test_killed_at_random_moments(bench: Bench, tmp_path: Path) -> None:
    source = three_windows(*(items(name) for name in TABLES))
    middle = {(one.partition, one.last_offset) for one in source.changes if border(1) <= one.arrived < border(2)}
    lost = sorted(middle)[::2]
    garbage = {
        (one.partition, one.offset): b"\xff" * len(one.value or b"")
        for one in source.messages
        if (one.partition, one.offset) in lost
    }
    folders = {
        "good": write_capture(tmp_path / "good", source.messages),
        "bad": write_capture(tmp_path / "bad", with_values(source.messages, garbage)),
    }

    def opened(kind: str, name: str = "killed") -> Harness:
        return bench.open(folders[kind], name=name, partitions=LANES, window={"end": border(3)})

    def change_to(kind: str) -> None:
        """Read the second window from the other recording, and all that follows from it."""
        harness = opened(kind)
        harness.raw(1)
        harness.settle()

    opened("good").all()
    expected = {}
    took = float("inf")
    for kind in ("bad", "good") * times(1, 2):  # the second time is the quicker one
        began = time.monotonic()
        in_a_process(bench.session, partial(change_to, kind), kill_after=None)
        took = min(took, time.monotonic() - began)
        expected[kind] = contents(opened(kind))
    whole = opened("good").everything()
    assert all(expected["good"][name] != expected["bad"][name] for name in expected["good"] if "raw" in name)

    random = Random(17)
    killed = turn = 0
    while killed < KILLS:
        kind = ("bad", "good")[turn % 2]
        began = time.monotonic()
        ended = in_a_process(bench.session, partial(change_to, kind), kill_after=random.uniform(0, took))
        if ended:  # Java gets quicker as it goes
            took = min(took, time.monotonic() - began)
        killed += not ended
        turn += 1
        assert turn < 3 * KILLS + 10, "too few are killed: this tests nothing"
        for name, rows in contents(opened(kind)).items():
            assert rows in (expected["good"][name], expected["bad"][name]), f"{name} is half done after kill {killed}"
    change_to("good")
    assert opened("good").everything() == whole
    assert opened("good").pipeline.ledger.windows()[0].cell == Cell(0, opened("good").windows(0)[0])
