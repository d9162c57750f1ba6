"""Windows that are read while they are open: each refresh takes what has come since, and in the end all is as if read at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.flows.status import find_status
from dts_assets.planning.rectangles import rectangles, window_runs
from tests.flows.harness import SYSTEM, Bench, Harness
from tests.flows.history import END, History, border
from tests.flows.short import LANES, SECOND, insert, open_short, short_source, update
from tests.flows.source import Message, folded, write_capture

pytestmark = pytest.mark.spark

LIVE = {"live": True}
HOW_IT_WAS_READ = {"generation", "inputs", "refreshes", "ends", "made_by", "chain", "run"}
"""Columns of the ledger that tell in how many readings a window came."""


def refresh(harness: Harness) -> None:
    """What the sensors ask for at one moment, each once."""
    work = find_status(harness.pipeline).work
    for span in (*rectangles(work.ingest), *rectangles(work.live)):
        harness.raw_of(span)
        harness.entries_of(span)
    for span in rectangles(work.stale_entries):
        harness.entries_of(span)
    for windows in window_runs(find_status(harness.pipeline).work.tables):
        harness.tables_of(windows)


def settle(harness: Harness) -> None:
    """Refresh until nothing is left, of the open window too."""
    for _ in range(10):
        work = find_status(harness.pipeline).work
        if work.nothing and not work.live:
            return
        refresh(harness)
    raise AssertionError(f"there is always something left to do: {work}")


def content(harness: Harness) -> dict[str, list[str]]:
    """Every row of every table but for how it was read."""
    found = harness.everything()
    for name in SYSTEM:
        rows = harness.rows(name)
        # The first position of a shape is that of its table in the chunk that was decoded at once.
        left_out = HOW_IT_WAS_READ | ({"first_position"} if name == "table_shapes" else set())
        found[name] = sorted(
            repr({column: row[column] for column in sorted(row) if column not in left_out}) for row in rows
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


@pytest.mark.parametrize("seed", [1, 2])
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
    for number, some in enumerate(pieces(read_at_once["messages"], random, 6)):
        write_capture(capture, some, name=f"piece{number}")
        refresh(harness)
        if random.random() < 0.3:
            settle(harness)
    settle(harness)
    found = content(harness)
    for name, expected in read_at_once["content"].items():
        assert found[name] == expected, name


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
        settle(harness)
        seen = [one for one in source.changes if one.arrived <= at + 11 * SECOND]
        assert harness.snapshots(source.tables)["items"] == folded(source.tables, seen)["items"]
    (cut,) = harness.pipeline.ledger.cuts()
    assert len(cut.made_by) == 4
    assert len(harness.pipeline.lake.data_files(harness.pipeline.path("raw_envelopes"))) == 4 * LANES
    assert {row.closed_by for row in harness.pipeline.ledger.windows()} == {"open"}
