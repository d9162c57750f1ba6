"""A source table of which a task of DRS sends what happens, in two Kafka partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from tests.flows.source import Message

TYPES = {"id": "int", "owner": "varchar", "balance": "decimal", "seen": "timestamp"}
Row = dict[str, str | None]


class DrsTask:
    """A source table and the task that sends it into two Kafka partitions by key; every message carries the task's ``id``."""

    def __init__(self, seed: int, *, form: str = "drs-json-c") -> None:
        self.random = Random(seed)
        self.form = form
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
            found = json.loads(body)
            self.repeated += len(found["data"] or found["old"])

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
        sent = [self._sent(one) for one in rows]
        before = None if old is None else [self._sent(one) for one in old]
        data, old_rows = (None, sent) if kind == "DELETE" and self.form == "drs-json" else (sent, before)
        body: dict[str, Any] = {
            "mysqlType": TYPES, "id": self._id, "es": int(at.timestamp()) * 1000, "ts": int(at.timestamp() * 1000) + 250,
            "database": "bank", "table": "accounts", "type": kind, "isDdl": False, "sql": "", "sqlType": {},
            "data": data, "old": old_rows, "pkNames": ["id"],
        }  # fmt: skip
        partition = 0 if len(rows) > 1 else int(str(rows[0]["id"])) % 2
        encoded = json.dumps(body, separators=(",", ":")).encode()
        self.bodies.append((partition, encoded))
        self._put(partition, encoded, at)

    def _sent(self, row: Row) -> Row:
        """A row as the format has it: JSON sends a TIMESTAMP as seconds since the epoch."""
        if self.form != "drs-json" or row["seen"] is None:
            return row
        wall = datetime.strptime(row["seen"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone(timedelta(hours=8)))
        return {**row, "seen": f"{wall.timestamp():.3f}"}

    def _put(self, partition: int, body: bytes, at: datetime) -> None:
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        self.messages.append(Message(partition, offset, at, body, offset))
