"""The columns that a snapshot has on request.

They tell when a row was deleted, and facts about its last change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

DELETED_AT = "_deleted_at"
"""The column of a snapshot with the time of a row's deletion, null while the row lives."""

CANONICAL = "canonical documents"
"""The request for documents in canonical form.

It stands among the columns on request, and is none.
"""

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
