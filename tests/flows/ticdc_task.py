"""A TiDB of which TiCDC sends what is committed, in Canal's form with its timestamps, into two Kafka partitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.flows.source import Message

TYPES = {
    "accounts": {"id": "int", "owner": "varchar(20)", "balance": "decimal(10,2)"},
    "lines": {"text": "varchar(20)", "number": "int"},
    "shift": {"id": "int", "note": "text"},
}
KEYS: dict[str, list[str] | None] = {"accounts": ["id"], "lines": None, "shift": ["id"]}
Row = dict[str, str | None]
Event = tuple[int, int, dict[str, Any]]
"""The timestamp of a transaction, a Kafka partition, and the fields of a message."""


def timestamp(at: datetime, number: int = 0) -> int:
    """The timestamp of a moment as TiDB's oracle gives it."""
    return (int(at.timestamp() * 1000) << 18) + number


class Ticdc:
    """What was committed, and the messages that were sent of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[Event] = []
        self.messages: list[Message] = []
        self.copies: Counter[str] = Counter()
        self._sent = 0
        self._offsets = [0, 0]
        self._accounts: dict[str, Row] = {}
        self._lines: list[Row] = []
        self._number = 0

    def work(self, start: datetime, count: int, *, step: timedelta = timedelta(seconds=1)) -> None:
        """Commit transactions; what is resolved is sent every few of them."""
        for number in range(count):
            at = start + number * step
            self._commit(at)
            if number % 9 == 4:
                self._truncate(at)
            if number % 3 == 2:
                self.send(at + timedelta(milliseconds=300), until=timestamp(at) - (number % 2))
        self.send(start + count * step, until=timestamp(start + count * step))

    def send(self, at: datetime, *, until: int, watermark: bool = True) -> None:
        """Send what was committed up to a timestamp, and that it was. Tables are sent side by side."""
        rest = [event for event in self.log[self._sent :] if event[0] <= until]
        self._sent += len(rest)
        self._send(rest, at)
        if watermark:
            self.mark(at, until)

    def mark(self, at: datetime, until: int) -> None:
        """Send a watermark into both Kafka partitions."""
        for partition in range(2):
            body = {
                "database": "",
                "table": "",
                "type": "TIDB_WATERMARK",
                "es": until >> 18,
                "_tidb": {"watermarkTs": until},
            }
            self._put(partition, body, at)

    def restart(self, at: datetime, *, since: int) -> None:
        """Send again what was committed behind a checkpoint, as a changefeed does that was started anew."""
        self.mark(at, since)
        again = [event for event in self.log[: self._sent] if event[0] > since]
        for _, _, body in again:
            self.copies[body["table"]] += len(body.get("data") or ())
        self._send(again, at)

    def content(self, until: int) -> tuple[dict[str, Row], Counter[tuple[str | None, ...]], dict[str, Row]]:
        """The accounts, the lines and the shift behind the transactions up to a timestamp."""
        keyed: dict[str, dict[str, Row]] = {"accounts": {}, "shift": {}}
        lines: Counter[tuple[str | None, ...]] = Counter()
        for commit, _, body in self.log:
            if commit > until:
                continue
            if body["isDdl"]:
                keyed["shift"].clear()
            for row in body.get("data") or ():
                if body["table"] == "lines":
                    lines[*row.values()] += -1 if body["type"] == "DELETE" else 1
                elif body["type"] == "DELETE":
                    del keyed[body["table"]][row["id"]]
                else:
                    keyed[body["table"]][row["id"]] = row
        return keyed["accounts"], +lines, keyed["shift"]

    def _send(self, events: Iterable[Event], at: datetime) -> None:
        lanes: dict[tuple[int, str], list[Event]] = {}
        for event in events:
            if event[2]["isDdl"]:  # nothing passes a statement
                self._send_lanes(lanes, at)
                lanes = {}
                self._put(event[1], event[2], at)
                continue
            lanes.setdefault((event[1], event[2]["table"]), []).append(event)
        self._send_lanes(lanes, at)

    def _send_lanes(self, lanes: dict[tuple[int, str], list[Event]], at: datetime) -> None:
        left = [list(lane) for lane in lanes.values()]
        while left:
            lane = self.random.choice(left)
            _, partition, body = lane.pop(0)
            self._put(partition, body, at)
            left = [one for one in left if one]

    def _commit(self, at: datetime) -> None:
        self._number += 1
        commit = timestamp(at, self._number % 5)
        taken: set[str] = set()
        for _ in range(self.random.randint(1, 3)):
            known = sorted(self._accounts.keys() - taken)
            kind = self.random.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "SWAP"]) if len(known) > 1 else "INSERT"
            if kind == "SWAP":
                one, two = self.random.sample(known, 2)
                taken |= {one, two}
                first, second = self._accounts[one], self._accounts[two]
                for row in (first, second):
                    self._row(commit, "accounts", "DELETE", row, None)
                self._accounts[one], self._accounts[two] = second | {"id": one}, first | {"id": two}
                for key in (one, two):
                    self._row(commit, "accounts", "INSERT", self._accounts[key], None)
                continue
            key = str(self.random.randint(1, 10**6)) if kind == "INSERT" else self.random.choice(known)
            if key in taken or (kind == "INSERT" and key in self._accounts):
                continue
            taken.add(key)
            old = self._accounts.get(key)
            new: Row = {
                "id": key,
                "owner": self.random.choice(["Łukasz", "李雷", None]),
                "balance": f"{self._number}.50",
            }
            if kind == "DELETE":
                self._row(commit, "accounts", kind, self._accounts.pop(key), None)
            else:
                self._accounts[key] = new
                self._row(commit, "accounts", kind, new, old)
        if self._number % 2:
            text = self.random.choice("ab")
            for _ in range(1 + (self._number % 4 == 1)):  # at times two equal rows in one transaction
                self._lines.append({"text": text, "number": str(self._number)})
                self._row(commit, "lines", "INSERT", self._lines[-1], None)
        elif self._number % 6 == 0 and self._lines:
            self._row(commit, "lines", "DELETE", self._lines.pop(self.random.randrange(len(self._lines))), None)

    def _truncate(self, at: datetime) -> None:
        """Empty a table by a statement, and fill it anew a moment later."""
        commit = timestamp(at, 10)
        sql = {
            "isDdl": True,
            "sql": "TRUNCATE TABLE `bank`.`shift`",
            "type": "TRUNCATE",
            "table": "shift",
            "database": "bank",
        }
        self.log.append((commit, 0, {**sql, "es": commit >> 18, "_tidb": {"commitTs": commit}}))
        for number in range(2):
            self._row(commit + 1, "shift", "INSERT", {"id": str(number), "note": self.random.choice("abc")}, None)

    def _row(self, commit: int, table: str, kind: str, row: Row, old: Row | None) -> None:
        partition = 1 if table == "lines" else int(str(row["id"])) % 2 if table == "accounts" else 0
        body = {
            "database": "bank", "table": table, "pkNames": KEYS[table], "isDdl": False, "type": kind, "es": commit >> 18,
            "sql": "", "sqlType": dict.fromkeys(TYPES[table], 1), "mysqlType": TYPES[table], "data": [dict(row)],
            "old": None if old is None else [dict(old)], "_tidb": {"commitTs": commit},
        }  # fmt: skip
        self.log.append((commit, partition, body))

    def _put(self, partition: int, given: dict[str, Any], at: datetime) -> None:
        body = {
            "id": 0, "pkNames": None, "isDdl": False, "sql": "", "sqlType": None, "mysqlType": None, "data": None, "old": None,
            "ts": int(at.timestamp() * 1000) + self.random.randint(0, 99),
        } | given  # fmt: skip
        if body["mysqlType"]:  # in any order, as Go walks through a map
            body["mysqlType"] = dict(self.random.sample(sorted(body["mysqlType"].items()), len(body["mysqlType"])))
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        value = json.dumps(body, separators=(",", ":")).encode()
        self.messages.append(Message(partition, offset, at, value, offset))
