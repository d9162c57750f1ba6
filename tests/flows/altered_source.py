"""A made-up source whose only table is altered at random, and what its snapshot has by each policy.

The oracle follows columns as things of their own, whatever their names are, and knows nothing of positions or windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any

from dts_assets.model.schema_policies import SchemaPolicy
from tests.flows.short import short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import BLOB, INT, TEXT, Field, Kind, Row, Table

NAMES = ("a", "b", "word", "c c", "é")
SQL = {INT.original_type: "INT", TEXT.original_type: "VARCHAR(80)", BLOB.original_type: "BLOB"}
LAKE = {INT.original_type: "int", TEXT.original_type: "string", BLOB.original_type: "binary"}
TABLE = "items"


@dataclass(eq=False)
class Living:
    """A column of its own: its name, its kind, and the name that it has in a frozen snapshot."""

    name: str
    kind: Kind
    first: str = ""
    is_there: bool = True


@dataclass
class Altered:
    """A table that is altered, and every column that it ever had since it was created."""

    seed: int
    has_key: bool = True
    second: int = 0
    columns: list[Living] = field(default_factory=list)
    kept: dict[str, Living] = field(default_factory=dict)
    frozen: list[Living] = field(default_factory=list)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.columns = [Living("id", INT), Living("a", INT), Living("word", TEXT)]
        self.table = Table(TABLE, [])
        self._begin()
        if not self.has_key:
            self.table.columns[0] = replace(self.table.columns[0], is_key=False)
        self.source: Source = short_source(self.table)

    def _begin(self) -> None:
        for one in self.columns:
            one.first = one.name
        self.frozen, self.kept = list(self.columns), {}
        self._show()

    def _show(self) -> None:
        keyed = self.has_key
        self.table.columns[:] = [Field(one.name, one.kind, keyed and one.name == "id") for one in self.columns]

    @property
    def rows(self) -> list[Row]:
        return list(self.source.rows[TABLE].values()) if self.has_key else self.source.bags[TABLE]

    def _alter(self, at: datetime, sql: str, names: dict[str, str | None]) -> None:
        """Carry a statement out: rows have the values of the columns that columns had by other names."""
        self.source.transaction(at, Ddl(sql))
        self._show()

        def moved(row: Row) -> Row:
            return {new: None if old is None else row[old] for new, old in names.items()}

        if self.has_key:
            rows = self.source.rows[TABLE]
            self.source.rows[TABLE] = {key: moved(row) for key, row in rows.items()}
        else:
            self.source.bags[TABLE] = [moved(row) for row in self.source.bags[TABLE]]

    def _same(self) -> dict[str, str | None]:
        return {one.name: one.name for one in self.columns}

    def free(self) -> list[str]:
        taken = {one.name.lower() for one in self.columns}
        return [name for name in NAMES if name.lower() not in taken]

    def add(self, at: datetime, name: str, kind: Kind) -> None:
        names = self._same() | {name: None}
        self.columns.append(Living(name, kind))
        self.kept.pop(name.lower(), None)
        self._alter(at, f"ALTER TABLE {TABLE} ADD `{name}` {SQL[kind.original_type]}", names)

    def drop(self, at: datetime, name: str) -> None:
        one = next(one for one in self.columns if one.name == name)
        self.columns.remove(one)
        one.is_there = False
        self.kept[name.lower()] = one
        self._alter(at, f"ALTER TABLE {TABLE} DROP `{name}`", self._same())

    def rename(self, at: datetime, name: str, new: str) -> None:
        names = {new if one.name == name else one.name: one.name for one in self.columns}
        one = next(one for one in self.columns if one.name == name)
        one.name = new
        self.kept.pop(new.lower(), None)
        self._alter(at, f"ALTER TABLE {TABLE} RENAME COLUMN `{name}` TO `{new}`", dict(names))

    def create(self, at: datetime, *columns: Living) -> None:
        self.source.transaction(at, Ddl(f"DROP TABLE {TABLE}"))
        told = ", ".join(f"`{one.name}` {SQL[one.kind.original_type]}" for one in columns)
        key = ", PRIMARY KEY (id)" if self.has_key else ""
        self.source.transaction(at, Ddl(f"CREATE TABLE {TABLE} ({told}{key})"))
        self.source.rows[TABLE].clear()
        if not self.has_key:
            self.source.bags[TABLE].clear()
        self.columns = list(columns)
        self._begin()

    def work(self, at: datetime) -> None:
        """Do something by chance."""
        what, free = self.random.choice(("add", "drop", "rename", "rows", "rows", "rows")), self.free()
        others = [one.name for one in self.columns[1:]]
        if what == "add" and free:
            self.add(at, self.random.choice(free), self.random.choice((INT, TEXT, BLOB)))
        elif what == "drop" and len(others) > 1:
            self.drop(at, self.random.choice(others))
        elif what == "rename" and free and others:
            self.rename(at, self.random.choice(others), self.random.choice(free))
        else:
            self.change(at)

    def change(self, at: datetime) -> None:
        self.numbers += 1
        images: list[tuple[Row | None, Row | None]] = [(None, self._made(self.numbers))]
        self.source.transaction(at, Dml(self.table, images))
        for row in self.random.sample(self.rows, min(2, len(self.rows))):
            kept = self.random.random() < 0.7
            self.source.transaction(at, Dml(self.table, [(row, self._made(row["id"]) if kept else None)]))

    def _made(self, number: int) -> Row:
        made = {one.name: self._value(one.kind) for one in self.columns}
        return {**made, "id": number}

    def _value(self, kind: Kind) -> Any:
        return None if self.random.random() < 0.2 else kind.make(self.random)

    def expected(self, policy: SchemaPolicy) -> tuple[list[tuple[str, str]], list[Row]]:
        """The columns of the snapshot with their types, and its rows."""
        there = [(one.name, one) for one in self.columns]
        if policy is SchemaPolicy.KEEP:
            there += [(one.name, one) for one in self.kept.values()]
        if policy is SchemaPolicy.FREEZE:
            there = [(one.first, one) for one in self.frozen]
        new = [one for one in self.columns if one not in self.frozen] if policy is SchemaPolicy.FREEZE else []
        rows: list[Row] = []
        for row in self.rows:
            made: dict[str, Any] = {name: row[one.name] if one.is_there else None for name, one in there}
            if policy is SchemaPolicy.FREEZE:
                mapped = {one.name: _text(row[one.name]) for one in new if row[one.name] is not None}
                made["_new_columns"] = mapped or None
            rows.append(made)
        return [(name, LAKE[one.kind.original_type]) for name, one in there], rows


def _text(value: Any) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
