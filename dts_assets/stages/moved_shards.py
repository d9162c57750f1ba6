"""Changes of shards that had another name, read as changes of the shard that has the rows now.

A statement that renames a shard moves its rows. Changes that stand before it have the former name, in the columns that tell the
shard, or stand in the changelog of another table, without these columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.model.routes import ANY_PART
from dts_assets.stages.keys import Numbers
from dts_assets.stages.row_places import Place, positions_of
from dts_assets.stages.shard_truncations import Shard, shards_in
from dts_assets.stages.shard_ways import Begin, ShardWays

_FIRST = SourcePosition(0, 0, 0)
_GONE = -1
"""The way of changes whose rows have left the table."""


@dataclass(frozen=True, slots=True)
class ShardMove:
    """Changes of a shard whose rows are those of the shard ``into`` now.

    They stand behind ``since`` and not behind ``until``; None stands for no bound.
    """

    shard: Shard
    since: SourcePosition | None
    until: SourcePosition | None
    into: Shard


@dataclass(frozen=True)  # without slots, for the cached properties
class MovedShards:
    """The shards whose rows a merged table has now, by the columns ``names``, which tell them.

    Changes of which no move tells are none of the table's. A single move without a shard is about all changes of another table.
    """

    names: tuple[str, ...]
    moves: tuple[ShardMove, ...]

    def read(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes whose rows the table has now, each with the shard that has its row."""
        places, numbers = self._rows(changes)
        rows = changes.take(pa.array(places))
        empties = pc.equal(rows.column("op"), "truncate")
        parts = [
            pa.array([move.into[place] for move in self.moves], pa.string()).take(pa.array(numbers))
            for place in range(len(self.names))
        ]
        for side in ("before", "after"):
            at = rows.schema.get_field_index(side)
            if at >= 0:
                image = self._image(rows.column(at), parts, empties if side == "before" else None)
                rows = rows.set_column(at, side, image)
        return rows

    def _rows(self, changes: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        """Return the places of changes to read, in their order, and the number of each one's move."""
        place = positions_of(changes)
        if not self.moves[0].shard:
            return np.arange(changes.num_rows), np.zeros(changes.num_rows, np.int64)
        images = [changes.column(side) for side in ("after", "before") if side in changes.schema.names]
        shards = [pc.coalesce(*(pc.struct_field(image, name) for image in images)) for name in self.names]
        ways = self._ways.numbers(shards, place)
        some = np.flatnonzero(ways >= 0)
        broad = list(self._of_broad(changes, place))
        places = np.concatenate([some, np.array([one for one, _ in broad], np.int64)])
        numbers = np.concatenate([ways[some], np.array([number for _, number in broad], np.int64)])
        order = np.argsort(places, kind="stable")
        return places[order], numbers[order]

    def _of_broad(self, changes: pa.RecordBatch, place: Place) -> Iterator[tuple[int, int]]:
        """Yield the moves of shards that truncations of a whole database are about."""
        at = np.flatnonzero(np.asarray(pc.equal(changes.column("op"), "truncate")))
        told = shards_in(changes.column("before").take(pa.array(at)), self.names) if len(at) else []
        for row, shard in zip(at.tolist(), told, strict=True):
            if ANY_PART in shard:
                position = SourcePosition(*(int(part[row]) for part in place))
                for number, move in enumerate(self.moves):
                    fits = all(part in (ANY_PART, mine) for part, mine in zip(shard, move.shard, strict=True))
                    if fits and _holds(move, position):
                        yield row, number

    def _image(self, image: pa.StructArray, parts: Sequence[pa.Array], empties: pa.Array | None) -> pa.StructArray:
        """Return an image with the shard that has its row; a truncation gets one."""
        there = image.is_valid() if empties is None else pc.or_(image.is_valid(), empties)
        children = {field.name: pc.struct_field(image, [number]) for number, field in enumerate(image.type)}
        for name, part in zip(self.names, parts, strict=True):
            children[name] = pc.if_else(there, part, pa.scalar(None, pa.string()))
        return pa.StructArray.from_arrays(list(children.values()), list(children), mask=pc.invert(there))

    @cached_property
    def _ways(self) -> ShardWays:
        """The number of the move of each change."""
        by_shard: dict[Shard, list[tuple[ShardMove, int]]] = {}
        for number, move in enumerate(self.moves):
            by_shard.setdefault(move.shard, []).append((move, number))
        return ShardWays(self.names, tuple((shard, tuple(_begins(some))) for shard, some in by_shard.items()), _GONE)


def _begins(moves: Collection[tuple[ShardMove, int]]) -> Iterator[Begin]:
    """Yield the moves of a shard by the positions at which they begin, and what lies between them.

    A table that was dropped and created again has all changes of its name, but those of rows that another shard got meanwhile. So
    of several moves the one that begins last counts, and of those the one that ends first.
    """
    borders = {one.next for move, _ in moves for one in (move.since, move.until) if one is not None}
    last: int | None = None
    for begin in (None, *sorted(borders)):
        there = [(move, number) for move, number in moves if _is_about(move, begin)]
        since = max((_since(move) for move, _ in there), default=None)
        ends = sorted(
            (move.until is None, move.until or _FIRST, number) for move, number in there if _since(move) == since
        )
        number = ends[0][2] if ends else _GONE
        if number != last:
            yield begin, number
        last = number


def _since(move: ShardMove) -> tuple[bool, SourcePosition]:
    return move.since is not None, move.since or _FIRST


def _is_about(move: ShardMove, begin: SourcePosition | None) -> bool:
    """Tell whether a move is about the changes from a border on; None stands for the first change."""
    if begin is None:
        return move.since is None
    return _holds(move, begin)


def _holds(move: ShardMove, position: SourcePosition) -> bool:
    return (move.since is None or move.since < position) and (move.until is None or position <= move.until)
