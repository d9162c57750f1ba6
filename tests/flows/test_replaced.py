"""A window is replaced exactly: by a repaired recording, by a spoilt one, and by nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.model.problems import Reason
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import LANES, in_window, open_short, three_windows, with_values
from tests.flows.source import folded, write_capture

pytestmark = [pytest.mark.spark, pytest.mark.more]


@pytest.mark.more
def test_a_middle_window_is_spoilt_repaired_and_spoilt_again(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    middle = [one for one in source.changes if border(1) <= one.arrived < border(2)]
    lost = {(one.partition, one.last_offset) for one in middle if one.partition == 1}
    garbage = {
        (one.partition, one.offset): b"\xff" * len(one.value or b"")  # as long as what it stands for
        for one in source.messages
        if (one.partition, one.offset) in lost
    }
    rest = [one for one in source.changes if (one.partition, one.last_offset) not in lost]
    assert {one.operation for one in source.changes} == {one.operation for one in middle}
    bad = write_capture(tmp_path / "bad", with_values(source.messages, garbage))
    good = write_capture(tmp_path / "good", source.messages)
    window = {"end": border(3)}

    harness = bench.open(bad, name="spoilt", partitions=LANES, window=window)
    harness.all()
    assert harness.snapshots(source.tables) == folded(source.tables, rest)
    found = harness.pipeline.ledger.quarantine()
    assert {(row.kafka_partition, row.first_offset) for row in found} == lost
    assert {row.reason for row in found} == {Reason.UNDECODABLE_MESSAGE}

    harness = bench.open(good, name="spoilt", partitions=LANES, window=window)
    harness.raw(1)
    assert [str(cell) for cell in find_work(harness.pipeline).stale_entries] == ["p01|2026-03-01-10:10"]
    harness.settle()
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)
    assert harness.pipeline.ledger.quarantine() == []

    # Back again: rows that only the good recording had must go.
    harness = bench.open(bad, name="spoilt", partitions=LANES, window=window)
    harness.raw(1)
    harness.settle()
    assert harness.snapshots(source.tables) == folded(source.tables, rest)


def test_a_window_whose_rows_vanished_is_replaced_by_nothing(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    harness = open_short(bench, tmp_path / "capture", source.messages, name="vanished")
    harness.all()
    emptied = {(one.partition, one.offset): None for one in source.messages if in_window(one, 1)}
    harness = open_short(
        bench, tmp_path / "emptied", with_values(source.messages, emptied), name="vanished"
    )  # fmt: skip
    harness.raw(1)
    harness.settle()
    rest = [one for one in source.changes if not border(1) <= one.arrived < border(2)]
    assert harness.snapshots(source.tables) == folded(source.tables, rest)
    assert {row["window_start"] for row in harness.rows("changelog", "bank", "items")} == {border(0), border(2)}
    assert {row["window_start"] for row in harness.rows("entries")} == {border(0), border(2)}
    ledger = harness.pipeline.ledger
    assert ledger.window_tables(harness.windows(1)) == []
    assert ledger.table_shapes(harness.windows(1)) == []
    assert [row.counts.null_messages for row in ledger.windows(harness.windows(1))] == [
        sum(1 for one in emptied if one[0] == lane) for lane in range(LANES)
    ]
