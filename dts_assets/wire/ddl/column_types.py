"""Types of columns: from the words of a statement to the type that a server keeps.

The rules are in the MySQL manual ("Data Types", "Silent Column Specification Changes") and MariaDB's ("Data Types"); a real
MariaDB judges them in tests. They are our own rather than a parser's: of 196 spellings sqlglot 30 reads 31 as another type and
refuses 29.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dts_assets.wire.ddl.charsets import BINARY, CHARSETS, charset_name, charset_named, most_bytes, takes_charset
from dts_assets.wire.ddl.stored_defaults import unquoted
from dts_assets.wire.ddl.table_schemas import Family, ServerRules
from dts_assets.wire.ddl.tokens import Reader, Token, TokenKind, Unreadable, split, words

_WIDTHS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
)
"""The width of an integer that has none of its own, with a sign and without."""

_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "int4": "int",
        "int8": "bigint", "bool": "tinyint", "boolean": "tinyint", "real": "double", "float4": "float", "float8": "double",
        "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "character": "char", "varcharacter": "varchar",
        "geomcollection": "geometrycollection",
    }
)  # fmt: skip
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_MOST_IN_BLOB = (255, 65_535, 16_777_215, 4_294_967_295)
_TEXT_FAMILY = words("char varchar") | frozenset(_TEXTS)
_LABELLED = words("enum set")
_AS_BINARY: Mapping[str, str] = MappingProxyType(
    {"char": "binary", "varchar": "varbinary", **dict(zip(_TEXTS, _BLOBS, strict=True))}
)
AS_TEXT: Mapping[str, str] = MappingProxyType({**{new: old for old, new in _AS_BINARY.items()}, "json": "longtext"})
"""The text type that MariaDB makes of bytes or JSON by a collation of texts."""
_NO_ARGUMENTS = words(
    """
    date json inet4 inet6 uuid geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection
    tinytext mediumtext longtext tinyblob mediumblob longblob
    """
)
_KNOWN = (
    frozenset(_WIDTHS) | _TEXT_FAMILY | _LABELLED | _NO_ARGUMENTS
    | words("float double decimal bit year time datetime timestamp binary varbinary blob vector")
)  # fmt: skip
_SIGNED = frozenset(_WIDTHS) | words("float double decimal")
_LONGEST_IN_ROW: Mapping[Family, int] = MappingProxyType({Family.MARIADB: 65_532, Family.MYSQL: 65_535})
"""Bytes of a VARCHAR or VARBINARY; outside strict modes a longer column becomes a text or blob."""

_ASCII_INSIDE = CHARSETS - words("ucs2 utf16 utf16le utf32 sjis swe7")
"""Character sets in which each ASCII text has the bytes of ASCII.

A backslash of sjis is a yen to other character sets.
"""

_ALL_OF_UNICODE = words("utf8mb4 utf16 utf16le utf32 gb18030")
_CODECS: Mapping[str, str] = MappingProxyType({"latin1": "cp1252", "gbk": "gbk", "big5": "big5"})
_LABELS_CHANGE = "labels that may change with their character set"

_NUMBER = re.compile(r"\d{1,10}")
_VARCHAR = re.compile(r"varchar\((\d{1,10})\)")
_SHOWN = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "''"})


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A type as a statement says it: ``varchar``, ``(20,)`` and perhaps its own character set.

    ``labels`` are those of an enum or set. ``by_bytes`` says that texts are compared by a collation of bytes.
    """

    base: str
    numbers: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    by_bytes: bool = False

    @property
    def text(self) -> str:
        """The type in small letters, with its arguments and signs: ``decimal(9,2) unsigned``."""
        labels = [f"'{label.translate(_SHOWN)}'" for label in self.labels]
        arguments = ",".join([*map(str, self.numbers), *labels])
        words = [f"{self.base}({arguments})" if arguments else self.base]
        return " ".join(words + ["unsigned"] * self.unsigned + ["zerofill"] * self.zerofill)

    @property
    def has_charset(self) -> bool:
        """True for texts, enums and sets."""
        return self.base in _TEXT_FAMILY or self.base in _LABELLED


