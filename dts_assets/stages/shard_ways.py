"""The ways of rows in a merged table, by shards: each has schemas of its own.

A way is a number. What stands for it, such as paths of values, is known to the caller; shards that are alike have ways in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.keys import Numbers, as_numbers
from dts_assets.stages.row_places import Place, begun_at
from dts_assets.stages.shard_truncations import Shard

Begin = tuple[SourcePosition | None, int]
"""A position and the way that rows have from it on; None stands for the first row."""


@dataclass(frozen=True, slots=True)
class ShardWays:
    """The ways of rows by their shards and positions.

    ``names`` are the columns that tell the shard. ``begins`` has, for each shard, its ways in the order of their positions, the
    first of which has none. Rows of any other shard have the way ``other``.
    """

    names: tuple[str, ...]
    begins: tuple[tuple[Shard, tuple[Begin, ...]], ...]
    other: int

    def numbers(self, shards: Sequence[pa.Array], place: Place | None = None) -> Numbers:
        """Return the way of each row by its shard and position, without positions the first."""
        codes = self._codes(shards)
        found = np.full(len(codes), self.other, np.int64)
        order = np.argsort(codes, kind="stable")
        there, starts = np.unique(codes[order], return_index=True)
        bounds = [*starts.tolist(), len(order)]
        for number, code in enumerate(there.tolist()):
            if code >= 0:
                rows = order[bounds[number] : bounds[number + 1]]
                found[rows] = self._of_shard(self.begins[code][1], rows, place)
        return found

    def _codes(self, shards: Sequence[pa.Array]) -> Numbers:
        """Return the number of each row's shard, or -1."""
        known = pa.array(["\0".join(shard) for shard, _ in self.begins], pa.string())
        told = pc.binary_join_element_wise(*(one.cast(pa.string()) for one in shards), "\0")
        return as_numbers(pc.fill_null(pc.index_in(told, value_set=known), -1))

    @staticmethod
    def _of_shard(begins: Sequence[Begin], rows: Numbers, place: Place | None) -> Numbers:
        if place is None or len(begins) == 1:
            return np.full(len(rows), begins[0][1], np.int64)
        lineage, file, offset = (part[rows] for part in place)
        number = begun_at([at for at, _ in begins[1:] if at is not None], (lineage, file, offset))
        found: Numbers = np.array([way for _, way in begins], np.int64)[number]
        return found
