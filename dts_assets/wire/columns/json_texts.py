"""Values of JSON messages as texts, whichever format the messages are of."""

from __future__ import annotations

import json
import re

from msgspec import Raw
from msgspec.json import Decoder

MALFORMED = (ValueError, RecursionError)
"""Exceptions that a parser raises; every error of msgspec is a ValueError."""

_ANY = Decoder()


def plain_text(raw: Raw | bytes) -> str | None:
    """Return a text as it is, null as None, and anything else as its JSON."""
    try:
        value = _ANY.decode(raw)
    except MALFORMED:
        value = raw
    if value is None or isinstance(value, str):
        return value
    return bytes(raw).decode(errors="backslashreplace")


_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)
"""An escape of JSON; the group is half of a surrogate pair without its other half.

No text in UTF-8 has one.
"""


def has_halves(message: bytes) -> bool:
    """Tell whether JSON has half a surrogate pair alone, which its parser refuses."""
    return any(found[1] for found in _ESCAPE.finditer(message))


def without_halves(message: bytes) -> bytes:
    """Return JSON with U+FFFD in the place of each half of a surrogate pair."""
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], message)


def fields_with_halves(message: bytes, *names: str) -> dict[str, Raw]:
    """Return some fields of an object in which half a surrogate pair stands alone.

    Numbers in them become texts.

    Raises:
        ValueError: it is no object in JSON, or another field has such a half.
        RecursionError: it is nested too deeply.
    """
    whole = json.loads(message, parse_int=str, parse_float=str)
    if not isinstance(whole, dict):
        raise ValueError("no object")
    found = {name: Raw(json.dumps(whole.pop(name)).encode()) for name in names if name in whole}
    json.dumps(whole, ensure_ascii=False).encode()
    return found
