"""One message of a sample, and the interface by which a format tells its signs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from msgspec.json import Decoder

from dts_assets.wire.format import MESSAGES

_ANY = Decoder()

Signs: TypeAlias = frozenset[str]
"""Clauses for people about one message: ``mysqlType without lengths``. They name fields of the vendor, and never a value."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One message of a sample.

    ``fields`` are those of a JSON object, and None where the value is none.
    """

    value: bytes
    fields: Mapping[str, Any] | None

    @classmethod
    def of(cls, value: bytes) -> Sample:
        """Return the sample of a value; a value that is no JSON object is no error."""
        try:
            found = _ANY.decode(value) if value.lstrip()[:1] == b"{" else None
        except (ValueError, RecursionError):
            found = None
        return cls(value, found if isinstance(found, dict) else None)


def messages_of(values: Iterable[bytes]) -> pa.RecordBatch:
    """Return MESSAGES of which only the values are known."""
    return pa.RecordBatch.from_pylist([{"value": value, "headers": []} for value in values], MESSAGES)


class TellsSigns(Protocol):
    """A class of a format that tells its messages from those of formats which decode alike.

    The method is optional: messages of a format without it are recognised by decoding them.
    """

    @classmethod
    def signs_in(cls, sample: Sample) -> Signs | None:
        """Return the signs of the format in a message; None if the message is of another format.

        A message that may be of several formats has signs of each, perhaps no sign at all.
        """
        ...
