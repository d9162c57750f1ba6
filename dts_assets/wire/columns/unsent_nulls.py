"""NULL in old rows of sources with a schema.

In a table with a key it stands for a value that was not sent. Without a full replica identity PostgreSQL logs the key alone, and
NULL that was sent is in the stored row, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.images import ABSENT, NULL, Image
from dts_assets.wire.columns.table_rows import TableRows


def without_unsent(old: Image, tables: Sequence[TableRows]) -> Image:
    """Return the images of old rows, in which values that were not sent are no NULL.

    The rows of ``tables`` follow one another in the images.
    """
    rows = np.flatnonzero(old.present & _of_keys(old, tables) & (old.sizes > 0))
    nulls = np.flatnonzero(old.kinds[: old.nothing] == NULL) if len(rows) else rows
    if not len(nulls):
        return old
    starts, ends = old.starts[rows], old.starts[rows] + old.sizes[rows]
    order = np.argsort(starts, kind="stable")
    owners = order[np.maximum(np.searchsorted(starts[order], nulls, side="right") - 1, 0)]
    unsent = nulls[(nulls >= starts[owners]) & (nulls < ends[owners])]
    if not len(unsent):
        return old
    kinds = old.kinds.copy()  # new rows may share them
    kinds[unsent] = ABSENT
    return replace(old, kinds=kinds, has_absent=True)


def _of_keys(old: Image, tables: Sequence[TableRows]) -> Bools:
    """Return the rows of tables of a source with a schema, whose events tell a key."""
    found = np.zeros(len(old.starts), np.bool_)
    for one in tables:
        if one.table.schema:
            keyed = np.asarray([any(column.is_key for column in columns.columns) for columns in one.lists], np.bool_)
            found[one.start : one.end] = keyed[0] if one.list_numbers is None else keyed[one.list_numbers]
    return found
