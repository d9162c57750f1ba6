"""Messages of DRS JSON from Oracle and SQL Server, made by rules of the vendor's pages.

No such server is at hand. A random workload changes tables that a model in memory holds. "Kafka Message Format" (drs_03_0052),
table 4: ``columnType`` is left blank, and Oracle has no database. Of Oracle's pages: columns that a message lacks were not
updated. A LOB that an INSERT does not bring comes in an UPDATE behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from dts_emulator.messages.message import Message

Row = dict[str, str | None]

_TYPES: Mapping[str, Literal["Oracle", "Microsoft SQL Server"]] = {
    "oracle": "Oracle",
    "sqlserver": "Microsoft SQL Server",
}
_START_MS = 1_767_571_200_000
_STEP_MS = 60_000


@dataclass
class GeneratedSource:
    """A source of a ``kind``, ``oracle`` or ``sqlserver``, whose tables a random workload changes.

    ``tables`` are its rows by schema and table, each by its key.
    """

    kind: Literal["oracle", "sqlserver"]
    random: Random
    partitions: int = 1
    tables: dict[tuple[str, str], dict[str, Row]] = field(
        default_factory=lambda: {("HR", "EMP"): {}, ("HR", "ORDERS$"): {}, ("sales #1", "Notes"): {}}
    )
    number: int = 0
    _offsets: dict[int, int] = field(default_factory=dict)

    def messages(self, count: int) -> Iterator[Message]:
        """Yield the messages of so many changes."""
        for _ in range(count):
            place = self.random.choice([*self.tables])
            yield from self._change(place, self.tables[place])

    def _change(self, place: tuple[str, str], rows: dict[str, Row]) -> Iterator[Message]:
        random, key = self.random, str(self.random.randrange(30))
        if key not in rows:
            row = self._row(key)
            rows[key] = row
            late = self.kind == "oracle" and random.random() < 0.3
            yield self._message(
                place, "INSERT", {name: text for name, text in row.items() if name != "CV" or not late}, None
            )
            if late:
                yield self._message(place, "UPDATE", {"CV": row["CV"]}, {"ID": key})
        elif random.random() < 0.3:
            row = rows.pop(key)
            yield self._message(place, "DELETE", None, row if random.random() < 0.5 else {"ID": key})
        else:
            old, new = rows.pop(key), self._row(key)
            if random.random() < 0.3 and (moved := str(random.randrange(30, 60))) not in rows:
                new["ID"] = moved
            if self.kind == "oracle":
                kept = random.sample(["NAME", "AMOUNT", "CV"], random.randrange(4))
                new |= {name: old[name] for name in kept}
                sent = {name: text for name, text in new.items() if name not in kept}
                if new["ID"] == key and random.random() < 0.5 and len(sent) > 1:
                    del sent["ID"]
                whole = random.random() < 0.5
                yield self._message(place, "UPDATE", sent, old if whole else {"ID": key})
            else:
                yield self._message(place, "UPDATE", new, old)
            rows[str(new["ID"])] = new

    def _row(self, key: str) -> Row:
        random = self.random
        return {
            "ID": key,
            "NAME": random.choice([None, "", "ann", "Ünal", "it's", "2026-01-05"]),
            "AMOUNT": random.choice([None, "1.50", "-0", "1E10"]),
            "CV": random.choice([None, "c" * 2000, "unchanged-toast-data"]),
        }

    def _message(self, place: tuple[str, str], kind: str, data: Row | None, old: Row | None) -> Message:
        self.number += 1
        schema, table = place
        at = _START_MS + self.number * _STEP_MS
        fields: dict[str, Any] = {
            "columnType": self.random.choice([None, "", {}]), "dbType": _TYPES[self.kind], "schema": schema, "opType": kind,
            "id": self.number, "es": at, "ts": at + 120, "database": "" if self.kind == "oracle" else "shop", "table": table,
            "type": kind, "isDdl": False, "sql": "", "sqlType": None, "data": None if data is None else [data],
            "old": None if old is None else [old], "pkNames": ["ID"],
        }  # fmt: skip
        partition = [*self.tables].index(place) % self.partitions
        offset = self._offsets[partition] = self._offsets.get(partition, -1) + 1
        return Message(partition, offset, at + 120, None, json.dumps(fields, ensure_ascii=False).encode(), ())
