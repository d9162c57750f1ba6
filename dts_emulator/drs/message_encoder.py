"""Source events as the messages of DRS JSON and JSON-C, without their numbers and times, which sending decides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dts_emulator.drs.drs_options import DrsOptions
from dts_emulator.drs.json_values import ToText, object_of, sql_type, to_text, type_name
from dts_emulator.source.events import RowChange, SourceTable

Fields = Mapping[str, Any]

# Gson's escapes for texts that may stand in HTML, which the vendor's table 6 lists, and what JavaScript takes for a line's end.
ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&='\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class _Table:
    """The fields that every message of a table repeats, and the encoding of its values."""

    common: Fields
    columns: tuple[tuple[str, ToText], ...]


@dataclass(slots=True)
class DrsEncoder:
    """Encodes events; keeps the encoders of tables met so far."""

    options: DrsOptions
    tables: dict[SourceTable, _Table] = field(default_factory=dict)

    def rows(
        self, table: SourceTable, rows: Sequence[RowChange], *, seconds: int, load: bool = False
    ) -> Iterator[Fields]:
        """Yield the messages of rows of one table and operation.

        ``load`` says that they are rows of the full load.
        """
        known = self.tables.get(table)
        if known is None:
            known = self.tables[table] = _table(table, self.options)
        kind = "INIT" if load else _operation(rows[0])
        size = self.options.rows_per_message
        for first in range(0, len(rows), size):
            data, old = self._images(rows[first : first + size], known, kind)
            yield {
                "es": seconds * 1000,
                "type": kind,
                "isDdl": False,
                "sql": "",
                "data": data,
                "old": old,
                **known.common,
            }

    def statement(self, database: str, sql: str, *, seconds: int, load: bool = False) -> Fields:
        """Return the message of a DDL statement."""
        return {
            "es": seconds * 1000, "type": "INIT_DDL" if load else "DDL", "isDdl": True, "sql": sql, "data": None, "old": None,
            "database": database, "table": "", "mysqlType": None, "sqlType": None, "pkNames": None,
        }  # fmt: skip

    def _images(self, rows: Sequence[RowChange], known: _Table, kind: str) -> tuple[list[Any] | None, list[Any] | None]:
        before = [object_of(row.before, known.columns) for row in rows if row.before is not None]
        after = [object_of(row.after, known.columns) for row in rows if row.after is not None]
        if kind == "DELETE":
            return (None, before) if self.options.deleted_in_old else (before, None)
        if kind != "UPDATE":
            return after, None
        if self.options.old == "changed":
            before = [
                {name: text for name, text in one.items() if name not in other or other[name] != text}
                for one, other in zip(before, after, strict=True)
            ]
        return after, before


def encoded(fields: Fields, *, number: int, milliseconds: int) -> bytes:
    """Return the bytes of a message: its fields in the order of the vendor's sample."""
    message = {"id": number, "ts": milliseconds, **fields}
    ordered = {name: message[name] for name in _ORDER}
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    return text.translate(ESCAPES).encode()


_ORDER = (
    "mysqlType", "id", "es", "ts", "database", "table", "type", "isDdl", "sql", "sqlType", "data", "old", "pkNames",
)  # fmt: skip


def _operation(row: RowChange) -> str:
    if row.before is None:
        return "INSERT"
    return "DELETE" if row.after is None else "UPDATE"


def _table(table: SourceTable, options: DrsOptions) -> _Table:
    names = {column.name: type_name(column, options) for column in table.columns}
    keys = [column.name for column in table.columns if column.is_key]
    common = {
        "database": table.database, "table": table.table, "mysqlType": names,
        "sqlType": {name: sql_type(kind) for name, kind in names.items()}, "pkNames": keys or None,
    }  # fmt: skip
    return _Table(common, tuple((column.name, to_text(column, options)) for column in table.columns))
