"""Column definitions in a statement: the type, whether NULL is taken, and the value of older rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dts_assets.wire.ddl.stored_defaults import (
    BLOBS,
    REALS,
    TEXTS,
    WHOLES,
    decimal_scale,
    stored_bytes,
    stored_default,
    type_name,
    unquoted,
    with_zero_bytes,
)
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, readings, words

_ZERO = {
    **dict.fromkeys(WHOLES | REALS | {"year", "bit"}, "0"),
    **dict.fromkeys(TEXTS | BLOBS, ""),
}
"""The value that rows already there get in a NOT NULL column without a default, by type.

Dates depend on the server's mode.
"""

_ZERO_OF_TIME = {"date": "0000-00-00", "datetime": "0000-00-00 00:00:00", "year": "0000"}

_NOW = re.compile(r"(?:current_timestamp|now|localtime|localtimestamp)(?:\s*\(\s*\d?\s*\))?", re.I)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?", re.I)
_BEGUN_NUMBER = re.compile(r"\.|(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d*)?", re.I)
_BEFORE_TEXTS = words("N DATE TIME TIMESTAMP")
_BEFORE_STRINGS = _BEFORE_TEXTS | words("B X")
_OF_UTF8 = words("_UTF8 _UTF8MB3 _UTF8MB4")
_DIGITS_OF = {"X": frozenset("0123456789ABCDEF"), "B": frozenset("01")}


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


def default_value(reader: Reader) -> list[Token]:
    """Take one literal, signed number, call or parenthesized expression, and return its tokens.

    Raises:
        Unreadable: nothing follows.
    """
    before = reader.rest
    while reader.takes("+") or reader.takes("-"):
        pass
    if reader.takes("{"):  # {d '2026-01-05'}, as ODBC writes it
        while not reader.takes("}"):
            reader.take()
    elif reader.takes("NEXT", "VALUE", "FOR"):
        reader.name()
        if reader.takes("."):
            reader.name()
    elif (ahead := reader.next) is None or ahead.text != "(":
        _take_literal(reader)
    if (ahead := reader.next) and ahead.text == "(":
        reader.parenthesized()
    return before[: len(before) - len(reader.rest)]


def _take_literal(reader: Reader) -> None:
    """Take a literal with the word before it, adjacent strings, or the pieces of a number.

    Raises:
        Unreadable: nothing follows.
    """
    first = reader.take()
    ahead = reader.next
    if first.keyword.startswith("_") and ahead is not None and (ahead.kind is TokenKind.STRING or _is_bytes(reader)):
        _take_literal(reader)
        return
    if first.keyword in _BEFORE_STRINGS and ahead is not None and ahead.kind is TokenKind.STRING:
        first = reader.take()
    while first.kind is TokenKind.STRING and (ahead := reader.next) and ahead.kind is TokenKind.STRING:
        reader.take()
    number = first.text
    while _BEGUN_NUMBER.fullmatch(number) and (ahead := reader.next) and not ahead.spaced:
        number += ahead.text
        if not _BEGUN_NUMBER.fullmatch(number):
            return
        reader.take()


def _is_bytes(reader: Reader) -> bool:
    word = reader.keywords(1)[0]
    return word[:2] in ("0X", "0B") or word in ("X", "B")


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
    if default.upper() == "NULL":
        return Fill.NULL, None
    if is_now(default):
        return Fill.NOW, None
    try:
        (tokens,) = readings(default, lambda *_: True)
    except Unreadable:
        return Fill.UNKNOWN, None
    if (text := literal_text(tokens)) is not None:
        stored = stored_default(text, type_text, quoted=True)
    elif (data := literal_bytes(tokens)) is not None:
        stored = stored_bytes(data, type_text)
    else:
        number = "".join(token.text for token in tokens).removeprefix("+")
        number = {"TRUE": "1", "FALSE": "0"}.get(number.upper(), number)
        stored = stored_default(number, type_text, quoted=False) if is_number(number) else None
    return (Fill.UNKNOWN if stored is None else Fill.VALUE), stored


def literal_text(tokens: Sequence[Token]) -> str | None:
    """Return the text that a literal stands for: ``ab`` for ``'a' 'b'``; None for anything but a text."""
    word = tokens[0].keyword if tokens else ""
    strings = tokens[1:] if word in _BEFORE_TEXTS or word.startswith("_") else tokens
    if [token.text for token in (*tokens[:1], *tokens[-1:])] == ["{", "}"]:
        strings = tokens[2:-1]
    if not strings or any(token.kind is not TokenKind.STRING for token in strings):
        return None
    text = "".join(unquoted(token.text) for token in strings)
    # The bytes of another text were those of the session, which are taken for others then.
    return None if word.startswith("_") and word not in _OF_UTF8 and not text.isascii() else text


def literal_bytes(tokens: Sequence[Token]) -> bytes | None:
    """Return the bytes that ``0x4A``, ``X'4A'``, ``0b1`` or ``B'1'`` stand for; None for anything else."""
    tokens = tokens[1:] if tokens and tokens[0].keyword.startswith("_") else tokens
    texts = [token.text for token in tokens]
    kind, digits = "", ""
    if len(texts) == 1 and texts[0][:2] in ("0x", "0b"):
        kind, digits = texts[0][1].upper(), texts[0][2:]
    elif len(texts) == 2 and tokens[0].keyword in ("X", "B") and tokens[1].kind is TokenKind.STRING:
        kind, digits = tokens[0].keyword, unquoted(texts[1])
    if not digits or not _DIGITS_OF.get(kind, frozenset()).issuperset(digits.upper()):
        return None
    each = 2 if kind == "X" else 8
    return int(digits, 16 if kind == "X" else 2).to_bytes(-(-len(digits) // each), "big")


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
    if name == "binary":
        return Fill.VALUE, with_zero_bytes("", type_text)
    return (Fill.VALUE, _ZERO[name]) if name in _ZERO else (Fill.UNKNOWN, None)


def fill_of_insert(type_text: str, labels: Sequence[str]) -> tuple[Fill, str | None]:
    """Return the value of a NOT NULL column without a default where an insert leaves it out.

    A TIMESTAMP may have the time of the insert instead, by a setting of the server. ``labels`` are those of an enum.

    Raises:
        Unreadable: the type is one that no server has.
    """
    zero = _ZERO_OF_TIME.get(type_name(type_text))
    if zero is not None:
        return Fill.VALUE, stored_default(zero, type_text, quoted=True)
    return fill_without_default(type_text, labels)
