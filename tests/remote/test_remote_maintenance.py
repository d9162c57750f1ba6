"""Maintenance of a lake with a real REST catalog and S3: versions, orphans and sizes by the store's own listing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from dts_assets.flows.lake_size import lake_bytes
from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.orphans import find_orphans, remove_orphans
from dts_assets.flows.this_process import this_process
from dts_assets.model.maintenance import Step, StepReport
from dts_assets.planning.orphans import OrphanRule
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.table_files import lying_files, named_places
from dts_emulator.machine.rest_lake import WAREHOUSE, can_start, private_rest_lake
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import InProcess
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture

pytestmark = pytest.mark.long

EAGER = {"expire_after": "1s", "keep_versions": 1, "orphans_after": "1d", "steps": [str(one) for one in Step]}
LATER = timedelta(days=10)


@pytest.fixture(params=["configured keys", "vended keys"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if not can_start():  # 146 MB, which only these tests need
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "rest"], check=True)
    capture = write_capture(tmp_path / "capture", three_windows(items()).messages)
    with private_rest_lake(vends=request.param == "vended keys") as properties:
        bench = Bench(InProcess(), LakeLocation(WAREHOUSE, dict(properties)), tmp_path, "kept")  # type: ignore[arg-type]
        made = bench.open(capture, partitions=LANES, window={"end": border(3)}, maintenance=EAGER)
        for number in range(3):
            made.all(number)
        yield made


def maintained(harness: Harness, *only: Step, dry_run: bool = False) -> Mapping[Step, StepReport]:
    reports = maintain(
        harness.pipeline,
        only=only,
        dry_run=dry_run,
        spark=this_process,
        progress=harness.lines.append,
        now=datetime.now(UTC) + LATER,
    )
    return {one.step: one for one in reports}


def lying(harness: Harness) -> dict[str, int]:
    """The files of all tables but that of leases, which a slow run renews."""
    paths = [one for one in maintained_paths(harness.pipeline) if one[-1] != "leases"]
    tables = filter(None, map(harness.pipeline.lake.table, paths))
    return {one.place: one.bytes for table in tables for one in lying_files(table)}


def test_old_versions_and_orphans_go_and_all_else_stays(harness: Harness) -> None:
    rows, before = harness.everything(), lying(harness)
    assert len(before) > 100
    sizes = lake_bytes(harness.pipeline, now=datetime.now(UTC) + LATER)
    assert sizes.total().older_bytes > 0
    told = maintained(harness, dry_run=True)
    assert lying(harness) == before
    done = maintained(harness)
    assert [one.failed for one in done.values()] == [()] * len(Step)
    assert done[Step.EXPIRY].freed_bytes >= told[Step.EXPIRY].freed_bytes > 0
    assert harness.everything() == rows
    path = harness.pipeline.table_path("snapshot", table_id("items"))
    table = harness.pipeline.lake.table(path)
    assert table is not None
    left = f"{table.location()}/data/killed/0-{'a' * 32}.parquet"
    with table.io.new_output(left).create() as stream:
        stream.write(b"0123456789")
    scheme, netloc, key = PyArrowFileIO.parse_location(left, table.io.properties)
    store = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, netloc)
    assert isinstance(store, S3FileSystem)
    young = OrphanRule(datetime.now(UTC) - LATER)
    assert find_orphans(harness.pipeline, path, young).files == ()
    # The store says when a file was written, and nobody can say otherwise: so the rule looks from later.
    found = find_orphans(harness.pipeline, path, OrphanRule(datetime.now(UTC) + LATER))
    assert [(one.place, one.bytes) for one in found.files if "killed" in one.place] == [(key, 10)]
    assert set(found.files) == set(remove_orphans(harness.pipeline, path, found))
    now = harness.pipeline.lake.table(path)
    assert now is not None
    assert {one.place for one in lying_files(now)} <= named_places(now)
    assert harness.everything() == rows
    for path in maintained_paths(harness.pipeline):
        opened = harness.pipeline.lake.table(path)
        for one in [] if opened is None else opened.metadata.snapshots:
            assert opened is not None
            opened.scan(snapshot_id=one.snapshot_id).to_arrow()
