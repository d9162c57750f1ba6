"""CREATE TABLE to the schema of the table that it makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dts_assets.wire.ddl.charsets import DEFAULT
from dts_assets.wire.ddl.declared_columns import DeclaredColumn, column_of, declared_column
from dts_assets.wire.ddl.other_parts import OtherPart
from dts_assets.wire.ddl.table_clauses import (
    DeclaredKey,
    TableOptions,
    is_key_part,
    key_part,
    partition_parts,
    parts_of,
    table_option,
)
from dts_assets.wire.ddl.table_schemas import ServerRules, TableSchema, folded
from dts_assets.wire.ddl.tokens import Reader, Unreadable

QUERY = ("SELECT", "WITH", "VALUES", "TABLE")


@dataclass(frozen=True, slots=True)
class LikeTable:
    """The table that a CREATE TABLE ... LIKE copies; ``database`` is None for the default one."""

    database: str | None
    name: str


def like(reader: Reader) -> LikeTable | None:
    """Take LIKE and the table that is copied, in parentheses or not; None if the statement has none.

    Raises:
        Unreadable: something follows.
    """
    opened = reader.next is not None and reader.next.text == "("
    if not opened and not reader.takes("LIKE"):
        return None
    if opened and not reader.takes("(", "LIKE"):
        return None
    name = reader.name()
    found = LikeTable(name, reader.name()) if reader.takes(".") else LikeTable(None, name)
    if opened and not reader.takes(")"):
        raise Unreadable("a parenthesis without its end")
    reader.end()
    return found


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as CREATE TABLE declares it behind its name: columns, primary keys, options, and all other parts."""

    columns: list[DeclaredColumn]
    keys: list[DeclaredKey]
    options: TableOptions
    others: list[OtherPart]


def created(reader: Reader, database_charset: str | None, rules: ServerRules) -> TableSchema:
    """Return the schema that stands behind the name of a new table.

    Raises:
        Unreadable: the statement is not understood, or a query says columns.
    """
    declared = declared_table(reader)
    charset = declared.options.charset
    charset = database_charset if charset == DEFAULT else charset or database_charset
    return _schema(declared.columns, declared.keys, charset, rules)


def declared_table(reader: Reader) -> DeclaredTable:
    """Return what stands behind the name of a new table, as it is declared.

    Raises:
        Unreadable: the statement is not understood, or a query says columns.
    """
    columns: list[DeclaredColumn] = []
    keys: list[DeclaredKey] = []
    others: list[OtherPart] = []
    if reader.next is not None and reader.next.text == "(":
        for part in parts_of(reader.parenthesized()):
            one = Reader(part)
            if is_key_part(one):
                key = key_part(one)
                keys += [key] if isinstance(key, DeclaredKey) else []
                others += [key] if isinstance(key, OtherPart) else []
            elif one.keywords(2) == ("PERIOD", "FOR"):
                raise Unreadable("versions of rows")
            elif one.keywords(1)[0] in QUERY:
                raise Unreadable("a query makes the columns")
            else:
                columns.append(declared_column(part))
    options = _options(reader)
    if not columns:
        raise Unreadable("a table without columns")
    parts = [part for column in columns for part in column.others]
    return DeclaredTable(columns, keys, options, [*parts, *others, *options.others])


def _options(reader: Reader) -> TableOptions:
    """Take the options of the table to the end of the statement.

    Raises:
        Unreadable: an option is not known, or a query follows.
    """
    options = TableOptions()
    while reader.next is not None:
        word, second = reader.keywords(2)
        if (word, second) == ("WITH", "SYSTEM"):
            raise Unreadable("versions of rows")
        if word in (*QUERY, "AS", "IGNORE", "REPLACE") or reader.next.text == "(":
            raise Unreadable("a query makes the columns")
        if (word, second) == ("PARTITION", "BY"):
            options.others += partition_parts(reader.rest)
            _without_query(reader)
            break
        if not table_option(reader, options):
            raise Unreadable("an option that is not known")
        reader.takes(",")
    return options


def _without_query(reader: Reader) -> None:
    """Check that no query stands behind the partitions, whose expressions stand in parentheses.

    Raises:
        Unreadable: a query may make columns.
    """
    while reader.next is not None:
        if reader.next.text == "(":
            reader.parenthesized()
        elif reader.take().keyword in (*QUERY, "AS", "IGNORE", "REPLACE"):
            raise Unreadable("a query makes the columns")


def _schema(
    declared: list[DeclaredColumn], keys: list[DeclaredKey], charset: str | None, rules: ServerRules
) -> TableSchema:
    columns = [column_of(one, charset, rules) for one in declared]
    places = {folded(column.name): place for place, column in enumerate(columns)}
    if len(places) < len(columns):
        raise Unreadable("two columns of one name")
    named = [key.columns for key in keys] + [(one.name,) for one in declared if one.is_key]
    if len(named) > 1:
        raise Unreadable("two primary keys")
    key: list[str] = []
    for name in named[0] if named else ():
        place = places.get(folded(name))
        if place is None:
            raise Unreadable("a key on a column that the table does not have")
        columns[place] = replace(columns[place], nullable=False)
        key.append(columns[place].name)
    return TableSchema(tuple(columns), tuple(key), charset)
