"""Types of columns that values taught, because no text of a type says so.

Some servers leave the word unsigned out of a type's text; their values say it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.model.tables import TableId


@dataclass(frozen=True, slots=True)
class TaughtType:
    """A type of a column with unsigned values whose text, such as ``bigint(20)``, does not say so."""

    table: TableId
    column: str
    original_type: str
