"""The driver is killed at random moments: no table is ever half done, and the next run ends with equal tables."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.spans import Cell
from tests.flows.drs_task import DrsTask
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.killing import in_a_process
from tests.flows.short import LANES, SECOND, items, three_windows, with_values
from tests.flows.source import DATABASE, Message, write_capture
from tests.tiers import times

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("DTS_ASSETS_KILLS", times(1, 50)))


@dataclass(frozen=True)
class Stream:
    """Messages of three windows, the settings that read them, and the tables in them by database and name.

    ``middle`` are the places of messages of the second window that can be lost.
    """

    messages: Sequence[Message]
    middle: Sequence[tuple[int, int]]
    tables: Sequence[tuple[str, str]]
    settings: Mapping[str, Any]


def of_dts_protobuf() -> Stream:
    source = three_windows(*(items(name) for name in ("one", "two")))
    middle = {(one.partition, one.last_offset) for one in source.changes if border(1) <= one.arrived < border(2)}
    return Stream(source.messages, sorted(middle), [(DATABASE, "one"), (DATABASE, "two")], {})


def of_drs_json_c() -> Stream:
    """Ids fall in each window but the first: contents are compared, too."""
    task = DrsTask(17)
    for number in range(3):
        task.work(border(number) + 5 * SECOND, 30)
        task.resume(border(number) + 200 * SECOND, 12)
        task.work(border(number) + 300 * SECOND, 10)
    middle = [(one.partition, one.offset) for one in task.messages if border(1) <= one.time < border(1) + 150 * SECOND]
    settings = {"format": "drs-json-c", "source_time_zone": "+08:00"}
    return Stream(task.messages, sorted(middle), [("bank", "accounts")], settings)


STREAMS = {"dts-protobuf": of_dts_protobuf, "drs-json-c": of_drs_json_c}


def contents(harness: Harness, tables: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """What each table holds of the second window (all, for snapshots), as text."""
    found = {f"snapshot {name}": harness.rows("snapshot", database, name) for database, name in tables}
    inside = {"raw": harness.rows("raw_envelopes"), "entries": harness.rows("entries")}
    inside |= {f"changelog {name}": harness.rows("changelog", database, name) for database, name in tables}
    start = harness.windows(1)[0].start
    for name, rows in inside.items():
        for partition in range(LANES):
            mine = [row for row in rows if row["window_start"] == start and row["kafka_partition"] == partition]
            found[f"{name} {partition}"] = mine
    return {name: sorted(map(repr, rows)) for name, rows in found.items()}


@pytest.mark.timeout(times(600, 1800))
@pytest.mark.parametrize("format_name", ["dts-protobuf", pytest.param("drs-json-c", marks=pytest.mark.long)])
def test_killed_at_random_moments(bench: Bench, tmp_path: Path, format_name: str) -> None:
    stream = STREAMS[format_name]()
    lost = stream.middle[::2]
    garbage = {
        (one.partition, one.offset): b"\xff" * len(one.value or b"")
        for one in stream.messages
        if (one.partition, one.offset) in lost
    }
    folders = {
        "good": write_capture(tmp_path / "good", stream.messages),
        "bad": write_capture(tmp_path / "bad", with_values(stream.messages, garbage)),
    }

    subscription = f"killed_{format_name.replace('-', '_')}"

    def opened(kind: str) -> Harness:
        return bench.open(
            folders[kind], name=subscription, partitions=LANES, window={"end": border(3)}, **stream.settings
        )

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
        expected[kind] = contents(opened(kind), stream.tables)
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
        for name, rows in contents(opened(kind), stream.tables).items():
            assert rows in (expected["good"][name], expected["bad"][name]), f"{name} is half done after kill {killed}"
    change_to("good")
    assert opened("good").everything() == whole
    assert opened("good").pipeline.ledger.windows()[0].cell == Cell(0, opened("good").windows(0)[0])
