"""Truncations of shards: they empty the rows of one shard, or of all shards in a database.

The columns that tell a shard are part of every key, so a row never leaves its shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.model.routes import ANY_PART
from dts_assets.stages.keys import Mask, Numbers, as_numbers
from dts_assets.stages.row_places import POSITION, Place

Shard = tuple[str, ...]
"""The values of a merged table's shard columns; :data:`ANY_PART` stands for every value. Empty: all rows of a table."""


def shards_in(images: pa.StructArray, names: Sequence[str]) -> list[Shard]:
    """Return the shards that images of truncations tell; empty ones where there is no image."""
    columns = (pc.struct_field(images, name).to_pylist() for name in names)
    found = zip(images.is_valid().to_pylist(), *columns, strict=True)
    return [tuple(value or ANY_PART for value in values) if there else () for there, *values in found]


def shard_columns_of(changes: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Return the columns that tell the shards of changes, from either image."""
    images = [changes.column(side) for side in ("after", "before")]
    return [pc.coalesce(*(pc.struct_field(image, name) for image in images)) for name in names]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Truncations that tell equal parts of their shards: their numbers, and these parts."""

    numbers: Numbers
    told: tuple[int, ...]
    shards: pa.Array

    def codes(self, columns: Sequence[pa.Array]) -> Numbers:
        """Return the number of each row's shard among those of the truncations, or -1."""
        if not self.told:
            return np.zeros(len(columns[0]), np.int64)
        found = pc.index_in(_joined([columns[place] for place in self.told]), value_set=self.shards)
        return as_numbers(pc.fill_null(found, -1))


def _alike(shards: Sequence[Shard]) -> Iterator[tuple[_Alike, Numbers]]:
    """Yield truncations by the parts of a shard that they tell, each with the numbers of their shards."""
    told = [tuple(place for place, part in enumerate(shard) if part != ANY_PART) for shard in shards]
    for places in dict.fromkeys(told):
        numbers = np.flatnonzero([one == places for one in told])
        names = ["\0".join(shards[number][place] for place in places) for number in numbers.tolist()]
        distinct = list(dict.fromkeys(names))
        codes = {name: code for code, name in enumerate(distinct)}
        yield (
            _Alike(numbers, places, pa.array(distinct, pa.string())),
            np.array([codes[name] for name in names], np.int64),
        )


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), "\0")


def next_truncations(
    columns: Sequence[pa.Array], places: Place, truncations: Sequence[tuple[SourcePosition, Shard]]
) -> Numbers:
    """Return for each row the number of the next truncation of its shard at or behind its place.

    It is the number of truncations where none comes any more. ``columns`` tell the shards of the rows, ``truncations`` are in
    the order of their positions.
    """
    count = len(truncations)
    found = np.full(len(places[0]), count, np.int64)
    at = [np.array([getattr(position, name) for position, _ in truncations], np.int64) for name in POSITION]
    for some, codes in _alike([shard for _, shard in truncations]):
        shards = np.append(codes, some.codes(columns))
        is_row = np.arange(len(shards)) >= len(codes)
        number = np.append(some.numbers, np.full(len(found), count, np.int64))
        where = [np.append(one[some.numbers], other) for one, other in zip(at, places, strict=True)]
        # A truncation empties its shard of changes at its own position, too.
        order = np.lexsort((~is_row, *reversed(where), shards))
        ends = np.where(is_row[order], len(order), np.arange(len(order)))
        following = np.minimum.accumulate(ends[::-1])[::-1]
        known = following < len(order)
        target = order[np.minimum(following, max(0, len(order) - 1))]
        mine = known & (shards[target] == shards[order])
        nearest = np.full(len(order), count, np.int64)
        nearest[order] = np.where(mine, number[target], count)
        found = np.minimum(found, nearest[len(codes) :])
    return found


def emptied_rows(
    columns: Sequence[pa.Array], places: Place, truncations: Iterable[tuple[SourcePosition, Shard]]
) -> Mask:
    """Return the rows that some truncation of their shard is at or behind."""
    ordered = sorted(truncations)
    return np.asarray(next_truncations(columns, places, ordered) < len(ordered), np.bool_)
