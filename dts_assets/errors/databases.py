"""Errors of copies of tables. No sentence holds a password or a value."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.errors.sources import SourceError


@dataclass(eq=False)
class CopyError(SourceError):
    """A table that cannot be copied. ``what`` is a clause about it, ``advice`` what to do."""

    table: str
    what: str
    advice: str

    def message(self) -> str:
        """Return the table, the reason and the way out."""
        return f"The table {self.table} cannot be copied: {self.what}. {self.advice[:1].upper()}{self.advice[1:]}."
