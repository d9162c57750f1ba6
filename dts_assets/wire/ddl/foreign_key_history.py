"""The history of foreign keys: statements in source order, and what connections to a database showed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dts_assets.model.foreign_keys import ForeignKey, KeyHistory, KeyPeriod, NamePeriod
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.foreign_keys import (
    MADE_UP,
    ColumnsMoved,
    DatabaseGone,
    KeyDropped,
    KeysDeclared,
    KeyStep,
    TableEmptied,
    TableGone,
    TableMade,
    TableMoved,
    key_steps,
)
from dts_assets.wire.ddl.schema_history import SourceStatement
from dts_assets.wire.ddl.table_schemas import folded


@dataclass(frozen=True, slots=True)
class ShownKeys:
    """The foreign keys that a server showed for a table at a position."""

    position: SourcePosition
    table: TableId
    keys: tuple[ForeignKey, ...]


def foreign_key_history(statements: Iterable[SourceStatement], shown: Iterable[ShownKeys] = ()) -> KeyHistory:
    """Return the foreign keys that change rows, and the names of their tables, over time.

    The result is the same for statements and shown keys in any order. Foreign keys that are shown come beside those that
    statements told; a shown one that is known but for its name gives it its name.
    """
    steps: list[tuple[tuple[object, ...], SourcePosition, tuple[KeyStep, ...], bool]] = []
    for one in statements:
        if not one.is_of_other_dialect:
            order = (one.position, 0, one.place, one.sql)
            steps.append((order, one.position, key_steps(one.sql, one.database), one.is_first_state))
    for keys in shown:
        order = (keys.position, 1, (0, 0), f"{keys.table} {keys.keys}")
        steps.append((order, keys.position, (KeysDeclared(keys.table, keys.keys),), True))
    following = _Following()
    for _, position, some, is_shown in sorted(steps, key=lambda one: one[0]):
        for step in some:
            following.take(step, position, is_shown=is_shown)
    return following.history()


class _Following:
    """Tables and their foreign keys, changed in place by one step after another.

    A table has a number, which it keeps under all names. The keys of a child stand by their names without case.
    """

    def __init__(self) -> None:
        self._numbers: dict[TableId, int] = {}
        self._count = 0
        self._open_names: dict[int, NamePeriod] = {}
        self._names: list[NamePeriod] = []
        self._open: dict[int, dict[str, KeyPeriod]] = {}
        self._closed: list[KeyPeriod] = []
        self._made_up: dict[int, int] = {}
        self._children: dict[int, set[int]] = {}
        self._without_rows: dict[int, SourcePosition] = {}
        self._gone: dict[TableId, int] = {}

    def history(self) -> KeyHistory:
        """Return the names and the keys of all tables."""
        keys = [*self._closed, *(key for some in self._open.values() for key in some.values())]
        names = (*self._names, *self._open_names.values())
        changing = tuple(one for one in keys if one.key.changes_rows and one.until != one.since)
        return KeyHistory(names, changing, dict(self._without_rows))

    def take(self, step: KeyStep, at: SourcePosition, *, is_shown: bool) -> None:
        """Take a step at a position.

        A definition that a server shows, or that stands before a full load, makes no table anew.
        """
        match step:
            case TableMade(table, if_absent, keys):
                if is_shown:
                    self._declare(table, keys, at, is_shown=True)
                elif not (if_absent and table in self._numbers):
                    self._remove(table, at)
                    self._without_rows[self._number(table, at)] = at
                    self._declare(table, keys, at)
            case KeysDeclared(table, keys):
                self._declare(table, keys, at, is_shown=is_shown)
            case KeyDropped(table, name):
                gone = self._open.get(self._number(table), {}).pop(folded(name), None)
                self._closed += [] if gone is None else [replace(gone, until=at)]
            case TableGone(table):
                self._remove(table, at)
            case TableEmptied(table):
                if table in self._numbers:
                    self._without_rows[self._numbers[table]] = at
            case TableMoved(table, new):
                self._move(table, new, at)
            case ColumnsMoved(table, names):
                self._rename_columns(self._numbers.get(table), names, at)
            case DatabaseGone(database):
                for table in [one for one in self._numbers if one.database == database]:
                    self._remove(table, at)

    def _number(self, table: TableId, since: SourcePosition | None = None) -> int:
        """Return the number of a table that is there since a position.

        None stands for a table that was there before all steps.
        """
        if table not in self._numbers:
            self._numbers[table] = self._count
            self._open_names[self._count] = NamePeriod(self._count, table, since)
            self._count += 1
            self._take_over(table, since)
        return self._numbers[table]

    def _take_over(self, name: TableId, at: SourcePosition | None) -> None:
        """Let keys refer to the table that has a name now, whose table was dropped without them."""
        before = self._gone.pop(name, None)
        if before is None or at is None:
            return
        for child in self._children.get(before, ()):
            for one in [one for one in self._open.get(child, {}).values() if one.parent == before]:
                self._go_on(one, at, one.key, self._numbers[name])

    def _go_on(self, one: KeyPeriod, at: SourcePosition, key: ForeignKey, parent: int) -> None:
        """Close the period of a key and begin the next one, with another definition or parent."""
        self._closed.append(replace(one, until=at))
        mine = self._open[one.child]
        mine.pop(folded(one.key.name))
        mine[folded(key.name)] = replace(one, key=key, parent=parent, since=at)
        self._children.setdefault(parent, set()).add(one.child)

    def _declare(
        self, table: TableId, keys: Iterable[ForeignKey], at: SourcePosition, *, is_shown: bool = False
    ) -> None:
        child = self._number(table)
        mine = self._open.setdefault(child, {})
        known = {_facts(one.key, one.parent): one for one in mine.values()} if is_shown else {}
        for key in keys:
            parent = self._number(key.parent)
            there = known.get(_facts(key, parent))
            if there is not None:  # by the server's own name from now on
                mine.pop(folded(there.key.name), None)
            named = key if key.name else replace(key, name=self._next_name(child, table))
            since = at if there is None else there.since
            former = mine.get(folded(named.name))
            self._closed += [] if former is None else [replace(former, until=at)]
            mine[folded(named.name)] = KeyPeriod(named, child, parent, since)
            self._children.setdefault(parent, set()).add(child)
            self._see_number(child, table, named.name)

    def _next_name(self, child: int, table: TableId) -> str:
        """Return the name that InnoDB gives the next foreign key of a table."""
        return f"{table.table}{MADE_UP}{1 + self._made_up.get(child, 0)}"

    def _see_number(self, child: int, table: TableId, name: str) -> None:
        number = name.removeprefix(f"{table.table}{MADE_UP}")
        if number != name and number.isdecimal() and len(number) < 10:
            self._made_up[child] = max(self._made_up.get(child, 0), int(number))

    def _remove(self, table: TableId, at: SourcePosition) -> None:
        number = self._numbers.pop(table, None)
        if number is None:
            return
        self._names.append(replace(self._open_names.pop(number), until=at))
        self._closed += [replace(one, until=at) for one in self._open.pop(number, {}).values()]
        self._gone[table] = number

    def _move(self, table: TableId, new: TableId, at: SourcePosition) -> None:
        number = self._number(table)
        if table == new:
            return
        self._remove(new, at)
        self._names.append(replace(self._open_names[number], until=at))
        self._open_names[number] = NamePeriod(number, new, at)
        self._numbers[new] = self._numbers.pop(table)
        self._take_over(new, at)
        old_begin, new_begin = f"{table.table}{MADE_UP}", f"{new.table}{MADE_UP}"
        for one in [one for one in self._open.get(number, {}).values() if one.key.name.startswith(old_begin)]:
            name = new_begin + one.key.name.removeprefix(old_begin)
            self._go_on(one, at, replace(one.key, name=name), one.parent)

    def _rename_columns(self, number: int | None, names: Iterable[tuple[str, str]], at: SourcePosition) -> None:
        new = {folded(old): name for old, name in names if folded(old) != folded(name)}
        if number is None or not new:
            return
        for child in {number, *self._children.get(number, ())}:
            for one in list(self._open.get(child, {}).values()):
                key = one.key
                if one.child == number:
                    key = replace(key, columns=tuple(new.get(folded(name), name) for name in key.columns))
                if one.parent == number:
                    referenced = tuple(new.get(folded(name), name) for name in key.parent_columns)
                    key = replace(key, parent_columns=referenced)
                if key != one.key:
                    self._go_on(one, at, key, one.parent)


def _facts(key: ForeignKey, parent: int) -> tuple[object, ...]:
    """Return all of a key but its name."""
    columns = (tuple(map(folded, names)) for names in (key.columns, key.parent_columns))
    return (parent, *columns, key.on_delete, key.on_update)
