"""A story of a PostgreSQL's tables, told as logical decoding tells it, and a model of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from dts_emulator.conformance.expected import ExpectedColumn, ExpectedTable
from dts_emulator.conformance.story import START
from dts_emulator.postgresql.changes import Cell, RowChange, TableColumns, Transaction

Row = Mapping[str, str | None]
"""A row by column, in PostgreSQL's own texts."""

Named = tuple[str, str]
"""A schema and a table."""

_PAUSE = timedelta(seconds=20)
_LOG_BYTES = 1 << 16
"""Bytes of the log between the begins of two transactions."""


@dataclass
class _Held:
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    identity: Literal["key", "full"]
    large: frozenset[str]
    rows: list[dict[str, str | None]] = field(default_factory=list)

    def cells(self, row: Row, *, unchanged: frozenset[str] = frozenset()) -> tuple[Cell, ...]:
        return tuple(
            Cell(name, kind, None if name in unchanged else row[name], name in unchanged) for name, kind in self.columns
        )

    def old(self, row: Row) -> tuple[Cell, ...]:
        """Return the old row as far as the replica identity has it; NULL is left out."""
        told = self.key if self.identity == "key" else tuple(name for name, _ in self.columns)
        return tuple(cell for cell in self.cells(row) if cell.name in told and cell.text is not None)


@dataclass
class PostgresqlStory:
    """The actions so far: transactions for a task, and tables with the rows that they leave."""

    transactions: list[Transaction] = field(default_factory=list)
    _tables: dict[Named, _Held] = field(default_factory=dict)

    def table(
        self, name: str, columns: Mapping[str, str], *, key: tuple[str, ...] = ("id",), schema: str = "public",
        identity: Literal["key", "full"] = "key", large: tuple[str, ...] = (),
    ) -> Named:  # fmt: skip
        """Return an empty table. Columns that are ``large`` are not logged by an UPDATE that leaves them as they were."""
        self._tables[schema, name] = _Held(tuple(columns.items()), key, identity, frozenset(large))
        return schema, name

    def insert(self, table: Named, *rows: Row) -> None:
        """Insert rows in one transaction. Columns that are left out are NULL."""
        held = self._tables[table]
        changes = []
        for row in rows:
            whole = {name: row.get(name) for name, _ in held.columns}
            held.rows.append(whole)
            changes.append(RowChange(*table, "INSERT", None, held.cells(whole)))
        self._commit(*changes)

    def update(self, table: Named, found: Row, changed: Row) -> None:
        """Update the row that has some values."""
        held = self._tables[table]
        place = next(place for place, row in enumerate(held.rows) if found.items() <= row.items())
        old = held.rows[place]
        new = held.rows[place] = {**old, **changed}
        unchanged = frozenset(name for name in held.large if old[name] == new[name] and old[name] is not None)
        moved = any(old[name] != new[name] for name in held.key)
        told = held.old(old) if moved or held.identity == "full" else None
        self._commit(RowChange(*table, "UPDATE", told, held.cells(new, unchanged=unchanged)))

    def delete(self, table: Named, found: Row) -> None:
        """Delete the first row that has some values."""
        held = self._tables[table]
        gone = next(row for row in held.rows if found.items() <= row.items())
        held.rows.remove(gone)
        self._commit(RowChange(*table, "DELETE", held.old(gone), None))

    def columns(self) -> dict[Named, TableColumns]:
        """Return the columns of all tables as the catalog has them."""
        return {
            name: TableColumns(held.columns, held.key, held.identity == "full", tuple(kind for _, kind in held.columns))
            for name, held in self._tables.items()
        }

    def tables(self, *, database: str) -> tuple[ExpectedTable, ...]:
        """Return the tables as they are now.

        ``database`` is the one that messages name, empty where they name none.
        """
        return tuple(
            ExpectedTable(
                database, schema, name, tuple(ExpectedColumn(*one) for one in held.columns), held.key,
                tuple(_texts(held, row) for row in held.rows),
            )
            for (schema, name), held in self._tables.items()
        )  # fmt: skip

    def _commit(self, *changes: RowChange) -> None:
        number = len(self.transactions) + 1
        committed = datetime.fromtimestamp(START, UTC) + number * _PAUSE
        begin = number * _LOG_BYTES
        placed = tuple(replace(one, lsn=begin + place) for place, one in enumerate(changes, 1))
        self.transactions.append(Transaction(700 + number, committed, placed, begin, begin + len(placed) + 1))


def _texts(held: _Held, row: Row) -> dict[str, str | None]:
    """Return the texts of the suite: bytes are hexadecimal digits, as everywhere in it."""
    types = dict(held.columns)
    return {
        name: text if text is None or types[name] != "bytea" else text.removeprefix("\\x").upper()
        for name, text in row.items()
    }
