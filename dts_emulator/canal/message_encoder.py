"""Source events as Canal's messages, without their batch numbers and times, which sending decides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from dts_emulator.canal.canal_values import ToText, object_of, sql_type, to_text, type_text
from dts_emulator.source.events import Ddl, RowChange, SourceTable

Fields = Mapping[str, Any]

_NOTES = re.compile(r"/\*.*?\*/|--[^\n]*\n|#[^\n]*\n", re.S)
_STATEMENT = re.compile(
    r"\s*(?P<verb>create|alter|drop|truncate|rename)\s+(or\s+replace\s+)?((?:unique|fulltext|spatial|temporary)\s+)?"
    r"(?:table\s+)?(?:(?P<index>index)\b)?(?P<other>(?:database|schema|view|user|function|procedure|trigger|event|sequence)\b)?"
    r"(?:\s*if\s+(?:not\s+)?exists\s+)?\s*(?P<name>(?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))?)?",
    re.I,
)
_TYPES = {"create": "CREATE", "alter": "ALTER", "drop": "ERASE", "truncate": "TRUNCATE", "rename": "RENAME"}
_INDEXES = {"create": "CINDEX", "drop": "DINDEX"}


@dataclass(frozen=True, slots=True)
class _Table:
    """A table's name, the types and the key of its columns, and the encoding of its values."""

    name: Fields
    mysql_types: Mapping[str, str]
    sql_types: Mapping[str, int]
    keys: Sequence[str]
    columns: tuple[tuple[str, ToText], ...]

    def described(self, rows: Sequence[Fields]) -> Fields:
        """Return the fields that describe the columns of a message's rows.

        Canal describes columns that ``data`` has, and no others (``MQMessageUtils.java``). A server that does not write whole
        images leaves columns out.
        """
        names = [name for name in self.mysql_types if any(name in row for row in rows)]
        return {
            **self.name,
            "mysqlType": {name: self.mysql_types[name] for name in names} or None,
            "sqlType": {name: self.sql_types[name] for name in names} or None,
            "pkNames": [name for name in self.keys if name in names] or None,
        }


@dataclass(slots=True)
class CanalEncoder:
    """Encodes events; keeps the encoders of tables met so far. ``zone`` is that of Canal's process."""

    zone: tzinfo
    tables: dict[SourceTable, _Table] = field(default_factory=dict)

    def rows(self, table: SourceTable, rows: Sequence[RowChange], *, seconds: int) -> Fields:
        """Return the message of rows of one event."""
        known = self.tables.get(table)
        if known is None:
            known = self.tables[table] = _table(table, self.zone)
        before = [object_of(row.before, known.columns) for row in rows if row.before is not None]
        after = [object_of(row.after, known.columns) for row in rows if row.after is not None]
        kind = "INSERT" if not before else "UPDATE" if after else "DELETE"
        old = _changed(before, after) if kind == "UPDATE" else None
        data = [row for row in after or before if row]
        return {
            "es": seconds * 1000, "type": kind, "isDdl": False, "sql": "", "data": data or None, "old": old,
            **known.described(data),
        }  # fmt: skip

    def statement(self, ddl: Ddl, *, seconds: int) -> Fields:
        """Return the message of a DDL statement; a statement that is about no table is a QUERY."""
        kind, database, table = _named(ddl.sql, ddl.database)
        return {
            "es": seconds * 1000, "type": kind, "isDdl": True, "sql": ddl.sql, "data": None, "old": None,
            "database": database, "table": table, "mysqlType": None, "sqlType": None, "pkNames": None,
        }  # fmt: skip


def _changed(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the old values of columns that changed, in their row or in one before.

    Canal collects the names of changed columns row by row.
    """
    names: set[str] = set()
    found = []
    for old, new in zip(before, after, strict=True):
        names.update(name for name in new if name not in old or old[name] != new[name])
        found.append({name: text for name, text in old.items() if name in names})
    return found


def encoded(fields: Fields, *, number: int, milliseconds: int) -> bytes:
    """Return the bytes of a message: its fields by their names, as Canal's JSON library orders them."""
    message = {"id": number, "ts": milliseconds, "gtid": "", **fields}
    return json.dumps(dict(sorted(message.items())), ensure_ascii=False, separators=(",", ":")).encode()


def _table(table: SourceTable, zone: tzinfo) -> _Table:
    return _Table(
        {"database": table.database, "table": table.table},
        {column.name: type_text(column) for column in table.columns},
        {column.name: sql_type(column) for column in table.columns},
        [column.name for column in table.columns if column.is_key],
        tuple((column.name, to_text(column, zone)) for column in table.columns),
    )


def _named(sql: str, database: str) -> tuple[str, str, str]:
    """Return the type of a statement, and the table that it names first, with its database."""
    found = _STATEMENT.match(_NOTES.sub(" ", sql))
    if found is None or found.group("other") or not found.group("name"):
        return "QUERY", database, ""
    verb = found.group("verb").lower()
    if found.group("index"):
        on = re.search(r"\bon\s+((?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))?)", sql, re.I)
        return _INDEXES.get(verb, "ALTER"), *_parts(on.group(1) if on else "", database)
    return _TYPES[verb], *_parts(found.group("name"), database)


def _parts(name: str, database: str) -> tuple[str, str]:
    parts = [part.strip("` ") for part in re.findall(r"`[^`]+`|[\w$]+", name)]
    return (parts[0], parts[1]) if len(parts) > 1 else (database, parts[0] if parts else "")
