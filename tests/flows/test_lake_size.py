"""Sizes are those of the files on disk, each counted once, and what a setting would free is what it frees."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dts_assets.flows.lake_size import Freed, LakeBytes, Supposed, lake_bytes
from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.model.maintenance import Step
from tests.flows.harness import Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES
from tests.flows.source import write_capture
from tests.flows.test_maintenance import LATER, WINDOWS, busy, maintained, on_disk, opened

DAY = timedelta(days=1)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    made = opened(tmp_path, write_capture(tmp_path / "capture", busy().messages))
    for number in range(WINDOWS):
        made.all(number)
    return made


def sizes(harness: Harness, **options: object) -> LakeBytes:
    return lake_bytes(harness.pipeline, now=datetime.now(UTC) + LATER, **options)  # type: ignore[arg-type]


def counted(harness: Harness) -> dict[str, int]:
    """The bytes of the files on disk that sizes count: neither lists of manifests nor files of metadata."""
    return {
        path: size
        for path, size in on_disk(harness).items()
        if not path.endswith(".json") and not Path(path).name.startswith("snap-")
    }


@pytest.mark.more
def test_all_files_on_disk_are_counted_once(harness: Harness) -> None:
    found = sizes(harness)
    total = found.total()
    assert total.bytes + total.older_bytes == sum(counted(harness).values())
    assert total.older_bytes > 0
    assert 0 < total.expiring_bytes <= total.older_bytes
    assert total.orphan_bytes == 0
    rows = {one.path: one.rows for one in found.tables}
    for layer in ("changelog", "snapshot"):
        assert rows[harness.pipeline.table_path(layer, table_id("one"))] == len(harness.rows(layer, "bank", "one"))
    assert rows[harness.pipeline.path("entries")] == len(harness.rows("entries"))
    assert sum(one.bytes for one in found.by_layer().values()) == total.bytes
    assert {"raw_envelopes", "entries", "changelog", "snapshot", "ledger", "ddl"} <= found.by_layer().keys()


@pytest.mark.more
def test_what_a_setting_would_free_is_what_it_frees(harness: Harness) -> None:
    told = sizes(harness)
    freed = maintained(harness, Step.EXPIRY)[Step.EXPIRY].freed_bytes
    assert Freed("maintenance.expire_after: 1s", told.total().expiring_bytes) in told.freed
    # The turn of the tables has made versions of the leases since.
    assert told.total().expiring_bytes <= freed <= told.total().expiring_bytes * 1.1
    assert sizes(harness).total().older_bytes < told.total().older_bytes - freed * 0.9


@pytest.mark.more
def test_orphans_are_counted_as_bytes_of_nobody(harness: Harness) -> None:
    before = sizes(harness)
    path = harness.pipeline.table_path("snapshot", table_id("one"))
    table = harness.pipeline.lake.table(path)
    assert table is not None
    left = Path(table.location().removeprefix("file://")) / "data" / "killed" / f"0-{'a' * 32}.parquet"
    left.parent.mkdir()
    left.write_bytes(b"0" * 1234)
    os.utime(left, times=(0, 0))
    found = sizes(harness)
    (mine,) = [one for one in found.tables if one.path == path]
    assert (mine.orphan_files, mine.orphan_bytes) == (1, 1234)
    assert found.total().all_bytes == before.total().all_bytes + 1234
    assert sizes(harness, orphans=False).total().orphan_bytes == 0
    assert left.exists()


@pytest.mark.more
def test_ages_are_supposed_and_single_tables_looked_at(harness: Harness) -> None:
    disk = on_disk(harness)
    never = sizes(harness, supposed=Supposed(expire_after=999 * DAY, raw=DAY, entries=9_999 * DAY))
    assert never.total().expiring_bytes == 0
    freed = {one.setting: one for one in never.freed}
    raw = next(one for one in never.tables if one.path == harness.pipeline.path("raw_envelopes"))
    assert freed["message_retention.raw: 1d"].rows == raw.rows > 0
    assert freed["message_retention.entries: 9999d"].bytes == 0
    (one,) = {table.path[-1] for table in sizes(harness, tables={table_id("one")}).tables}
    assert one == "one"
    assert on_disk(harness) == disk, "nothing is changed"


def test_a_lake_that_is_not_there_has_no_size(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "capture", busy().messages)
    empty = bench_in_process(tmp_path, "empty").open(capture, partitions=LANES)
    assert sizes(empty) == LakeBytes()
    assert len(maintained_paths(empty.pipeline)) > 10
