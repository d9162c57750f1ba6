"""Columns as statements declare them, to the columns that a table has then.

A declaration is understood to its last word or not at all: a word that is not known might be a type's or a key's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dts_assets.wire.ddl.charsets import BINARY, charset_name, charset_of_collation
from dts_assets.wire.ddl.column_definitions import (
    ColumnDefinition,
    Fill,
    default_value,
    fill_of_default,
    fill_without_default,
)
from dts_assets.wire.ddl.column_types import AS_TEXT, DeclaredType, declared_type, resolved
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.table_schemas import SchemaColumn, ServerRules
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, source_text, split, words


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a column: behind the column ``after``, or before all (None)."""

    after: str | None


@dataclass(slots=True)
class DeclaredColumn:
    """A column as a statement declares it.

    ``charset`` is that of the type or of a collation, None where the table's counts. ``nullable`` is None where the statement
    does not say it. ``place`` is None where no place is said. ``others`` are the parts that no schema has.
    """

    name: str
    type: DeclaredType
    charset: str | None
    nullable: bool | None = None
    default: str | None = None
    generated: bool = False
    invisible: bool = False
    auto_increment: bool = False
    is_key: bool = False
    place: Place | None = None
    collation: str | None = None
    others: list[OtherPart] = field(default_factory=list)


def declared_column(tokens: list[Token]) -> DeclaredColumn:
    """Return the column that a declaration makes, from its name to FIRST or AFTER.

    Raises:
        Unreadable: the declaration is not understood.
    """
    reader = Reader(tokens)
    name = reader.name()
    if reader.takes("SERIAL"):
        serial = DeclaredType("bigint", unsigned=True)
        column = DeclaredColumn(name, serial, None, nullable=False, auto_increment=True)
    else:
        kind = declared_type(reader)
        column = DeclaredColumn(name, kind, kind.charset)
    while reader.next is not None:
        _attribute(reader, column)
    return column


def _attribute(reader: Reader, column: DeclaredColumn) -> None:
    """Take one attribute of a column, and note what it says.

    Raises:
        Unreadable: the attribute is not known.
    """
    word = reader.take().keyword
    match word:
        case "NOT" if reader.takes("NULL"):
            column.nullable = False
        case "NOT" if reader.takes("SECONDARY"):
            column.others.append(OtherPart(Part.OPTION))
        case "NULL":
            column.nullable = True
        case "DEFAULT":
            column.default = default_text(reader)
        case "AUTO_INCREMENT":
            column.auto_increment, column.nullable = True, False
        case "SERIAL" if reader.takes("DEFAULT", "VALUE"):
            column.auto_increment, column.nullable = True, False
        case "UNIQUE":
            reader.takes("KEY")
            column.others.append(OtherPart(Part.INDEX))
        case "KEY":
            column.is_key, column.nullable = True, False
        case "PRIMARY" if reader.takes("KEY"):
            column.is_key, column.nullable = True, False
        case "COLLATE":
            name = charset_name(reader)
            charset = charset_of_collation(name)
            if column.type.base in AS_TEXT and charset not in (None, BINARY):
                column.type = replace(column.type, base=AS_TEXT[column.type.base])
            if column.type.has_charset:
                column.charset, column.collation = charset or column.charset, name.lower()
        case "INVISIBLE":
            column.invisible = True
            column.others.append(OtherPart(Part.OPTION))
        case "AS":
            _generated(reader, column)
        case "GENERATED" if reader.takes("ALWAYS", "AS"):
            _generated(reader, column)
        case "FIRST" if reader.next is None:
            column.place = Place(None)
        case "AFTER":
            column.place = Place(reader.name())
            reader.end()
        case _:
            column.others.append(_without_effect(word, reader))


def _generated(reader: Reader, column: DeclaredColumn) -> None:
    reader.parenthesized()
    reader.takes_one_of("VIRTUAL", "STORED", "PERSISTENT")
    column.generated = True


_WITH_ONE_VALUE = words("COMMENT COLUMN_FORMAT STORAGE ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE SRID REF_SYSTEM_ID")


def _without_effect(word: str, reader: Reader) -> OtherPart:
    """Take the rest of an attribute that changes no schema, and return it.

    Raises:
        Unreadable: the attribute is not known.
    """
    if word in ("VISIBLE", "COMPRESSED"):
        if reader.takes("="):
            reader.take()
    elif word in _WITH_ONE_VALUE:
        reader.takes("=")
        _value_of_option(reader)
    elif word == "ON" and reader.takes("UPDATE"):
        default_value(reader)
    elif word in ("CHECK", "CONSTRAINT"):
        if word == "CONSTRAINT" and not reader.takes("CHECK"):
            reader.name()
            if not reader.takes("CHECK"):
                raise Unreadable("a constraint that is not known")
        reader.parenthesized()
        reader.takes("NOT")
        reader.takes("ENFORCED")
        return OtherPart(Part.CHECK)
    elif word == "REFERENCES":
        return references(reader).part
    elif not (word in ("WITH", "WITHOUT") and reader.takes("SYSTEM", "VERSIONING")):
        raise Unreadable("an attribute that is not known")
    return OtherPart(Part.OPTION)


