"""Removals of rows that removed nothing: from a table without a key, or by changes that do not tell a whole key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """Counts of removals without a row, and of removals that may mean several rows."""

    unmatched: int = 0
    ambiguous: int = 0

    def __add__(self, other: NotRemoved) -> NotRemoved:
        return NotRemoved(self.unmatched + other.unmatched, self.ambiguous + other.ambiguous)


ALL_REMOVED = NotRemoved()
"""The counts where each removal found its row."""
