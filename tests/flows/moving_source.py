"""A made-up source whose tables get other names and other columns at random, with the rows that each table has in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from tests.flows.history import border
from tests.flows.short import SECOND, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import INT, Field, Row, Table

NAMES = ("a", "b", "c", "d")
COLUMNS = ("n", "m", "k")


@dataclass
class Moving:
    """A source with three tables at first, each with a key of its own, so that rows never meet.

    ``first_lane`` says that statements arrive in one Kafka partition alone.
    """

    seed: int
    first_lane: bool = False
    numbers: int = 0
    columns: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random, self.at = Random(self.seed), border(0)
        self.columns = {name: ["id", "n"] for name in NAMES[:3]}
        self.source: Source = short_source(*(Table(name, self._fields(["id", "n"])) for name in NAMES))
        self.source.statement_lanes = [0] if self.first_lane else None

    def work(self, windows: int, steps: int) -> None:
        """Do so many things in each of some windows; a CHECKPOINT comes now and then, and at the end of most windows."""
        for name in sorted(self.columns):  # rows of a name without any event would not be known to move
            self.insert(name)
        for number in range(windows):
            for step in range(steps):
                self.at = border(number) + timedelta(seconds=1 + step * 480 / steps)
                if self.random.random() < 0.2:
                    self.at = border(number) + 0.25 * SECOND  # one Kafka partition has it in the window before
                self._step()
                if self.random.random() < 0.3:
                    self.source.checkpoint(self.at + 0.4 * SECOND)
            if self.random.random() < 0.8:
                self.source.checkpoint(border(number) + 500 * SECOND)

    def _step(self) -> None:
        step = self.random.choice(
            (self._insert, self._insert, self._change, self._change, self._rename, self._swap, self._rotate, self._add,
             self._drop, self._rename_column)
        )  # fmt: skip
        step()

    @property
    def rows(self) -> dict[str, list[Row]]:
        """The rows of each table that is there, in the order of their keys."""
        return {
            name: sorted(self.source.rows[name].values(), key=lambda row: int(row["id"]))
            for name in sorted(self.columns)
        }

    def _fields(self, names: Sequence[str]) -> list[Field]:
        return [Field(name, INT, name == "id") for name in names]

    def _table(self, name: str) -> Table:
        return Table(name, self._fields(self.columns[name]))

    def _any(self) -> str:
        return self.random.choice(sorted(self.columns))

    def insert(self, name: str, count: int = 0) -> None:
        """Insert some rows into a table."""
        numbers = range(self.numbers, self.numbers + (count or self.random.randint(1, 4)))
        self.numbers = numbers.stop
        made = [
            {one: number if one == "id" else self.random.randrange(99) for one in self.columns[name]}
            for number in numbers
        ]
        self.source.transaction(self.at, Dml(self._table(name), [(None, row) for row in made]))

    def _insert(self) -> None:
        self.insert(self._any())

    def _change(self) -> None:
        name = self._any()
        rows = self.rows[name]
        for row in self.random.sample(rows, min(2, len(rows))):
            new = {one: row[one] if one == "id" else self.random.randrange(99) for one in self.columns[name]}
            after = None if self.random.random() < 0.3 else new
            self.source.transaction(self.at, Dml(self._table(name), [(row, after)]))

    def _say(self, sql: str) -> None:
        self.source.transaction(self.at, Ddl(sql))

    def _give(self, old: str, new: str) -> None:
        self.columns[new] = self.columns.pop(old)
        self.source.rows[new], self.source.rows[old] = self.source.rows[old], {}

    def _free(self) -> list[str]:
        return [name for name in NAMES if name not in self.columns]

    def _rename(self) -> None:
        free = self._free()
        if free:
            self.rename(self._any(), self.random.choice(free))

    def rename(self, old: str, new: str) -> None:
        """Give a table another name."""
        self._say(f"RENAME TABLE {old} TO {new}")
        self._give(old, new)

    def _swap(self) -> None:
        one, other = self.random.sample(sorted(self.columns), 2)
        self._say(f"RENAME TABLE {one} TO x_, {other} TO {one}, x_ TO {other}")
        rows = self.source.rows
        rows[one], rows[other] = rows[other], rows[one]
        self.columns[one], self.columns[other] = self.columns[other], self.columns[one]

    def _rotate(self) -> None:
        free = self._free()
        if not free:
            gone = self._any()
            self._say(f"DROP TABLE {gone}")
            self.source.rows[gone] = {}
            del self.columns[gone]
            return
        old = self._any()
        self.rename(old, self.random.choice(free))
        self._say(f"CREATE TABLE {old} (id int NOT NULL PRIMARY KEY, n int)")
        self.columns[old] = ["id", "n"]
        self.insert(old)

    def alter(self, name: str, clause: str, names: dict[str, str | int]) -> None:
        """Send a statement; ``names`` has by column the former name, or a number as its default."""
        self._say(f"ALTER TABLE {name} {clause}")
        self.columns[name] = [*names]

        def value(row: Row, one: str | int) -> Any:
            return one if isinstance(one, int) else row[one]

        rows = self.source.rows[name]
        self.source.rows[name] = {
            key: {new: value(row, old) for new, old in names.items()} for key, row in rows.items()
        }

    def _add(self) -> None:
        name = self._any()
        free = [one for one in COLUMNS if one not in self.columns[name]]
        if free:
            new, default = self.random.choice(free), self.random.randint(100, 999)
            same: dict[str, str | int] = {one: one for one in self.columns[name]}
            self.alter(name, f"ADD COLUMN {new} int NOT NULL DEFAULT {default}", {**same, new: default})

    def _drop(self) -> None:
        name = self._any()
        if len(self.columns[name]) > 2:
            gone = self.random.choice(self.columns[name][1:])
            self.alter(name, f"DROP COLUMN {gone}", {one: one for one in self.columns[name] if one != gone})

    def _rename_column(self) -> None:
        name = self._any()
        free = [one for one in COLUMNS if one not in self.columns[name]]
        if free and len(self.columns[name]) > 1:
            old, new = self.random.choice(self.columns[name][1:]), self.random.choice(free)
            self.alter(
                name, f"RENAME COLUMN {old} TO {new}", {new if one == old else one: one for one in self.columns[name]}
            )
