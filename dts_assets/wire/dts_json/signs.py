"""The signs of DTS JSON in a message: fields that no other JSON has together."""

from __future__ import annotations

from dts_assets.wire.recognition.samples import Sample, Signs

_PLACES = frozenset({"fileName", "position", "safePosition"})
_FOUND = frozenset({"messageType, fileName, position"})


def json_signs(sample: Sample) -> Signs | None:
    """Return the signs of a record of DTS in a message; None where they are missing."""
    fields = sample.fields
    found = fields is not None and isinstance(fields.get("messageType"), str) and not _PLACES.isdisjoint(fields)
    return _FOUND if found else None
