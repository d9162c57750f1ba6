"""Clauses of CREATE TABLE and ALTER TABLE: keys, options of tables, and partitions at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dts_assets.wire.ddl.charsets import DEFAULT, charset_name, charset_named, charset_of_collation, takes_charset
from dts_assets.wire.ddl.declared_columns import references
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, split, words

MOST_PARTS = 10_000
"""Columns, keys or actions of one statement. A table has at most 4,096 columns."""

_KEEPING_ENGINES = words("INNODB MYISAM ARIA ROCKSDB XTRADB TOKUDB")
_OPTIONS = words(
    """
    ENGINE TYPE COMMENT AUTO_INCREMENT AUTOEXTEND_SIZE AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM COMPRESSION CONNECTION
    DELAY_KEY_WRITE ENCRYPTION ENCRYPTED ENCRYPTION_KEY_ID INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS
    PAGE_CHECKSUM PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL PASSWORD ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE
    ENGINE_ATTRIBUTE STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES TABLESPACE TRANSACTIONAL ALGORITHM LOCK
    """
)


_KINDS_OF_INDEX = ("VECTOR", "GLOBAL", "LOCAL", "CLUSTERED")
"""Kinds that are no words of their own to other servers. GLOBAL, LOCAL and CLUSTERED are those of PolarDB-X."""
_BEHIND_KINDS = ("INDEX", "KEY", "UNIQUE", "CLUSTERED", "COLUMNAR")
_ELSEWHERE = words("DIRECTORY CONNECTION UNION")


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A primary key as a statement declares it: its columns in order, and IF NOT EXISTS.

    ``lengths`` are those of the beginnings of columns that count, 0 for whole ones; empty where all are whole.
    """

    columns: tuple[str, ...]
    if_absent: bool
    lengths: tuple[int, ...] = ()


@dataclass(slots=True)
class TableOptions:
    """The options that matter: a default character set, and an engine that is not known to keep rows.

    ``charset`` is None where none is said, and :data:`~dts_assets.wire.ddl.charsets.DEFAULT` for the database's. ``others`` are
    all other options.
    """

    charset: str | None = None
    loses_rows: bool = False
    collation: str | None = None
    others: list[OtherPart] = field(default_factory=list)


def parts_of(tokens: list[Token]) -> list[list[Token]]:
    """Return the parts between commas.

    Raises:
        Unreadable: there are more than a server takes.
    """
    found = split(tokens, ",")
    if len(found) > MOST_PARTS:
        raise Unreadable("more parts than a server takes")
    return found


def is_key_part(reader: Reader) -> bool:
    """Tell whether a key, an index or a constraint comes next, and no column.

    Some words name columns, too, before the name of a type.
    """
    first, second = reader.keywords(2)
    if first in ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK"):
        return True
    return (first, second) == ("PRIMARY", "KEY") or (first in _KINDS_OF_INDEX and second in _BEHIND_KINDS)


def key_part(reader: Reader) -> DeclaredKey | OtherPart:
    """Take a key, an index or a constraint, and return it.

    Raises:
        Unreadable: it is not known.
    """
    if reader.takes("CONSTRAINT"):
        _if_not_exists(reader)
        if not is_key_part(reader):
            reader.name()
    if reader.takes("PRIMARY", "KEY"):
        if_absent = _if_not_exists(reader)
        columns, lengths = _key_columns(reader)
        return DeclaredKey(columns, if_absent, lengths)
    word = reader.take().keyword
    if word == "CHECK":
        reader.parenthesized()
        reader.takes("NOT")
        reader.takes("ENFORCED")
        reader.end()
        return OtherPart(Part.CHECK)
    if word not in ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", *_KINDS_OF_INDEX):
        raise Unreadable("a constraint that is not known")
    while reader.takes_one_of(*_BEHIND_KINDS):
        pass
    _if_not_exists(reader)
    while reader.next is not None and reader.next.text != "(":
        reader.take()
    reader.parenthesized()
    if word == "FOREIGN":
        if not reader.takes("REFERENCES"):
            raise Unreadable("a foreign key without its table")
        found = references(reader).part
        reader.end()
        return found
    return OtherPart(Part.INDEX)


def _if_not_exists(reader: Reader) -> bool:
    return reader.takes("IF", "NOT", "EXISTS")


