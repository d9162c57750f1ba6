"""A whole stream in one rectangle: what the tables and the ledger hold equals what the source did."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.flows.harness import Harness, changelog_row, in_order
from tests.flows.history import END, History, border
from tests.flows.source import DATABASE

pytestmark = pytest.mark.spark


def test_snapshots_equal_the_source(bank: History, rectangle: Harness) -> None:
    assert rectangle.snapshots(bank.source.tables) == bank.final()


def test_changelogs_equal_the_binlog_in_order(bank: History, rectangle: Harness) -> None:
    for name, table in bank.source.tables.items():
        rows = rectangle.rows("changelog", DATABASE, name)
        assert all(row.pop("absent") == [] and row.pop("invalid") == [] for row in rows)
        expected = [changelog_row(table, change) for change in bank.source.changes if change.table == name]
        assert in_order(rows) == in_order(expected)


def test_the_counts_of_every_cell_add_up(bank: History, rectangle: Harness) -> None:
    rows = rectangle.pipeline.ledger.windows()
    assert len(rows) == 4 * 3
    for row in rows:
        assert row.counts.balanced
        mine = [one for one in bank.source.messages if one.partition == row.kafka_partition]
        inside = [one for one in mine if row.window.start <= one.time < row.window.end]
        assert row.counts.messages == len(inside)
        assert all(row.offsets.start <= one.offset < row.offsets.end for one in inside)
        assert row.completeness.value == "contiguous"
        expected = max(
            (
                one.position
                for one in bank.source.checkpoints
                if one.partition == row.kafka_partition and row.window.start <= one.time < row.window.end
            ),
            default=None,
        )
        found = None if row.checkpoint is None else (row.checkpoint.file, row.checkpoint.position)
        assert found == expected
    total = sum((row.counts for row in rows[1:]), rows[0].counts)
    assert total.carried_in == total.carried_out > 0
    assert total.fragments == total.joined - total.carried_in + total.carried_out
    assert total.quarantined_messages == total.waiting == total.superseded == 0
    for partition in range(3):
        ranges = [row.offsets for row in rows if row.kafka_partition == partition]
        assert all(one.end == other.start for one, other in pairwise(ranges))


def test_the_ledger_counts_the_changes_of_every_table(bank: History, rectangle: Harness) -> None:
    expected = Counter(
        (bank.window_of(change.arrived), change.partition, change.table) for change in bank.source.changes
    )
    rows = rectangle.pipeline.ledger.window_tables()
    found = {(bank.window_of(row.window_start), row.kafka_partition, row.table.table): row for row in rows}
    assert {key: row.changes for key, row in found.items()} == expected
    for key, row in found.items():
        mine = [
            change.position
            for change in bank.source.changes
            if (bank.window_of(change.arrived), change.partition, change.table) == key
        ]
        assert row.kept == row.changes
        assert row.quarantined == row.redelivered == row.absent_rows == row.invalid_values == 0
        assert row.first_position is not None
        assert row.last_position is not None
        assert (row.first_position.file, row.first_position.position) == min(mine)
        assert (row.last_position.file, row.last_position.position) == max(mine)


def test_cuts_are_where_all_partitions_agree(bank: History, rectangle: Harness) -> None:
    rows = rectangle.pipeline.ledger.cuts()
    assert [row.window.end for row in rows] == [border(number) for number in range(1, 4)] + [END]
    for row, end in zip(rows, bank.ends(), strict=True):
        assert row.consistency == ("window" if end.cut is None else "cut")
        if end.cut is not None:
            assert row.cut is not None
            assert (row.cut.file, row.cut.position) == end.cut
        assert row.completeness.value == ("proven" if end.vouched else "contiguous")
        assert row.problems == ()
