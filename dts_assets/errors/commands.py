"""Errors of commands that show stored data."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.errors.base import DtsAssetsError


@dataclass(eq=False)
class NothingFoundError(DtsAssetsError):
    """Something was asked for that is not there.

    ``place`` is where it was looked for ("The lake"), ``sought`` is named without an article ("entry with the GTID 1-1-7"),
    and ``hint`` is a clause about what is there or what to do ("there are 0 to 41").
    """

    place: str
    sought: str
    hint: str

    def message(self) -> str:
        """Return the place, the thing that is missing, and the hint."""
        return f"{self.place} has no {self.sought}; {self.hint}."
