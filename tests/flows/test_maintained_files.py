"""Files that runs have left are compacted, whatever they are of; tags go until they hold few bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dts_assets.flows import entries, tables
from dts_assets.model.maintenance import Step
from tests.flows.harness import Harness, refresh, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, SECOND, items, three_windows
from tests.flows.source import write_capture
from tests.flows.test_maintenance import EAGER, harness_with, maintained, read_every_version

pytestmark = pytest.mark.more

PARTS = 16


@pytest.fixture
def scattered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A lake that followed a topic, and whose runs never came to compact."""
    for module in (entries, tables):
        monkeypatch.setattr(module, "needs_compaction", lambda *_, **__: False)
    messages, capture = three_windows(items()).messages, tmp_path / "capture"
    settings = {"partitions": LANES, "complete": False, "maintenance": EAGER, "cut_tags": 0}
    window = {"end": border(3), "live": True, "grace": 10 * SECOND}
    bench = bench_in_process(tmp_path, "left")
    for number in range(PARTS):
        size = -(-len(messages) // PARTS)
        write_capture(capture, messages[number * size : (number + 1) * size], name=f"part{number}")
        refresh(bench.open(capture, name="left", window=window, **settings))
    made = bench.open(capture, name="left", window=window, **{**settings, "complete": True})
    made.settle()
    return made


def files(harness: Harness, *path: str) -> dict[tuple[object, ...], int]:
    found = harness.pipeline.lake.data_files(harness.pipeline.path(*path))
    return dict(Counter(tuple(file.partition.values()) for file in found))


def test_windows_in_many_files_become_few(scattered: Harness) -> None:
    before = scattered.everything()
    many = {
        path: files(scattered, *path) for path in (("changelog", "bank", "items"), ("raw_envelopes",), ("entries",))
    }
    assert all(max(counts.values()) > 2 for counts in many.values()), many
    told = maintained(scattered, Step.COMPACTION, dry_run=True)[Step.COMPACTION]
    done = maintained(scattered, Step.COMPACTION)[Step.COMPACTION]
    assert done.failed == ()
    assert told.tables == done.tables >= 3
    assert told.numbers["files_before"] == done.numbers["files_before"] > done.numbers["files_after"]
    for path, counts in many.items():
        now = files(scattered, *path)
        assert now.keys() == counts.keys()
        assert max(now.values()) <= 2, path
    assert scattered.everything() == before
    read_every_version(scattered)
    assert maintained(scattered, Step.COMPACTION)[Step.COMPACTION].tables == 0
    assert scattered.settle() <= 1, "nothing is stale by it"
    assert scattered.everything() == before


@pytest.mark.parametrize(("most", "left"), [("1GB", ["cut-a", "cut-b", "mine"]), ("0B", ["mine"])])
def test_tags_of_moments_go_until_they_hold_few_bytes(scattered: Harness, most: str, left: list[str]) -> None:
    path = scattered.pipeline.table_path("snapshot", table_id("items"))
    table = scattered.pipeline.lake.table(path)
    assert table is not None
    first, second, third, *_ = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    manager = table.manage_snapshots().create_tag(first.snapshot_id, "cut-a").create_tag(second.snapshot_id, "cut-b")
    manager.create_tag(third.snapshot_id, "mine").commit()
    sized = harness_with(scattered, {**EAGER, "tags_size": most})
    told = maintained(sized, Step.TAGS, dry_run=True)[Step.TAGS]
    done = maintained(sized, Step.TAGS)[Step.TAGS]
    assert told == done
    now = scattered.pipeline.lake.table(path)
    assert now is not None
    assert sorted(name for name in now.metadata.refs if name != "main") == left
    maintained(sized, Step.EXPIRY)
    read_every_version(scattered)