def _value_of_option(reader: Reader) -> None:
    if reader.take().kind is TokenKind.MARK:
        raise Unreadable("an option without its value")


_RULES = (("RESTRICT",), ("CASCADE",), ("NO", "ACTION"), ("SET", "NULL"), ("SET", "DEFAULT"))


_ACTING = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


@dataclass(frozen=True, slots=True)
class Reference:
    """The parent of a foreign key, as a statement says it.

    ``table`` is its database (None: the child's) and its name. ``on_delete`` and ``on_update`` are what happens to the child's
    rows: ``CASCADE``, ``SET NULL``, ``SET DEFAULT``, or nothing.
    """

    table: tuple[str | None, str]
    columns: tuple[str, ...] = ()
    on_delete: str = ""
    on_update: str = ""

    @property
    def part(self) -> OtherPart:
        """The foreign key as a part of its statement."""
        return OtherPart(Part.CASCADE if self.on_delete or self.on_update else Part.FOREIGN_KEY, self.table)


def references(reader: Reader) -> Reference:
    """Take the table, the columns and the rules behind REFERENCES, and return them.

    Raises:
        Unreadable: no table follows, or a rule is not known.
    """
    name = reader.name()
    table = (name, reader.name()) if reader.takes(".") else (None, name)
    columns = names_within(reader) if reader.next is not None and reader.next.text == "(" else ()
    rules = dict.fromkeys(("DELETE", "UPDATE"), "")
    while True:
        if reader.takes("MATCH"):
            reader.take()
        elif reader.takes("ON"):
            event = reader.takes_one_of(*rules)
            rule = next((rule for rule in _RULES if reader.takes(*rule)), None)
            if event is None or rule is None:
                raise Unreadable("a rule of a foreign key that is not known")
            rules[event] = " ".join(rule) if rule in _ACTING else ""
        else:
            return Reference(table, columns, rules["DELETE"], rules["UPDATE"])


def names_within(reader: Reader) -> tuple[str, ...]:
    """Take the columns of a key in their parentheses, and return their names.

    Raises:
        Unreadable: a name is missing.
    """
    return tuple(Reader(part).name() for part in split(reader.parenthesized(), ","))


def default_text(reader: Reader) -> str | None:
    """Take the value behind DEFAULT and return its SQL text; None for NULL.

    Raises:
        Unreadable: it has several parts.
    """
    text = source_text(default_value(reader))
    if reader.next is not None and not reader.next.keyword:
        raise Unreadable("a default of several parts")
    return None if text.upper() == "NULL" else text


def column_of(declared: DeclaredColumn, table_charset: str | None, rules: ServerRules) -> SchemaColumn:
    """Return the column in a table with this default character set.

    A primary key makes columns NOT NULL; who knows the key does that.

    Raises:
        Unreadable: the type is one that no server has, or depends on a character set that is not known.
    """
    kind = declared.type
    if declared.charset != kind.charset:
        kind = DeclaredType(kind.base, kind.numbers, kind.labels, kind.unsigned, kind.zerofill, declared.charset)
    shown, charset = resolved(kind, table_charset, rules)
    nullable = declared.nullable
    if nullable is None:
        nullable = rules.explicit_timestamps or kind.base != "timestamp" or declared.generated
    return SchemaColumn(
        declared.name,
        shown,
        charset,
        nullable,
        declared.default,
        declared.generated,
        declared.invisible,
        declared.auto_increment,
    )


def fill_of(declared: DeclaredColumn, column: SchemaColumn) -> tuple[Fill, str | None]:
    """Return the kind of value that rows already there get in an added column, and the value."""
    if declared.generated or declared.auto_increment or declared.is_key:
        return Fill.UNKNOWN, None
    if column.default is not None:
        return fill_of_default(column.default, column.type)
    if column.nullable:
        return Fill.NULL, None
    return fill_without_default(column.type, declared.type.labels)


def definition_of(declared: DeclaredColumn) -> ColumnDefinition:
    """Return a column as its statement alone tells it.

    Raises:
        Unreadable: the type is one that no server has.
    """
    kind = declared.type.text
    if declared.generated or declared.auto_increment or declared.is_key:
        fill, value = Fill.UNKNOWN, None
    elif declared.default is not None:
        fill, value = fill_of_default(declared.default, kind)
    elif declared.nullable is False:
        fill, value = fill_without_default(kind, declared.type.labels)
    elif declared.type.base == "timestamp" and declared.nullable is None:
        fill, value = Fill.UNKNOWN, None  # NOT NULL unless the server has explicit_defaults_for_timestamp
    else:
        fill, value = Fill.NULL, None
    return ColumnDefinition(
        declared.name, kind, declared.default, declared.nullable is False, declared.is_key, fill, value
    )
