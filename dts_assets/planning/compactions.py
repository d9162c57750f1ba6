"""Compactions: when the many files of a window are written as one."""

from __future__ import annotations

FEW = 2
"""The greatest number of files that is left as it is."""

EVERY = 16
"""The number of readings after which the files of an open window are compacted, again and again.

Each refresh of a snapshot looks through all of them.
"""


def needs_compaction(readings: int, *, still_open: bool) -> bool:
    """Return whether the files of a window are compacted now, after a number of readings."""
    return readings % EVERY == 0 if still_open else readings > 1


def is_worth_compacting(files: int) -> bool:
    """Return whether a number of files of one table and window is worth a compaction."""
    return files > FEW
