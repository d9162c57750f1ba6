"""Defaults as a column of some type stores them: rounded, padded, or spelled as the type has them.

Where servers differ the value is not known. MariaDB cuts fractions of seconds that a column has no room for, MySQL rounds them;
both refuse a default that is out of range, so such a statement is in no binlog.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal

from dts_assets.wire.ddl.tokens import Unreadable, words

WHOLES = words("tinyint smallint mediumint int integer bigint bool boolean")
REALS = words("float double real")
TEXTS = words("char varchar tinytext text mediumtext longtext varbinary")
BLOBS = words("tinyblob blob mediumblob longblob")
BYTES = BLOBS | words("binary varbinary")

_NO_LETTER = re.compile(r"[^a-z]")
_DECIMAL = re.compile(r"(?:decimal|numeric|dec|fixed)\b(?:\s*\(\s*\d+\s*(?:,\s*(\d+)\s*)?\))?", re.ASCII)
_FRACTION_OF_REAL = re.compile(r"[a-z ]+\(\s*\d+\s*,\s*(\d+)\s*\)", re.ASCII)
_SECONDS = re.compile(r"[a-z]+\s*\(\s*(\d)\s*\)")
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?", re.I)
_SHOWN_AS_IT_IS = re.compile(r"0|-?[1-9]\d*|-?(?:0|[1-9]\d*)\.\d+")
_LENGTH = re.compile(r"binary\s*\(\s*(\d{1,3})\s*\)", re.ASCII)
_MOST_OF_BITS = 20
"""Digits of a number of 64 bits."""
_LABEL = re.compile(r"'((?:[^'\\]++|''|\\.)*+)'", re.S)
_TIMES = {
    **dict.fromkeys(["datetime", "timestamp"], re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))?")),
    "time": re.compile(r"(-?\d{2,3}:\d\d:\d\d)(?:\.(\d+))?"),
}
_SPELLED = {"year": re.compile(r"\d{4}"), "date": re.compile(r"\d{4}-\d\d-\d\d")}
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_SURE_DIGITS = 15
"""Digits that a float always keeps."""
_MOST_DIGITS = 150
"""More than any server takes: 65 digits before and 30 behind the point, and room to spare."""
_MOST_BEHIND_POINT = 38
"""The greatest scale of a number: that of MariaDB. MySQL has at most 30 digits behind the point."""


def type_name(type_text: str) -> str:
    """Return the first word of a type: ``decimal`` of ``decimal(5,2) unsigned``."""
    return _NO_LETTER.split(type_text, maxsplit=1)[0]


def decimal_scale(type_text: str) -> int | None:
    """Return the scale of a decimal type, 0 where it has none; None for other types.

    Raises:
        Unreadable: no server has such a scale.
    """
    found = _DECIMAL.match(type_text)
    return None if found is None else _scale(found.group(1) or "0")


def stored_default(value: str, type_text: str, *, quoted: bool) -> str | None:
    """Return the value that rows get for a literal; None if the statement does not say it.

    ``value`` is the literal's content, without the quotes of one that was ``quoted``.

    Raises:
        Unreadable: the type is one that no server has.
    """
    name, scale = type_name(type_text), decimal_scale(type_text)
    if scale is not None or name in WHOLES:
        return _rounded(value, scale or 0)
    if name in REALS:
        return value if _is_real(value, type_text) else None
    if name in _TIMES:
        return _with_seconds(value, name, type_text)
    if name in _SPELLED:
        return value if _SPELLED[name].fullmatch(value) else None
    if name == "bit":
        return str(int(value)) if not quoted and value.isdecimal() and len(value) <= _MOST_OF_BITS else None
    if name in BYTES and not value.isascii():
        return None  # its bytes are those of the session's character set
    if name == "binary":
        value = value if quoted or _SHOWN_AS_IT_IS.fullmatch(value) else ""
        return with_zero_bytes(value, type_text) if value or quoted else None
    if name in TEXTS or name in BLOBS:
        if not quoted:
            return value if _SHOWN_AS_IT_IS.fullmatch(value) else None
        return value.rstrip(" ") if name == "char" else value
    return value if quoted and _is_choice(value, name, type_text) else None


def stored_bytes(data: bytes, type_text: str) -> str | None:
    """Return the value that rows get for the bytes of a literal; None if it is not known.

    Raises:
        Unreadable: the type is one that no server has.
    """
    name = type_name(type_text)
    if name == "bit":
        return str(int.from_bytes(data))
    if name not in BYTES and name not in TEXTS:
        return None  # as numbers, servers read some of these literals in their own ways
    if name in BYTES:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        return with_zero_bytes(text, type_text) if name == "binary" else text
    return stored_default(data.decode(), type_text, quoted=True) if data.isascii() else None


def with_zero_bytes(text: str, type_text: str) -> str:
    """Return a text with the zero bytes that BINARY puts at its end."""
    found = _LENGTH.fullmatch(type_text)
    return text + "\0" * ((int(found.group(1)) if found else 1) - len(text.encode()))


def unquoted(literal: str) -> str:
    """Return the text that a quoted literal stands for."""
    quote = literal[0]
    return re.sub(
        rf"\\(.)|{quote}{quote}",
        lambda found: quote if found.group(1) is None else _ESCAPED.get(found.group(1), found.group(1)),
        literal[1:-1],
        flags=re.S,
    )


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _rounded(value: str, scale: int) -> str | None:
    """Return a number with as many digits behind the point, half away from zero.

    A number with an exponent is a float. Servers round it in ways of their own where it stands half between two numbers.
    """
    if not _NUMBER.fullmatch(value) or len(value) > _MOST_DIGITS:
        return None
    number, step = Decimal(value), Decimal(1).scaleb(-scale)
    if not _PLAIN.fullmatch(value):
        if len(number.as_tuple().digits) > _SURE_DIGITS or abs(number.adjusted()) > _MOST_DIGITS // 2:
            return None
        half = (abs(number) / step) % 1
        if half == Decimal("0.5"):
            return None
    found = number.quantize(step, context=_EXACT)
    return f"{abs(found) if found.is_zero() else found:f}"


def _is_real(value: str, type_text: str) -> bool:
    """Tell whether a float holds the number as it is, so far as floats do.

    One with a number of decimals rounds others in its own way.
    """
    decimals = _FRACTION_OF_REAL.match(type_text)
    if decimals is None:
        return _NUMBER.fullmatch(value) is not None
    return _PLAIN.fullmatch(value) is not None and len(value.partition(".")[2]) <= _scale(decimals.group(1))


def _scale(digits: str) -> int:
    if len(digits) > 2 or int(digits) > _MOST_BEHIND_POINT:
        raise Unreadable("a scale that no server has")
    return int(digits)


def _with_seconds(value: str, name: str, type_text: str) -> str | None:
    found, room = _TIMES[name].fullmatch(value), _SECONDS.match(type_text)
    if found is None:
        return None
    digits, wanted = found.group(2) or "", int(room.group(1)) if room else 0
    if digits[wanted : wanted + 1] >= "5":
        return None
    return found.group(1) + (f".{digits[:wanted]:0<{wanted}}" if wanted else "")


def _is_choice(value: str, name: str, type_text: str) -> bool:
    """Tell whether a value is a label of an enum, or labels of a set in its order."""
    labels = [unquoted(f"'{label}'") for label in _LABEL.findall(type_text)]
    if name == "enum":
        return value in labels
    if name != "set":
        return False
    chosen = value.split(",") if value else []
    wanted = frozenset(chosen)
    return chosen == [label for label in labels if label in wanted]
