"""A catalog of tables that follows statements as the server does.

A catalog and a statement make the next catalog.

Only statements that the server carried out may be given: they stand in its binlog. A real MariaDB judges the result in tests.
A statement that is not understood changes no schema. It says why, and the tables that it may be about are not proven any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.alter_actions import LoseRows, PartitionRows, RenameTo, alter_actions
from dts_assets.wire.ddl.alter_table import wait
from dts_assets.wire.ddl.altered_tables import altered
from dts_assets.wire.ddl.charsets import DEFAULT, charset_name, charset_named, charset_of_collation, takes_charset
from dts_assets.wire.ddl.created_tables import created, like
from dts_assets.wire.ddl.effects import HARMLESS
from dts_assets.wire.ddl.reading import statement_effects, statements_between
from dts_assets.wire.ddl.schema_changes import (
    DatabaseCharsetChanged,
    DatabaseCreated,
    DatabaseDropped,
    Doubted,
    KeyChanged,
    RowsChanged,
    SchemaChange,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from dts_assets.wire.ddl.table_schemas import Catalog, TableSchema
from dts_assets.wire.ddl.tokens import MOST_CHARACTERS, Reader, Token, Unreadable, readings

NO_TABLE = "the table is not known"
"""The problem of a statement that is understood, and whose table is not in the catalog."""
NO_COPIED_TABLE = "the table that is copied is not known"
"""The problem of CREATE TABLE ... LIKE, where nothing is known of the other table."""
_MOST_STATEMENTS = 1_000
"""Statements of one text.

A server writes one; each may look at every table, as DROP DATABASE does.
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """The catalog behind a statement and the changes that led to it, in order.

    ``problem`` is the reason why the statement was not followed wholly, without any of its text; None if it was.
    """

    catalog: Catalog
    changes: tuple[SchemaChange, ...] = ()
    problem: str | None = None


def apply(catalog: Catalog, sql: str, default_database: str) -> Applied:
    """Return the catalog behind a statement, or several between semicolons, that the server carried out; never raise.

    Names without a database are of ``default_database``. What a statement does follows from the text, from what the catalog
    holds (IF EXISTS, IF NOT EXISTS, LIKE), and from its :class:`~dts_assets.wire.ddl.table_schemas.ServerRules`. A statement
    whose version comments servers read in different ways is followed only if all ways end in the same catalog, unless the rules
    say the server's version.
    """
    try:
        found = [_followed(catalog, tokens, default_database) for tokens in _readings(catalog, sql)]
    except Unreadable as error:
        return not_followed(catalog, sql, default_database, str(error))
    except RecursionError:
        return not_followed(catalog, sql, default_database, "too deep")
    if any(other != found[0] for other in found[1:]):
        return not_followed(catalog, sql, default_database, "servers read its version comments in different ways")
    return found[0]


def _readings(catalog: Catalog, sql: str) -> Iterator[list[Token]]:
    return readings(sql, catalog.rules.runs if catalog.rules.version is not None else None)


def _followed(catalog: Catalog, tokens: list[Token], database: str) -> Applied:
    """Return the catalog behind all statements of a text.

    Raises:
        Unreadable: a statement is not understood, or there are too many.
    """
    work = _Work(catalog, database)
    for number, statement in enumerate(statements_between(tokens)):
        if number == _MOST_STATEMENTS:
            raise Unreadable("too many statements")
        work.carry_out(Reader(statement))
    return work.applied()


