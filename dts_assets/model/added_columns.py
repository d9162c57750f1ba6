"""The columns that a snapshot has on request.

They tell when a row was deleted, and facts about its last change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

DELETED_AT = "_deleted_at"
"""The column of a snapshot with the time of a row's deletion, null while the row lives."""

CANONICAL = "canonical documents"
"""The request for documents in canonical form.

It stands among the columns on request, and is none.
"""


def flattened(column: str, path: str) -> str:
    """Return the request for a field of documents as a column: ``city=address.city``."""
    return f"{column}={path}"


def flattened_paths(requests: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the paths of fields that are columns on request, by the names of these: ``{"city": ("address", "city")}``."""
    pairs = (request.partition("=") for request in requests if "=" in request)
    return {name: tuple(path.split(".")) for name, _, path in pairs}


AuditColumn: TypeAlias = Literal["op", "transaction_id", "position", "row_number", "epoch", "window_start"]
"""The name that a configuration asks for an audit column with."""

AUDIT: Mapping[AuditColumn, tuple[str, str]] = MappingProxyType(
    {
        "op": ("_op", "op"),
        "transaction_id": ("_transaction_id", "transaction_id"),
        "position": ("_position", "source_position"),
        "row_number": ("_row_number", "row_number"),
        "epoch": ("_epoch", "epoch"),
        "window_start": ("_window_start", "window_start"),
    }
)
"""The names of audit columns in a snapshot, and of the columns of a changelog that they show."""

AUDITED: Mapping[str, str] = MappingProxyType(dict(AUDIT.values()))
"""The column of a changelog that an audit column shows, by the audit column's name: ``{"_op": "op"}``."""
