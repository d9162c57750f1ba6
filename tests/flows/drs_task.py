"""A source table of which a task of DRS JSON-C sends what happens, in two Kafka partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.flows.source import Message

TYPES = {"id": "int", "owner": "varchar", "balance": "decimal", "seen": "timestamp"}
Row = dict[str, str | None]


class DrsTask:
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
