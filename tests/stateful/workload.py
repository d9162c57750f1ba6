"""What the database of a stateful test is asked to do: its tables, and random transactions that it would accept."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.flows.source import Dml
from tests.flows.source_tables import ABSENT, BIGINT, INT, MONEY, TEXT, Field, Table
from tests.stateful.marked import PERSONS, person_key
from tests.stateful.stream import Stream


def first_tables() -> list[Table]:
    """A table with a number as its key, one with two, and one without."""
    return [
        Table("items", [Field("id", INT, True), Field("n", INT), Field("note", TEXT)]),
        Table("pairs", [Field("v", MONEY), Field("a", INT, True), Field("b", INT, True), Field("w", BIGINT)]),
        Table("journal", [Field("line", TEXT), Field("n", INT)]),
    ]


def transaction(stream: Stream, random: Random, *, minimal: bool) -> Iterator[Dml]:
    """The events of a transaction, each on a table of its own."""
    tables = stream.living
    for table in random.sample(tables, min(len(tables), random.randint(1, 2))):
        event = _event(stream, table, random, minimal=minimal)
        if event is not None:
            yield event


def _event(stream: Stream, table: Table, random: Random, *, minimal: bool) -> Dml | None:
    if not table.keys:
        lines = stream.bags[table.name]
        if lines and random.random() < 0.3:
            return Dml(table, [(random.choice(lines), None)])
        return Dml(table, [(None, table.row(random)) for _ in range(random.randint(1, 3))])
    rows = stream.rows[table.name]
    kind = random.choice(("insert", "insert", "update", "update", "delete", "move", "hand on"))
    chosen = random.sample(sorted(rows), min(len(rows), random.randint(1, 3)))
    if kind == "insert" or not chosen:
        free = [key for key in _pool(table) if key not in rows]
        keys = random.sample(free, min(len(free), random.randint(1, 4)))
        return Dml(table, [(None, table.row(random, **_named(table, key))) for key in keys]) if keys else None
    if kind == "delete":
        return Dml(table, [(rows[key], None) for key in chosen])
    if kind == "update":
        return Dml(table, [(rows[key], _changed(table, random, key, minimal=minimal)) for key in chosen])
    if kind == "move":
        free = [key for key in _pool(table) if key not in rows]
        pairs = zip(chosen, random.sample(free, min(len(free), len(chosen))), strict=False)
        moved = [(rows[old], {**rows[old], **_named(table, new)}) for old, new in pairs]
        return Dml(table, moved) if moved else None
    return Dml(table, list(_handed_on(stream, table)))


def _handed_on(stream: Stream, table: Table) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """Every row takes the key of the next one: ``UPDATE .. SET id = id + 1 ORDER BY id DESC``."""
    rows, last = stream.rows[table.name], table.keys[-1]
    for key in sorted(rows, reverse=True):
        yield dict(rows[key]), {**rows[key], last: _next(rows[key][last])}


def _next(value: int | str) -> int | str:
    return str(int(value) + 1) if isinstance(value, str) else value + 1


def _changed(table: Table, random: Random, key: tuple[object, ...], *, minimal: bool) -> dict[str, object]:
    new = dict(table.row(random, **_named(table, key)))
    others = [one.name for one in table.columns if not one.is_key]
    if minimal:
        left_out = random.sample(others, random.randint(0, len(others) - 1))
        new |= dict.fromkeys(left_out, ABSENT)
    return new


def _pool(table: Table) -> list[tuple[int | str, ...]]:
    """Few keys, so that they are used again and again."""
    if table.name == PERSONS:
        return [(person_key(number),) for number in range(1, 13)]
    return (
        [(number,) for number in range(1, 13)]
        if len(table.keys) == 1
        else [(a, b) for a in (1, 2) for b in range(1, 7)]
    )


def _named(table: Table, key: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(table.keys, key, strict=True))
