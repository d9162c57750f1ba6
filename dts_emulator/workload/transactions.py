"""Random transactions of a busy database, each as its statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from dts_emulator.workload.workload_tables import Table, table_number, transfer

FIRST_ROWS = 50
"""The number of rows that a new table gets at once."""

_TRANSFERS = 0.2
"""Which share of transactions moves money."""
_MOST_NEW_TABLES = 5


class Transactions:
    """Random transactions, endlessly, each as its statements; a DDL statement comes alone."""

    def __init__(self, tables: Sequence[Table], random: Random, *, most_rows: int, ddl_every: int | None) -> None:
        self.tables = list(tables)
        self._random = random
        self._most_rows = most_rows
        self._ddl_every = ddl_every
        self._until_ddl = ddl_every or 0
        self._new_tables = 0

    def __iter__(self) -> Iterator[list[str]]:
        random = self._random
        while True:
            if self._ddl_every and self._until_ddl <= 0:
                self._until_ddl = self._ddl_every
                yield from ([statement] for statement in self._ddl())
            if not self.tables or random.random() < _TRANSFERS:
                self._until_ddl -= 2
                yield transfer(random)
                continue
            rows = random.choices((1, random.randint(2, 5), random.randint(6, 20), 100), (30, 40, 27, 3))[0]
            self._until_ddl -= rows
            several = random.choices((1, 2, 3), (6, 3, 1))[0] if rows > 3 else 1
            chosen = random.sample(self.tables, k=min(several, len(self.tables)))
            yield [self._change(table, max(1, rows // len(chosen))) for table in chosen]

    def _change(self, table: Table, rows: int) -> str:
        random, there = self._random, len(table.keys)
        if there <= rows:
            return table.insert(random, rows)
        kind = random.choices(("insert", "update", "delete", "move"), (45, 35, 12, 8))[0]
        if kind == "insert":
            return table.insert(random, rows) if there < self._most_rows else table.delete(random, rows)
        if kind == "update":
            return table.update(random, rows)
        return table.delete(random, rows) if kind == "delete" else table.move(random)

    def _ddl(self) -> Iterator[str]:
        table = self._random.choice(self.tables) if self.tables else None
        statement = None if table is None or self._random.random() < 0.3 else table.add_column(self._random)
        if statement is not None:
            yield statement
        elif self._new_tables < _MOST_NEW_TABLES:
            self._new_tables += 1
            new = table_number(len(self.tables))
            self.tables.append(new)
            yield new.create
            yield new.insert(self._random, FIRST_ROWS)
