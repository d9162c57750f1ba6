"""DRS: identity by ``id`` and content. A resumed task sends again what it had sent, and one made anew begins again."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from tests.flows.drs_avro_topic import in_drs_avro
from tests.flows.drs_avro_topic import settings as avro_settings
from tests.flows.drs_task import DrsTask, Row
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.source import write_capture
from tests.flows.test_any_order import assert_equal
from tests.tiers import chosen

pytestmark = pytest.mark.spark


def shown(harness: Harness) -> dict[str, Row]:
    rows = harness.rows("snapshot", "bank", "accounts")
    found: dict[str, Row] = {}
    for row in rows:
        seen = row["seen"].astimezone(UTC) + timedelta(hours=8)
        found[str(row["id"])] = {
            "id": str(row["id"]), "owner": row["owner"], "balance": row["balance"],
            "seen": seen.strftime("%Y-%m-%d %H:%M:%S"),
        }  # fmt: skip
    return found


@pytest.mark.parametrize("form", chosen(["drs-json-c", "drs-json", "drs-avro"], 1))
def test_a_resumed_task_and_one_made_anew_in_any_order(bench: Bench, tmp_path: Path, form: str) -> None:
    task = DrsTask(4, form="drs-json" if form == "drs-avro" else form)
    task.work(border(0) + timedelta(seconds=5), 40)
    task.work(border(1) + timedelta(seconds=5), 40)
    task.resume(border(2) + timedelta(seconds=5), 30)  # into the window before: after an empty stretch
    task.work(border(2) + timedelta(seconds=60), 40)
    task.resume(border(2) + timedelta(seconds=300), 5)
    task.begin_anew(border(2) + timedelta(seconds=400))
    task.work(border(2) + timedelta(seconds=410), 20)
    task.resume(border(2) + timedelta(seconds=500), 10)
    messages, named = task.messages, {"format": form}
    if form == "drs-avro":  # a schema with names of its own, and several frames in one topic
        messages, named = in_drs_avro(task.messages, seed=6), avro_settings(tmp_path)
    capture = write_capture(tmp_path / "capture", messages)
    settings: dict[str, Any] = {
        **named, "partitions": 2, "source_time_zone": "+08:00", "window": {"end": border(3)},
    }  # fmt: skip
    forwards = bench.open(capture, **settings)
    for number in range(3):
        forwards.all(number)
    backwards = bench.open(capture, **settings)
    for number in (2, 1, 0):
        backwards.all(number)
    assert backwards.settle() > 0
    forwards.settle()
    assert_equal(backwards, forwards)
    assert shown(forwards) == task.rows
    ledger = forwards.pipeline.ledger
    assert [row.lineage for row in ledger.lineages()] == [0, 1]
    emptied = [row for row in forwards.rows("changelog", "bank", "accounts") if row["op"] == "truncate"]
    assert [row["source_position"] for row in emptied] == [{"lineage": 1, "file": 0, "position": 1000}]
    tallies = ledger.window_tables()
    assert sum(row.kept for row in tallies) == task.changes
    assert sum(row.redelivered for row in tallies) == task.repeated
    assert {row["reason"] for row in forwards.rows("redeliveries")} == {"reread"}
    assert {row.completeness for row in ledger.windows()} == {Completeness.OBSERVED}  # no sequence, no transactions
    assert {row.consistency for row in ledger.cuts()} == {"window"}
