"""Extended JSON of MongoDB, version 2: canonical texts, relaxed texts, and ids as texts.

The rules are those of MongoDB's specification (source/extended-json). Canonical Extended JSON tells the type of every value; the
relaxed form writes numbers and dates as people would, and so loses which type a number had.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from msgspec import json

from dts_assets.wire.documents.shell_syntax import Unreadable, Value

_LINES = json.Encoder()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999

NUMBER, OBJECT_ID, STRING = "number", "objectId", "string"
"""Types of ids as the column ``_id_type`` has them; others are as in MongoDB's operator ``$type``."""

_TYPES = {
    "$oid": OBJECT_ID, "$date": "date", "$binary": "binData", "$timestamp": "timestamp", "$minKey": "minKey", "$maxKey": "maxKey",
    "$undefined": "undefined", "$regularExpression": "regex", "$code": "javascript", "$symbol": "symbol",
}  # fmt: skip
_NUMBERS = ("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal")


def text_of(value: Value) -> str:
    """Return a value as one line of JSON.

    Raises:
        Unreadable: A text in it is no Unicode.
    """
    return line_of(value).decode()


def line_of(value: Value) -> bytes:
    """Return the text of :func:`text_of` in UTF-8.

    Raises:
        Unreadable: A text in it is no Unicode.
    """
    try:
        return _LINES.encode(value)
    except (UnicodeEncodeError, RecursionError):
        raise Unreadable("it has a text that is no Unicode, or is nested too deeply") from None


def value_of(text: str) -> Value:
    """Return the value of a text of :func:`text_of`."""
    found: Value = json.decode(text)
    return found


def relaxed(value: Value) -> Value:
    """Return a canonical value in the relaxed form: ``{"$numberInt": "5"}`` is 5.

    A value in relaxed form stays as it is.
    """
    if isinstance(value, list):
        return [relaxed(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in ("$numberInt", "$numberLong") and isinstance(inner, str):
            return int(inner)
        if name == "$numberDouble" and isinstance(inner, str) and inner not in ("NaN", "Infinity", "-Infinity"):
            return float(inner)
        if name == "$date" and isinstance(inner, dict):
            return {"$date": _relaxed_date(inner)}
        if name in _TYPES or name in _NUMBERS:
            return value
    return {name: relaxed(inner) for name, inner in value.items()}


def _relaxed_date(inner: Value) -> Value:
    milliseconds = int(inner["$numberLong"])
    if not 0 <= milliseconds <= _LAST_MILLISECOND:
        return inner
    at = _EPOCH + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds").replace("+00:00", "Z")


def id_of(document: Mapping[str, Value]) -> tuple[str, str]:
    """Return the id of a document as a text, and its type.

    An ObjectId is its 24 hex digits and a string itself. Numbers that MongoDB takes for one key are one text, ``5`` for ``5.0``;
    any other id is canonical Extended JSON.

    Raises:
        Unreadable: The document has no id, or one that no document may have.
    """
    try:
        value = document["_id"]
    except KeyError:
        raise Unreadable("a document has no _id") from None
    if isinstance(value, dict) and len(value) == 1:
        (name,) = value
        if name == "$oid":
            return str(value[name]), OBJECT_ID
        if name in _NUMBERS:
            return _number_text(name, str(value[name])), NUMBER
    if isinstance(value, str):
        return value, STRING
    return text_of(value), _type_of(value)


def _type_of(value: Value) -> str:
    if isinstance(value, list):
        raise Unreadable("an _id is a list")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return next((_TYPES[name] for name in value if name in _TYPES), "object")


def _number_text(name: str, text: str) -> str:
    """Return the plain digits of a number, which all types of numbers share: ``5`` for ``5.0`` and ``5E0``.

    A double has the digits of its exact value, so that 0.1 is another key than the NumberDecimal of these digits.
    """
    if text.lstrip("-") in ("NaN", "Infinity"):
        return text
    digits = f"{Decimal(float(text)) if name == '$numberDouble' else Decimal(text):f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits
