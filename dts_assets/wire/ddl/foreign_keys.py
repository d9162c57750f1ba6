"""Foreign keys in statements: declared, dropped, and moved on with the names of tables and columns.

Only these parts of a statement are looked for, so that another part which is not understood hides no foreign key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dts_assets.model.foreign_keys import ForeignKey
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.alter_table import table_name, wait
from dts_assets.wire.ddl.declared_columns import names_within, references
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.reading import statement_effects, statements_between
from dts_assets.wire.ddl.tokens import Reader, Token, Unreadable, readings, split

MADE_UP = "_ibfk_"
"""The middle of a name that InnoDB makes for a foreign key without one: ``orders_ibfk_1``."""


@dataclass(frozen=True, slots=True)
class KeysDeclared:
    """Foreign keys that a table gets. Those without a name get one of the server."""

    table: TableId
    keys: tuple[ForeignKey, ...]


@dataclass(frozen=True, slots=True)
class KeyDropped:
    """A foreign key that goes."""

    table: TableId
    name: str


@dataclass(frozen=True, slots=True)
class TableMade:
    """A table that comes without rows; ``if_absent`` says that nothing happens where it is there."""

    table: TableId
    if_absent: bool
    keys: tuple[ForeignKey, ...]


@dataclass(frozen=True, slots=True)
class TableGone:
    """A table that goes with its rows and its foreign keys."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TableEmptied:
    """A table that loses all rows."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TableMoved:
    """A table that gets another name."""

    table: TableId
    new: TableId


@dataclass(frozen=True, slots=True)
class ColumnsMoved:
    """Columns that get other names, all at once."""

    table: TableId
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DatabaseGone:
    """A database that goes with its tables."""

    database: str


KeyStep = KeysDeclared | KeyDropped | TableMade | TableGone | TableEmptied | TableMoved | ColumnsMoved | DatabaseGone


@lru_cache(maxsize=4096)
def key_steps(sql: str, database: str) -> tuple[KeyStep, ...]:
    """Return what a statement does to foreign keys and to the names that they have; never raise.

    Of code in version comments the newer counts, which has more foreign keys than the older.
    """
    found: list[KeyStep] = []
    try:
        for statement in statements_between(next(readings(sql))):
            found += _steps(Reader(statement), database)
    except (Unreadable, RecursionError):
        pass  # the tables that it may be about are not proven, since nobody follows it
    return tuple(found)


def declared_keys(sql: str, database: str) -> tuple[ForeignKey, ...]:
    """Return the foreign keys in the text that a server has for a table."""
    return tuple(
        key for one in key_steps(sql, database) if isinstance(one, TableMade | KeysDeclared) for key in one.keys
    )


def count_keys(sql: str) -> int:
    """Return how many foreign keys a text declares that change rows."""
    if "references" not in sql.lower():
        return 0
    return sum(1 for one in declared_keys(sql, "") if one.changes_rows)


def _steps(reader: Reader, database: str) -> list[KeyStep]:
    """Return the steps of one statement.

    Raises:
        Unreadable: it is not understood.
    """
    whole = reader.rest
    while reader.takes("SET", "STATEMENT"):
        while not reader.takes("FOR"):
            reader.take()
    first = reader.keywords(1)[0]
    if first == "ALTER":
        reader.take()
        while reader.takes_one_of("ONLINE", "OFFLINE", "IGNORE"):
            pass
        return list(_altered(reader, database)) if reader.takes("TABLE") else []
    if first == "CREATE":
        reader.take()
        replaces = reader.takes("OR", "REPLACE")
        if reader.takes("TABLE"):
            return _made(reader, database, replaces=replaces)
    return _moved(Reader(whole), database)


def _made(reader: Reader, database: str, *, replaces: bool) -> list[KeyStep]:
    if_absent = reader.takes("IF", "NOT", "EXISTS")
    table = table_name(reader, database)
    keys: list[ForeignKey] = []
    if reader.next is not None and reader.next.text == "(":
        for part in split(reader.parenthesized(), ","):
            keys += _keys_in(part, table)
    return [TableMade(table, if_absent and not replaces, tuple(keys))]


def _altered(reader: Reader, database: str) -> Iterator[KeyStep]:
    reader.takes("IF", "EXISTS")
    table = table_name(reader, database)
    wait(reader)
    keys: list[ForeignKey] = []
    columns: list[tuple[str, str]] = []
    new: TableId | None = None
    for part in split(reader.rest, ","):
        one = Reader(part)
        word = one.take().keyword if part else ""
        if word == "DROP":
            if one.takes("FOREIGN", "KEY") or one.takes("CONSTRAINT"):
                one.takes("IF", "EXISTS")
                yield KeyDropped(table, one.name())
        elif word == "RENAME":
            if one.takes("COLUMN"):
                one.takes("IF", "EXISTS")
                old = one.name()
                columns += [(old, one.name())] if one.takes("TO") else []
            elif one.keywords(1)[0] not in ("INDEX", "KEY"):
                one.takes_one_of("TO", "AS") or one.takes("=")
                new = table_name(one, database)
        elif word == "CHANGE":
            one.takes("COLUMN")
            one.takes("IF", "EXISTS")
            columns.append((one.name(), one.name()))
            keys += _keys_in(part[len(part) - len(one.rest) - 1 :], table)
        elif word in ("ADD", "MODIFY"):
            one.takes("COLUMN")
            one.takes("IF", "NOT", "EXISTS")
            one.takes("IF", "EXISTS")
            rest = one.rest
            inner = split(one.parenthesized(), ",") if rest and rest[0].text == "(" else [rest]
            for some in inner:
                keys += _keys_in(some, table)
    if columns:
        yield ColumnsMoved(table, tuple(columns))
    if keys:
        yield KeysDeclared(table, tuple(keys))
    if new is not None and new != table:
        yield TableMoved(table, new)


def _moved(reader: Reader, database: str) -> list[KeyStep]:
    """Return the steps of a statement about whole tables."""
    found: list[KeyStep] = []
    for effect in statement_effects(reader, database):
        match effect.kind:
            case EffectKind.DROP_TABLE:
                found += map(TableGone, effect.tables)
            case EffectKind.TRUNCATE_TABLE:
                found += map(TableEmptied, effect.tables)
            case EffectKind.RENAME_TABLE:
                found.append(TableMoved(*effect.tables))
            case EffectKind.DROP_DATABASE:
                found.append(DatabaseGone(effect.database or ""))
    return found


def _keys_in(part: Sequence[Token], table: TableId) -> list[ForeignKey]:
    """Return the foreign key that a part of a table's declaration has, or none.

    Raises:
        Unreadable: there is one, and it is not understood.
    """
    place = next((place for place, token in enumerate(part) if token.keyword == "REFERENCES"), None)
    if not place:
        return []
    reader, name = Reader(part[:place]), ""
    if reader.takes("CONSTRAINT"):
        reader.takes("IF", "NOT", "EXISTS")
        name = "" if reader.keywords(2) == ("FOREIGN", "KEY") else reader.name()
    if reader.takes("FOREIGN", "KEY"):
        reader.takes("IF", "NOT", "EXISTS")
        of_index = reader.name() if reader.next is not None and reader.next.text != "(" else ""
        name, columns = name or of_index, names_within(reader)
    else:  # MySQL before 9 passes over the words behind a column, and MariaDB since 10.5 does not
        columns = (part[0].name or "",)
    found = references(Reader(part[place + 1 :]))
    parent = table.database if found.table[0] is None else found.table[0]
    return [ForeignKey(name, columns, parent, found.table[1], found.columns, found.on_delete, found.on_update)]
