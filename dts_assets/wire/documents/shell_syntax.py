"""Documents in the syntax of MongoDB's shell, as DRS writes them, to canonical Extended JSON.

The vendor's samples ("Kafka Message Format", table 3) are what MongoDB's Java driver writes in its shell mode
(``org.bson.json.JsonMode.SHELL``): JSON with constructors such as ``ObjectId("64650cf67dc36a464e76e583")``, with integers of 32
bits as ``5``, of 64 bits as ``NumberLong(5)``, and doubles as ``5.0``. Constructors that people write in the shell are read, too.

Nearly every text is JSON but for its constructors. These are replaced one by one, without a look at what stands between them, and
the rest is read by Python's own JSON parser. What that parser refuses is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

Value = Any
"""A value in canonical Extended JSON, as Python's JSON parser gives it: ``{"$numberInt": "5"}``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WALL_EPOCH = datetime(1970, 1, 1)
_LEAST_EXPONENT, _GREATEST_EXPONENT = -6176, 6144
_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)

_STRING = r'"(?:[^"\\]++|\\.)*+"'
_QUIET = re.compile(
    rf'(?:{_STRING}|[^"A-Za-z/]++|(?<=[0-9.])[eE][+-]?[0-9]++|true\b|false\b|null\b|NaN\b|Infinity\b)*+', re.S
)
"""Text that Python's JSON parser reads as it stands."""

_ARGUMENT = rf"""\s*(?:({_STRING})|'((?:[^'\\]++|\\.)*+)'|(-?[0-9.eE+-]++))\s*"""
_CALL = re.compile(rf"(?:new\s+)?([A-Za-z]+)\s*\((?:{_ARGUMENT}(?:,{_ARGUMENT})?)?\)")
_USUAL = re.compile(
    r"""ObjectId\("([0-9a-f]{24})"\)|NumberLong\((0|-?[1-9]\d{0,17})\)"""
    r"""|NumberDecimal\("((?=.{1,34}")-?(?:0|[1-9]\d*)(?:\.\d{1,6})?)"\)"""
    r"""|ISODate\("(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?)Z"\)""",
    re.A,
)
"""Constructors as the driver writes nearly all of them.

What stands in them is, but for dates, the text of Extended JSON.
"""

_STAMP = re.compile(r"Timestamp\s*\(\s*\{\s*\"?t\"?\s*:\s*(\d+)\s*,\s*\"?i\"?\s*:\s*(\d+)\s*\}\s*\)")
_WORD = re.compile(r"(MinKey|MaxKey|undefined)\b(?:\s*\(\s*\))?")
_PATTERN = re.compile(r"/((?:[^/\\\n]++|\\.)++)/([a-z]*)")
_DOLLAR = re.compile(r'"\$(?!(?:set|unset)")')
"""A field with a dollar in front, beside those of an update."""


WITH_NUMBERS = re.compile("Timestamp|MinKey|MaxKey")
"""Constructors whose Extended JSON has bare numbers, which mean no number of the document."""

_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")
_DATE = re.compile(r"(-?\d{4,9})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?")

_WORDS: Mapping[str, Value] = {
    "MinKey": {"$minKey": "1"}, "MaxKey": {"$maxKey": "1"}, "undefined": {"$undefined": True},
}  # fmt: skip

RESERVED = frozenset(
    {
        "$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$date", "$binary", "$timestamp", "$minKey",
        "$maxKey", "$undefined", "$regularExpression", "$uuid",
    }
)  # fmt: skip
"""Names that mean a type in Extended JSON.

A document with such a field of its own cannot be written in it.
"""


_TYPES = RESERVED | {"$code", "$symbol", "$dbPointer"}


def is_document(value: Value) -> bool:
    """Tell whether a value is a document, and no value whose type Extended JSON writes as an object."""
    return isinstance(value, dict) and next(iter(value), "") not in _TYPES


class Unreadable(ValueError):
    """A text that is no document. Its text is a clause, which names no value: ``a constructor is not known``."""