class _Work:
    """A catalog that statements change in place while one text is read."""

    def __init__(self, catalog: Catalog, database: str) -> None:
        self._before = catalog
        self._database = database
        self._databases = dict(catalog.databases)
        self._tables = dict(catalog.tables)
        self._changes: list[SchemaChange] = []
        self._problem: str | None = None

    def applied(self) -> Applied:
        """Return what the statements have led to; the catalog as it was if nothing changed."""
        changes = tuple(self._changes)
        if not changes and self._problem is None:
            return Applied(self._before)
        return Applied(Catalog(self._databases, self._tables, self._before.rules), changes, self._problem)

    def carry_out(self, reader: Reader) -> None:
        """Carry out one statement.

        Raises:
            Unreadable: it is not understood, or does not fit the catalog.
        """
        before = reader.rest
        follow = self._following(reader)
        if follow is not None:
            follow(reader)
            reader.end()
        elif not all(effect.kind in HARMLESS for effect in statement_effects(Reader(before), self._database)):
            raise Unreadable("a statement whose effect on schemas is not known")

    def _following(self, reader: Reader) -> Callable[[Reader], None] | None:
        """Take the words before a name, and return how to go on.

        None stands for a statement that is not about tables.
        """
        while reader.takes("SET", "STATEMENT"):
            while not reader.takes("FOR"):
                reader.take()
        first = reader.keywords(1)[0]
        if first == "TRUNCATE":
            reader.take()
            reader.takes("TABLE")
            return self._truncate
        if reader.takes("DELETE", "FROM"):
            return self._truncate
        if first == "RENAME" and (reader.takes("RENAME", "TABLE") or reader.takes("RENAME", "TABLES")):
            return self._rename
        if first == "ALTER":
            return self._altering(reader)
        if first == "DROP":
            for words in (("TABLE",), ("TABLES",)):
                if reader.takes("DROP", *words):
                    return self._drop_tables
            if reader.takes("DROP", "DATABASE") or reader.takes("DROP", "SCHEMA"):
                return self._drop_database
            return self._drop_index if reader.takes("DROP", "INDEX") else None
        return self._creating(reader) if first == "CREATE" else None

    def _altering(self, reader: Reader) -> Callable[[Reader], None] | None:
        reader.take()
        ignores = False
        while word := reader.takes_one_of("ONLINE", "OFFLINE", "IGNORE"):
            ignores = ignores or word == "IGNORE"
        if reader.takes("TABLE"):
            return lambda rest: self._alter_table(rest, ignores=ignores)
        return self._alter_database if reader.takes_one_of("DATABASE", "SCHEMA") else None

    def _creating(self, reader: Reader) -> Callable[[Reader], None] | None:
        reader.take()
        replaces = reader.takes("OR", "REPLACE")
        if reader.takes("TABLE"):
            return lambda rest: self._create_table(rest, replaces=replaces)
        if reader.takes_one_of("DATABASE", "SCHEMA"):
            return lambda rest: self._create_database(rest, replaces=replaces)
        return None

    def _table(self, reader: Reader) -> TableId:
        return _table_at(reader, self._before, self._database)

    def _named(self, database: str | None, name: str) -> TableId:
        return self._before.table_id(self._database if database is None else database, name)

    def _database_name(self, name: str) -> str:
        return name.lower() if self._before.rules.lower_case_names else name

    def _note(self, *changes: SchemaChange) -> None:
        self._changes += changes

    def _not_known(self) -> None:
        self._problem = self._problem or NO_TABLE

    def _truncate(self, reader: Reader) -> None:
        table = self._table(reader)
        wait(reader)
        self._note(TableTruncated(table))

    def _rename(self, reader: Reader) -> None:
        if_exists = reader.takes("IF", "EXISTS")
        while True:
            old = self._table(reader)
            wait(reader)
            if not reader.takes("TO"):
                raise Unreadable("a rename without its new name")
            self._move(old, self._table(reader), if_exists=if_exists)
            if not reader.takes(","):
                return

    def _move(self, old: TableId, new: TableId, *, if_exists: bool) -> None:
        schema = self._tables.pop(old, None)
        if schema is None and if_exists:
            return
        if schema is None:
            self._not_known()
        else:
            self._tables[new] = schema
        self._note(TableRenamed(old, new))

    def _drop_tables(self, reader: Reader) -> None:
        if_exists = reader.takes("IF", "EXISTS")
        while True:
            table = self._table(reader)
            known = self._tables.pop(table, None) is not None
            if known or not if_exists:
                self._note(TableDropped(table))
            if not reader.takes(","):
                break
        wait(reader)
        reader.takes_one_of("RESTRICT", "CASCADE")

    def _drop_database(self, reader: Reader) -> None:
        if_exists = reader.takes("IF", "EXISTS")
        self._lose_database(self._database_name(reader.name()), if_exists=if_exists)

    def _lose_database(self, database: str, *, if_exists: bool) -> None:
        there = self._databases.pop(database, DEFAULT) != DEFAULT
        tables = [table for table in self._tables if table.database == database]
        for table in tables:
            del self._tables[table]
        if there or tables or not if_exists:
            self._note(DatabaseDropped(database))

    def _create_database(self, reader: Reader, *, replaces: bool) -> None:
        if_absent = reader.takes("IF", "NOT", "EXISTS")
        database = self._database_name(reader.name())
        charset = self._database_charset(reader, self._before.rules.charset)
        if if_absent and database in self._databases:
            return
        if replaces:
            self._lose_database(database, if_exists=True)
        self._databases[database] = charset
        self._note(DatabaseCreated(database, charset))

    def _alter_database(self, reader: Reader) -> None:
        named = reader.keywords(1)[0] not in _DATABASE_OPTIONS
        database = self._database_name(reader.name() if named else self._database)
        old = self._databases.get(database)
        charset = self._database_charset(reader, old)
        self._databases[database] = charset
        if charset != old:
            self._note(DatabaseCharsetChanged(database, charset))

    def _database_charset(self, reader: Reader, charset: str | None) -> str | None:
        """Take the options of a database to the end, and return its default character set.

        Raises:
            Unreadable: an option is not known.
        """
        while reader.next is not None:
            reader.takes("DEFAULT")
            if takes_charset(reader):
                reader.takes("=")
                name = charset_name(reader)
                charset = self._before.rules.charset if name.lower() == DEFAULT else charset_named(name)
            elif reader.takes("COLLATE"):
                reader.takes("=")
                name = charset_name(reader)
                charset = (None if name.lower() == DEFAULT else charset_of_collation(name)) or charset
            elif reader.takes_one_of("COMMENT", "ENCRYPTION") or reader.takes("READ", "ONLY"):
                reader.takes("=")
                reader.take()
            else:
                raise Unreadable("an option of a database that is not known")
        return charset

    def _create_table(self, reader: Reader, *, replaces: bool) -> None:
        if_absent = reader.takes("IF", "NOT", "EXISTS")
        table = self._table(reader)
        if if_absent and not replaces and table in self._tables:
            for _ in reader.rest:
                reader.take()
            return
        rest = Reader(reader.rest)
        copied = like(rest)
        if copied is not None:
            schema = self._tables.get(self._named(copied.database, copied.name))
            if schema is None:
                raise Unreadable(NO_COPIED_TABLE)
        else:
            schema = created(Reader(reader.rest), self._databases.get(table.database), self._before.rules)
        for _ in reader.rest:
            reader.take()
        self._make(table, schema)

    def _make(self, table: TableId, schema: TableSchema) -> None:
        self._tables[table] = schema
        self._note(TableCreated(table, schema))

    def _alter_table(self, reader: Reader, *, ignores: bool) -> None:
        if_exists = reader.takes("IF", "EXISTS")
        table = self._table(reader)
        wait(reader)
        actions = alter_actions(reader.rest)
        for _ in reader.rest:
            reader.take()
        schema = self._tables.get(table)
        if schema is None and if_exists:
            return
        if ignores:
            self._note(RowsChanged(table, "rows with equal keys go"))
        for action in actions:
            if isinstance(action, LoseRows):
                self._note(RowsChanged(table, action.reason))
            elif isinstance(action, PartitionRows):
                self._partition(table, action)
        if schema is None:
            self._not_known()
        else:
            charset = self._databases.get(table.database)
            self._tables[table], changes = altered(
                table, schema, actions, database_charset=charset, rules=self._before.rules
            )
            self._note(*changes)
        renames = [action for action in actions if isinstance(action, RenameTo)]
        if renames and (new := self._named(renames[-1].database, renames[-1].name)) != table:
            self._move(table, new, if_exists=False)

    def _partition(self, table: TableId, action: PartitionRows) -> None:
        self._note(RowsChanged(table, action.reason))
        if action.other is None:
            return
        other = self._named(*action.other)
        schema = self._tables.get(table)
        if action.drops_other:
            self._tables.pop(other, None)
            self._note(TableDropped(other))
        elif action.makes_other and schema is not None:
            self._make(other, schema)
            self._note(RowsChanged(other, action.reason))
        else:
            self._note(RowsChanged(other, action.reason))

    def _drop_index(self, reader: Reader) -> None:
        reader.takes("IF", "EXISTS")
        is_key = reader.name().upper() == "PRIMARY"
        if not reader.takes("ON"):
            raise Unreadable("an index without its table")
        table = self._table(reader)
        for _ in reader.rest:
            reader.take()
        schema = self._tables.get(table)
        if is_key and schema is None:
            self._not_known()
        if is_key and schema is not None and schema.key:
            self._tables[table] = TableSchema(schema.columns, (), schema.charset, schema.doubt)
            self._note(KeyChanged(table, schema.key, ()))


