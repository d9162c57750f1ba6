"""Copies of a busy shop, and their judge: the shop's own dump."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dts_assets.flows.copies import Copying, bootstrap_of
from dts_assets.flows.copying import CopyReport, copy_tables
from dts_assets.model.copied_tables import CopyKind
from dts_assets.model.tables import TableId
from dts_emulator.judge.comparison import differences
from dts_emulator.judge.dump import dump_database
from tests.e2e.busy_shop import DATABASE, EMPTY, EVERY, GOODS, LINES, START, Shop
from tests.flows.harness import Bench, Harness


def opened(bench: Bench, shop: Shop, folder: Path, **bootstrap: Any) -> Harness:
    (folder / "capture").mkdir(exist_ok=True)
    return bench.open(
        folder / "capture",
        name=bench.prefix,
        partitions=2,
        window={"every": EVERY, "start": START, "end": None},
        complete=False,
        bootstrap={**shop.bootstrap, **bootstrap},
    )


def copying(harness: Harness) -> Copying:
    """Copies of a shop of which no message may be stored yet, so that somebody has to answer for it."""
    pipeline = harness.pipeline
    return Copying(
        pipeline, bootstrap_of(pipeline), lambda: harness.session, harness.lines.append, server_is_right=True
    )


def copy(harness: Harness, kind: CopyKind = CopyKind.BOOTSTRAP) -> CopyReport:
    return copy_tables(copying(harness), kind)


def judge(bench: Bench, shop: Shop, folder: Path, *, tables: Collection[TableId] = (GOODS, LINES, EMPTY)) -> Harness:
    """Make all windows, and compare the snapshots with the database."""
    windows = shop.record(folder / "capture")
    harness = opened(bench, shop, folder)
    for number in range(windows):
        harness.all(number)
    harness.settle()
    dump_database(shop.server, DATABASE, folder / "content")
    shown = {}
    for table in tables:
        found = harness.pipeline.lake.table(harness.pipeline.table_path("snapshot", table))
        if found is not None:
            shown[table] = found.scan().to_arrow()
    assert differences(shown, folder / "content") == ()
    assert set(shown) >= set(tables) - {EMPTY}
    assert all(row.balanced for row in harness.pipeline.ledger.window_tables())
    return harness
