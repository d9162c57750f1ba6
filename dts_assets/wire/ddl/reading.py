"""The reading of a MySQL or MariaDB statement: DDL text to effects.

It is strict on purpose. A statement is understood to its last word or not at all, and only effects that are known to leave rows
alone are called harmless: statements are read that others wrote, on servers of any version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dts_assets.wire.ddl.alter_table import alter_table, table_name, wait
from dts_assets.wire.ddl.created_tables import QUERY
from dts_assets.wire.ddl.effects import Effect, EffectKind, ParsedDdl
from dts_assets.wire.ddl.table_clauses import is_key_part
from dts_assets.wire.ddl.tokens import Reader, Token, Unreadable, readings, split, words

UNPARSED = ParsedDdl(False, ())


def effects_of(sql: str, default_database: str) -> ParsedDdl:
    """Return the effects of one statement, or of several between semicolons; never raise.

    Names without a database are of ``default_database``. A statement whose version comments servers read in different ways
    is understood only if its effects are the same in all of them. Backslashes escape, as they do unless a server is told
    otherwise. A statement beyond the bounds of :mod:`dts_assets.wire.ddl.tokens` is not understood.
    """
    try:
        found = [_statements(tokens, default_database) for tokens in readings(sql)]
    except (Unreadable, RecursionError):
        return UNPARSED
    if not found[0] or any(other != found[0] for other in found[1:]):
        return UNPARSED
    return ParsedDdl(True, tuple(found[0]))


def takes_rows_back(sql: str) -> bool:
    """Return whether a text is a ROLLBACK, whole or to a savepoint, or an XA ROLLBACK; never raise.

    One reading of its version comments is enough, and only other statements about transactions may stand beside it.
    """
    try:
        return any(_takes_back(list(statements_between(tokens))) for tokens in readings(sql))
    except (Unreadable, RecursionError):
        return False


def _takes_back(statements: Sequence[Sequence[Token]]) -> bool:
    first = [one[0].keyword for one in statements]
    return any(map(_is_rollback, statements)) and set(first) <= _OF_TRANSACTIONS


def _is_rollback(statement: Sequence[Token]) -> bool:
    words = [token.keyword for token in statement[:2]]
    return words[0] == "ROLLBACK" or words == ["XA", "ROLLBACK"]


def _statements(tokens: list[Token], database: str) -> list[Effect]:
    return [effect for one in statements_between(tokens) for effect in statement_effects(Reader(one), database)]


def statements_between(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the statements between semicolons; of a routine, whose semicolons are its own, the beginning.

    Raises:
        Unreadable: parentheses do not match, or a statement may follow a routine.
    """
    parts = split(tokens, ";")
    for place, part in enumerate(parts):
        if part and part[0].keyword == "CREATE" and _ROUTINES & _head(part):
            _one_routine(parts[place:])
            yield part
            return
        if part:
            yield part


def _one_routine(parts: Sequence[Sequence[Token]]) -> None:
    """Check that nothing follows a routine, whose parts lie between semicolons.

    Semicolons within BEGIN and END are the routine's own; behind any other a statement might follow.

    Raises:
        Unreadable: a statement may follow the routine.
    """
    *body, last = parts
    texts = [token.keyword for token in (last or (body[-1] if body else []))]
    if body and last and "END" not in texts[-2:]:
        raise Unreadable("something behind a routine")


def _head(tokens: Sequence[Token]) -> set[str]:
    """Return the keywords of a CREATE up to the first that names a kind of thing."""
    keywords = [token.keyword for token in tokens[:40]]
    thing = next((place for place, keyword in enumerate(keywords) if keyword in _THINGS), len(keywords))
    return set(keywords[: thing + 1])


def statement_effects(reader: Reader, database: str) -> list[Effect]:
    """Return the effects of one statement, whose tokens the reader holds.

    Raises:
        Unreadable: the statement is not understood.
    """
    first = reader.take().keyword
    match first:
        case "XA" if reader.takes("ROLLBACK"):
            raise Unreadable("rows of before are taken back")
        case "CREATE":
            return _create(reader, database)
        case "DROP":
            return _drop(reader, database)
        case "TRUNCATE":
            reader.takes("TABLE")
            table = table_name(reader, database)
            wait(reader)
            reader.end()
            return [Effect(EffectKind.TRUNCATE_TABLE, (table,))]
        case "DELETE" if reader.takes("FROM"):
            # The first use of a MEMORY table after a restart: it is empty. Servers write no other statement of this kind.
            table = table_name(reader, database)
            reader.end()
            return [Effect(EffectKind.TRUNCATE_TABLE, (table,))]
        case "RENAME" if reader.takes_one_of("TABLE", "TABLES"):
            return _rename(reader, database)
        case "ALTER":
            return _alter(reader, database)
        case "SET" if reader.takes("STATEMENT"):
            while not reader.takes("FOR"):
                reader.take()
            return statement_effects(reader, database)
    if first in _NO_DDL or (first, reader.keywords(1)[0]) in _NO_DDL_PAIRS:
        return [Effect(EffectKind.OTHER)]
    if first in ("ANALYZE", "OPTIMIZE"):
        reader.takes_one_of("LOCAL", "NO_WRITE_TO_BINLOG")
        if reader.takes_one_of("TABLE", "TABLES"):  # ANALYZE of another statement carries it out
            return [Effect(EffectKind.OTHER)]
    if first in ("BEGIN", "START") and (reader.next is None or reader.keywords(1)[0] in ("WORK", "TRANSACTION")):
        return [Effect(EffectKind.OTHER)]
    raise Unreadable("not a statement that is known")


_NO_DDL = words("GRANT REVOKE FLUSH SET USE COMMIT SAVEPOINT RELEASE XA LOCK UNLOCK KILL SHOW")
_OF_TRANSACTIONS = words("ROLLBACK XA COMMIT SAVEPOINT RELEASE BEGIN START")
_NO_DDL_PAIRS = frozenset({("RENAME", "USER"), ("CHECK", "TABLE"), ("CHECKSUM", "TABLE"), ("RESET", "MASTER")})
_ROUTINES = words("PROCEDURE FUNCTION TRIGGER EVENT PACKAGE")
_NO_TABLES = words("USER ROLE SERVER TABLESPACE LOGFILE UNDO RESOURCE SPATIAL SEQUENCE INSTANCE")
_THINGS = _ROUTINES | _NO_TABLES | words("TABLE VIEW INDEX DATABASE SCHEMA")
_BEFORE_THINGS = words("AGGREGATE UNIQUE FULLTEXT VECTOR GLOBAL LOCAL CLUSTERED COLUMNAR ONLINE OFFLINE")


def _create(reader: Reader, database: str) -> list[Effect]:
    replaces = reader.takes("OR", "REPLACE")
    temporary = reader.takes("TEMPORARY")
    thing = _thing(reader)
    if thing == "TABLE":
        reader.takes("IF", "NOT", "EXISTS")
        table = table_name(reader, database)
        if temporary:
            return [Effect(EffectKind.OTHER)]
        made = Effect(EffectKind.CREATE_TABLE, (table,), _created_columns(reader))
        return [Effect(EffectKind.DROP_TABLE, (table,)), made] if replaces else [made]
    if thing == "INDEX":
        return [_index_of(reader, database)]
    if thing in ("DATABASE", "SCHEMA"):
        reader.takes("IF", "NOT", "EXISTS")
        made = Effect(EffectKind.CREATE_DATABASE, database=reader.name())
        return [Effect(EffectKind.DROP_DATABASE, database=made.database), made] if replaces else [made]
    return _of_thing(thing, reader, database)


def _thing(reader: Reader) -> str:
    """Take the kind of thing that a statement creates, drops or alters.

    Words that may stand before it are passed over.

    Raises:
        Unreadable: the kind of thing is not known.
    """
    while True:
        if reader.takes("DEFINER", "="):
            reader.take()
            if reader.takes("@"):
                reader.take()
            reader.takes("(", ")")
        elif reader.takes("ALGORITHM", "=") or reader.takes("SQL", "SECURITY"):
            reader.take()
        elif reader.takes("SPATIAL", "INDEX"):
            return "INDEX"
        else:
            word = reader.take().keyword
            if word in _THINGS:
                return word
            if word not in _BEFORE_THINGS:
                raise Unreadable("not a thing that is known")


