"""Column definitions in a statement: the type, whether NULL is taken, and the value of older rows.

sqlglot reads them. It is imported at the first definition: that takes a quarter of a second, and most runs meet none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dts_assets.wire.ddl.stored_defaults import (
    BLOBS,
    REALS,
    TEXTS,
    WHOLES,
    decimal_scale,
    stored_default,
    type_name,
    unquoted,
)
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, source_text

if TYPE_CHECKING:
    from sqlglot import exp

_ZERO = {
    **dict.fromkeys(WHOLES | REALS | {"year", "bit"}, "0"),
    **dict.fromkeys(TEXTS | BLOBS, ""),
}
"""The value that rows already there get in a NOT NULL column without a default, by type.

Dates depend on the server's mode.
"""

_NOW = re.compile(r"(?:current_timestamp|now|localtime|localtimestamp)(?:\s*\(\s*\d?\s*\))?", re.I)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?", re.I)


class Fill(StrEnum):
    """The kind of value that rows already there hold in an added column."""

    NULL = "null"
    VALUE = "value"
    NOW = "now"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as a statement defines it.

    ``type`` is the source's type text in small letters, ``default`` the SQL text of the default (None without one). ``fill``
    says which value rows already there hold when the column is added: NULL, a value (its text in ``fill_value``), the time of
    the statement, or a value that the statement alone does not say (generated, numbered, or of an expression).
    """

    name: str
    type: str
    default: str | None
    not_null: bool
    is_key: bool
    fill: Fill
    fill_value: str | None


def column_definition(tokens: Sequence[Token]) -> ColumnDefinition:
    """Return the definition that begins with the column's name, without FIRST or AFTER.

    Raises:
        Unreadable: the definition is not understood.
    """
    reader = Reader(tokens)
    name = reader.name()
    body = _without_place(reader.rest)
    parsed = _parsed(source_text(body))
    kinds = {type(constraint.args.get("kind")).__name__: constraint.args["kind"] for constraint in parsed.constraints}
    null = kinds.get("NotNullColumnConstraint")
    is_key = "PrimaryKeyColumnConstraint" in kinds
    not_null = is_key or (null is not None and not null.args.get("allow_null"))
    type_text = _type_text(body)
    default = _default_text(body)
    odd = kinds.keys() & {"GeneratedAsIdentityColumnConstraint", "ComputedColumnConstraint"}
    if odd or "AutoIncrementColumnConstraint" in kinds or is_key or type_text.startswith("serial"):
        fill, value = Fill.UNKNOWN, None
    elif default is not None:
        fill, value = fill_of_default(default, type_text)
    elif not_null:
        fill, value = fill_without_default(type_text, _labels(type_text, body))
    elif type_text.startswith("timestamp") and null is None:
        fill, value = Fill.UNKNOWN, None  # NOT NULL unless the server has explicit_defaults_for_timestamp
    else:
        fill, value = Fill.NULL, None
    return ColumnDefinition(name, type_text, default, not_null, is_key, fill, value)


