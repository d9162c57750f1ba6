"""DRS JSON-C: identity by ``id`` and content. A resumed task sends again what it had sent, and one made anew begins again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.source import Message, write_capture
from tests.flows.test_any_order import assert_equal

pytestmark = pytest.mark.spark

TYPES = {"id": "int", "owner": "varchar", "balance": "decimal", "seen": "timestamp"}
Row = dict[str, str | None]


class Task:
    """A source table and the task that sends it into two Kafka partitions by key; every message carries the task's ``id``."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rows: dict[str, Row] = {}
        self.messages: list[Message] = []
        self.bodies: list[tuple[int, bytes]] = []
        self.changes = 0
        self.repeated = 0
        self._offsets = [0, 0]
        self._id = 1000

    def work(self, start: datetime, count: int) -> None:
        for step in range(count):
            at = start + timedelta(seconds=3 * step)
            known = sorted(self.rows)
            kind = self.random.choice(["INSERT", "INSERT", "UPDATE", "DELETE"]) if known else "INSERT"
            if kind == "INSERT":
                rows = [self._row(str(self.random.randint(1, 10**6)), at) for _ in range(self.random.randint(1, 3))]
                old: list[Row] | None = None
            else:
                old = [self.rows[self.random.choice(known)]]
                rows = (
                    [{**old[0], "balance": f"{self.random.randint(0, 10**6) / 100:.2f}"}] if kind == "UPDATE" else old
                )
                old = old if kind == "UPDATE" else None
            self._apply(kind, rows)
            self._send(kind, rows, old, at)

    def resume(self, at: datetime, messages: int) -> None:
        """The last messages once more: same bodies, same ids, new offsets."""
        for partition, body in self.bodies[-messages:]:
            self._put(partition, body, at)
            self.repeated += len(json.loads(body)["data"])

    def begin_anew(self, at: datetime) -> None:
        """The task is made anew while rows go that it never tells of: ids begin again with a full load."""
        for key in sorted(self.rows)[::3]:
            del self.rows[key]
        self._id = 1000
        for key, row in sorted(self.rows.items()):
            self.changes += 1
            self._send("INIT", [{**row, "id": key}], None, at)

    def _row(self, key: str, at: datetime) -> Row:
        wall = (at + timedelta(hours=8)).strftime("%Y-%m-%d %H:%M:%S")  # the source's zone is +08:00
        return {"id": key, "owner": self.random.choice(["Łukasz", "李雷", None]), "balance": "10.00", "seen": wall}

    def _apply(self, kind: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self.changes += 1
            if kind == "DELETE":
                del self.rows[str(row["id"])]
            else:
                self.rows[str(row["id"])] = row

    def _send(self, kind: str, rows: list[Row], old: list[Row] | None, at: datetime) -> None:
        self._id += 1
        body: dict[str, Any] = {
            "mysqlType": TYPES, "id": self._id, "es": int(at.timestamp()) * 1000, "ts": int(at.timestamp() * 1000) + 250,
            "database": "bank", "table": "accounts", "type": kind, "isDdl": False, "sql": "", "sqlType": {},
            "data": rows, "old": old, "pkNames": ["id"],
        }  # fmt: skip
        partition = 0 if len(rows) > 1 else int(str(rows[0]["id"])) % 2
        encoded = json.dumps(body).encode()
        self.bodies.append((partition, encoded))
        self._put(partition, encoded, at)

    def _put(self, partition: int, body: bytes, at: datetime) -> None:
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        self.messages.append(Message(partition, offset, at, body, offset))


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


def test_a_resumed_task_and_one_made_anew_in_any_order(bench: Bench, tmp_path: Path) -> None:
    task = Task(4)
    task.work(border(0) + timedelta(seconds=5), 40)
    task.work(border(1) + timedelta(seconds=5), 40)
    task.resume(border(2) + timedelta(seconds=5), 30)  # into the window before: after an empty stretch
    task.work(border(2) + timedelta(seconds=60), 40)
    task.resume(border(2) + timedelta(seconds=300), 5)
    task.begin_anew(border(2) + timedelta(seconds=400))
    task.work(border(2) + timedelta(seconds=410), 20)
    task.resume(border(2) + timedelta(seconds=500), 10)
    capture = write_capture(tmp_path / "capture", task.messages)
    settings: dict[str, Any] = {
        "format": "drs-json-c", "partitions": 2, "source_time_zone": "+08:00", "window": {"end": border(3)},
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
