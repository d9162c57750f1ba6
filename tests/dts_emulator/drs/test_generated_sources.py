"""Tables of Oracle and SQL Server, made by rules of the vendor's pages, end equal to the model that made their messages."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from dts_assets.model.tables import TableId
from dts_emulator.drs.generated_sources import GeneratedSource
from dts_emulator.messages.capture_files import write_capture
from tests.flows.in_process import bench_in_process
from tests.tiers import chosen, times

START, HOUR = datetime(2026, 1, 5, tzinfo=UTC), timedelta(hours=1)
NAMES = ("ID", "NAME", "AMOUNT", "CV")


@pytest.mark.parametrize("kind", chosen(["oracle", "sqlserver"], 1))
@pytest.mark.parametrize("seed", range(times(1, 10)))
def test_snapshots_end_equal_to_the_model_in_any_order_of_windows(
    kind: Literal["oracle", "sqlserver"], seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    source = GeneratedSource(kind, random, partitions=2)
    write_capture(source.messages(times(150, 500)), tmp_path / "capture", topic="one")
    windows = [*range(source.number // 60 + 1)]
    harness = bench_in_process(tmp_path, kind).open(
        tmp_path / "capture", format="drs-json", partitions=2, tables={"include": ["*"]},
        window={"every": HOUR, "start": START, "end": START + len(windows) * HOUR},
    )  # fmt: skip
    random.shuffle(windows)
    for number in (*windows, windows[0]):
        harness.all(number)
    harness.settle()
    assert harness.rows("quarantine") == []
    for (schema, table), rows in source.tables.items():
        place = TableId("" if kind == "oracle" else "shop", schema, table)
        found = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", place))
        assert found is not None
        mine = Counter(tuple(row[name] for name in NAMES) for row in found.to_pylist())
        assert mine == Counter(tuple(row[name] for name in NAMES) for row in rows.values()), place
