"""Values of JSON messages as texts, whichever format the messages are of."""

from __future__ import annotations

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
