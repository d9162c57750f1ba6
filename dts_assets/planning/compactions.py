"""Compactions: when files of a window are written as one, and which files of a snapshot anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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


MOST_DELETED = 0.1
"""The share of deleted rows that a file of a snapshot may have behind a window's close.

Such a file is read whole for nine tenths of its rows: 1.11 times as much as a compacted one. The promise is 1.15.
"""

SMALL_BYTES = 8 << 20
"""The bytes below which a file of a snapshot is small.

To open it costs a reader as much as to read it.
"""

MOST_SMALL = 4
"""The number of small files that a snapshot may have behind a window's close."""


@dataclass(frozen=True, slots=True)
class FileShape:
    """The size of a data file: its bytes, its rows, and those of them that are deleted.

    ``partition`` has its partition values, and ``is_former`` says that new files have other partition fields.
    """

    bytes: int
    rows: int
    deleted_rows: int = 0
    partition: Hashable = ()
    is_former: bool = False


def files_to_compact(files: Sequence[FileShape]) -> list[int]:
    """Return the numbers of the files of a snapshot that are written anew when a window has closed.

    They are those with many deleted rows or former partition fields, and all small ones of a partition where these are many.
    """
    counts = Counter(file.partition for file in files if file.bytes < SMALL_BYTES)
    return [
        number
        for number, file in enumerate(files)
        if file.deleted_rows > MOST_DELETED * file.rows
        or file.is_former
        or (file.bytes < SMALL_BYTES and counts[file.partition] > MOST_SMALL)
    ]
