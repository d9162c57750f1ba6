"""Statements that move the rows of persons: tools for schema changes, swaps, another database, names of columns.

Rows that were written where no rule was have marks of their own, `MOVED_MARKS`: they may be plain until a statement is known that
brings them under a rule, and for ever if that statement was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import Field, Row, Table
from tests.stateful.action import Action
from tests.stateful.hostile import quoted
from tests.stateful.marked import DEFAULTED, FIRST_KEY, MARK, MOVED_KEY, MOVED_MARK, PERSON_KIND, PERSONS, person_key
from tests.stateful.world import World

MOST: Final = 14
"""Windows from which on nothing moves any more, as nothing is written."""

_OTHER: Final = "vault"
_COPIED_ROWS: Final = 4


class Mover:
    """One action's hand on the stream: each statement and each event is a transaction of its own."""

    def __init__(self, world: World, random: Random) -> None:
        self.stream, self.random = world.stream, random
        self.persons = world.stream.tables[PERSONS]

    def say(self, sql: str) -> None:
        """Send a statement."""
        self.stream.later(self.random.choice((1.0, 20.0, 200.0)))
        self.stream.write([Ddl(sql)], flush=self.random.random() < 0.8)

    def beside(self, name: str, *, database: str = "bank") -> Table:
        """A table like that of persons, empty, outside of the tables that others write to."""
        made = Table(name, list(self.persons.columns), (database, name))
        self.stream.rows[name] = {}
        columns = ", ".join(f"{quoted(one.name)} {one.kind.original_type}" for one in made.columns)
        self.say(f"DROP TABLE IF EXISTS {database}.{name}")
        self.say(f"CREATE TABLE {database}.{name} ({columns}, PRIMARY KEY (id))")
        return made

    def put(self, table: Table, rows: list[Row]) -> None:
        """Insert rows."""
        if rows:
            self.stream.later(1.0)
            self.stream.write([Dml(table, [(None, row) for row in rows])], flush=self.random.random() < 0.8)

    def fresh(self, first: int, mark: str) -> list[Row]:
        """Some new rows, whose values have a mark."""
        keys = self.random.sample(range(20, 40), _COPIED_ROWS)
        names = [one.name for one in self.persons.columns if one.kind is PERSON_KIND]
        return [
            {**self.persons.row(self.random, id=person_key(key, first)), **{name: f"{mark}{key}" for name in names}}
            for key in keys
        ]

    def touch(self, table: Table) -> None:
        """Write one row anew, as it is."""
        rows = self.stream.rows[table.name]
        if rows:
            row = rows[self.random.choice(sorted(rows))]
            self.stream.later(1.0)
            self.stream.write([Dml(table, [(row, dict(row))])], flush=self.random.random() < 0.8)

    def now_persons(self, rows: list[Row]) -> None:
        """The table of persons has other rows from now on, because another table has its name."""
        self.stream.rows[PERSONS] = {self.persons.key(row): row for row in rows}

    def rows(self, table: Table) -> list[Row]:
        """The rows that a table has now."""
        return list(self.stream.rows[table.name].values())


def by_tool(mover: Mover) -> None:
    """gh-ost, pt-online-schema-change: a new table is filled while rows change, and takes the name."""
    new, old = mover.random.choice((("_persons_gho", "_persons_del"), ("_persons_new", "_persons_old")))
    made = mover.beside(new)
    mover.put(made, mover.rows(mover.persons))
    mover.touch(mover.persons)
    mover.put(made, mover.fresh(FIRST_KEY, MARK))
    mover.touch(made)
    mover.say(f"DROP TABLE IF EXISTS bank.{old}")
    mover.say(f"RENAME TABLE bank.persons TO bank.{old}, bank.{new} TO bank.persons")
    mover.now_persons(mover.rows(made))
    mover.touch(mover.persons)


def by_swap(mover: Mover) -> None:
    """Two tables swap their names, and both are written to."""
    others = mover.beside("others")
    mover.put(others, mover.fresh(MOVED_KEY, MOVED_MARK))
    before, after = mover.rows(mover.persons), mover.rows(others)
    mover.say("RENAME TABLE bank.persons TO bank.x, bank.others TO bank.persons, bank.x TO bank.others")
    mover.now_persons(after)
    mover.stream.rows["others"] = {others.key(row): row for row in before}
    mover.touch(others)
    mover.touch(mover.persons)