def document_of(text: str) -> dict[str, Value]:
    """Return a document, or the update of a document, in canonical Extended JSON.

    Raises:
        Unreadable: The text is no document, or one that Extended JSON cannot write.
    """
    if not text.lstrip().startswith("{"):
        raise Unreadable("it is no document")
    has_own = _DOLLAR.search(text) is not None or WITH_NUMBERS.search(text) is not None
    # A sign that nobody knows before: no name of the text's own begins with it. It is short, since every constructor gets it.
    mark = f"\0{secrets.token_hex(8)}" if has_own else ""
    try:
        found: dict[str, Value] = json.loads(
            _replaced(text, mark), parse_int=_whole, parse_float=_double, parse_constant=_no_constant,
            object_pairs_hook=partial(_own_object, mark) if mark else None,
        )  # fmt: skip
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError:
        raise Unreadable("it is no document in the syntax of the shell") from None
    return found


def _replaced(text: str, mark: str) -> str:
    """Return a text with JSON in the place of each constructor.

    ``mark`` stands before the names of types in it.
    """
    end = _QUIET.match(text).end()  # type: ignore[union-attr]
    if end == len(text):
        return text
    parts, start = [], 0
    while end < len(text):
        usual = None if mark else _USUAL.match(text, end)
        if usual is not None and (made := _usual(usual)):
            behind = usual.end()
        else:
            value, behind = constructed(text, end)
            made = json.dumps(_with_marks(value, mark) if mark else value, separators=(",", ":"))
        parts += [text[start:end], made]
        start = behind
        end = _QUIET.match(text, start).end()  # type: ignore[union-attr]
    return "".join([*parts, text[start:]])


def _usual(found: re.Match[str]) -> str:
    """Return the JSON of a usual constructor; empty for a date that is none."""
    which = found.lastindex or 0
    text = found[which]
    if which == 1:
        return f'{{"$oid":"{text}"}}'
    if which == 2:
        return f'{{"$numberLong":"{text}"}}'
    if which == 3:
        return f'{{"$numberDecimal":"{text}"}}'
    try:
        since = datetime.fromisoformat(text) - _WALL_EPOCH
    except ValueError:
        return ""
    milliseconds = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return f'{{"$date":{{"$numberLong":"{milliseconds}"}}}}'


def constructed(text: str, at: int) -> tuple[Value, int]:
    """Return the value that stands at a place of a text, and the place behind it.

    Raises:
        Unreadable: No value is known that is written so.
    """
    if (found := _CALL.match(text, at)) and (make := _CONSTRUCTORS.get(found.group(1))):
        quoted, plain, bare, *more = found.groups()[1:]
        return make(_argument(quoted, plain, bare), _argument(*more)), found.end()
    if found := _STAMP.match(text, at):
        return _timestamp(found.group(1), found.group(2)), found.end()
    if found := _WORD.match(text, at):
        return _WORDS[found.group(1)], found.end()
    if found := _PATTERN.match(text, at):
        options = "".join(sorted(found.group(2)))
        return {"$regularExpression": {"pattern": found.group(1).replace("\\/", "/"), "options": options}}, found.end()
    raise Unreadable("a constructor or a word is not known")


def _argument(quoted: str | None, plain: str | None, bare: str | None) -> str | None:
    if quoted is not None:
        return str(json.loads(quoted, strict=False))
    return plain if plain is not None else bare


def _with_marks(value: Value, mark: str) -> Value:
    if isinstance(value, dict):
        return {mark + name if name in RESERVED else name: _with_marks(inner, mark) for name, inner in value.items()}
    return value


