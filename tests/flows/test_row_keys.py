"""The check of keys on real snapshots: it counts keys that another program put in twice, and can leave large tables out."""

from __future__ import annotations

from pathlib import Path

from dts_assets.flows.row_keys import find_repeated_keys
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import write_capture


def test_a_row_that_another_program_put_in_twice_is_found(tmp_path: Path) -> None:
    source = three_windows(items("one"), items("two"))
    write_capture(tmp_path / "capture", source.messages)
    harness = bench_in_process(tmp_path, "keys").open(tmp_path / "capture", name="keys", partitions=LANES)
    harness.all(0, 1, 2)
    one, two = (source.tables[name].name for name in ("one", "two"))
    found = {table.path[-1]: count for table, count in find_repeated_keys(harness.pipeline).items()}
    assert found == {one: 0, two: 0}

    path = harness.pipeline.path("snapshot", "bank", "one")
    table = harness.pipeline.lake.catalog.load_table(path)
    row = table.scan().to_arrow().slice(0, 1)
    table.append(row)
    found = {table.path[-1]: count for table, count in find_repeated_keys(harness.pipeline).items()}
    assert found == {one: 1, two: 0}
    smallest = find_repeated_keys(harness.pipeline, most_rows=len(source.rows["two"]))
    assert {table.path[-1] for table in smallest} == {two}
