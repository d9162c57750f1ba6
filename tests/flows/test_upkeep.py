"""A lake whose old Iceberg snapshots have gone is brought up to date as one that still has them all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.store import expiry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flows.harness import Bench, Harness

pytestmark = pytest.mark.spark


def snapshots(harness: Harness, *path: str) -> set[int]:
    table = harness.pipeline.lake.table(harness.pipeline.path(*path))
    assert table is not None
    return {one.snapshot_id for one in table.metadata.snapshots}


@pytest.mark.long
def test_snapshots_go_but_for_the_states_that_snapshot_tables_were_made_from(
    bench: Bench, bank_capture: Path, rectangle: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 1)
    monkeypatch.setattr(expiry, "KEEP_FOR", timedelta(0))
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    harness = bench.open(bank_capture)
    for number in range(4):
        harness.raw(number)
        harness.entries(number)
        if number:
            harness.tables(number)  # behind a hole: snapshots cannot follow, and changelogs move on without them
    assert len(snapshots(harness, "raw_windows")) == 1
    harness.tables(0)
    harness.raw(1)
    harness.entries(1)
    harness.tables(1)
    for table, columns in known_tables(harness.pipeline).items():
        if any(column.is_key for column in columns):
            state = harness.pipeline.lake.state(harness.pipeline.table_path("snapshot", table))
            assert state is not None
            made_from = SnapshotState.of_text(state.properties[STATE_PROPERTY]).changelog_snapshot
            assert made_from in snapshots(harness, "changelog", *table.path)
        assert len(snapshots(harness, "changelog", *table.path)) <= 2
    assert harness.settle() <= 2
    assert harness.everything() == rectangle.everything()