_DATABASE_OPTIONS = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT", "ENCRYPTION", "READ")

_NAMES = re.compile(r"`((?:[^`]++|``)*+)`|\"((?:[^\"]++|\"\")*+)\"|([\w$\u0080-\U0010ffff]++)")
_BEFORE_TABLES = ("TABLE", "EXISTS", "RENAME", "TO", "AS", "=")
"""Words of an ALTER TABLE behind which tables are named."""


def not_followed(catalog: Catalog, sql: str, database: str, reason: str) -> Applied:
    """Return the catalog in which no table that the text may be about is proven any more.

    A table that the statement makes is there without columns.
    """
    tables = dict(catalog.tables)
    doubted, made = _concerned(catalog, sql, database)
    changes: list[SchemaChange] = []
    if made is not None:
        tables[made] = TableSchema((), (), None, reason)
        changes.append(TableCreated(made, tables[made]))
    for table in doubted:
        if table != made and table in tables:
            tables[table] = tables[table].doubted(reason)
            changes.append(Doubted(table, reason))
    return Applied(Catalog(catalog.databases, tables, catalog.rules), tuple(changes), reason)


def _concerned(catalog: Catalog, sql: str, database: str) -> tuple[Iterable[TableId], TableId | None]:
    """Return the tables that a text may be about, and the table that it makes (None: none).

    CREATE TABLE and ALTER TABLE say their tables. Of any other text a table may be meant if its name stands anywhere in it;
    where no table is named, all tables of a database that is named; where the text is too long to be looked through, all.
    """
    if len(sql) > MOST_CHARACTERS:
        return tuple(catalog.tables), None
    try:
        (statement,) = statements_between(next(_readings(catalog, sql)))
        reader = Reader(statement)
        if reader.takes("CREATE", "TABLE") or reader.takes("CREATE", "OR", "REPLACE", "TABLE"):
            reader.takes("IF", "NOT", "EXISTS")
            return (), _table_at(reader, catalog, database)
        if reader.takes("ALTER", "TABLE"):
            places = [place for place, token in enumerate(statement) if (token.keyword or token.text) in _BEFORE_TABLES]
            named = [statement[place + 1 : place + 4] for place in places]
            readers = [Reader(tokens) for tokens in named if tokens and tokens[0].name]
            return dict.fromkeys(_table_at(one, catalog, database) for one in readers), None
    except (Unreadable, RecursionError, ValueError):
        pass  # it is no single statement that can be read: its words are looked at
    text = sql.lower() if catalog.rules.lower_case_names else sql
    names = {next(filter(None, found.groups()), "") for found in _NAMES.finditer(text)}
    names |= {name.replace("``", "`").replace('""', '"') for name in names if "``" in name or '""' in name}
    found = [table for table in catalog.tables if table.table in names]
    return found or [table for table in catalog.tables if table.database in names], None


def _table_at(reader: Reader, catalog: Catalog, database: str) -> TableId:
    name = reader.name()
    if reader.takes("."):
        return catalog.table_id(name, reader.name())
    return catalog.table_id(database, name)
