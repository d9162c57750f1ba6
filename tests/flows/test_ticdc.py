"""TiCDC in Canal's form: watermarks make cuts, and what is sent again is stored once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Completeness
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.source import write_capture
from tests.flows.test_any_order import assert_equal
from tests.flows.ticdc_task import Ticdc, timestamp

pytestmark = pytest.mark.spark

SETTINGS: dict[str, Any] = {"format": "canal-json", "partitions": 2, "window": {"end": border(3)}, "complete": False}


def stream(seed: int = 5) -> Ticdc:
    """Three windows. TiCDC is started anew in the second one and at the begin of the third, and sends again what it had sent."""
    task = Ticdc(seed)
    task.work(border(0) + timedelta(seconds=5), 40)
    task.work(border(1) + timedelta(seconds=5), 20)
    task.restart(border(1) + timedelta(seconds=40), since=timestamp(border(0) + timedelta(seconds=30)))
    task.work(border(1) + timedelta(seconds=60), 20)
    task.restart(border(2) + timedelta(seconds=1), since=timestamp(border(1) + timedelta(seconds=70)))
    task.work(border(2) + timedelta(seconds=5), 20)
    task.mark(border(3) + timedelta(seconds=1), timestamp(border(3)))
    return task


def content(harness: Harness) -> tuple[Any, Any, Any]:
    def keyed(table: str) -> dict[str, Any]:
        rows = harness.rows("snapshot", "bank", table)
        return {
            str(row["id"]): {name: None if row[name] is None else str(row[name]) for name in row if name[0] != "_"}
            for row in rows
        }

    lines = Counter((row["text"], str(row["number"])) for row in harness.rows("snapshot", "bank", "lines"))
    return keyed("accounts"), lines, keyed("shift")


def test_windows_in_any_order_stand_at_the_least_watermark_and_copies_are_stored_once(
    bench: Bench, tmp_path: Path
) -> None:
    task = stream()
    capture = write_capture(tmp_path / "capture", task.messages)
    forwards = bench.open(capture, **SETTINGS)
    for number in range(3):
        forwards.all(number)
    backwards = bench.open(capture, **SETTINGS)
    for number in (2, 0, 1):
        backwards.all(number)
    backwards.settle()
    assert forwards.settle() == 0
    assert_equal(backwards, forwards)
    ledger = forwards.pipeline.ledger
    assert {row.completeness for row in ledger.cuts()} == {Completeness.OBSERVED}
    assert {row.consistency for row in ledger.cuts()} == {"cut"}
    assert {problem.code for row in ledger.windows() for problem in row.problems} <= {"ddl"}
    last = max(ledger.cuts(), key=lambda row: row.window.start)
    assert last.cut == SourcePosition(0, 0, timestamp(border(2) + timedelta(seconds=25)))
    assert content(forwards) == task.content(last.cut.position)
    changes = Counter(body["table"] for _, _, body in task.log if not body["isDdl"])
    kept = Counter[str]()
    for row in ledger.window_tables():
        kept[row.table.table] += row.kept
    assert kept == changes
    assert sum(row.redelivered for row in ledger.window_tables()) == task.copies.total() > 0
    statements = [body for _, _, body in task.log if body["isDdl"]]
    assert len(forwards.rows("ddl")) == len(statements)


def test_columns_stand_in_the_order_of_the_table_and_places_are_timestamps(bench: Bench, tmp_path: Path) -> None:
    task = stream()
    harness = bench.open(write_capture(tmp_path / "capture", task.messages), **SETTINGS)
    harness.all(0)
    first = next(body for _, _, body in task.log if body["table"] == "accounts")
    rows = harness.rows("changelog", "bank", "accounts")
    assert [name for name in rows[0]["after"] or rows[0]["before"]] == ["id", "owner", "balance"]
    assert min(row["source_position"]["position"] for row in rows) == first["_tidb"]["commitTs"]
    assert {(row["source_position"]["lineage"], row["source_position"]["file"]) for row in rows} == {(0, 0)}
    shapes = {
        tuple(one.name for one in row.columns)
        for row in harness.pipeline.ledger.table_shapes()
        if row.table.table == "accounts"
    }
    assert shapes == {("id", "owner", "balance")}