def _own_object(mark: str, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return an object of a text whose own fields may have names with dollars.

    Raises:
        Unreadable: A field is called like a type.
    """
    if any(name in RESERVED for name, _ in pairs):
        raise Unreadable("a field is called like a type of Extended JSON")
    return dict(_unmarked(*pair, mark) for pair in pairs)


def _unmarked(name: str, value: Value, mark: str) -> tuple[str, Value]:
    if not name.startswith(mark):
        return name, value
    name = name.removeprefix(mark)
    if name == "$timestamp":
        value = {part: int(text) for part, text in value.items()}
    return name, 1 if name in ("$minKey", "$maxKey") else value


def _whole(text: str) -> Value:
    if len(text) < 10 and text != "-0":
        return {"$numberInt": text}
    number = int(text)
    if number in _INT32:
        return {"$numberInt": str(number)}
    if number in _INT64 and int(float(number)) == number:
        return _double(text)
    raise Unreadable("a whole number has too many digits")


def _double(text: str) -> Value:
    return {"$numberDouble": _double_text(float(text))}


def _double_text(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _no_constant(text: str) -> Value:
    return {"$numberDouble": text}


def _object_id(text: str | None, more: str | None) -> Value:
    if text is None or more is not None or not _OBJECT_ID.fullmatch(text):
        raise Unreadable("an ObjectId is none")
    return {"$oid": text.lower()}


def _number(name: str, bounds: range) -> Callable[[str | None, str | None], Value]:
    def made(text: str | None, more: str | None) -> Value:
        if text is None or more is not None or not re.fullmatch(r"-?\d{1,19}", text) or int(text) not in bounds:
            raise Unreadable("a whole number does not fit its type")
        return {name: str(int(text))}

    return made


def _decimal(text: str | None, more: str | None) -> Value:
    try:
        found = Decimal(text or "")
    except InvalidOperation:
        raise Unreadable("a NumberDecimal is none") from None
    if more is not None or (found.is_finite() and not _fits_decimal(found)):
        raise Unreadable("a NumberDecimal does not fit its type")
    return {"$numberDecimal": str(found)}


def _fits_decimal(number: Decimal) -> bool:
    """Tell whether a number has the digits and the exponent of a decimal128.

    The plain digits of an id with a greater exponent would take gigabytes.
    """
    _, digits, exponent = number.as_tuple()
    return len(digits) <= 34 and int(exponent) >= _LEAST_EXPONENT and number.adjusted() <= _GREATEST_EXPONENT


def _date(text: str | None, more: str | None) -> Value:
    found = _DATE.fullmatch(text or "")
    if more is not None or text is None:
        raise Unreadable("a date is none")
    if found is None:
        if (
            re.fullmatch(r"-?\d{1,19}", text) and int(text) in _INT64
        ):  # milliseconds, as for years that ISODate does not have
            return {"$date": {"$numberLong": str(int(text))}}
        raise Unreadable("a date is none")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        at = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError:
        raise Unreadable("a date is none") from None
    milliseconds = (at - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        milliseconds += minutes * 60_000 if zone[0] == "-" else -minutes * 60_000
    return {"$date": {"$numberLong": str(milliseconds)}}


def _binary(kind: str | None, data: str | None) -> Value:
    try:
        subtype, content = int(kind or ""), base64.b64decode(data or "", validate=True)
    except (ValueError, binascii.Error):
        raise Unreadable("a BinData is none") from None
    if data is None or not 0 <= subtype <= 255:
        raise Unreadable("a BinData is none")
    return {"$binary": {"base64": base64.b64encode(content).decode(), "subType": f"{subtype:02x}"}}


def _uuid(text: str | None, more: str | None) -> Value:
    try:
        content = UUID(text or "").bytes
    except ValueError:
        raise Unreadable("a UUID is none") from None
    return {"$binary": {"base64": base64.b64encode(content).decode(), "subType": "04"}}


def _timestamp(seconds: str | None, increment: str | None) -> Value:
    if not all(text and re.fullmatch(r"\d{1,10}", text) and int(text) < 1 << 32 for text in (seconds, increment)):
        raise Unreadable("a Timestamp is none")
    return {"$timestamp": {"t": seconds, "i": increment}}


def _reference(collection: str | None, key: str | None) -> Value:
    if collection is None or key is None:
        raise Unreadable("a DBRef is none")
    return {"$ref": collection, "$id": key}


def _code(text: str | None, more: str | None) -> Value:
    if text is None or more is not None:
        raise Unreadable("a Code is none")
    return {"$code": text}


def _symbol(text: str | None, more: str | None) -> Value:
    if text is None or more is not None:
        raise Unreadable("a Symbol is none")
    return {"$symbol": text}


_CONSTRUCTORS: Mapping[str, Callable[[str | None, str | None], Value]] = {
    "ObjectId": _object_id, "NumberInt": _number("$numberInt", _INT32), "NumberLong": _number("$numberLong", _INT64),
    "NumberDecimal": _decimal, "ISODate": _date, "Date": _date, "BinData": _binary, "UUID": _uuid, "Timestamp": _timestamp,
    "DBRef": _reference, "Code": _code, "Symbol": _symbol,
}  # fmt: skip
