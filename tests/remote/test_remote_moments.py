"""Tables as of a moment of a lake with a real REST catalog and S3: the files of stored versions stay where they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dts_assets.flows.moments import TablesAt, tables_at
from dts_assets.model.cut_tags import tag_of
from dts_assets.planning.source_moments import AtPosition, AtWindow
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.table_reader import read_rows
from dts_assets.store.tags import cut_tags
from dts_emulator.machine.rest_lake import WAREHOUSE, can_start, private_rest_lake
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import InProcess
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture

pytestmark = pytest.mark.long


@pytest.fixture(params=["configured keys", "vended keys"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if not can_start():  # 146 MB, which only these tests need
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "rest"], check=True)
    capture = write_capture(tmp_path / "capture", three_windows(items()).messages)
    with private_rest_lake(vends=request.param == "vended keys") as properties:
        bench = Bench(InProcess(), LakeLocation(WAREHOUSE, dict(properties)), tmp_path, "moments")  # type: ignore[arg-type]
        made = bench.open(capture, partitions=LANES, window={"end": border(3)})
        for number in range(3):
            made.all(number)
        yield made


def texts(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.drop_columns(["_sum"]).to_pylist()))


def rows_of(found: TablesAt) -> list[str]:
    (table,) = found.tables.values()
    rows = texts(table.scan().to_arrow())
    assert texts(read_rows(table).read_all()) == rows
    return rows


def test_moments_are_the_versions_and_what_lies_between_them(harness: Harness, tmp_path: Path) -> None:
    pipeline = harness.pipeline
    path = ("snapshot", "bank", "items")
    stored = pipeline.lake.table(pipeline.path(*path))
    assert stored is not None
    tags = {tag_of(harness.windows(number)[0]): number for number in range(2)}  # the last window has no cut
    assert cut_tags(stored).keys() == tags.keys()
    for number in range(3):
        found = tables_at(pipeline, AtWindow(harness.windows(number)[0].start), tmp_path / f"window_{number}")
        assert found.begun
        if (tag := tag_of(harness.windows(number)[0])) in tags:
            assert rows_of(found) == texts(stored.scan().use_ref(tag).to_arrow())
        if number == 2:
            assert rows_of(found) == sorted(map(repr, harness.rows(*path)))
    changes = harness.rows("changelog", *path[1:])
    position = sorted(tuple(row["source_position"].values()) for row in changes)[len(changes) * 2 // 3]
    between = tables_at(pipeline, AtPosition(*position), tmp_path / "between")
    assert between.begun
    assert rows_of(between) not in ([], rows_of(found))
    ((_, version),) = between.begun.items()
    assert rows_of(between) != texts(stored.scan(snapshot_id=version).to_arrow())
