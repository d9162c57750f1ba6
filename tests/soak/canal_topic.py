"""A topic of Canal by seed, in the words of its source: statements and row changes in three Kafka partitions.

Made of plain dictionaries, so that no code is shared with the decoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_emulator.faults.recorded_topic import Recorded, Topic

PARTITIONS = 3
TYPES: Mapping[str, Mapping[str, str]] = {
    "accounts": {
        "id": "int(11)", "owner": "varchar(40)", "balance": "decimal(12,2)", "seen": "timestamp(3)", "kind": "enum('new','old')",
    },
    "notes": {
        "id": "bigint(20) unsigned", "body": "text", "marks": "set('a','b','c')", "hash": "binary(4)", "raw": "varbinary(9)",
    },
    "visits": {"day": "date", "page": "varchar(20)", "hits": "double"},
}  # fmt: skip
KEYS: Mapping[str, list[str] | None] = {"accounts": ["id"], "notes": ["id"], "visits": None}
LAKE: Mapping[str, Mapping[str, str]] = {
    "accounts": {"id": "int", "owner": "string", "balance": "decimal(12,2)", "seen": "timestamp", "kind": "string"},
    "notes": {"id": "decimal(20,0)", "body": "string", "marks": "string", "hash": "binary", "raw": "binary"},
    "visits": {"day": "date", "page": "string", "hits": "double"},
}
TABLES = {
    TableId("shop", "", name): tuple(Column(one, kind, one in (KEYS[name] or ())) for one, kind in columns.items())
    for name, columns in LAKE.items()
}

_WORDS = ("Łukasz", "李雷", "", "o'Hara", "a\\b\n", "<b>&amp;</b>", "x" * 300, None)

Row = dict[str, str | None]


class _Source:
    """Tables, and the Canal that sends what happens to them."""

    def __init__(self, seed: int, start: datetime, every: timedelta) -> None:
        self.random = Random(seed)
        self.lanes: dict[int, list[Recorded]] = {number: [] for number in range(PARTITIONS)}
        self._rows: dict[str, list[Row]] = {name: [] for name in TYPES}
        self._now, self._every = start, every
        self._batch = self._keys = 0

    @property
    def sent(self) -> int:
        """The number of messages."""
        return sum(map(len, self.lanes.values()))

    def change(self) -> None:
        """Send one change of some rows of a table, or now and then a statement."""
        self._now += self.random.random() * 2 * self._every
        self._batch += self.random.random() < 0.2
        if self.random.random() < 0.02:
            kind, sql = self.random.choice(
                [("ALTER", "ALTER TABLE accounts COMMENT = 'x'"), ("QUERY", "GRANT ALL ON x TO y")]
            )
            self._send(0, {"type": kind, "isDdl": True, "sql": sql, "table": "accounts"})
            return
        name = self.random.choice(list(TYPES))
        rows = self._rows[name]
        kind = self.random.choice(["INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE"]) if rows else "INSERT"
        count = self.random.choice([1, 1, 1, 2, 5])
        if kind == "INSERT":
            new = [self._row(name) for _ in range(count)]
            rows += new
            self._event(name, kind, new, None)
            return
        places = self.random.sample(range(len(rows)), min(count, len(rows)))
        old = [rows[place] for place in places]
        if kind == "DELETE":
            for place in sorted(places, reverse=True):
                del rows[place]
            self._event(name, kind, old, None)
            return
        new = [
            {**one, **{key: text for key, text in self._row(name).items() if self._changes(name, key)}} for one in old
        ]
        for place, row in zip(places, new, strict=True):
            rows[place] = row
        changed = [{key: one[key] for key in one if one[key] != row[key]} for one, row in zip(old, new, strict=True)]
        # A server logs no row that an UPDATE leaves as it was.
        logged = [(row, was) for row, was in zip(new, changed, strict=True) if was]
        if logged:
            self._event(name, kind, [row for row, _ in logged], [was for _, was in logged])

    def _changes(self, name: str, column: str) -> bool:
        return column not in (KEYS[name] or ()) and self.random.random() < 0.4

    def _row(self, name: str) -> Row:
        chance = self.random
        self._keys += 1
        if name == "accounts":
            return {
                "id": str(self._keys),
                "owner": chance.choice(_WORDS),
                "balance": f"{chance.randrange(-(10**8), 10**8) / 100:.2f}",
                "seen": f"{self._now:%Y-%m-%d %H:%M:%S}.{chance.randrange(1000):03d}",
                "kind": chance.choice(["1", "2", "0", None]),
            }
        if name == "notes":
            return {
                "id": str(self._keys if chance.random() < 0.9 else (1 << 64) - self._keys), "body": chance.choice(_WORDS),
                "marks": chance.choice(["0", "5", "7", None]),
                "hash": chance.randbytes(chance.randrange(1, 5)).decode("iso-8859-1"),
                "raw": chance.randbytes(chance.randrange(9)).decode("iso-8859-1"),
            }  # fmt: skip
        day = (self._now - timedelta(days=chance.randrange(3000))).strftime("%Y-%m-%d")
        return {"day": day, "page": f"/{chance.randrange(50)}", "hits": f"{chance.random() * 10**6:.3f}"}

    def _event(self, name: str, kind: str, rows: Sequence[Row], old: Sequence[Row] | None) -> None:
        """Send an event, split by key."""
        pieces: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            key = row["id" if "id" in row else "page"] or ""
            pieces.setdefault(sum(key.encode()) % PARTITIONS, []).append(number)
        for partition, numbers in sorted(pieces.items()):
            data, mine = ([one[number] for number in numbers] if one else None for one in (rows, old))
            self._send(partition, {
                "type": kind, "table": name, "data": data, "old": mine, "mysqlType": TYPES[name], "pkNames": KEYS[name],
                "sqlType": {},
            })  # fmt: skip

    def _send(self, partition: int, given: Mapping[str, Any]) -> None:
        lane = self.lanes[partition]
        body = {
            "data": None, "database": "shop", "es": int(self._now.timestamp()) * 1000, "gtid": "", "id": self._batch,
            "isDdl": False, "mysqlType": None, "old": None, "pkNames": None, "sql": "", "sqlType": None, "table": "",
            "ts": int(self._now.timestamp() * 1000) + 250, "type": "",
        } | dict(given)  # fmt: skip
        value = json.dumps(body, ensure_ascii=self.random.random() < 0.5, separators=(",", ":")).encode()
        at = datetime.fromtimestamp(int(self._now.timestamp() * 1000) / 1000, tz=self._now.tzinfo)
        lane.append(Recorded(partition, 1000 + len(lane), at, None, value, None, None, None))


def canal_topic(seed: int, messages: int, start: datetime, span: timedelta) -> Topic:
    """About so many messages, sent within a time; the same seed gives the same."""
    source = _Source(seed, start, span / messages)
    while source.sent < messages:
        source.change()
    return Topic("canal", source.lanes)
