"""A topic of DRS JSON or JSON-C by seed: a full load and what followed it, in the words of the vendor's table 2.

Made of plain dictionaries, so that no code is shared with the decoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_emulator.faults.recorded_topic import Recorded, Topic

PARTITIONS = 3
TYPES: Mapping[str, Mapping[str, str]] = {
    "accounts": {"id": "int", "owner": "varchar", "balance": "decimal", "seen": "timestamp"},
    "notes": {"id": "bigint unsigned", "body": "text", "done": "tinyint", "mark": "varbinary"},
    "visits": {"day": "date", "page": "varchar", "hits": "double"},
}
KEYS: Mapping[str, list[str] | None] = {"accounts": ["id"], "notes": ["id"], "visits": None}
_COLUMNS = {
    "accounts": (("id", "bigint"), ("owner", "string"), ("balance", "string"), ("seen", "timestamp")),
    "notes": (("id", "decimal(20,0)"), ("body", "string"), ("done", "int"), ("mark", "binary")),
    "visits": (("day", "date"), ("page", "string"), ("hits", "double")),
}
TABLES = {
    TableId("shop", "", name): tuple(Column(one, kind, is_key=one in (KEYS[name] or ())) for one, kind in columns)
    for name, columns in _COLUMNS.items()
}

_WORDS = ("Łukasz", "李雷", "", "o'Hara", "a\\b\n", "<b>&amp;</b>", "x" * 300, None)

_ROWS = 2
"""Rows of a message; an event with more comes in several with one id."""

Row = dict[str, str | None]


def retold(topic: Topic, told: Callable[[bytes | None], bytes | None]) -> Topic:
    """A topic whose messages are what a function makes of them."""
    lanes = {number: [replace(one, value=told(one.value)) for one in lane] for number, lane in topic.partitions.items()}
    return replace(topic, partitions=lanes)


class _Source:
    """Tables, and the task that sends what happens to them; each event has the next id."""

    def __init__(self, seed: int, start: datetime, every: timedelta, *, form: str) -> None:
        self.random = Random(seed)
        self._is_json = form == "drs-json"
        self.lanes: dict[int, list[Recorded]] = {number: [] for number in range(PARTITIONS)}
        self._rows: dict[str, list[Row]] = {name: [] for name in TYPES}
        self._now, self._every = start, every
        self._id = self.random.randrange(1, 10**6)
        self._keys = 0

    @property
    def sent(self) -> int:
        """The number of messages."""
        return sum(map(len, self.lanes.values()))

    def load(self) -> None:
        """Send the full load: each table's statement, then its rows."""
        for name in TYPES:
            self._statement(f"CREATE TABLE {name} (...)", "INIT_DDL")
            rows = [self._row(name) for _ in range(self.random.randint(5, 40))]
            self._rows[name] += rows
            for first in range(0, len(rows), 10):
                self._event(name, "INIT", rows[first : first + 10], None)

    def change(self) -> None:
        """Send one change of some rows of a table, or now and then a statement that empties nothing."""
        if self.random.random() < 0.01:
            self._statement(f"ALTER TABLE accounts COMMENT = '{self.random.randrange(100)}'", "DDL")
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
        new = [{**self._row(name), **{key: one[key] for key in KEYS[name] or ()}} for one in old]
        for place, row in zip(places, new, strict=True):
            rows[place] = row
        self._event(name, kind, new, old)

    def _row(self, name: str) -> Row:
        chance = self.random
        self._keys += 1
        if name == "accounts":
            moment = self._now + timedelta(seconds=chance.randrange(60))
            seen = f"{moment.timestamp():.3f}" if self._is_json else moment.strftime("%Y-%m-%d %H:%M:%S")
            balance = f"{chance.randrange(-(10**8), 10**8) / 100:.2f}"
            return {"id": str(self._keys), "owner": chance.choice(_WORDS), "balance": balance, "seen": seen}
        if name == "notes":
            number = self._keys if chance.random() < 0.9 else (1 << 64) - self._keys
            mark = str([byte - 128 for byte in chance.randbytes(chance.randrange(4))])
            return {
                "id": str(number), "body": chance.choice(_WORDS), "done": chance.choice(["0", "1", None]), "mark": mark,
            }  # fmt: skip
        day = (self._now - timedelta(days=chance.randrange(3000))).strftime("%Y-%m-%d")
        return {"day": day, "page": f"/{chance.randrange(50)}", "hits": repr(chance.random() * 10**6)}

    def _event(self, name: str, kind: str, rows: list[Row], old: list[Row] | None) -> None:
        """Send an event in pieces: rows of equal key go to one partition, and all pieces have one id."""
        self._tick()
        pieces: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            key = row["id" if "id" in row else "page"] or ""
            pieces.setdefault(sum(key.encode()) % PARTITIONS, []).append(number)
        some = [
            (to, all_of[at : at + _ROWS])
            for to, all_of in sorted(pieces.items())
            for at in range(0, len(all_of), _ROWS)
        ]
        for partition, numbers in some:
            data, mine = ([one[number] for number in numbers] if one else None for one in (rows, old))
            if kind == "DELETE" and self._is_json:
                data, mine = None, data
            body = {
                "mysqlType": TYPES[name], "id": self._id, "es": self._millis, "ts": self._millis + 250,
                "database": "shop", "table": name, "type": kind, "isDdl": False, "sql": "", "sqlType": {},
                "data": data, "old": mine, "pkNames": KEYS[name],
            }  # fmt: skip
            self._send(partition, body)

    def _statement(self, sql: str, kind: str) -> None:
        self._tick()
        body = {
            "mysqlType": None, "id": self._id, "es": self._millis, "ts": self._millis + 250, "database": "shop",
            "table": "", "type": kind, "isDdl": True, "sql": sql, "sqlType": None, "data": None, "old": None, "pkNames": None,
        }  # fmt: skip
        self._send(0, body)

    @property
    def _millis(self) -> int:
        return int(self._now.timestamp()) * 1000

    def _tick(self) -> None:
        self._now += self.random.random() * 2 * self._every
        self._id += 1

    def _send(self, partition: int, body: Mapping[str, Any]) -> None:
        lane = self.lanes[partition]
        value = json.dumps(body, ensure_ascii=self.random.random() < 0.5).encode()
        millis = int(self._now.timestamp() * 1000) / 1000
        at = datetime.fromtimestamp(millis, tz=self._now.tzinfo)
        lane.append(Recorded(partition, 1000 + len(lane), at, None, value, None, None, None))


def drs_topic(seed: int, messages: int, start: datetime, span: timedelta, *, form: str) -> Topic:
    """About so many messages of a format, sent within a time; the same seed gives the same."""
    source = _Source(seed, start, span / messages * 1.4, form=form)
    source.load()
    while source.sent < messages:
        source.change()
    return Topic("drs", source.lanes)
