"""Compactions: when the many files of a window are written as one."""

from __future__ import annotations

FEW = 2
"""So many files are left as they are."""

EVERY = 16
"""The files of an open window are compacted after so many readings.

Each refresh of a snapshot looks through all of them.
"""


def needs_compaction(readings: int, *, still_open: bool) -> bool:
    """Return whether the files of a window that came in so many readings are compacted now."""
    return readings % EVERY == 0 if still_open else readings > 1


def is_worth_compacting(files: int) -> bool:
    """Return whether so many files of one table and window are worth a compaction."""
    return files > FEW