def from_elsewhere(mover: Mover) -> None:
    """A table of another database, perhaps over a second name, becomes the table of persons."""
    made = mover.beside("arrivals", database=_OTHER)
    mover.put(made, mover.fresh(MOVED_KEY, MOVED_MARK))
    place = f"{_OTHER}.arrivals"
    if mover.random.random() < 0.5:
        mover.say("DROP TABLE IF EXISTS bank.waiting")
        mover.say(f"RENAME TABLE {place} TO bank.waiting")
        place = "bank.waiting"
    mover.say("DROP TABLE IF EXISTS bank.former")
    mover.say(f"RENAME TABLE bank.persons TO bank.former, {place} TO bank.persons")
    mover.now_persons(mover.rows(made))
    mover.touch(mover.persons)


def there_and_back(mover: Mover) -> None:
    """The table of persons goes into another database, is written to there, and comes back."""
    there = Table("away", list(mover.persons.columns), (_OTHER, "away"))
    mover.stream.rows["away"] = dict(mover.stream.rows[PERSONS])
    mover.say(f"RENAME TABLE bank.persons TO {_OTHER}.away")
    mover.put(
        there, [row for row in mover.fresh(MOVED_KEY, MOVED_MARK) if there.key(row) not in mover.stream.rows["away"]]
    )
    mover.say(f"ALTER TABLE {_OTHER}.away RENAME TO bank.persons")
    mover.now_persons(mover.rows(there))
    mover.touch(mover.persons)


def by_name_of_column(mover: Mover) -> None:
    """A column under a rule gets a name that no rule knows, rows are written, and it gets its own name back."""
    name = mover.random.choice(("email", "phone", "note"))
    other = f"{name}_of_person"
    rows = [
        row for row in mover.fresh(MOVED_KEY, MOVED_MARK) if mover.persons.key(row) not in mover.stream.rows[PERSONS]
    ]
    _change(mover, name, other)
    mover.put(mover.persons, [{(other if key == name else key): value for key, value in row.items()} for row in rows])
    _change(mover, other, name)
    mover.touch(mover.persons)


def _change(mover: Mover, name: str, other: str) -> None:
    columns = mover.persons.columns
    columns[:] = [replace(one, name=other) if one.name == name else one for one in columns]
    kept: dict[tuple[object, ...], Row] = {
        key: {(other if column == name else column): value for column, value in row.items()}
        for key, row in mover.stream.rows[PERSONS].items()
    }
    mover.stream.rows[PERSONS] = kept
    mover.say(f"ALTER TABLE bank.persons CHANGE {name} {other} {PERSON_KIND.original_type}")


def by_default(mover: Mover) -> None:
    """A column under a rule begins with a value that stands in its statement alone."""
    columns, count = mover.persons.columns, sum(one.name.startswith(DEFAULTED) for one in mover.persons.columns)
    name, value = f"{DEFAULTED}{count}", f"{MARK}5"
    columns.append(Field(name, PERSON_KIND))
    mover.now_persons([{**row, name: value} for row in mover.rows(mover.persons)])
    mover.say(f"ALTER TABLE bank.persons ADD COLUMN {name} {PERSON_KIND.original_type} NOT NULL DEFAULT '{value}'")
    mover.touch(mover.persons)


MOVES: Final[tuple[Callable[[Mover], None], ...]] = (
    by_tool, by_swap, from_elsewhere, there_and_back, by_name_of_column, by_default,
)  # fmt: skip


class Move(Action):
    """The rows of persons, or their values, get there by a statement."""

    def can(self, world: World) -> bool:
        living = any(table.name == PERSONS for table in world.stream.living)
        return super().can(world) and living and len(world.windows()) < MOST

    def do(self, world: World) -> str:
        random = self.random
        move = random.choice(MOVES)
        move(Mover(world, random))
        world.stream.moved = True
        return move.__name__.replace("_", " ")
