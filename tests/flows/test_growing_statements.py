"""Statements arrive in windows that snapshots hold already: they are followed as if all was read at once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.pauses import paused_by_person, resume_tables
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.moving_source import NAMES, Moving
from tests.flows.short import SECOND, open_short
from tests.flows.source import write_capture
from tests.flows.test_live import pieces
from tests.tiers import times

WINDOWS = 3


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "growing")


def rows_of(harness: Harness, layer: str) -> dict[str, list[str]]:
    """The rows of a layer as texts, by table."""
    columns = {"_valid_from", "_valid_to", "_is_current", "_op", "_deleted_at"}
    return {
        name: sorted(
            repr(sorted(one for one in row.items() if not one[0].startswith("_") or one[0] in columns))
            for row in harness.rows(layer, "bank", name)
        )
        for name in NAMES
    }


def snapshot_of(harness: Harness) -> dict[str, list[dict[str, object]]]:
    found = {}
    for name in NAMES:
        rows = harness.rows("snapshot", "bank", name)
        shown = ({key: value for key, value in row.items() if not key.startswith("_")} for row in rows)
        found[name] = sorted(shown, key=lambda row: int(str(row["id"])))
    return found


def moving(seed: int, *, first_lane: bool = False) -> Moving:
    source = Moving(seed, first_lane)
    source.work(WINDOWS, 10)
    source.at = border(WINDOWS) + border(1).resolution
    source.source.checkpoint(border(WINDOWS - 1) + (border(1) - border(0)) * 0.9)
    source.source.checkpoint(border(WINDOWS) + (border(1) - border(0)) * 0.1)
    return source


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(4, 40)))
def test_windows_that_grow_end_as_if_read_at_once(bench_of: Bench, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    source = moving(seed, first_lane=random.random() < 0.3)
    settings: dict[str, Any] = {"history": ["*"]} if random.random() < 0.6 else {}
    settings["consistency"] = random.choice(["window", "cut"])
    messages = source.source.messages
    capture = tmp_path / "capture"
    harness = open_short(
        bench_of, capture, [], windows=WINDOWS, complete=False, window={"live": random.random() < 0.7}, **settings
    )
    paused = set[str]()
    for number, some in enumerate(pieces(messages, random, 6)):
        write_capture(capture, some, name=f"piece{number}")
        if random.random() < 0.3:
            name = random.choice(NAMES)
            paused_by_person(harness.pipeline, [table_id(name)], reason="a test")
            paused.add(name)
        if random.random() < 0.3:
            resume_tables(harness.pipeline, [table_id(name) for name in paused])
            paused.clear()
        if random.random() < 0.7:
            settle_open(harness, rounds=10)
        else:
            refresh(harness)
    resume_tables(harness.pipeline, [table_id(name) for name in NAMES])
    settle_open(harness, rounds=10)
    assert not harness.pipeline.ledger.paused_tables()
    at_once = open_short(bench_of, tmp_path / "whole", messages, windows=WINDOWS, complete=False, **settings)
    at_once.settle()
    assert not at_once.pipeline.ledger.paused_tables()
    assert rows_of(harness, "history") == rows_of(at_once, "history")
    assert rows_of(harness, "snapshot") == rows_of(at_once, "snapshot")
    expected = source.rows
    assert snapshot_of(at_once) == {name: expected.get(name, []) for name in NAMES}


@pytest.mark.more
@pytest.mark.parametrize("policy", ["follow", "stop"])
def test_a_statement_that_arrives_in_a_window_that_the_snapshot_holds_is_followed_or_stops_it(
    bench_of: Bench, tmp_path: Path, policy: str
) -> None:
    """With ``consistency: window`` a snapshot holds the open window whole, and the statement brings no row."""
    source = Moving(0)
    source.insert("a")
    capture = tmp_path / "capture"
    settings: dict[str, Any] = {"consistency": "window", "schema_changes": policy}
    harness = open_short(bench_of, capture, source.source.messages, complete=False, window={"live": True}, **settings)
    settle_open(harness, rounds=10)
    sent = len(source.source.messages)
    source.at += border(0).resolution * 1_000_000
    source.alter("a", "ADD COLUMN m int NOT NULL DEFAULT 7", {"id": "id", "n": "n", "m": 7})
    write_capture(capture, source.source.messages[sent:], name="more")
    settle_open(harness, rounds=10)
    paused = harness.pipeline.ledger.paused_tables()
    if policy == "stop":
        assert ["ADD COLUMN" in row.reason or "The schema of bank.a changed" in row.reason for row in paused] == [True]
        assert all("m" not in row for row in snapshot_of(harness)["a"])
        resume_tables(harness.pipeline, [table_id("a")])
        settle_open(harness, rounds=10)
    assert not harness.pipeline.ledger.paused_tables()
    assert snapshot_of(harness)["a"] == source.rows["a"]


@pytest.mark.more
def test_a_table_whose_rows_come_late_under_their_former_name_looks_at_them_again(
    bench_of: Bench, tmp_path: Path
) -> None:
    """A Kafka partition without statements has a change of before the RENAME in the next window."""
    source = Moving(0, first_lane=True)
    source.insert("a", 8)
    source.at = border(1) - 0.25 * SECOND
    source.insert("a", 8)
    source.at = border(1) - 0.24 * SECOND
    source.rename("a", "d")
    source.at = border(2)
    source.source.checkpoint(border(1) + 10 * SECOND)
    source.source.checkpoint(border(2) + 10 * SECOND)
    harness = open_short(bench_of, tmp_path / "capture", source.source.messages, consistency="window")
    harness.all(0)
    early = snapshot_of(harness)["d"]
    harness.all(1)
    harness.settle()
    assert len(early) < len(source.rows["d"])
    assert snapshot_of(harness)["d"] == source.rows["d"]
