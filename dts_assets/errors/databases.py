"""Errors of copies of tables. No sentence holds a password or a value."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.errors.sources import SourceError


@dataclass(eq=False)
class OtherServerError(SourceError):
    """A database that is not the server of a topic. ``what`` is a clause that says how it differs."""

    place: str
    subscription: str
    what: str

    def message(self) -> str:
        """Return the address, the difference and what to do."""
        return (
            f"The database at {self.place} is not the server that the messages of {self.subscription} come from: {self.what}. "
            f"Nothing was taken from it. Name the server whose binlog the task reads."
        )


@dataclass(eq=False)
class UncheckedServerError(SourceError):
    """A database of which nobody can tell whether it is the server of a topic. ``what`` is a clause that says why."""

    place: str
    subscription: str
    what: str

    def message(self) -> str:
        """Return the address, the reason and the ways out."""
        return (
            f"Nobody can tell whether the database at {self.place} is the server that the messages of {self.subscription} come "
            f"from: {self.what}. Nothing was taken from it. If you know that it is, say --server-is-right."
        )


@dataclass(eq=False)
class CopyError(SourceError):
    """A table that cannot be copied. ``what`` is a clause about it, ``advice`` what to do."""

    table: str
    what: str
    advice: str

    def message(self) -> str:
        """Return the table, the reason and the way out."""
        return f"The table {self.table} cannot be copied: {self.what}. {self.advice[:1].upper()}{self.advice[1:]}."
