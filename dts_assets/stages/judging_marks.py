"""Marks of operations on keys that a merge needs to judge their rows by a row filter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dts_assets.stages.change_columns import RowShape, times_of
from dts_assets.stages.completed_images import open_changes
from dts_assets.stages.keys import Numbers


def judging_marks(rows: pa.RecordBatch, shape: RowShape, taking: Numbers, leaving: Numbers) -> dict[str, pa.Array]:
    """Return the columns ``open`` and, with soft deletes, ``time`` of operations; none without a row filter.

    ``taking`` and ``leaving`` are the numbers of the changes that take keys, and of those that leave keys behind them.
    """
    if shape.judged is None:
        return {}
    new, old = open_changes(rows, shape.judged.fields)
    # Where deleted rows do not stay, it does not matter whether a row was there that leaves its key.
    found = {"open": pa.array(np.concatenate([new[taking], old[leaving] & shape.is_soft]))}
    return {**found, "time": pa.array(times_of(rows)[np.concatenate([taking, leaving])])} if shape.is_soft else found
