"""The head of messages of DRS JSON, whichever source they are of."""

from __future__ import annotations

from msgspec import Raw

from dts_assets.wire.flat_json.messages import Head

NOT_SENT = Raw(b"null")
"""The value of fields that a message does not have."""


class SourceHead(Head, forbid_unknown_fields=True, gc=False):
    """A message of DRS JSON without the content of its rows, whichever source it is of."""

    schema: str | None = None  # type: ignore[misc]
    dbType: str | None = None  # type: ignore[misc]
    opType: str | None = None
    columnType: Raw = NOT_SENT
