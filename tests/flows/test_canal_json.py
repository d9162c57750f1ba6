"""Canal: no identity, so every message counts; a snapshot by key is the table's content, however often messages came."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from tests.flows.canal_task import Canal
from tests.flows.harness import Bench, Harness, refresh, settle_open
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.flows.test_any_order import assert_equal
from tests.flows.test_live import content
from tests.tiers import times

pytestmark = pytest.mark.spark

SETTINGS: dict[str, Any] = {"format": "canal-json", "partitions": 2, "window": {"end": border(3)}}


def accounts(harness: Harness) -> dict[str, dict[str, str | None]]:
    labels = {"new": "1", "old": "2"}
    return {
        str(row["id"]): {
            "id": str(row["id"]), "owner": row["owner"], "balance": str(row["balance"]), "kind": labels[row["kind"]],
        }
        for row in harness.rows("snapshot", "bank", "accounts")
    }  # fmt: skip


def lines(harness: Harness) -> Counter[str]:
    return Counter(row["text"] for row in harness.rows("snapshot", "bank", "lines"))


def shift(harness: Harness) -> dict[str, str]:
    return {str(row["id"]): row["note"] for row in harness.rows("snapshot", "bank", "shift")}


def stream() -> tuple[Canal, Counter[str]]:
    """Three windows; Canal is started again in the second one and sends much of the first one once more."""
    canal = Canal(4)
    canal.work(border(0) + timedelta(seconds=5), 60)
    canal.work(border(1) + timedelta(seconds=5), 60)
    twice = canal.restart(border(1) + timedelta(seconds=90), 110)
    canal.work(border(1) + timedelta(seconds=100), 30)
    canal.work(border(2) + timedelta(seconds=5), 60)
    twice += canal.restart(border(2) + timedelta(seconds=40), 5)
    return canal, twice


@pytest.mark.more
def test_windows_in_any_order_give_the_tables_and_every_copy_stays(bench: Bench, tmp_path: Path) -> None:
    canal, twice = stream()
    capture = write_capture(tmp_path / "capture", canal.messages)
    forwards = bench.open(capture, **SETTINGS)
    for number in range(3):
        forwards.all(number)
    backwards = bench.open(capture, **SETTINGS)
    for number in (2, 1, 0):
        backwards.all(number)
    backwards.settle()
    assert forwards.settle() == 0
    assert_equal(backwards, forwards)
    assert accounts(forwards) == canal.accounts
    assert shift(forwards) == canal.shift
    assert twice.total() > 0
    assert lines(forwards) == canal.lines + twice  # of a row without a key nothing tells a copy
    ledger = forwards.pipeline.ledger
    assert sum(row.kept for row in ledger.window_tables()) == canal.changes
    assert sum(row.redelivered for row in ledger.window_tables()) == 0
    assert (forwards.rows("redeliveries"), list(ledger.lineages())) == ([], [])
    assert len(forwards.rows("ddl")) == canal.statements
    assert {row.completeness for row in ledger.windows()} == {Completeness.OBSERVED}
    assert {row.completeness for row in ledger.cuts()} == {Completeness.OBSERVED}
    assert {row.consistency for row in ledger.cuts()} == {"window"}


def test_every_change_has_a_place_of_its_own_in_the_order_of_its_arrival(bench: Bench, tmp_path: Path) -> None:
    canal, _ = stream()
    harness = bench.open(write_capture(tmp_path / "capture", canal.messages), **SETTINGS)
    harness.all(0, 1, 2)
    changes = [row for name in ("accounts", "lines", "shift") for row in harness.rows("changelog", "bank", name)]
    place = [(*row["source_position"].values(), row["row_number"]) for row in changes]
    assert len(set(place)) == len(place) == canal.changes + canal.statements
    latest: dict[tuple[Any, int], Any] = {}
    expected = []
    for row in sorted(changes, key=lambda row: (row["window_start"], row["kafka_offset"], row["row_number"])):
        of = row["window_start"], row["kafka_partition"]
        latest[of] = max(latest.get(of, row["event_time"]), row["event_time"])
        expected.append(
            (row["window_start"], latest[of], of[1], row["kafka_offset"], row["row_number"], place[changes.index(row)])
        )
    assert [one[-1] for one in sorted(expected)] == sorted(place)


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_open_windows_that_are_refreshed_end_as_if_read_at_once(bench: Bench, tmp_path: Path, seed: int) -> None:
    """Kafka partitions lag behind each other, so that what comes later may stand before what is there."""
    canal, twice = stream()
    last = {one.partition: one for one in canal.messages}
    ends = [Message(one.partition, one.offset + 1, border(3) + timedelta(seconds=1), None, 0) for one in last.values()]
    messages = [*canal.messages, *ends]
    whole = bench.open(write_capture(tmp_path / "whole", messages), **SETTINGS, complete=False)
    whole.settle()
    settings = SETTINGS | {
        "window": {"live": True, "end": border(3), "grace": timedelta(hours=1)},
        "consistency": "window",
        "complete": False,
    }
    harness = bench.open(tmp_path / "pieces", **settings)
    random, sent = Random(seed), [0, 0]
    lanes = [[one for one in messages if one.partition == partition] for partition in range(2)]
    pieces = times(3, 7)
    for number in range(pieces):
        until = [
            random.randint(start, min(len(lane), start + 1000 // pieces))
            for start, lane in zip(sent, lanes, strict=True)
        ]
        until = [len(lane) for lane in lanes] if number == pieces - 1 else until
        some = [one for lane, start, end in zip(lanes, sent, until, strict=True) for one in lane[start:end]]
        write_capture(tmp_path / "pieces", some, name=f"piece{number}")
        sent = until
        refresh(harness)
    settle_open(harness, rounds=10)
    assert (accounts(harness), shift(harness), lines(harness)) == (canal.accounts, canal.shift, canal.lines + twice)
    found, expected = content(harness), content(whole)
    for name in ("entries", "ddl", "quarantine"):
        assert found[name] == expected[name]
    for name in ("accounts", "lines", "shift"):
        assert sorted(map(repr, harness.rows("changelog", "bank", name))) == sorted(
            map(repr, whole.rows("changelog", "bank", name))
        )


def test_the_same_messages_cut_into_other_windows_give_the_same_tables(bench: Bench, tmp_path: Path) -> None:
    canal, twice = stream()
    capture = write_capture(tmp_path / "capture", canal.messages)
    harness = bench.open(capture, **{**SETTINGS, "window": {"every": "30m", "end": border(3)}})
    harness.all(0)
    assert (accounts(harness), shift(harness)) == (canal.accounts, canal.shift)
    assert lines(harness) == canal.lines + twice
