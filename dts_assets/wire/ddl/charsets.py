"""Character sets by name and by collation, with the most bytes that a character takes.

The source of the figures is ``information_schema.CHARACTER_SETS`` (MAXLEN) of MySQL 8.0 and MariaDB 10.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dts_assets.wire.ddl.tokens import Reader, TokenKind, Unreadable, words

BINARY = "binary"

DEFAULT = "default"
"""The character set of the database, where a statement says DEFAULT instead of a name."""

_MOST_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(
            words(
                "armscii8 ascii binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 geostd8 greek hebrew hp8 keybcs2 koi8r"
                " koi8u latin1 latin2 latin5 latin7 macce macroman swe7 tis620"
            ),
            1,
        ),
        **dict.fromkeys(words("big5 cp932 euckr gb2312 gbk sjis ucs2"), 2),
        **dict.fromkeys(words("eucjpms ujis utf8mb3"), 3),
        **dict.fromkeys(words("gb18030 utf16 utf16le utf32 utf8mb4"), 4),
    }
)


def charset_named(name: str) -> str:
    """Return a character set as servers show it: ``utf8mb3`` for ``UTF8``.

    Raises:
        Unreadable: no server has it.
    """
    found = name.lower()
    found = "utf8mb3" if found == "utf8" else found
    if found not in _MOST_BYTES:
        raise Unreadable("a character set that is not known")
    return found


def most_bytes(charset: str) -> int:
    """Return the most bytes that a character takes in a character set: 4 for ``utf8mb4``.

    Raises:
        Unreadable: the character set is not known.
    """
    return _MOST_BYTES[charset_named(charset)]


CHARSETS = frozenset(_MOST_BYTES)
"""All character sets that are known."""


def charset_of_collation(name: str) -> str | None:
    """Return the character set of a collation: ``latin1`` for ``latin1_bin``.

    Collations of MariaDB that fit several character sets, such as ``uca1400_ai_ci``, leave the character set as it is: None.

    Raises:
        Unreadable: the collation is of no character set that is known.
    """
    beginning = name.lower().partition("_")[0]
    return None if beginning == "uca1400" else charset_named(beginning)


def takes_charset(reader: Reader) -> bool:
    """Take the words that introduce a character set, if they are next."""
    return reader.takes("CHARSET") or reader.takes("CHARACTER", "SET") or reader.takes("CHAR", "SET")


def charset_name(reader: Reader) -> str:
    """Take the name of a character set or a collation: a word, a quoted name or a string.

    Raises:
        Unreadable: something else comes next.
    """
    token = reader.take()
    if token.kind is TokenKind.MARK:
        raise Unreadable("a character set is missing")
    return token.text.strip("'\"`")