def _parsed(definition: str) -> exp.ColumnDef:
    """Return the definition as sqlglot understands it, whole; a name of ours stands for the column's.

    Raises:
        Unreadable: sqlglot does not understand all of the definition.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    logger = logging.getLogger("sqlglot")
    quiet, logger.disabled = logger.disabled, True  # its warnings carry the statement
    try:
        statement = sqlglot.parse_one(f"ALTER TABLE t ADD COLUMN c {definition}", read="mysql")
    except (SqlglotError, AttributeError, TypeError, ValueError, RecursionError):
        raise Unreadable("a column definition") from None
    finally:
        logger.disabled = quiet
    actions = statement.args.get("actions") if isinstance(statement, exp.Alter) else None
    if not actions or len(actions) != 1 or not isinstance(actions[0], exp.ColumnDef) or statement.args.get("options"):
        raise Unreadable("a column definition")
    if actions[0].args.get("kind") is None:
        raise Unreadable("a column without a type")
    return actions[0]


def _without_place(tokens: list[Token]) -> list[Token]:
    if tokens and tokens[-1].keyword == "FIRST":
        return tokens[:-1]
    if len(tokens) > 1 and tokens[-2].keyword == "AFTER":
        return tokens[:-2]
    return tokens


def _type_text(body: list[Token]) -> str:
    """Return the type with its arguments and the words that belong to numbers, as servers show it."""
    reader = Reader(body)
    text = reader.take().text.lower()
    if text == "double" and reader.takes("PRECISION"):
        pass
    elif reader.takes_one_of("VARYING"):
        text += " varying"
    if reader.next is not None and reader.next.text == "(":
        text += f"({source_text(reader.parenthesized())})"
    for word in ("UNSIGNED", "SIGNED", "ZEROFILL", "UNSIGNED", "ZEROFILL"):
        if reader.takes(word):
            text += f" {word.lower()}"
    return text


def _default_text(body: list[Token]) -> str | None:
    """Return the SQL text of the default: from behind the word to the end of one value.

    Raises:
        Unreadable: the default has several parts.
    """
    depth = 0
    for place, token in enumerate(body):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.keyword == "DEFAULT":
            reader = Reader(body[place + 1 :])
            value = default_value(reader)
            if reader.next is not None and not reader.next.keyword:
                raise Unreadable("a default of several parts")
            return source_text(value)
    return None


def default_value(reader: Reader) -> list[Token]:
    """Take one literal, signed number, call or parenthesized expression, and return its tokens.

    Raises:
        Unreadable: nothing follows.
    """
    before = reader.rest
    if before and before[0].text != "(":
        while (ahead := reader.next) and ahead.text in ("+", "-"):
            reader.take()
        prefixed = reader.take().keyword.startswith("_") or before[0].keyword in ("B", "X", "N", "DATE", "TIME")
        if prefixed and (ahead := reader.next) and ahead.text[0] in "'\"":
            reader.take()
        while (ahead := reader.next) and (ahead.text == "." or (ahead.text[0].isdigit() and not ahead.spaced)):
            reader.take()
    if (ahead := reader.next) and ahead.text == "(":
        reader.parenthesized()
    return before[: len(before) - len(reader.rest)]


def is_now(default: str | None) -> bool:
    """Tell whether a default is the time of the statement: ``CURRENT_TIMESTAMP(3)``."""
    return default is not None and _NOW.fullmatch(default) is not None


def is_number(text: str) -> bool:
    """Tell whether a text is a number as statements write it, without spaces: ``-1.5e3``."""
    return _NUMBER.fullmatch(text) is not None


def fill_of_default(default: str, type_text: str) -> tuple[Fill, str | None]:
    """Return the kind of value that rows already there get from a default, and the value.

    It is ``7`` for ``'7'`` of an integer.

    Raises:
        Unreadable: the type is one that no server has.
    """
    quoted = len(default) > 1 and default[0] in "'\"" and default[-1] == default[0]
    if default.upper() == "NULL":
        return Fill.NULL, None
    if is_now(default):
        return Fill.NOW, None
    if quoted:
        value = unquoted(default)
    elif default.upper() in ("TRUE", "FALSE"):
        value = str(int(default.upper() == "TRUE"))
    else:
        value = default.replace(" ", "").removeprefix("+")
        if not is_number(value):
            return Fill.UNKNOWN, None
    stored = stored_default(value, type_text, quoted=quoted)
    return (Fill.UNKNOWN if stored is None else Fill.VALUE), stored


def _labels(type_text: str, body: list[Token]) -> tuple[str, ...]:
    """Return the first label of an enum; none of other types.

    Raises:
        Unreadable: the enum has no labels.
    """
    if type_name(type_text) != "enum":
        return ()
    first = Reader(Reader(body[1:]).parenthesized()).take()
    if first.kind is not TokenKind.STRING:
        raise Unreadable("an enum without labels")
    return (unquoted(first.text),)


def fill_without_default(type_text: str, labels: Sequence[str]) -> tuple[Fill, str | None]:
    """Return the value that a NOT NULL column without a default takes in rows already there.

    ``labels`` are those of an enum.

    Raises:
        Unreadable: the type is one that no server has.
    """
    name, scale = type_name(type_text), decimal_scale(type_text)
    if scale is not None:
        return Fill.VALUE, "0." + "0" * scale if scale else "0"
    if name == "enum":
        return Fill.VALUE, labels[0]
    if name == "set":
        return Fill.VALUE, ""
    if name == "time":
        return Fill.VALUE, stored_default("00:00:00", type_text, quoted=True)
    return (Fill.VALUE, _ZERO[name]) if name in _ZERO else (Fill.UNKNOWN, None)
