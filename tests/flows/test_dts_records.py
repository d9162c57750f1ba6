"""One workload in DTS Avro, in JSON and in Protobuf gives one changelog and one snapshot, but for what records cannot carry."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from tests.flows.harness import Bench, Harness
from tests.flows.history import WINDOWS, History, border
from tests.flows.record_topics import in_avro, in_json
from tests.flows.redelivery import again
from tests.flows.source import write_capture
from tests.flows.test_any_order import assert_equal
from tests.tiers import chosen
from tests.wire.scenarios import DATA

pytestmark = [pytest.mark.spark, pytest.mark.more]

SETTINGS: dict[str, dict[str, Any]] = {
    "dts-avro": {"format": "dts-avro", "schema": str(DATA / "dts-avro" / "Record.avsc")},
    "dts-json": {"format": "dts-json"},
}
TOLD = {"dts-avro": in_avro, "dts-json": in_json}
CASES = [("dts-avro", True), ("dts-json", True), ("dts-avro", False), ("dts-json", False)]
"""A format, and whether the task reads a part of the binlog again."""


def changes(harness: Harness, table: str) -> list[Any]:
    """The rows of a changelog with milliseconds, without the coordinates of Kafka."""
    names = (
        "op",
        "before",
        "after",
        "absent",
        "invalid",
        "event_time",
        "transaction_id",
        "row_number",
        "kafka_partition",
    )
    found = []
    for row in harness.rows("changelog", "bank", table):
        place = tuple(row["source_position"].values())
        found.append((place, repr([in_millis(row[name]) for name in names])))
    return sorted(found)


def in_millis(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_millis(inner) for name, inner in value.items()}
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


@pytest.mark.parametrize(("form", "told_again"), chosen(CASES, 1))
def test_records_tell_what_protobuf_tells_in_any_order(
    bench: Bench, bank: History, tmp_path: Path, form: str, told_again: bool
) -> None:
    late = border(2) + timedelta(minutes=3)
    retold = again(bank.source.messages, bank.source.changes, 5, late=late)
    messages = retold.messages if told_again else bank.source.messages
    protobuf = bench.open(write_capture(tmp_path / "protobuf", messages))
    protobuf.all()
    protobuf.settle()
    capture = write_capture(tmp_path / form, TOLD[form](messages))
    forwards = bench.open(capture, **SETTINGS[form])
    for number in range(WINDOWS):
        forwards.all(number)
    forwards.settle()
    for name in bank.source.tables:
        assert changes(forwards, name) == changes(protobuf, name), name
    shown = {name: {key: in_millis(row) for key, row in rows.items()} for name, rows in bank.final().items()}
    assert forwards.snapshots(bank.source.tables) == shown
    counted = [
        [(row.table, row.kept, row.redelivered) for row in one.pipeline.ledger.window_tables()]
        for one in (forwards, protobuf)
    ]
    assert _totals(counted[0]) == _totals(counted[1])
    levels = [sorted(row.completeness for row in one.pipeline.ledger.windows()) for one in (forwards, protobuf)]
    assert Completeness.INCOMPLETE not in levels[0]
    assert {row.consistency for row in forwards.pipeline.ledger.cuts()} == {
        row.consistency for row in protobuf.pipeline.ledger.cuts()
    }
    backwards = bench.open(capture, **SETTINGS[form])
    for number in reversed(range(WINDOWS)):
        backwards.all(number)
    backwards.settle()
    assert_equal(backwards, forwards)


def _totals(counted: list[tuple[Any, int, int]]) -> dict[Any, tuple[int, int]]:
    found: dict[Any, tuple[int, int]] = {}
    for table, kept, redelivered in counted:
        before = found.get(table, (0, 0))
        found[table] = (before[0] + kept, before[1] + redelivered)
    return found