def declared_type(reader: Reader) -> DeclaredType:
    """Take a type with its arguments, signs and character set.

    Raises:
        Unreadable: it is no type that is known.
    """
    base, charset = _base(reader)
    numbers: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    if reader.next is not None and reader.next.text == "(":
        arguments = split(reader.parenthesized(), ",")
        if base in _LABELLED:
            labels = tuple(map(_label, arguments))
        else:
            numbers = tuple(map(_number, arguments))
    if base == "bool":
        base, numbers = "tinyint", (1,)
    if (
        base not in _KNOWN
        or (numbers and base in _NO_ARGUMENTS)
        or len(numbers) > 2
        or (base in _LABELLED) != bool(labels)
    ):
        raise Unreadable("a type that is not known")
    if base in ("varchar", "varbinary", "vector") and len(numbers) != 1:
        raise Unreadable("a type without its length")
    unsigned = zerofill = False
    while base in _SIGNED and (word := reader.takes_one_of("UNSIGNED", "SIGNED", "ZEROFILL")):
        zerofill = zerofill or word == "ZEROFILL"
        unsigned = unsigned or word in ("UNSIGNED", "ZEROFILL")
    declared = DeclaredType(base, numbers, labels, unsigned, zerofill, charset)
    if not declared.has_charset:
        return declared
    charset, by_bytes = _own_charset(reader, charset)
    return DeclaredType(base, numbers, labels, unsigned, zerofill, charset, by_bytes)


def _base(reader: Reader) -> tuple[str, str | None]:
    """Take the words of a type's name; return the name and the character set that some names imply.

    Raises:
        Unreadable: NATIONAL stands before another type than a text.
    """
    word = reader.take().keyword.lower()
    charset = None
    if word == "national":
        word, charset = reader.take().keyword.lower(), "utf8mb3"
        if word not in ("char", "character", "varchar", "varcharacter"):
            raise Unreadable("a type that is not known")
    elif word == "nchar":
        word, charset = "char", "utf8mb3"
        if reader.takes_one_of("VARCHAR", "VARCHARACTER"):
            word = "varchar"
    elif word == "nvarchar":
        word, charset = "varchar", "utf8mb3"
    elif word == "long":
        return ("mediumblob" if reader.takes("VARBINARY") else _long_text(reader)), None
    elif word == "double":
        reader.takes("PRECISION")
    elif word in ("bool", "boolean"):
        return "bool", None
    word = _ALIASES.get(word, word)
    if word == "char" and reader.takes("VARYING"):
        word = "varchar"
    return word, charset


def _long_text(reader: Reader) -> str:
    for words_of_type in (("VARCHAR",), ("VARCHARACTER",), ("CHAR", "VARYING"), ("CHARACTER", "VARYING")):
        if reader.takes(*words_of_type):
            break
    return "mediumtext"


def _own_charset(reader: Reader, implied: str | None) -> tuple[str | None, bool]:
    """Take the words behind the type of a text that name its character set, in any order.

    ``BINARY`` alone means a collation, which the second value tells.
    """
    charset, by_bytes = implied, False
    while True:
        if takes_charset(reader):
            charset = charset_named(charset_name(reader))
        elif reader.takes("ASCII"):
            charset = "latin1"
        elif reader.takes("UNICODE"):
            charset = "ucs2"
        elif reader.takes("BYTE"):
            charset = BINARY
        elif reader.takes("BINARY"):
            by_bytes = True
        else:
            return charset, by_bytes


def _number(argument: list[Token]) -> int:
    if len(argument) != 1 or not _NUMBER.fullmatch(argument[0].text):
        raise Unreadable("an argument of a type that is no number")
    return int(argument[0].text)


def _label(argument: list[Token]) -> str:
    """Return the text of a label.

    Raises:
        Unreadable: it is no text that can be read without the column's character set.
    """
    if len(argument) == 1 and argument[0].kind is TokenKind.STRING:
        return unquoted(argument[0].text)
    digits = ""
    if len(argument) == 1 and argument[0].text[:2] in ("0x", "0X"):
        digits = argument[0].text[2:]
    elif len(argument) == 2 and argument[0].keyword == "X" and argument[1].kind is TokenKind.STRING:
        digits = argument[1].text[1:-1]
    try:
        found = bytes.fromhex(digits).decode("ascii")
    except ValueError:
        found = ""
    if not found:
        raise Unreadable("a label that is no text")
    return found


def resolved(declared: DeclaredType, table_charset: str | None, rules: ServerRules) -> tuple[str, str | None]:
    """Return a column's full type and character set, given the default character set of the table.

    Raises:
        Unreadable: the type is one that no server has, or depends on a character set that is not known.
    """
    base = declared.base
    if base == "json" and rules.family is Family.MARIADB:
        return "longtext", "utf8mb4"
    if base in _LABELLED:
        charset = declared.charset or table_charset
        if charset is not None and not all(_holds(charset, label) for label in declared.labels):
            raise Unreadable(_LABELS_CHANGE)
        kept = declared.labels if charset == BINARY else [label.rstrip(" ") for label in declared.labels]
        labels = ",".join(f"'{label.translate(_SHOWN)}'" for label in kept)
        return f"{base}({labels})", charset
    if base in _TEXT_FAMILY:
        return _text(declared, declared.charset or table_charset, rules)
    return _shown(declared, rules), None


