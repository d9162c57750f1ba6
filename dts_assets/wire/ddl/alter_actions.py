"""The actions of an ALTER TABLE as values, each with all that a schema needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dts_assets.wire.ddl.charsets import DEFAULT, charset_name, charset_named, charset_of_collation, takes_charset
from dts_assets.wire.ddl.declared_columns import DeclaredColumn, declared_column, default_text
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.table_clauses import (
    DeclaredKey,
    TableOptions,
    is_key_part,
    key_part,
    partition_parts,
    parts_of,
    table_option,
    without_partitions,
)
from dts_assets.wire.ddl.tokens import Reader, Token, Unreadable


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: DeclaredColumn
    if_absent: bool


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE COLUMN ``old``, and MODIFY COLUMN, whose column keeps its name."""

    old: str
    column: DeclaredColumn
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """ALTER COLUMN: another default (None: no default), or another visibility (None: the default changes)."""

    name: str
    if_exists: bool
    default: str | None = None
    invisible: bool | None = None


@dataclass(frozen=True, slots=True)
class DropKey:
    """DROP PRIMARY KEY."""

    if_exists: bool


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET; :data:`~dts_assets.wire.ddl.charsets.DEFAULT` is the database's."""

    charset: str
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class SetCharset:
    """DEFAULT CHARACTER SET of the table."""

    charset: str
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO another name; ``database`` is None for the default one."""

    database: str | None
    name: str


@dataclass(frozen=True, slots=True)
class LoseRows:
    """An action after which rows may be gone."""

    reason: str


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """An action on partitions that brings or takes rows without events.

    ``other`` is the table on the other side, as its database (None: the default one) and its name.
    """

    reason: str
    other: tuple[str | None, str] | None = None
    makes_other: bool = False
    drops_other: bool = False


Action = (
    AddColumn
    | ChangeColumn
    | DropColumn
    | RenameColumn
    | AlterColumn
    | DeclaredKey
    | DropKey
    | ConvertCharset
    | SetCharset
    | RenameTo
    | LoseRows
    | PartitionRows
    | OtherPart
)

_PARTITIONS_KEPT = frozenset(
    f"{word} PARTITION" for word in ("ADD", "REORGANIZE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "COALESCE")
) | {"UPGRADE PARTITIONING"}
_PARTITIONS_LOST = frozenset(
    f"{word} {thing}"
    for word in ("DROP", "TRUNCATE", "DISCARD", "IMPORT", "EXCHANGE", "CONVERT", "REPAIR")
    for thing in ("PARTITION", "TABLESPACE")
) | {"CONVERT TABLE"}


_WITHOUT_EFFECT = (("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION"), ("SECONDARY_LOAD",), ("SECONDARY_UNLOAD",))


def alter_actions(tokens: list[Token]) -> list[Action]:
    """Return the actions of an ALTER TABLE in their order.

    Raises:
        Unreadable: an action is not understood.
    """
    whole = _of_partitions(Reader(tokens))
    if whole is not None:
        return whole
    left = without_partitions(tokens)
    found: list[Action] = [*partition_parts(tokens[len(left) :])] if len(left) < len(tokens) else []
    for part in parts_of(left) if left else []:
        reader = Reader(part)
        found += _action(reader)
        reader.end()
    return found


def _of_partitions(reader: Reader) -> list[Action] | None:
    """Return the actions of a statement about partitions or tablespaces, which has no other; None for any other.

    Raises:
        Unreadable: the table on the other side is missing.
    """
    pair = " ".join(reader.keywords(2))
    if pair in _PARTITIONS_KEPT:
        return [*partition_parts(reader.rest)]
    if pair not in _PARTITIONS_LOST:
        return None
    keywords = [token.keyword for token in reader.rest]
    other = None
    if keywords[0] in ("EXCHANGE", "CONVERT"):
        if "TABLE" not in keywords:
            raise Unreadable("a partition without its table")
        beyond = Reader(reader.rest[keywords.index("TABLE") + 1 :])
        other = _table(beyond)
    rows = PartitionRows(pair.lower(), other, pair == "CONVERT PARTITION", pair == "CONVERT TABLE")
    return [rows, *partition_parts(reader.rest)]


def _table(reader: Reader) -> tuple[str | None, str]:
    name = reader.name()
    return (name, reader.name()) if reader.takes(".") else (None, name)


def _action(reader: Reader) -> list[Action]:
    """Take one action.

    Raises:
        Unreadable: it is not known.
    """
    word = reader.keywords(1)[0]
    if word in _ACTIONS:
        reader.take()
        return _ACTIONS[word](reader)
    if word in ("ENABLE", "DISABLE") and (reader.takes(word, "KEYS")):
        return [OtherPart(Part.INDEX)]
    if any(reader.takes(*words) for words in _WITHOUT_EFFECT):
        return [OtherPart(Part.OPTION)]
    options = TableOptions()
    if reader.next is None:
        raise Unreadable("an action is missing")
    while reader.next is not None:
        if not table_option(reader, options):
            raise Unreadable("an action that is not known")
    found: list[Action] = [SetCharset(options.charset, options.collation)] if options.charset else []
    found += [LoseRows("another engine")] if options.loses_rows else []
    return [*found, *options.others]


def _add(reader: Reader) -> list[Action]:
    if is_key_part(reader):
        return _key(reader)
    is_column = reader.takes("COLUMN")
    if_absent = reader.takes("IF", "NOT", "EXISTS")
    if reader.next is not None and reader.next.text == "(":
        found: list[Action] = []
        for part in parts_of(reader.parenthesized()):
            one = Reader(part)
            found += _key(one) if is_key_part(one) else [AddColumn(declared_column(part), if_absent)]
        return found
    if not is_column and (found := _versions(reader)):
        return found
    return [AddColumn(declared_column(_rest(reader)), if_absent)]


def _versions(reader: Reader) -> list[Action]:
    """Take the words about versions of rows, which change no row that events tell; none for a column.

    Raises:
        Unreadable: a period has columns of its own.
    """
    if reader.keywords(2) == ("PERIOD", "FOR"):
        raise Unreadable("versions of rows")
    return [OtherPart(Part.OPTION)] if reader.takes("SYSTEM", "VERSIONING") else []


def _rest(reader: Reader) -> list[Token]:
    """Take all tokens that are left."""
    rest = reader.rest
    for _ in rest:
        reader.take()
    return rest


def _key(reader: Reader) -> list[Action]:
    key = key_part(reader)
    _rest(reader)
    return [key]


def _drop(reader: Reader) -> list[Action]:
    if reader.takes("PRIMARY", "KEY"):
        return [DropKey(False)]
    if found := _versions(reader):
        return found
    if reader.takes("FOREIGN", "KEY") or reader.takes_one_of("INDEX", "KEY", "CONSTRAINT", "CHECK"):
        if_exists = reader.takes("IF", "EXISTS")
        return [DropKey(if_exists)] if reader.name().upper() == "PRIMARY" else [OtherPart(Part.INDEX)]
    reader.takes("COLUMN")
    if_exists = reader.takes("IF", "EXISTS")
    name = reader.name()
    reader.takes_one_of("RESTRICT", "CASCADE")
    return [DropColumn(name, if_exists)]


def _change(reader: Reader) -> list[Action]:
    reader.takes("COLUMN")
    if_exists = reader.takes("IF", "EXISTS")
    old = reader.name()
    return [ChangeColumn(old, declared_column(_rest(reader)), if_exists)]


def _modify(reader: Reader) -> list[Action]:
    reader.takes("COLUMN")
    if_exists = reader.takes("IF", "EXISTS")
    column = declared_column(_rest(reader))
    return [ChangeColumn(column.name, column, if_exists)]


def _rename(reader: Reader) -> list[Action]:
    if reader.takes("COLUMN"):
        if_exists = reader.takes("IF", "EXISTS")
        old = reader.name()
        if not reader.takes("TO"):
            raise Unreadable("a rename without its new name")
        return [RenameColumn(old, reader.name(), if_exists)]
    if reader.takes_one_of("INDEX", "KEY"):
        reader.takes("IF", "EXISTS")
        reader.name()
        if not reader.takes("TO"):
            raise Unreadable("a rename without its new name")
        reader.name()
        return [OtherPart(Part.INDEX)]
    reader.takes_one_of("TO", "AS", "=")
    return [RenameTo(*_table(reader))]


def _alter(reader: Reader) -> list[Action]:
    if reader.takes_one_of("INDEX", "KEY", "CONSTRAINT", "CHECK"):
        _rest(reader)
        return [OtherPart(Part.INDEX)]
    reader.takes("COLUMN")
    if_exists = reader.takes("IF", "EXISTS")
    name = reader.name()
    if reader.takes("SET", "DEFAULT"):
        return [AlterColumn(name, if_exists, default_text(reader))]
    if reader.takes("DROP", "DEFAULT"):
        return [AlterColumn(name, if_exists)]
    if reader.takes("SET", "INVISIBLE"):
        return [AlterColumn(name, if_exists, invisible=True)]
    if reader.takes("SET", "VISIBLE"):
        return [AlterColumn(name, if_exists, invisible=False)]
    raise Unreadable("a change of a column that is not known")


def _convert(reader: Reader) -> list[Action]:
    if not reader.takes("TO") or not takes_charset(reader):
        raise Unreadable("a conversion that is not known")
    reader.takes("=")
    name = charset_name(reader).lower()
    charset, collation = DEFAULT if name == DEFAULT else charset_named(name), None
    if reader.takes("COLLATE"):
        reader.takes("=")
        collation = charset_name(reader).lower()
        charset = charset_of_collation(collation) or charset
    return [ConvertCharset(charset, collation)]


_ACTIONS: Mapping[str, Callable[[Reader], list[Action]]] = MappingProxyType(
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
