"""Snapshots stand at the last window before the first one that is missing, and never go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import open_short, three_windows
from tests.flows.source import folded

pytestmark = pytest.mark.spark


def test_windows_behind_a_hole_are_applied_when_it_is_filled(bench: Bench, tmp_path: Path) -> None:
    source = three_windows()
    harness = open_short(bench, tmp_path / "capture", source.messages)
    first = folded(source.tables, [change for change in source.changes if change.arrived < border(1)])
    second = folded(source.tables, [change for change in source.changes if change.arrived < border(2)])
    final = folded(source.tables, source.changes)
    harness.raw()
    harness.entries()

    report = harness.tables(0)
    assert [window.applied for window in report.windows] == [True]
    assert harness.snapshots(source.tables) == first

    report = harness.tables(2)
    assert [window.applied for window in report.windows] == [False]
    assert [table.layers["snapshot"].committed for table in report.tables] == [False]
    assert harness.snapshots(source.tables) == first
    kept = {row["window_start"] for row in harness.rows("changelog", "bank", "items")}
    assert kept == {border(0), border(2)}

    report = harness.tables(1)
    assert [window.applied for window in report.windows] == [True]
    assert harness.snapshots(source.tables) == final

    # A window whose mark is lost is a hole in the ledger, but what was applied is not taken back.
    harness.pipeline.ledger.replace_cuts(harness.windows(1), [])
    harness.tables(0)
    assert harness.snapshots(source.tables) == final
    harness.settle()
    assert harness.snapshots(source.tables) == final != second
