"""Texts of values: the form that the suite writes, and the form in which the judge compares them.

Nothing here knows a wire format, so that a mistake of a decoder cannot be in it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation, localcontext
from enum import StrEnum


class ValueKind(StrEnum):
    """The kinds of values, by which texts are written and compared; the value is the word in ``case.json``."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    SINGLE = "single"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    JSON = "json"
    BYTES = "bytes"
    DATE = "date"
    DATETIME = "datetime"
    INSTANT = "instant"
    TIME = "time"


_KINDS: Mapping[str, ValueKind] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year", "integer"), ValueKind.INTEGER),
    **dict.fromkeys(("decimal", "numeric", "number"), ValueKind.DECIMAL),
    **dict.fromkeys(("float", "real"), ValueKind.SINGLE),
    **dict.fromkeys(("double", "double precision"), ValueKind.DOUBLE),
    **dict.fromkeys(("binary", "varbinary", "blob", "longblob", "bytea", "raw"), ValueKind.BYTES),
    **dict.fromkeys(("json", "jsonb"), ValueKind.JSON),
    "boolean": ValueKind.BOOLEAN, "date": ValueKind.DATE, "datetime": ValueKind.DATETIME, "time": ValueKind.TIME,
    "timestamp without time zone": ValueKind.DATETIME, "timestamp with time zone": ValueKind.INSTANT,
    "timestamp": ValueKind.INSTANT, "smalldatetime": ValueKind.DATETIME,
}  # fmt: skip
_DIGITS = 200
"""More digits than any value has: a decimal of MySQL has 65."""
_FRACTION = re.compile(r"(?<=:\d\d)\.?0*$|(?<=:\d\d)(\.\d*?)0+$")
_OFFSET = re.compile(r"(?:Z|[ ]?[+-]\d\d(?::?\d\d)?)$")


def kind_of_type(source_type: str) -> ValueKind:
    """Return the kind of the values of a type as the source writes it: ``bigint(20) unsigned``."""
    base = source_type.lower().partition("(")[0].strip()
    return _KINDS.get(base, _KINDS.get(base.split()[0], ValueKind.TEXT))


def text_of_value(value: int | float | str | bytes) -> str:
    """Return the text of a value: bytes as hexadecimal digits, and numbers in their shortest form."""
    if isinstance(value, bytes):
        return value.hex().upper()
    return value if isinstance(value, str) else repr(value)


def in_milliseconds(kind: ValueKind, text: str) -> str:
    """Return a text with no more than three digits of a fraction of a second."""
    if kind not in (ValueKind.DATETIME, ValueKind.INSTANT, ValueKind.TIME):
        return text
    return re.sub(r"(:\d\d\.\d{3})\d+$", r"\1", text)


def comparable(kind: ValueKind, text: str | None) -> str | None:
    """Return the form in which texts of a value are equal: ``1.5`` for ``1.50`` of a decimal.

    A text that is no value of its kind stays as it is: nothing but an equal text equals it.
    """
    if text is None:
        return None
    try:
        return _FORMS.get(kind, str)(text)
    except (ValueError, InvalidOperation, OverflowError):
        return text


def _decimal(text: str) -> str:
    with localcontext(prec=_DIGITS):
        found = format(Decimal(text).normalize(), "f")
    return "0" if found == "-0" else found


def _single(text: str) -> str:
    return repr(struct.unpack("<f", struct.pack("<f", float(text)))[0])


def _boolean(text: str) -> str:
    return {"t": "true", "f": "false", "1": "true", "0": "false"}.get(text.lower(), text.lower())


def _json(text: str) -> str:
    return json.dumps(json.loads(text, parse_float=str, parse_int=str), sort_keys=True)


def _clock(text: str) -> str:
    return _FRACTION.sub(lambda found: found.group(1) or "", text)


def _datetime(text: str) -> str:
    return _clock(text.replace("T", " "))


def _instant(text: str) -> str:
    """Return an instant as a clock of UTC; a text without an offset is one."""
    if not _OFFSET.search(text) or text.startswith("0000"):
        return _datetime(_OFFSET.sub("", text) if text.startswith("0000") else text)
    moment = datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text.replace("T", " ").replace(" +", "+")))
    return _clock(moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds"))


_FORMS: Mapping[ValueKind, Callable[[str], str]] = {
    ValueKind.INTEGER: lambda text: str(int(text)),
    ValueKind.DECIMAL: _decimal,
    ValueKind.SINGLE: _single,
    ValueKind.DOUBLE: lambda text: repr(float(text)),
    ValueKind.BOOLEAN: _boolean,
    ValueKind.JSON: _json,
    ValueKind.BYTES: str.upper,
    ValueKind.DATETIME: _datetime,
    ValueKind.INSTANT: _instant,
    ValueKind.TIME: _clock,
}