def _of_thing(thing: str, reader: Reader, database: str) -> list[Effect]:
    if thing == "VIEW":
        reader.takes("IF", "NOT", "EXISTS")
        reader.takes("IF", "EXISTS")
        return [Effect(EffectKind.VIEW, (table_name(reader, database),))]
    if thing in _ROUTINES:
        return [Effect(EffectKind.ROUTINE)]
    if thing in _NO_TABLES:
        return [Effect(EffectKind.OTHER)]
    raise Unreadable("not a thing that is known")


def _created_columns(reader: Reader) -> tuple[str, ...]:
    """Return the columns that a CREATE TABLE names; none for ``LIKE`` and for a query alone."""
    if reader.next is None or reader.next.text != "(":
        return ()
    parts = split(reader.parenthesized(), ",")
    return tuple(name for part in parts if part and not _is_no_column(part) and (name := part[0].name))


def _is_no_column(part: Sequence[Token]) -> bool:
    ahead = Reader(part[:2])
    first = part[0].keyword
    return is_key_part(ahead) or first in (*QUERY, "LIKE") or ahead.takes("PERIOD", "FOR")


def _drop(reader: Reader, database: str) -> list[Effect]:
    if reader.takes_one_of("TEMPORARY", "PREPARE"):
        return [Effect(EffectKind.OTHER)]
    if reader.takes_one_of("TABLE", "TABLES"):
        return _dropped(EffectKind.DROP_TABLE, reader, database)
    thing = _thing(reader)
    if thing == "INDEX":
        return [_index_of(reader, database)]
    if thing in ("DATABASE", "SCHEMA"):
        reader.takes("IF", "EXISTS")
        dropped = Effect(EffectKind.DROP_DATABASE, database=reader.name())
        reader.end()
        return [dropped]
    if thing == "VIEW":
        return _dropped(EffectKind.VIEW, reader, database)
    return _of_thing(thing, reader, database)


def _dropped(kind: EffectKind, reader: Reader, database: str) -> list[Effect]:
    """Return the effects of a DROP of the tables or views whose names come next."""
    reader.takes("IF", "EXISTS")
    effects = [Effect(kind, (table_name(reader, database),))]
    while reader.takes(","):
        effects.append(Effect(kind, (table_name(reader, database),)))
    if kind is EffectKind.DROP_TABLE:
        wait(reader)
    reader.takes_one_of("RESTRICT", "CASCADE")
    reader.end()
    return effects


def _index_of(reader: Reader, database: str) -> Effect:
    """Return the effect of CREATE or DROP INDEX ... ON a table; the index called PRIMARY is the key."""
    reader.takes("IF", "NOT", "EXISTS")
    reader.takes("IF", "EXISTS")
    kind = EffectKind.PRIMARY_KEY if reader.name().upper() == "PRIMARY" else EffectKind.INDEX
    while not reader.takes("ON"):
        reader.take()
    return Effect(kind, (table_name(reader, database),))


def _rename(reader: Reader, database: str) -> list[Effect]:
    reader.takes("IF", "EXISTS")
    effects = []
    while True:
        old = table_name(reader, database)
        wait(reader)
        if not reader.takes("TO"):
            raise Unreadable("a rename without its new name")
        effects.append(Effect(EffectKind.RENAME_TABLE, (old, table_name(reader, database))))
        if not reader.takes(","):
            reader.end()
            return effects


_DATABASE_OPTIONS = words("DEFAULT CHARACTER CHARSET COLLATE COMMENT ENCRYPTION READ")


def _alter(reader: Reader, database: str) -> list[Effect]:
    ignores = False
    while word := reader.takes_one_of("ONLINE", "OFFLINE", "IGNORE"):
        ignores = ignores or word == "IGNORE"
    if reader.takes("TABLE"):
        reader.takes("IF", "EXISTS")
        table = table_name(reader, database)
        wait(reader)
        return alter_table(reader, table, database, ignores=ignores)
    thing = _thing(reader)
    if thing in ("DATABASE", "SCHEMA"):
        named = reader.keywords(1)[0] not in _DATABASE_OPTIONS
        return [Effect(EffectKind.ALTER_DATABASE, database=reader.name() if named else database)]
    return _of_thing(thing, reader, database)
