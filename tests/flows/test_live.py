"""Windows that are read while they are open: each refresh takes what has come since, and in the end all is as if read at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows import snapshot_merges
from dts_assets.flows.find_work import find_work
from dts_assets.flows.follow import first_open, follow
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.harness import SYSTEM, Bench, Harness, refresh, settle_open
from tests.flows.history import END, History, border
from tests.flows.short import LANES, SECOND, insert, items, open_short, short_source, three_windows, update
from tests.flows.source import Message, folded, write_capture
from tests.tiers import ALL, times

pytestmark = pytest.mark.spark

LIVE = {"live": True}
HOW_IT_WAS_READ = {"generation", "inputs", "refreshes", "ends", "made_by", "chain", "run"}
"""Columns of the ledger that tell in how many readings a window came."""


def content(harness: Harness) -> dict[str, list[str]]:
    """Every row of every table but for how it was read."""
    found = harness.everything()
    for name in SYSTEM:
        rows = harness.rows(name)
        found[name] = sorted(
            repr({column: row[column] for column in sorted(row) if column not in HOW_IT_WAS_READ}) for row in rows
        )
    return found


def pieces(messages: Sequence[Message], random: Random, count: int) -> list[list[Message]]:
    """Messages in the order of their times, cut anywhere; of each Kafka partition a beginning is there at any moment."""
    ordered = sorted(messages, key=lambda one: (one.time, one.partition, one.offset))
    cuts = sorted(random.sample(range(1, len(ordered)), count - 1))
    return [ordered[start:end] for start, end in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]


def with_an_end(history: History) -> list[Message]:
    """The messages of a history, and behind each Kafka partition one that closes the last window."""
    last: dict[int, Message] = {}
    for one in history.source.messages:
        last[one.partition] = one
    ends = [Message(one.partition, one.offset + 1, END + SECOND, None, one.sequence + 1) for one in last.values()]
    return [*history.source.messages, *ends]


@pytest.fixture(scope="module")
def read_at_once(bank: History, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"folder": tmp_path_factory.mktemp("live"), "messages": with_an_end(bank)}


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_topic_followed_in_pieces_ends_as_if_read_at_once(
    seed: int, bench: Bench, read_at_once: dict[str, Any], tmp_path: Path
) -> None:
    if "content" not in read_at_once:
        whole = write_capture(read_at_once["folder"], read_at_once["messages"])
        closed = bench.open(whole, name="live_read_at_once", complete=False)
        closed.settle()
        read_at_once["content"] = content(closed)
    capture = tmp_path / "capture"
    harness = bench.open(capture, complete=False, window=LIVE)
    random = Random(seed)
    for number, some in enumerate(pieces(read_at_once["messages"], random, times(3, 6))):
        write_capture(capture, some, name=f"piece{number}")
        refresh(harness)
        if random.random() < 0.3:
            settle_open(harness, rounds=10)
    settle_open(harness, rounds=10)
    found = content(harness)
    for name, expected in read_at_once["content"].items():
        assert found[name] == expected, name


@pytest.mark.more
def test_each_refresh_shows_the_rows_up_to_the_last_checkpoint(bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    capture = tmp_path / "capture"
    sent = 0
    harness = open_short(bench, capture, [], complete=False, window={**LIVE, "end": None})
    for number in range(4):
        at = border(0) + number * 60 * SECOND
        insert(source, at, range(10 * number, 10 * number + 10))
        update(source, at + SECOND, {10 * number: 7})
        source.checkpoint(at + 10 * SECOND)
        insert(source, at + 20 * SECOND, [1000 + number])  # behind the CHECKPOINT: it waits for the next one
        write_capture(capture, source.messages[sent:], name=f"part{number}")
        sent = len(source.messages)
        settle_open(harness, rounds=10)
        seen = [one for one in source.changes if one.arrived <= at + 11 * SECOND]
        assert harness.snapshots(source.tables)["items"] == folded(source.tables, seen)["items"]
    (cut,) = harness.pipeline.ledger.cuts()
    assert len(cut.made_by) == 4
    assert len(harness.pipeline.lake.data_files(harness.pipeline.path("raw_envelopes"))) == 4 * LANES
    assert {row.closed_by for row in harness.pipeline.ledger.windows()} == {"open"}


def test_a_state_that_cannot_be_read_is_computed_anew_and_the_run_says_so(bench: Bench, tmp_path: Path) -> None:
    source = short_source()
    capture = tmp_path / "capture"
    sent = 0
    harness = open_short(bench, capture, [], complete=False, window={**LIVE, "end": None})
    for number in range(3):
        at = border(0) + number * 60 * SECOND
        insert(source, at, range(10 * number, 10 * number + 10))
        source.checkpoint(at + 10 * SECOND)
        write_capture(capture, source.messages[sent:], name=f"part{number}")
        sent = len(source.messages)
        settle_open(harness, rounds=10)
        if number == 0:
            rows = harness.pipeline.ledger.windows()
            assert all(row.resume for row in rows)
            damaged = [replace(row, resume=b"\x7f" + (row.resume or b"")[1:]) for row in rows]
            harness.pipeline.ledger.replace_windows([row.cell for row in rows], damaged)
    said = [line for line in harness.lines if "cannot be read" in line]
    assert len(said) == LANES  # of the second reading alone: it left a state that the third went on with
    assert all("it has version 127" in line and "decoded from the start" in line for line in said)
    assert harness.snapshots(source.tables)["items"] == folded(source.tables, source.changes)["items"]
    kept = harness.pipeline.ledger.windows()
    assert sum(row.counts.data for row in kept) == len(harness.rows("entries")) - sum(
        row.counts.control for row in kept
    )
    assert {len(row.refreshes) for row in kept} == {2}


@pytest.mark.more
def test_a_refresh_that_is_killed_between_any_two_commits_leaves_nothing_double(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = three_windows(items("one"), items("two"))
    capture = tmp_path / "capture"
    harness = open_short(bench, capture, [], complete=False, window={**LIVE, "end": None})
    until = [border(0) + 30 * SECOND, border(0) + 505 * SECOND, border(1) + 65 * SECOND, border(2) + 501 * SECOND]
    sent = border(0)
    places = [
        (Ledger, "replace_raw_windows"), (Ledger, "replace_windows"), (Ledger, "replace_window_tables"),
        (Ledger, "replace_cuts"), (Lake, "replace"), (snapshot_merges, "_commit"),
    ]  # fmt: skip
    for end in until:
        write_capture(capture, [one for one in source.messages if sent <= one.time < end], name=f"to{end:%H%M%S}")
        sent = end
        for number, (owner, name) in enumerate(places if ALL or end == until[1] else ()):
            for after in (False, True) if ALL else (number % 2 == 0,):
                kill_once(monkeypatch, harness, owner, name, after=after)
        settle_open(harness, rounds=10)
    reference = open_short(bench, capture, [], complete=False, window={"end": None})
    reference.settle()
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)
    closed = {name: of_closed_windows(rows) for name, rows in content(harness).items()}
    for name, rows in content(reference).items():
        if not name.startswith("snapshot"):
            assert closed[name] == of_closed_windows(rows), name


def of_closed_windows(rows: list[str]) -> list[str]:
    """The rows of the windows before the third, which is still open at the end."""
    return [row for row in rows if "2026, 3, 1, 10, 20" not in row]


def kill_once(monkeypatch: pytest.MonkeyPatch, harness: Harness, owner: Any, name: str, *, after: bool) -> None:
    """Refresh until ``owner.name`` is called, and end there, before it or behind it; or to the end if it is not called."""
    original = getattr(owner, name)

    def instead(*args: Any, **kwargs: Any) -> Any:
        if after:
            original(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(owner, name, instead)
        refresh(harness)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.more
def test_two_runs_that_refresh_the_same_window_at_once_end_as_one(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    capture = tmp_path / "capture"
    harness = open_short(bench, capture, [], complete=False, window={**LIVE, "end": None})
    for number in range(3):
        some = [one for one in source.messages if border(number) <= one.time < border(number + 1)]
        half = len(some) // 2
        for place, part in enumerate((some[:half], some[half:])):
            write_capture(capture, part, name=f"w{number}{place}")
            if number >= times(1, 3):
                continue
            with ThreadPoolExecutor(2) as pool:
                for done in [pool.submit(refresh, harness), pool.submit(refresh, harness)]:
                    done.result()
    settle_open(harness, rounds=10)
    messages = harness.rows("raw_envelopes")
    assert len(messages) == len(source.messages)
    assert len({(row["kafka_partition"], row["offset"]) for row in messages}) == len(messages)
    assert len(harness.rows("changelog", "bank", "items")) == len(source.changes)
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)


@pytest.mark.more
def test_a_producer_whose_clock_jumps_closes_nothing_early(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    capture = tmp_path / "capture"
    ahead, behind = timedelta(hours=3), timedelta(minutes=4)
    jumping = [
        replace(one, time=one.time + ahead if number % 7 == 3 else one.time - behind if number % 7 == 5 else one.time)
        for number, one in enumerate(source.messages)
    ]
    # The capture's clock is its latest message; a broker's is the wall's, so here the skew is what is allowed before it.
    harness = open_short(
        bench, capture, [], complete=False, window={**LIVE, "end": None, "max_clock_skew": timedelta(0), "grace": "1d"}
    )
    cuts = [len(jumping) // 3, 2 * len(jumping) // 3, len(jumping)]
    for start, end in zip([0, *cuts], cuts, strict=False):
        write_capture(capture, jumping[start:end], name=f"part{start}")
        settle_open(harness, rounds=10)
    messages = harness.rows("raw_envelopes")
    assert len({(row["kafka_partition"], row["offset"]) for row in messages}) == len(messages)
    rows = sorted(harness.pipeline.ledger.raw_windows(), key=lambda row: (row.kafka_partition, row.window))
    for one, other in pairwise(rows):
        if one.kafka_partition == other.kafka_partition:
            assert one.offsets.end == other.offsets.start, "neighbours meet whatever the clock did"


@pytest.mark.more
def test_one_process_follows_a_growing_source_from_window_to_window(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    capture = tmp_path / "capture"
    left = pieces(source.messages, Random(3), 5)
    harness = open_short(bench, capture, left.pop(0), complete=False, window={**LIVE, "end": None})
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += max(seconds, 1.0)
        if left:
            write_capture(capture, left.pop(0), name=f"left{len(left)}")

    refreshes = follow(
        lambda: harness.pipeline, first_open(harness.pipeline), lasts=80 * SECOND, spark=lambda: harness.session,
        progress=harness.lines.append, clock=lambda: now, sleep=sleep,
    )  # fmt: skip
    done = list(refreshes)
    assert 1 < len(done) <= 8
    assert not any(one.nothing for one in done)
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)
    assert [row.window.start for row in harness.pipeline.ledger.cuts()] == [border(0), border(1), border(2)]
    assert find_work(harness.pipeline).nothing