def _holds(charset: str, label: str) -> bool:
    """Tell whether a character set certainly holds a label.

    Servers put a question mark for a character that it lacks.
    """
    if label.isascii():
        return charset != "swe7"
    if charset in ("utf8mb3", "ucs2"):
        return max(label) <= "\uffff"
    if charset not in _CODECS:
        return charset in _ALL_OF_UNICODE
    try:
        label.encode(_CODECS[charset])
    except UnicodeEncodeError:
        return False
    return True


def _text(declared: DeclaredType, charset: str | None, rules: ServerRules) -> tuple[str, str | None]:
    base, length = declared.base, (declared.numbers or (0,))[0]
    if base == "char":
        shown = f"char({length if declared.numbers else 1})"
    elif base == "varchar":
        shown = f"varchar({length})"
        if charset is None and length * most_bytes("utf8mb4") > _LONGEST_IN_ROW[rules.family]:
            raise Unreadable("a length that depends on the character set")
        if charset is not None and length * most_bytes(charset) > _LONGEST_IN_ROW[rules.family]:
            shown = _for_bytes(length * most_bytes(charset), _TEXTS)
    elif base == "text" and length:
        if charset is None:
            raise Unreadable("a length that depends on the character set")
        shown = _for_bytes(length * most_bytes(charset), _TEXTS)
    else:
        shown = base
    return as_charset(shown, charset)


def as_charset(shown: str, charset: str | None) -> tuple[str, str | None]:
    """Return a text type in a character set: ``varbinary(9)`` and None for ``varchar(9)`` in ``binary``.

    Raises:
        Unreadable: the type is no text.
    """
    if charset != BINARY:
        return shown, charset
    name, opening, rest = shown.partition("(")
    if name not in _AS_BINARY:
        raise Unreadable("a type that is not known")
    return _AS_BINARY[name] + opening + rest, None


def _for_bytes(length: int, kinds: tuple[str, ...]) -> str:
    """Return the smallest kind of text or blob that holds so many bytes."""
    return next((kind for kind, most in zip(kinds, _MOST_IN_BLOB, strict=True) if length <= most), kinds[-1])


def _shown(declared: DeclaredType, rules: ServerRules) -> str:
    base, numbers = declared.base, declared.numbers
    if base in _WIDTHS:
        width = (numbers or (0,))[0] or _WIDTHS[base][declared.unsigned]
        text = f"{base}({width})"
    elif base == "decimal":
        digits, scale = (*numbers, 0, 0)[:2]
        text = f"decimal({digits or 10},{scale})"
    elif base in ("float", "double"):
        if base == "float" and len(numbers) == 1:
            base, numbers = ("double" if numbers[0] > 24 else "float"), ()
        text = base + (f"({numbers[0]},{numbers[1]})" if len(numbers) == 2 else "")
    elif base in ("time", "datetime", "timestamp"):
        text = base + (f"({numbers[0]})" if numbers and numbers[0] else "")
    elif base == "bit":
        text = f"bit({(numbers or (1,))[0] or 1})"
    elif base == "year":
        text = "year(2)" if numbers == (2,) else "year(4)"
    elif base == "binary":
        text = f"binary({numbers[0] if numbers else 1})"
    elif base == "varbinary":
        long = numbers[0] > _LONGEST_IN_ROW[rules.family]
        text = _for_bytes(numbers[0], _BLOBS) if long else f"varbinary({numbers[0]})"
    elif base == "blob" and numbers and numbers[0]:
        text = _for_bytes(numbers[0], _BLOBS)
    else:
        text = base + (f"({numbers[0]})" if base == "vector" else "")
    return text + (" unsigned" if declared.unsigned else "") + (" zerofill" if declared.zerofill else "")


def converted(shown: str, charset: str, new: str, rules: ServerRules) -> tuple[str, str | None]:
    """Return the type and character set of a text, enum or set after CONVERT TO CHARACTER SET.

    A text keeps its number of characters, so that ``text`` in latin1 becomes ``mediumtext`` in utf8mb4. Values in ``binary``
    stay as they are.

    Raises:
        Unreadable: labels are not ASCII: MariaDB takes their bytes for those of the new character set.
    """
    name = shown.partition("(")[0]
    if charset == BINARY:
        return shown, charset
    if name in _LABELLED:
        if charset != new and not (shown.isascii() and {charset, new} <= _ASCII_INSIDE):
            raise Unreadable(_LABELS_CHANGE)
        return shown, new
    if name in _TEXTS:
        characters = _MOST_IN_BLOB[_TEXTS.index(name)] // most_bytes(charset)
        shown = _for_bytes(characters * most_bytes(new), _TEXTS)
    elif name == "varchar":
        length = int(found[1]) if (found := _VARCHAR.fullmatch(shown)) else 0
        if length * most_bytes(new) > _LONGEST_IN_ROW[rules.family]:
            shown = _for_bytes(length * most_bytes(new), _TEXTS)
    return as_charset(shown, new)
