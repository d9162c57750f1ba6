"""Literals of statements, written anew: texts in quotes, numbers, bits and bytes, and the time of the statement.

They are for a session of MySQL or MariaDB in which a backslash escapes, and whose character set is ``utf8mb4``.
"""

from __future__ import annotations

from dts_assets.wire.ddl.column_definitions import is_now, is_number
from dts_assets.wire.ddl.stored_defaults import unquoted
from dts_assets.wire.ddl.tokens import Token, TokenKind, Unreadable, readings

_ESCAPED = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z", "\\": "\\\\", "'": "''"})
_MOST_DIGITS = 130
"""More digits than a server takes before and behind the point together."""


def text_literal(text: str) -> str:
    """Return a text in quotes: ``'it''s'``."""
    return f"'{text.translate(_ESCAPED)}'"


def literal_default(default: str) -> str | None:
    """Return a column's default as a literal, written anew; None for anything else.

    The time of the statement (``CURRENT_TIMESTAMP(3)``) counts as one.
    """
    if is_now(default):
        digits = "".join(one for one in default if one.isdecimal())
        return f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP"
    try:
        (tokens,) = readings(default)
    except (Unreadable, ValueError):
        return None
    return _literal(tokens)


def _literal(tokens: list[Token]) -> str | None:
    if len(tokens) > 2 and (tokens[0].text, tokens[-1].text) == ("(", ")"):
        inner = _literal(tokens[1:-1])
        return None if inner is None else f"({inner})"
    if len(tokens) == 1 and tokens[0].kind is TokenKind.STRING:
        return text_literal(unquoted(tokens[0].text))
    if len(tokens) == 2 and tokens[1].kind is TokenKind.STRING:
        return _introduced(tokens[0].keyword, unquoted(tokens[1].text))
    text = "".join(token.text for token in tokens)
    if len(tokens) == 1 and text.upper() in ("TRUE", "FALSE", "NULL"):
        return text.upper()
    if text[:2] in ("0x", "0b"):
        return _introduced("X" if text[1] == "x" else "B", text[2:])
    return text if text.isascii() and len(text) <= _MOST_DIGITS and is_number(text) else None


def _introduced(word: str, text: str) -> str | None:
    """Return a literal behind a word, such as ``X'4A'`` or ``DATE'2026-01-05'``."""
    match word:
        case "N" | "_UTF8MB4" | "_UTF8" | "_UTF8MB3":
            return text_literal(text)
        case "DATE" | "TIME" | "TIMESTAMP":
            return word + text_literal(text)
        case "B" if not set(text) - {"0", "1"}:
            return f"b'{text}'"
        case "X" if not set(text.upper()) - set("0123456789ABCDEF"):
            return f"X'{'0' * (len(text) % 2)}{text}'"
    return None
