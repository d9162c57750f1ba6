"""Removals of rows from a data file: it is written anew, or a delete file lists them.

A table of 1,000,000 rows that takes 10,000 random updates a commit has a changed row in every file each time. Files written anew
are the whole table for each commit; listed rows take two bytes each, and their file still stands as large as before until it
is written anew after all. So two costs are weighed, both in bytes. The bound is a number of 50 such commits: at most 10 MB
written on average, while a reader reads at most 1.6 times what a compacted table has.

- A file of which the share s is deleted is read whole for 1 - s of its rows, which is 1 / (1 - s) times as much.
- If it is written anew as soon as the share s is deleted, each deleted row has cost (1 - s) / s rows written.

With s = 0.3 these are 1.43 times as much to read, which leaves a tenth for delete files and small files, and 2.3 rows written for
each row deleted: 10,000 updates of rows of 250 bytes are 2.5 MB of new rows, and 5.8 MB for files written anew now and then.
"""

from __future__ import annotations

from enum import Enum, auto

MOST_DELETED = 0.3
"""The share of deleted rows from which a file is written anew."""

DELETED_ROW_BYTES = 2
"""The bytes of a row in a delete file.

10,000 random ones of 1,000,000 took 1.7 bytes each in plain zstd, 250,000 took 1.1.
"""

DELETE_FILE_BYTES = 64 << 10
"""The bytes that one more delete file stands for.

It is listed in a manifest, and each reader opens it. A request to an object store takes about the time in which it sends so much.
"""

MOST_DELETE_FILES = 8
"""The number of delete files of one data file from which a new one stands for all."""


class Removal(Enum):
    """A way to remove rows from a data file."""

    REWRITE = auto()
    """The file is written anew without them and without those that were deleted before."""
    DELETES = auto()
    """A new delete file lists them, beside those that are there."""
    MERGED_DELETES = auto()
    """A new delete file lists them and all that were deleted before; it stands for the earlier ones."""


def removal_of(
    file_bytes: int, file_rows: int, *, removed_rows: int, already_deleted_rows: int = 0, delete_files: int = 0
) -> Removal:
    """Return how rows leave a data file.

    The file has ``file_rows`` rows, of which ``already_deleted_rows`` are deleted by ``delete_files`` delete files. Where these
    concern other data files, too, they cannot be replaced: the caller then takes ``DELETES`` for ``MERGED_DELETES``.
    """
    deleted = already_deleted_rows + removed_rows
    if deleted >= MOST_DELETED * file_rows:
        return Removal.REWRITE
    # Both sides times the rows, so that nothing is rounded.
    if file_bytes * (file_rows - deleted) <= listing_bytes(removed_rows) * file_rows:
        return Removal.REWRITE
    saved = delete_files * DELETE_FILE_BYTES
    if delete_files and (delete_files >= MOST_DELETE_FILES or already_deleted_rows * DELETED_ROW_BYTES <= saved):
        return Removal.MERGED_DELETES
    return Removal.DELETES


def listing_bytes(rows: int) -> int:
    """Return the bytes that one more delete file with so many rows stands for."""
    return DELETE_FILE_BYTES + DELETED_ROW_BYTES * rows