def _key_columns(reader: Reader) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Take the columns of a primary key with their lengths, and what stands around them.

    Raises:
        Unreadable: an option of the key is not known.
    """
    while reader.next is not None and reader.next.text != "(":
        reader.take()  # a name that counts for nothing, and the kind of tree
    columns, lengths = [], []
    for part in parts_of(reader.parenthesized()):
        one = Reader(part)
        columns.append(one.name())
        length = one.parenthesized() if one.next is not None and one.next.text == "(" else []
        lengths.append(int(length[0].text) if len(length) == 1 and length[0].text.isdecimal() else 0)
        one.takes_one_of("ASC", "DESC")
        one.end()
    while reader.next is not None:
        word = reader.take().keyword
        if word == "USING":
            reader.take()
        elif word in ("COMMENT", "KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE"):
            reader.takes("=")
            reader.take()
        elif word not in ("VISIBLE", "INVISIBLE", "IGNORED"):
            raise Unreadable("an option of a key that is not known")
    return tuple(columns), tuple(lengths) if any(lengths) else ()


def table_option(reader: Reader, options: TableOptions) -> bool:
    """Take one option of a table and note what it says; tell whether there was one.

    Raises:
        Unreadable: the option has no value.
    """
    at_default = reader.takes("DEFAULT")
    if takes_charset(reader):
        reader.takes("=")
        name = charset_name(reader)
        options.charset = DEFAULT if name.lower() == DEFAULT else charset_named(name)
        return True
    if reader.takes("COLLATE"):
        reader.takes("=")
        name = charset_name(reader)
        charset = None if name.lower() == DEFAULT else charset_of_collation(name)
        options.charset = charset or options.charset
        options.collation = None if name.lower() == DEFAULT else name.lower()
        return True
    if at_default:
        raise Unreadable("a default that is not known")
    first, second = reader.keywords(2)
    reaches = first in ("UNION", "CONNECTION")
    if (first, second) in (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY")):
        reader.take()
        reaches = True
    elif (first, second) == ("START", "TRANSACTION"):
        return reader.takes("START", "TRANSACTION")
    elif first == "FORCE":
        return reader.takes("FORCE")
    elif first == "UNION":
        reader.take()
        reader.takes("=")
        reader.parenthesized()
        options.others.append(OtherPart(Part.OPTION, reaches=True))
        return True
    elif first not in _OPTIONS:
        return False
    reader.take()
    reader.takes("=")
    value = reader.take()
    if value.kind is TokenKind.MARK:
        raise Unreadable("an option without its value")
    if first in ("ENGINE", "TYPE"):
        engine = engine_part(value)
        options.loses_rows = options.loses_rows or (engine is not None and engine.reaches)
        options.others += [engine] if engine else []
    else:
        options.others.append(OtherPart(Part.OPTION, reaches=reaches))
    return True


def engine_part(name: Token) -> OtherPart | None:
    """Return the part of a statement that says another engine than InnoDB; None for InnoDB."""
    engine = name.text.strip("'\"`").upper()
    return None if engine == "INNODB" else OtherPart(Part.ENGINE, reaches=engine not in _KEEPING_ENGINES)


def partition_parts(tokens: Sequence[Token]) -> list[OtherPart]:
    """Return the parts of a statement that words about partitions are: the partitions, and their engines and folders."""
    found = [OtherPart(Part.PARTITIONS, reaches=any(token.keyword in _ELSEWHERE for token in tokens))]
    for place, token in enumerate(tokens[:-1]):
        if token.keyword == "ENGINE":
            value = (
                tokens[place + 2] if tokens[place + 1].text == "=" and place + 2 < len(tokens) else tokens[place + 1]
            )
            found += [engine] if (engine := engine_part(value)) else []
    return found


def without_partitions(tokens: list[Token]) -> list[Token]:
    """Return the actions of an ALTER TABLE without new partitions or a new order at its end.

    Neither changes a schema.
    """
    depth = 0
    for place, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        word = token.keyword
        if depth == 0 and word in ("PARTITION", "REMOVE", "ORDER") and place + 1 < len(tokens):
            pair = (word, tokens[place + 1].keyword)
            if pair in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING"), ("ORDER", "BY")):
                left = tokens[:place]
                return left[:-1] if left and left[-1].text == "," else left
    return tokens
