"""Statements about tables and databases, written anew from what was read of them.

Nothing of a statement's own text gets into the new one but names, texts and numbers, each in quotes of its own. So whatever is
not read as one of these stays out: a query, an expression, another engine, a folder. Such parts are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dts_assets.model.columns import quoted
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.alter_actions import PartitionRows, RenameTo, alter_actions
from dts_assets.wire.ddl.alter_table import table_name, wait
from dts_assets.wire.ddl.created_tables import declared_table, like
from dts_assets.wire.ddl.effects import Effect, EffectKind
from dts_assets.wire.ddl.new_clauses import action_text, charset_text, column_text, key_text, numbered_by_key
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.reading import statement_effects
from dts_assets.wire.ddl.table_clauses import TableOptions, table_option
from dts_assets.wire.ddl.tokens import Reader, Token, Unreadable


@dataclass(slots=True)
class NewStatement:
    """A statement that is written anew.

    ``text`` is empty where nothing is left to do. ``read`` is what was read, ``tables`` and ``databases`` are those that it is
    about. ``drops`` says that it drops its tables and does nothing else. ``parts`` are left out of the text.
    """

    read: list[Token]
    text: str = ""
    tables: list[TableId] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    drops: bool = False
    parts: list[OtherPart] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Part]:
        """The number of parts of each kind that are left out."""
        return Counter(one.part for one in self.parts)

    def reaches(self, takes: Callable[[TableId], bool]) -> bool:
        """Tell whether a part may reach beyond the tables that ``takes`` takes."""
        return any(one.reaches or (one.table is not None and not takes(self._named(*one.table))) for one in self.parts)

    def _named(self, database: str | None, name: str) -> TableId:
        return TableId(self.tables[0].database if database is None else database, "", name)


def written_anew(tokens: Sequence[Token], database: str) -> NewStatement | None:
    """Return one statement written anew; None for a statement that is about no table and no database.

    Names without a database are of ``database``. Views are no tables.

    Raises:
        Unreadable: the statement is not understood.
    """
    reader = Reader(tokens)
    while reader.takes("SET", "STATEMENT"):
        while not reader.takes("FOR"):
            reader.take()
    new = NewStatement(reader.rest)
    replaces = reader.takes("CREATE", "OR", "REPLACE", "TABLE")
    if replaces or reader.takes("CREATE", "TABLE"):
        return _create_table(new, reader, database, replaces=replaces)
    if new.read and new.read[0].keyword == "ALTER":
        reader.take()
        words = set()
        while word := reader.takes_one_of("ONLINE", "OFFLINE", "IGNORE"):
            words.add(word)
        if reader.takes("TABLE"):
            return _alter_table(new, reader, database, ignores="IGNORE" in words)
    return _by_effects(new, statement_effects(Reader(new.read), database))


def drop_text(tables: Sequence[TableId]) -> str:
    """Return the statement that drops tables, those that are there."""
    return f"DROP TABLE IF EXISTS {', '.join(map(_table, tables))}"


def _table(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.table)}"


def _create_table(new: NewStatement, reader: Reader, database: str, *, replaces: bool) -> NewStatement:
    if_absent = reader.takes("IF", "NOT", "EXISTS")
    table = table_name(reader, database)
    new.tables.append(table)
    words = f"CREATE {'OR REPLACE ' if replaces else ''}TABLE {'IF NOT EXISTS ' if if_absent else ''}{_table(table)}"
    copied = like(Reader(reader.rest))
    if copied is not None:
        new.tables.append(TableId(database if copied.database is None else copied.database, "", copied.name))
        new.text = f"{words} LIKE {_table(new.tables[1])}"
        return new
    declared = declared_table(reader)
    new.parts += declared.others
    lines = [column_text(column, new.parts) for column in declared.columns]
    lines += [key_text(key) for key in declared.keys]
    charset = charset_text(declared.options.charset, declared.options.collation)
    new.text = f"{words} ({', '.join(lines)}) ENGINE=InnoDB{charset}"
    return new


def _alter_table(new: NewStatement, reader: Reader, database: str, *, ignores: bool) -> NewStatement:
    if_exists = reader.takes("IF", "EXISTS")
    table = table_name(reader, database)
    new.tables.append(table)
    wait(reader)
    actions, texts = alter_actions(reader.rest), []
    numbered = numbered_by_key(actions)
    for action in actions:
        match action:
            case OtherPart():
                new.parts.append(action)
            case PartitionRows(other=(other, name)):
                new.tables.append(TableId(database if other is None else other, "", name))
            case RenameTo(other, name):
                new.tables.append(TableId(database if other is None else other, "", name))
                texts.append(f"RENAME TO {_table(new.tables[-1])}")
            case _:
                texts += action_text(action, new.parts, numbered=numbered)
    if texts:
        words = f"ALTER {'IGNORE ' if ignores else ''}TABLE {'IF EXISTS ' if if_exists else ''}{_table(table)}"
        new.text = f"{words} {', '.join(texts)}"
    return new


def _by_effects(new: NewStatement, effects: Sequence[Effect]) -> NewStatement | None:
    """Return a statement that its effects say wholly; None for one about no table or database."""
    kind = effects[-1].kind
    new.tables += [table for effect in effects for table in effect.tables]
    new.databases += [effect.database for effect in effects if effect.database is not None]
    match kind:
        case EffectKind.DROP_TABLE:
            new.text, new.drops = drop_text(new.tables), True
        case EffectKind.TRUNCATE_TABLE:
            new.text = f"TRUNCATE TABLE {_table(new.tables[0])}"
        case EffectKind.RENAME_TABLE:
            new.text = f"RENAME TABLE {', '.join(' TO '.join(map(_table, effect.tables)) for effect in effects)}"
        case EffectKind.PRIMARY_KEY:
            new.text = f"ALTER TABLE {_table(new.tables[0])} DROP PRIMARY KEY"
        case EffectKind.INDEX:
            new.parts.append(OtherPart(Part.INDEX))
        case EffectKind.DROP_DATABASE:
            new.text = f"DROP DATABASE IF EXISTS {quoted(new.databases[0])}"
        case EffectKind.CREATE_DATABASE | EffectKind.ALTER_DATABASE:
            new.text = _database_text(new)
        case _:
            return None
    return new


def _database_text(new: NewStatement) -> str:
    """Return CREATE DATABASE or ALTER DATABASE with its character set.

    Raises:
        Unreadable: an option is not known.
    """
    reader = Reader(new.read)
    words = [reader.take().keyword, *(["OR REPLACE"] if reader.takes("OR", "REPLACE") else []), "DATABASE"]
    reader.take()
    words += ["IF NOT EXISTS"] if reader.takes("IF", "NOT", "EXISTS") else []
    name = new.databases[-1]
    if reader.next is not None and reader.next.name == name:
        reader.take()
    options = TableOptions()
    while reader.next is not None:
        if reader.takes("DEFAULT", "ENCRYPTION"):
            reader.takes("=")
            reader.take()
        elif not table_option(reader, options):
            raise Unreadable("an option of a database that is not known")
    new.parts += options.others
    charset = charset_text(options.charset, options.collation)
    return f"{' '.join(words)} {quoted(name)}{charset}" if charset or words[0] == "CREATE" else ""
