"""Errors of databases that tables are copied from. No sentence holds a password or a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors.sources import SourceError


@dataclass(eq=False)
class DatabaseError(SourceError):
    """A database that cannot be read. ``place`` is host and port, ``what`` a clause: "it has no binlog; turn log_bin on"."""

    place: str
    what: str

    def message(self) -> str:
        """Return the database and what is wrong with it."""
        return f"The database at {self.place} cannot be copied from: {self.what}."


@dataclass(eq=False)
class UnreachableDatabaseError(DatabaseError):
    """A database that does not answer, or breaks the connection off; it may answer later."""

    retriable: ClassVar[bool] = True


@dataclass(eq=False)
class CopyError(SourceError):
    """A table that cannot be copied. ``what`` is a clause about it, ``advice`` what to do."""

    table: str
    what: str
    advice: str

    def message(self) -> str:
        """Return the table, the reason and the way out."""
        return f"The table {self.table} cannot be copied: {self.what}. {self.advice[:1].upper()}{self.advice[1:]}."
