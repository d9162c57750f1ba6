"""Versions of layers that may have plain values: they go, with the tags of cuts that keep them, once no layer needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.flows.ruled_changelogs import PLAIN_PROPERTY, forget_plain_versions, note_plain_versions
from dts_assets.store.tags import cut_tags
from tests.flows.harness import Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.short import open_short, three_windows

pytestmark = pytest.mark.more

ITEMS = table_id("items")


def versions(harness: Harness) -> dict[str, tuple[int, int]]:
    """By layer: how many versions it has, and how many tags are not at its present one."""
    found, pipeline = {}, harness.pipeline
    for layer in pipeline.layers:
        there = pipeline.lake.table(pipeline.table_path(layer.name, ITEMS))
        if there is None:
            continue
        current = there.current_snapshot()
        assert current is not None
        others = [one for one in cut_tags(there).values() if one != current.snapshot_id]
        found[layer.name] = (len(there.metadata.snapshots), len(others))
    return found


def is_noted(harness: Harness) -> bool:
    there = harness.pipeline.lake.table(harness.pipeline.table_path("changelog", ITEMS))
    assert there is not None
    return PLAIN_PROPERTY in there.properties


def test_earlier_versions_and_their_tags_go_and_the_note_after_them(tmp_path: Path) -> None:
    harness = open_short(bench_in_process(tmp_path, "plain"), tmp_path / "capture", three_windows().messages, windows=3)
    for number in range(3):
        harness.all(number)
    before = versions(harness)
    assert min(count for count, _ in before.values()) > 1
    assert before["snapshot"][1] > 0
    rows = harness.rows("snapshot", *ITEMS.path)
    note_plain_versions(harness.pipeline, [ITEMS])
    assert is_noted(harness)
    forget_plain_versions(harness.pipeline, harness.lines.append, [ITEMS])
    assert versions(harness) == dict.fromkeys(before, (1, 0))
    assert not is_noted(harness)
    assert harness.rows("snapshot", *ITEMS.path) == rows
