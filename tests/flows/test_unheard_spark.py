"""A first version of a snapshot by Spark, to which the catalog gave no answer, does not stand beside the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from dts_assets.flows import snapshots
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import DATABASE, folded

pytestmark = pytest.mark.spark


def test_a_first_version_that_landed_unheard_is_written_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = snapshots._write, []

    def without_an_answer(pipeline: Any, job: Any, spark: Any, branch: str) -> None:
        real(pipeline, job, spark, branch)
        written.append(job.current)
        if len(written) == 1:
            raise CommitStateUnknownException("504")

    monkeypatch.setattr(snapshots, "REFRESH_ROWS", -1)  # nothing goes by tasks
    monkeypatch.setattr(snapshots, "_write", without_an_answer)
    source = three_windows(items("one"))
    harness = open_short(bench, tmp_path / "capture", source.messages)
    with pytest.raises(CommitStateUnknownException):
        harness.all(0)
    harness.all(0)
    assert written == [None, None]
    seen = [change for change in source.changes if change.arrived < border(1)]
    found = harness.snapshots(source.tables)
    assert found == folded(source.tables, seen)
    state = harness.pipeline.lake.state(harness.pipeline.path("snapshot", DATABASE, "one"))
    assert state is not None
    assert int(state.properties["total-records"]) == len(found["one"]), "Spark adds to the totals of the empty version"
