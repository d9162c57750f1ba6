"""Nothing twice: a stream that was delivered again in every way gives the tables of one that was not."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.flows.harness import Bench, Harness, changelog_row, in_order
from tests.flows.history import WINDOWS, History, border
from tests.flows.redelivery import Again, again
from tests.flows.source import DATABASE, write_capture
from tests.flows.test_any_order import assert_equal

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def stream(bank: History) -> Again:
    """Restarts and repeats all over, and the first quarter once more two windows later."""
    return again(bank.source.messages, bank.source.changes, 5, late=border(2) + timedelta(minutes=3))


def check(harness: Harness, bank: History, stream: Again) -> None:
    assert harness.snapshots(bank.source.tables) == bank.final()
    for name, table in bank.source.tables.items():
        rows = harness.rows("changelog", DATABASE, name)
        assert all(row.pop("absent") == [] and row.pop("invalid") == [] for row in rows)
        expected = [changelog_row(table, change) for change in stream.changes if change.table == name]
        assert in_order(rows) == in_order(expected)
    found: Counter[tuple[int, tuple[int, int], int, str]] = Counter()
    first = {(one.partition, one.position): one.last_offset for one in stream.changes}
    for row in harness.rows("redeliveries"):
        at = (row["source_position"]["file"], row["source_position"]["position"])
        found[row["kafka_partition"], at, row["row_number"], row["reason"]] += 1
        assert row["kept_partition"] == row["kafka_partition"]
        assert row["kept_offset"] == first[row["kafka_partition"], at] < row["kafka_offset"]
        assert row["stage"] == "tables"
    assert found == stream.repeated
    tallies = harness.pipeline.ledger.window_tables()
    assert all(row.changes == row.kept + row.redelivered + row.quarantined for row in tallies)
    assert sum(row.redelivered for row in tallies) == sum(stream.repeated.values()) > 100
    assert sum(row.kept for row in tallies) == len(stream.changes)
    assert all(row.counts.balanced for row in harness.pipeline.ledger.windows())
    assert [(row.lineage, row.shard) for row in harness.pipeline.ledger.lineages()] == [(0, "")]


def test_what_arrives_again_is_listed_and_left_out(bench: Bench, bank: History, stream: Again, tmp_path: Path) -> None:
    harness = bench.open(write_capture(tmp_path / "capture", stream.messages))
    harness.all()
    harness.settle()
    check(harness, bank, stream)


@pytest.mark.long
def test_what_arrives_again_is_listed_and_left_out_in_any_order_of_windows(
    bench: Bench, bank: History, stream: Again, tmp_path: Path
) -> None:
    capture = write_capture(tmp_path / "capture", stream.messages)
    forwards = bench.open(capture)
    for number in range(WINDOWS):
        forwards.all(number)
    forwards.settle()
    check(forwards, bank, stream)
    backwards = bench.open(capture)
    for number in reversed(range(WINDOWS)):
        backwards.all(number)
    assert backwards.settle() > 0
    check(backwards, bank, stream)
    assert_equal(backwards, forwards)
