"""A DRS task from PostgreSQL: decoded row changes in, messages of JSON out ("Kafka Message Format", table 4).

There are no statements. ``es`` is the time of the transaction before. A large value that was not logged is shown as one of the
options says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from zlib import crc32

from dts_emulator.drs.drs_options import DrsJsonOptions
from dts_emulator.drs.drs_task import DrsTask
from dts_emulator.drs.message_encoder import ESCAPES, Fields
from dts_emulator.messages.clocks import SECOND, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.postgresql.changes import Cell, RowChange, TableColumns, Transaction

_UNCHANGED = "unchanged-toast-datum"
_ORDER = (
    "columnType", "dbType", "schema", "opType", "id", "es", "ts", "database", "table", "type", "isDdl", "sql", "sqlType", "data",
    "old", "pkNames",
)  # fmt: skip
_INTERNAL_TYPES = {
    "smallint": 2, "boolean": 8, "character": 9, "bytea": 15, "timestamp without time zone": 16, "bit": 20, "json": 22,
    "int4range": 42, "tstzrange": 46,
}  # fmt: skip
"""The numbers of types in ``sqlType``, as far as the vendor's sample shows them.

They are no numbers of JDBC.
"""

Tables = Mapping[tuple[str, str], TableColumns]


@dataclass(frozen=True, slots=True)
class PostgresqlOptions(DrsJsonOptions):
    """A task from PostgreSQL; the vendor is silent about the last two."""

    database: str = "shop"
    """The name of the database."""
    db_type: str = "PostgreSQL"
    """The vendor's name of the source's kind."""
    unchanged: Literal["literal", "missing", "untold"] = "literal"
    """A large value that an UPDATE left as it was.

    ``literal``: PostgreSQL's own text; ``missing``: it is not in the row; ``untold``: nor is its column in ``columnType``.
    """
    beside_key: Literal["nulls", "missing"] = "nulls"
    """The columns beside the key in ``old``, where the replica identity is the key."""


def produce_from_postgresql(
    transactions: Iterable[Transaction], tables: Tables, options: PostgresqlOptions
) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions`` of some tables, in sending order."""
    task = PostgresqlTask(options)
    for one in transactions:
        yield from task.send_changes(one, tables)


class PostgresqlTask(DrsTask):
    """A task of the vendor that reads a PostgreSQL."""

    def __init__(self, options: PostgresqlOptions) -> None:
        super().__init__(options, SourceClock(options.bytes_per_second))
        self._options = options
        self._before: datetime | None = None

    def send_changes(self, transaction: Transaction, tables: Tables) -> Iterator[Message]:
        """Yield the messages of a transaction, whose tables have some columns."""
        self._clock.reach(_milliseconds(transaction.committed) * SECOND // 1000 + self._options.latency_ms * 1000)
        es = _milliseconds(self._before or transaction.committed)
        for change in transaction.changes:
            columns = tables[change.schema, change.table]
            yield from self._numbered((None, self._partition(change, columns)), self._fields(change, columns, es))
        self._before = transaction.committed

    def _partition(self, change: RowChange, columns: TableColumns) -> int:
        parts = [change.schema, change.table]
        if self._options.partition_policy == 2 and columns.key:
            told = {cell.name: cell for cell in (*(change.new or ()), *(change.old or ()))}
            parts += [told[name].text or "" for name in columns.key]
        return crc32("\0".join(parts).encode()) % self.routing.partitions

    def _fields(self, change: RowChange, columns: TableColumns, es: int) -> Fields:
        types = dict(columns.columns) if change.new is None else {cell.name: cell.type for cell in change.new}
        if self._options.unchanged == "untold":
            types = {name: kind for name, kind in types.items() if name not in _unchanged(change)}
        data = None if change.new is None else [self._row(change.new)]
        return {
            "columnType": types, "dbType": self._options.db_type, "schema": change.schema, "opType": change.operation, "es": es,
            "database": self._options.database, "table": change.table, "type": change.operation, "isDdl": False, "sql": "",
            "sqlType": {name: _INTERNAL_TYPES.get(kind, 1) for name, kind in types.items()}, "data": data,
            "old": self._old(change, columns), "pkNames": list(columns.key) or None,
        }  # fmt: skip

    def _row(self, cells: tuple[Cell, ...]) -> dict[str, str | None]:
        shown = cells if self._options.unchanged == "literal" else [cell for cell in cells if not cell.is_unchanged]
        return {cell.name: _UNCHANGED if cell.is_unchanged else _text(cell) for cell in shown}

    def _old(self, change: RowChange, columns: TableColumns) -> list[dict[str, str | None]] | None:
        if change.old is None:
            return None
        told = {cell.name: _text(cell) for cell in change.old}
        if not columns.is_whole and self._options.beside_key == "missing":
            return [told]
        return [{name: told.get(name) for name, _ in columns.columns}]

    def _encoded(self, fields: Fields, *, number: int, milliseconds: int) -> bytes:
        message: dict[str, Any] = {"id": number, "ts": milliseconds, **fields}
        text = json.dumps({name: message[name] for name in _ORDER}, ensure_ascii=False, separators=(",", ":"))
        return text.translate(ESCAPES).encode()


def _unchanged(change: RowChange) -> frozenset[str]:
    return frozenset(cell.name for cell in change.new or () if cell.is_unchanged)


def _text(cell: Cell) -> str | None:
    r"""Return a value as DRS writes it: bytes without the ``\x`` before them."""
    return cell.text.removeprefix("\\x") if cell.text is not None and cell.type == "bytea" else cell.text


def _milliseconds(time: datetime) -> int:
    return int(time.astimezone(UTC).timestamp() * 1000)
