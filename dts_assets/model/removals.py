"""Changes that did not find their row: removals, updates of a key, changes that tell half a key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """Counts of removals without a row, and of removals that may mean several rows.

    ``unseen`` counts, of a table with a key, rows that updates made of what they sent because they found none, and that still
    lack columns; of documents, which make no row then, it counts the updates. ``misfits`` counts updates whose paths did not fit
    the document that stood.
    """

    unmatched: int = 0
    ambiguous: int = 0
    unseen: int = 0
    misfits: int = 0

    def __add__(self, other: NotRemoved) -> NotRemoved:
        return NotRemoved(
            self.unmatched + other.unmatched,
            self.ambiguous + other.ambiguous,
            self.unseen + other.unseen,
            self.misfits + other.misfits,
        )


ALL_REMOVED = NotRemoved()
"""The counts where each removal found its row."""
