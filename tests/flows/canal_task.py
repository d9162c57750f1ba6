"""A source of which Canal sends what happens, in two Kafka partitions: a keyed table, a bag, and one that is emptied at times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.flows.source import Message

TYPES = {
    "accounts": {"id": "int(11)", "owner": "varchar(20)", "balance": "decimal(10,2)", "kind": "enum('new','old')"},
    "lines": {"text": "varchar(20)"},
    "shift": {"id": "int(11)", "note": "text"},
}
KEYS: dict[str, list[str] | None] = {"accounts": ["id"], "lines": None, "shift": ["id"]}
Row = dict[str, str | None]


class Canal:
    """What is in the tables, and the messages that were sent; ``repeated`` counts rows that were sent again."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.accounts: dict[str, Row] = {}
        self.lines: Counter[str] = Counter()
        self.shift: dict[str, str] = {}
        self.messages: list[Message] = []
        self.sent: list[tuple[int, bytes]] = []
        self.changes = 0
        self.statements = 0
        self._offsets = [0, 0]
        self._batch = 0

    def work(self, start: datetime, count: int) -> None:
        """Change the tables, several changes a second; neighbours share a batch."""
        for step in range(count):
            at = start + timedelta(seconds=step // 3)
            self._batch += self.random.random() < 0.4
            self._account(at)
            if step % 4 == 0:
                text = self.random.choice("abc")
                self.lines[text] += 1
                self._send("lines", "INSERT", [{"text": text}], None, at, 1)
            if step % 7 == 0:
                self._new_shift(at)

    def restart(self, at: datetime, messages: int) -> Counter[str]:
        """Send the last messages again, with batch numbers from one on; the lines that come twice."""
        twice: Counter[str] = Counter()
        for partition, value in self.sent[-messages:]:
            self._batch = 1
            body = json.loads(value) | {"id": 1}
            self._put(partition, json.dumps(body).encode(), at)
            if body["isDdl"]:
                self.statements += 1
                continue
            self.changes += len(body["data"])
            if body["table"] == "lines":
                twice.update(row["text"] for row in body["data"])
        return twice

    def _account(self, at: datetime) -> None:
        known = sorted(self.accounts)
        kind = self.random.choice(["INSERT", "UPDATE", "UPDATE", "DELETE"]) if known else "INSERT"
        if kind == "INSERT":
            key = str(self.random.randint(1, 10**6))
            row: Row = {
                "id": key,
                "owner": self.random.choice(["Łukasz", "李雷", None]),
                "balance": "10.00",
                "kind": "1",
            }
            self.accounts[key] = row
            self._by_key(kind, row, None, at)
            return
        old = self.accounts[self.random.choice(known)]
        key = str(old["id"])
        if kind == "DELETE":
            del self.accounts[key]
            self._by_key(kind, old, None, at)
            return
        new = old | {"balance": f"{self.random.randint(0, 10**6) / 100:.2f}"}
        if self.random.random() < 0.3:
            new |= {"owner": self.random.choice(["x", None]), "kind": "2"}
        self.accounts[key] = new
        self._by_key(kind, new, {name: old[name] for name in old if old[name] != new[name]}, at)

    def _by_key(self, kind: str, row: Row, old: Row | None, at: datetime) -> None:
        self._send("accounts", kind, [row], None if old is None else [old], at, int(str(row["id"])) % 2)

    def _new_shift(self, at: datetime) -> None:
        """Empty a table, and fill it anew in the same second."""
        self.shift = {str(number): self.random.choice("abc") for number in range(3)}
        self.statements += 1
        self._put_body("shift", "TRUNCATE", {"isDdl": True, "sql": "truncate table bank.shift"}, at, 0)
        self._send("shift", "INSERT", [{"id": key, "note": note} for key, note in self.shift.items()], None, at, 0)

    def _send(
        self, table: str, kind: str, rows: Sequence[Row], old: Sequence[Row] | None, at: datetime, partition: int
    ) -> None:
        self.changes += len(rows)
        body = {"data": rows, "old": old, "mysqlType": TYPES[table], "sqlType": {}, "pkNames": KEYS[table], "sql": ""}
        self._put_body(table, kind, body, at, partition)

    def _put_body(self, table: str, kind: str, given: dict[str, Any], at: datetime, partition: int) -> None:
        body = {
            "data": None, "database": "bank", "es": int(at.timestamp()) * 1000, "gtid": "", "id": self._batch, "isDdl": False,
            "mysqlType": None, "old": None, "pkNames": None, "sqlType": None, "table": table,
            "ts": int(at.timestamp() * 1000) + 250, "type": kind,
        } | given  # fmt: skip
        value = json.dumps(body, separators=(",", ":")).encode()
        self.sent.append((partition, value))
        self._put(partition, value, at)

    def _put(self, partition: int, value: bytes, at: datetime) -> None:
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        self.messages.append(Message(partition, offset, at, value, offset))
