"""The actions of an ALTER TABLE, each to its effects (MySQL manual, "ALTER TABLE Statement")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import column_definition
from dts_assets.wire.ddl.effects import Effect, EffectKind
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, split, words

_INDEXES = words("INDEX KEY UNIQUE FULLTEXT SPATIAL CONSTRAINT FOREIGN CHECK")
_OPTIONS = words(
    """
    ENGINE COMMENT AUTO_INCREMENT AUTOEXTEND_SIZE AVG_ROW_LENGTH CHECKSUM COMPRESSION CONNECTION DATA DEFAULT CHARACTER CHARSET
    COLLATE DELAY_KEY_WRITE ENCRYPTION ENCRYPTED ENCRYPTION_KEY_ID INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS
    PAGE_CHECKSUM PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL PASSWORD ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE
    ENGINE_ATTRIBUTE STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES TABLESPACE TRANSACTIONAL ALGORITHM LOCK FORCE
    """
)
_KEEPING_ENGINES = words("INNODB MYISAM ARIA ROCKSDB XTRADB TOKUDB")
_WIDE_CHARACTER_SETS = words("utf8mb4 utf16 utf32")
_MOST_ACTIONS = 10_000
"""A table has at most 4,096 columns, and no statement touches each of them three times. A definition takes 0.1 ms."""
_PARTITIONS_KEPT = words("REORGANIZE REBUILD OPTIMIZE ANALYZE CHECK COALESCE")
_PARTITIONS_LOST = words("DROP TRUNCATE DISCARD IMPORT EXCHANGE CONVERT REPAIR")


def table_name(reader: Reader, database: str) -> TableId:
    """Take the name of a table, with its database or without."""
    name = reader.name()
    if reader.takes("."):
        return TableId(name, "", reader.name())
    return TableId(database, "", name)


def wait(reader: Reader) -> None:
    """Take the words that say how long MariaDB may wait for a lock."""
    if not reader.takes("NOWAIT") and reader.takes("WAIT"):
        reader.take()


def alter_table(reader: Reader, table: TableId, database: str, *, ignores: bool) -> list[Effect]:
    """Return the effects of the actions on ``table``, in their order.

    The actions of one statement happen at once: old names are the names before it, so that two columns may change names.
    ``ignores`` says that rows in the way are dropped.

    Raises:
        Unreadable: an action is not understood.
    """
    whole = _of_partitions(reader, table, database)
    if whole is not None:
        return whole
    effects: list[Effect] = []
    for action in _actions(reader.rest):
        effects += _action(Reader(action), table, database)
    # The new name is the table's own from the end of the statement on, wherever it stands in it.
    effects.sort(key=lambda effect: effect.kind is EffectKind.RENAME_TABLE)
    if ignores:
        effects.insert(0, Effect(EffectKind.ROWS, (table,)))
    return effects


def _actions(tokens: list[Token]) -> list[list[Token]]:
    """Return what stands between commas.

    Raises:
        Unreadable: no server takes so many actions.
    """
    found = split(tokens, ",")
    if len(found) > _MOST_ACTIONS:
        raise Unreadable("more actions than a server takes")
    return found


def _of_partitions(reader: Reader, table: TableId, database: str) -> list[Effect] | None:
    """Return the effect of a statement about partitions or tablespaces; None for any other statement.

    Such a statement has no other actions.
    """
    first, second = reader.keywords(2)
    if (first in _PARTITIONS_LOST and second in ("PARTITION", "TABLESPACE")) or (first, second) == ("CONVERT", "TABLE"):
        tables = [table]
        keywords = [token.keyword for token in reader.rest]
        if "TABLE" in keywords and first in ("EXCHANGE", "CONVERT"):
            other = Reader(reader.rest[keywords.index("TABLE") + 1 :])
            tables.append(table_name(other, database))
        return [Effect(EffectKind.ROWS, (one,)) for one in tables]
    kept = first in _PARTITIONS_KEPT and second == "PARTITION"
    if kept or f"{first} {second}" in ("ADD PARTITION", "PARTITION BY", "REMOVE PARTITIONING", "ORDER BY"):
        return [Effect(EffectKind.OTHER, (table,))]
    return None


def _action(reader: Reader, table: TableId, database: str) -> list[Effect]:
    token = reader.take()
    reading = _ACTIONS.get(token.keyword)
    if reading is not None:
        return reading(reader, table, database)
    if token.keyword in _OPTIONS:
        return _options([token, *reader.rest], table)
    if (token.keyword, reader.keywords(1)[0]) in (("ENABLE", "KEYS"), ("DISABLE", "KEYS")):
        return [Effect(EffectKind.INDEX, (table,))]
    raise Unreadable("not an action that is known")


def _add(reader: Reader, table: TableId, database: str) -> list[Effect]:
    index = _index(reader, table)
    if index:
        return [index]
    is_column = reader.takes("COLUMN")
    reader.takes("IF", "NOT", "EXISTS")
    if reader.next is not None and reader.next.text == "(":
        inner = reader.parenthesized()
        reader.end()
        effects = []
        for part in _actions(inner):
            index = _index(Reader(part), table)
            effects += [index] if index else _defined(EffectKind.ADD_COLUMN, part, table)
        return effects
    if not is_column and reader.keywords(1)[0] in ("SYSTEM", "PERIOD", "PARTITION"):
        raise Unreadable("versions of rows")
    return _defined(EffectKind.ADD_COLUMN, reader.rest, table)


def _index(reader: Reader, table: TableId) -> Effect | None:
    """Return the effect if an index or a constraint is added here."""
    first, second, third = reader.keywords(3)
    if (first, second) == ("PRIMARY", "KEY") or (first == "CONSTRAINT" and "PRIMARY" in (second, third)):
        return Effect(EffectKind.PRIMARY_KEY, (table,))
    return Effect(EffectKind.INDEX, (table,)) if first in _INDEXES else None


def _defined(kind: EffectKind, tokens: list[Token], table: TableId) -> list[Effect]:
    definition = column_definition(tokens)
    key = [Effect(EffectKind.PRIMARY_KEY, (table,))] if definition.is_key else []
    return [Effect(kind, (table,), (definition.name,), definition), *key]


def _drop(reader: Reader, table: TableId, database: str) -> list[Effect]:
    if reader.takes("PRIMARY", "KEY"):
        reader.end()
        return [Effect(EffectKind.PRIMARY_KEY, (table,))]
    if reader.keywords(1)[0] in ("SYSTEM", "PERIOD"):
        raise Unreadable("versions of rows")
    if reader.takes("FOREIGN", "KEY") or reader.takes_one_of("INDEX", "KEY", "CONSTRAINT", "CHECK"):
        reader.takes("IF", "EXISTS")
        is_key = reader.name().upper() == "PRIMARY"
        reader.end()
        return [Effect(EffectKind.PRIMARY_KEY if is_key else EffectKind.INDEX, (table,))]
    reader.takes("COLUMN")
    reader.takes("IF", "EXISTS")
    name = reader.name()
    reader.takes_one_of("RESTRICT", "CASCADE")
    reader.end()
    return [Effect(EffectKind.DROP_COLUMN, (table,), (name,))]


def _change(reader: Reader, table: TableId, database: str) -> list[Effect]:
    reader.takes("COLUMN")
    reader.takes("IF", "EXISTS")
    old = reader.name()
    modified = _defined(EffectKind.MODIFY_COLUMN, reader.rest, table)
    (new,) = modified[0].columns
    return modified if new == old else [Effect(EffectKind.RENAME_COLUMN, (table,), (old, new)), *modified]


def _modify(reader: Reader, table: TableId, database: str) -> list[Effect]:
    reader.takes("COLUMN")
    reader.takes("IF", "EXISTS")
    return _defined(EffectKind.MODIFY_COLUMN, reader.rest, table)


def _rename(reader: Reader, table: TableId, database: str) -> list[Effect]:
    if reader.takes("COLUMN"):
        reader.takes("IF", "EXISTS")
        old = reader.name()
        if not reader.takes("TO"):
            raise Unreadable("a rename without its new name")
        effect = Effect(EffectKind.RENAME_COLUMN, (table,), (old, reader.name()))
    elif reader.takes_one_of("INDEX", "KEY"):
        return [Effect(EffectKind.INDEX, (table,))]
    else:
        reader.takes_one_of("TO", "AS", "=")
        effect = Effect(EffectKind.RENAME_TABLE, (table, table_name(reader, database)))
    reader.end()
    return [effect]


def _alter(reader: Reader, table: TableId, database: str) -> list[Effect]:
    """Take a change of defaults or of visibility, which leaves all rows as they are.

    Raises:
        Unreadable: the change of the column is not known.
    """
    if reader.takes_one_of("INDEX", "KEY", "CONSTRAINT", "CHECK"):
        return [Effect(EffectKind.INDEX, (table,))]
    reader.takes("COLUMN")
    reader.takes("IF", "EXISTS")
    reader.name()
    if reader.keywords(2) not in (("SET", "DEFAULT"), ("DROP", "DEFAULT"), ("SET", "VISIBLE"), ("SET", "INVISIBLE")):
        raise Unreadable("a change of a column that is not known")
    return [Effect(EffectKind.OTHER, (table,))]


def _convert(reader: Reader, table: TableId, database: str) -> list[Effect]:
    if not (reader.takes("TO", "CHARACTER", "SET") or reader.takes("TO", "CHARSET")):
        raise Unreadable("a conversion that is not known")
    reader.takes("=")
    token = reader.take()
    name = token.text.strip("'\"`").lower()
    if reader.takes("COLLATE"):
        reader.takes("=")
        reader.take()
    reader.end()
    # Characters that the new character set lacks become question marks.
    return [Effect(EffectKind.OTHER if name in _WIDE_CHARACTER_SETS else EffectKind.ROWS, (table,))]


_ACTIONS: Mapping[str, Callable[[Reader, TableId, str], list[Effect]]] = MappingProxyType(
    {
        "ADD": _add,
        "DROP": _drop,
        "CHANGE": _change,
        "MODIFY": _modify,
        "RENAME": _rename,
        "ALTER": _alter,
        "CONVERT": _convert,
    }
)


def _options(tokens: list[Token], table: TableId) -> list[Effect]:
    """Return the effects of table options between spaces; only engines that are known to keep rows keep them.

    Raises:
        Unreadable: an option is not known, or has no value.
    """
    kind = EffectKind.OTHER
    reader = Reader(tokens)
    while reader.next is not None:
        option = reader.take().keyword
        if option == "FORCE":
            continue
        if option not in _OPTIONS:
            raise Unreadable("an option that is not known")
        if option == "DEFAULT":
            option = reader.take().keyword
        if option in ("CHARACTER", "DATA"):
            reader.take()
        reader.takes("=")
        value = reader.take()
        if value.kind is TokenKind.MARK:
            raise Unreadable("an option without its value")
        if option == "ENGINE" and value.text.strip("'\"`").upper() not in _KEEPING_ENGINES:
            kind = EffectKind.ROWS
    return [Effect(kind, (table,))]
