"""The places of changes in the source's log, in columns: comparisons of many positions with some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.keys import Mask, Numbers, as_numbers

POSITION = ("lineage", "file", "position")
"""The parts of a source position, in the order in which they are compared."""

Place = tuple[Numbers, Numbers, Numbers]
"""Source positions in columns: lineages, file numbers, positions in the file."""


def positions_of(changes: pa.RecordBatch) -> Place:
    """Return the source positions of changes."""
    return places_in(changes.column("source_position"))


def places_in(positions: pa.StructArray) -> Place:
    """Return a column of source positions as columns of their parts."""
    lineage, file, offset = (as_numbers(pc.struct_field(positions, name)) for name in POSITION)
    return lineage, file, offset


def at_or_before(changes: pa.RecordBatch, position: SourcePosition) -> Mask:
    """Return which changes stand at or before a position."""
    lineage, file, offset = positions_of(changes)
    earlier = (file < position.file) | ((file == position.file) & (offset <= position.position))
    return np.asarray((lineage < position.lineage) | ((lineage == position.lineage) & earlier), np.bool_)


def begun_at(begins: Sequence[SourcePosition], place: Place) -> Numbers:
    """Return how many of some ascending positions stand at or before each place.

    Of ``[0:1:100, 0:1:200]`` the place 0:1:150 has one.
    """
    lineage, file, offset = place
    found = np.zeros(len(lineage), np.int64)
    if not begins or not len(lineage):
        return found
    parts = [(one.lineage, one.file, one.position) for one in begins]
    for log in np.unique(np.stack([lineage, file]), axis=1).T.tolist():
        first, last = bisect_left(parts, (*log, -1)), bisect_left(parts, (log[0], log[1] + 1, -1))
        here = (lineage == log[0]) & (file == log[1])
        found[here] = first + np.searchsorted([one[2] for one in parts[first:last]], offset[here], side="right")
    return found
