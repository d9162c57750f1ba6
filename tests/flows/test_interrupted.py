"""A flow that is killed between any two commits leaves nothing half done, and running it again gives equal tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import snapshot_merges
from dts_assets.flows.find_work import find_work
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.harness import Bench
from tests.flows.history import border
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import folded
from tests.tiers import ALL

pytestmark = pytest.mark.spark


class Killed(BaseException):
    """Stands for the end of the process."""


def test_flows_go_on_from_every_commit(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = three_windows(items("one"), items("two"), items("three"))
    reference = open_short(bench, tmp_path / "capture", source.messages)
    reference.all()
    harness = open_short(bench, tmp_path / "capture", source.messages)
    before = folded(source.tables, [change for change in source.changes if change.arrived < border(1)])
    after = folded(source.tables, [change for change in source.changes if change.arrived < border(2)])

    def killed(step: Callable[[int], object], owner: Any, name: str, *, calls: int = 0, after: bool = False) -> None:
        """Run a step for window 1 that ends at a call of ``owner.name``: before it, or after as many calls."""
        original = getattr(owner, name)
        seen = 0

        def instead(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen <= calls:
                return original(*args, **kwargs)
            if after:
                original(*args, **kwargs)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, instead)
            with pytest.raises(Killed):
                step(1)

    harness.all(0)
    killed(harness.raw, Lake, "replace")
    assert harness.pipeline.ledger.raw_windows(harness.windows(1)) == []
    killed(harness.raw, Ledger, "replace_raw_windows")
    assert len(find_work(harness.pipeline).ingest) == 2 * 2
    harness.raw(1)

    killed(harness.entries, Lake, "replace", after=True)
    killed(harness.entries, Lake, "replace", calls=1)
    killed(harness.entries, Ledger, "replace_table_shapes")
    killed(harness.entries, Ledger, "replace_windows")
    assert len(find_work(harness.pipeline).ingest) == 2 * 2
    assert harness.pipeline.ledger.windows(harness.windows(1)) == []
    harness.entries(1)

    for calls in (0, 1, 3) if ALL else (1,):  # changelogs of no table, one table, all
        killed(harness.tables, Lake, "replace", calls=calls)
        assert harness.snapshots(source.tables) == before
    killed(harness.tables, Ledger, "replace_window_tables")
    killed(harness.tables, Ledger, "replace_window_tables", after=True)
    assert harness.snapshots(source.tables) == before
    killed(harness.tables, snapshot_merges, "_commit", calls=1)
    shown = harness.snapshots(source.tables)
    assert all(shown[name] in (before[name], after[name]) for name in shown)
    assert shown != before
    killed(harness.tables, Ledger, "replace_cuts")
    assert harness.snapshots(source.tables) == after
    assert harness.windows(1)[0] in find_work(harness.pipeline).tables

    harness.settle()
    assert harness.everything() == reference.everything()

    if not ALL:
        return
    # The same on a window that is made again.
    killed(harness.tables, Lake, "replace", calls=2)
    killed(harness.tables, snapshot_merges, "plan_merge", calls=1)
    assert harness.snapshots(source.tables) == folded(source.tables, source.changes)
    harness.tables(1)
    assert harness.everything() == reference.everything()
