"""Clauses of CREATE TABLE and ALTER TABLE, written from what was read: columns, keys, actions, character sets."""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.model.columns import quoted
from dts_assets.wire.ddl.alter_actions import (
    Action,
    AddColumn,
    AlterColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropKey,
    RenameColumn,
    SetCharset,
)
from dts_assets.wire.ddl.declared_columns import DeclaredColumn
from dts_assets.wire.ddl.literals import literal_default, text_literal
from dts_assets.wire.ddl.other_parts import OtherPart, Part
from dts_assets.wire.ddl.table_clauses import DeclaredKey
from dts_assets.wire.ddl.table_schemas import folded
from dts_assets.wire.ddl.tokens import Unreadable


def column_text(column: DeclaredColumn, left_out: list[OtherPart], *, numbered: bool = False) -> str:
    """Return the definition of a column, which begins with its name.

    Parts that are not written go to ``left_out``. A generated column becomes a plain one, whose values events bring. ``numbered``
    says that rows already there are numbered.

    Raises:
        Unreadable: a collation has no name.
    """
    words = [quoted(column.name), _type_text(column)]
    if column.nullable is not None:
        words.append("NULL" if column.nullable else "NOT NULL")
    words += _default_words(column.default, left_out)
    if column.auto_increment and numbered:
        words.append("AUTO_INCREMENT")
    elif column.auto_increment:
        left_out.append(OtherPart(Part.NUMBERS))
    if column.generated:
        left_out.append(OtherPart(Part.EXPRESSION))
    words += ["PRIMARY KEY"] if column.is_key else []
    return " ".join(words)


def _type_text(column: DeclaredColumn) -> str:
    kind = column.type
    arguments = ", ".join([*map(str, kind.numbers), *map(text_literal, kind.labels)])
    words = [f"{kind.base}({arguments})" if arguments else kind.base]
    words += ["UNSIGNED"] if kind.unsigned else []
    words += ["ZEROFILL"] if kind.zerofill else []
    words += [f"CHARACTER SET {kind.charset}"] if kind.charset else []
    words += ["BINARY"] if kind.by_bytes else []
    return " ".join(words) + _collation_text(column.collation)


def _default_words(default: str | None, left_out: list[OtherPart]) -> list[str]:
    literal = None if default is None else literal_default(default)
    if default is not None and literal is None:
        left_out.append(OtherPart(Part.DEFAULT))
    return [] if literal is None else [f"DEFAULT {literal}"]


def _collation_text(collation: str | None) -> str:
    """Return the words that name a collation, with a space before them.

    Raises:
        Unreadable: it has no name of a collation.
    """
    if collation is None:
        return ""
    if not (collation.isascii() and collation.replace("_", "").isalnum()):
        raise Unreadable("a collation that is not known")
    return f" COLLATE {collation}"


def charset_text(charset: str | None, collation: str | None) -> str:
    """Return the words for a character set and a collation, each with a space before.

    Raises:
        Unreadable: a collation has no name.
    """
    return (f" CHARACTER SET {charset}" if charset else "") + _collation_text(collation)


def key_text(key: DeclaredKey) -> str:
    """Return the words of a primary key."""
    lengths = key.lengths or (0,) * len(key.columns)
    columns = (
        quoted(name) + (f"({length})" if length else "") for name, length in zip(key.columns, lengths, strict=True)
    )
    return f"PRIMARY KEY ({', '.join(columns)})"


def numbered_by_key(actions: Iterable[Action]) -> frozenset[str]:
    """Return the columns that a primary key of these actions begins with.

    Only they may be numbered in rows already there.
    """
    keys = [action.columns[0] for action in actions if isinstance(action, DeclaredKey)]
    columns = [action.column for action in actions if isinstance(action, AddColumn | ChangeColumn)]
    return frozenset(map(folded, [*keys, *(column.name for column in columns if column.is_key)]))


def action_text(action: Action, left_out: list[OtherPart], *, numbered: frozenset[str]) -> list[str]:
    """Return the words of an action, none if it is not written.

    Parts that are not written go to ``left_out``.

    Raises:
        Unreadable: a collation has no name.
    """
    match action:
        case AddColumn(column, if_absent):
            number = folded(column.name) in numbered
            return [
                f"ADD COLUMN {'IF NOT EXISTS ' if if_absent else ''}"
                f"{column_text(column, left_out, numbered=number)}{_place_text(column)}"
            ]
        case ChangeColumn(old, column, if_exists):
            words = f"CHANGE COLUMN {_if_exists(if_exists)}{quoted(old)}"
            return [f"{words} {column_text(column, left_out)}{_place_text(column)}"]
        case DropColumn(name, if_exists):
            return [f"DROP COLUMN {_if_exists(if_exists)}{quoted(name)}"]
        case RenameColumn(old, new, if_exists):
            return [f"RENAME COLUMN {_if_exists(if_exists)}{quoted(old)} TO {quoted(new)}"]
        case AlterColumn(name, if_exists, default, None):
            words = f"ALTER COLUMN {_if_exists(if_exists)}{quoted(name)}"
            if default is None:
                return [f"{words} DROP DEFAULT"]
            return [f"{words} SET {one}" for one in _default_words(default, left_out)]
        case AlterColumn():
            left_out.append(OtherPart(Part.OPTION))
        case DeclaredKey():
            return [f"ADD {key_text(action)}"]
        case DropKey(if_exists):
            return ["DROP INDEX IF EXISTS `PRIMARY`" if if_exists else "DROP PRIMARY KEY"]
        case ConvertCharset(charset, collation):
            return [f"CONVERT TO{charset_text(charset, collation)}"]
        case SetCharset(charset, collation):
            return [charset_text(charset, collation).strip()]
    return []


def _if_exists(if_exists: bool) -> str:
    return "IF EXISTS " if if_exists else ""


def _place_text(column: DeclaredColumn) -> str:
    if column.place is None:
        return ""
    return " FIRST" if column.place.after is None else f" AFTER {quoted(column.place.after)}"
