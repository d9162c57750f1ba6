"""A first version of a snapshot by Spark, of which the catalog tells too late, does not stand beside the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import snapshots
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import folded

pytestmark = pytest.mark.spark


def test_a_first_version_that_landed_unheard_is_replaced(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = snapshots._write, []

    def twice(pipeline: Any, job: Any, spark: Any) -> None:
        """The plan of the second time knows no version: the first was on its way when the plan was made."""
        for _ in range(2):
            written.append(job.current)
            real(pipeline, job, spark)

    monkeypatch.setattr(snapshots, "REFRESH_ROWS", -1)  # nothing goes by tasks
    monkeypatch.setattr(snapshots, "_write", twice)
    source = three_windows(items("one"))
    harness = open_short(bench, tmp_path / "capture", source.messages)
    harness.all(0)
    assert written == [None, None]
    seen = [change for change in source.changes if change.arrived < border(1)]
    assert harness.snapshots(source.tables) == folded(source.tables, seen)
