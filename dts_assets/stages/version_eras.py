"""The versions of a history over statements that change rows by no event, era by era.

Each statement ends an era: it ends the versions that are open, begins versions of rows that came from another name, or gives
columns of open versions other values. The versions that are open then are the first ones of the next era.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.model.removals import ALL_REMOVED
from dts_assets.stages.altered_rows import Cells
from dts_assets.stages.change_columns import NO_TIME, RowShape, Truncation, microsecond, microseconds
from dts_assets.stages.followed_columns import FollowedColumns
from dts_assets.stages.history_statements import ColumnFill, HistoryStatement
from dts_assets.stages.key_operations import Operations, joined, standing
from dts_assets.stages.keys import Mask, Numbers, as_mask, as_numbers
from dts_assets.stages.mapped_texts import as_texts
from dts_assets.stages.row_folds import MadeRows
from dts_assets.stages.row_places import POSITION, places_in
from dts_assets.stages.row_versions import versions_of
from dts_assets.stages.snapshot_in_arrow import invalid_texts, text_of
from dts_assets.stages.value_paths import followed
from dts_assets.wire.columns.lake_texts import held_as

RENAME = "rename"
"""The operation that begins versions of rows which came from another name."""

_Earlier: TypeAlias = dict[SourcePosition, pa.RecordBatch]
"""The open versions before statements which gave a column a name that the history lacks, by position."""


@dataclass(frozen=True, slots=True)
class VersionEra:
    """A statement that ends an era of a history: its position, and its time in microseconds since 1970.

    It ``ends`` all open versions. The rows that came by it are those behind the changes with the number ``arrival`` (None: none
    came), less those that the ``truncations`` took away. It gives columns the values of ``fills``. Later
    statements need the values that columns had before it if it ``is_origin``.
    """

    position: SourcePosition
    time: int
    ends: bool = False
    arrival: int | None = None
    arrived: FollowedColumns | None = None
    truncations: tuple[Truncation, ...] = ()
    fills: tuple[ColumnFill, ...] = ()
    is_origin: bool = False

    @property
    def fills_key(self) -> bool:
        """True if it gives columns of the primary key other values, by which later changes find rows."""
        return any(fill.of_key for fill in self.fills)


def version_eras(statements: Sequence[HistoryStatement]) -> tuple[VersionEra, ...]:
    """Return the eras that statements end; rows that come by one have its number.

    A statement that ends versions and begins others ends two eras: rows may be found by another key from the second one on.
    """
    found = []
    origins = {
        fill.left_at for one in statements for fill in one.fills if fill.place is not None and fill.origin is not None
    }
    for number, one in enumerate(statements):
        time, is_origin = one.time or one.window_start, one.position in origins
        era = VersionEra(one.position, NO_TIME if time is None else microsecond(time))
        fills = tuple(fill for fill in one.fills if fill.place is not None)
        found += [replace(era, ends=True)] if one.ends else []
        found += [replace(era, arrival=number)] if one.rows is not None else []
        found += [replace(era, fills=fills, is_origin=is_origin)] if fills or is_origin else []
    return tuple(found)


def as_arrival(operations: Operations, number: int) -> Operations:
    """Return the operations of changes under a former name, marked as those of an arrival."""
    mark = pa.array(np.full(operations.count, number, np.int64))
    return Operations(operations.touches.append_column("arrival", mark), operations.rows)


def versions_over_eras(
    operations: Operations,
    shape: RowShape,
    eras: Sequence[VersionEra],
    *,
    truncations: Sequence[Truncation] = (),
    fold_absent: bool = False,
    expired_before: int = NO_TIME,
) -> MadeRows:
    """Return the versions that operations begin over eras, as :func:`dts_assets.stages.row_versions.versions_of` does in one.

    ``eras`` are in the order of their positions. Operations of arrivals are marked by :func:`as_arrival`.
    """
    own, arrivals = _apart(operations)
    era_of = _eras_of(own, eras)
    told = own.chosen(
        (own.numbers("lineage") < 0) & ~own.takes
    )  # ended versions that stand, which give times to later ones
    ended, open_rows, not_removed = list[pa.RecordBatch](), list[pa.RecordBatch](), ALL_REMOVED
    came: list[Operations] = []
    earlier_rows: list[_Earlier] = []
    for number, era in enumerate([*eras, None]):
        mine = joined([own.chosen(era_of == number), *came])
        cuts = [one for one in truncations if _is_of(one.position, eras, number)]
        cuts += [Truncation(era.position, era.time)] if era is not None and era.ends else []
        if mine.count or cuts or not open_rows:
            earlier = [told] if number else []
            if mine.count and not shape.is_bag:
                least = int(mine.numbers("time").min())
                earlier += [_standing(_ended_behind(one, least), shape) for one in ended]
            parts = [mine, *(_standing(one, shape) for one in open_rows), *earlier]
            made = versions_of(joined(parts), shape, truncations=cuts, fold_absent=fold_absent)
            is_open = made.rows.column("_valid_to").is_null()
            ended.append(made.rows.filter(pc.invert(is_open)))
            open_rows, not_removed = [made.rows.filter(is_open)], not_removed + made.not_removed
            earlier_rows = [{} for _ in open_rows]
        if era is not None:
            for rows, before in zip(open_rows, earlier_rows, strict=True):
                before |= {era.position: rows} if era.is_origin else {}
            open_rows = [_filled(one, shape, era.fills, of) for one, of in zip(open_rows, earlier_rows, strict=True)]
            came = _came(arrivals, era, shape, fold_absent=fold_absent)
    rows = pa.Table.from_batches([*ended, *open_rows]).combine_chunks().to_batches()
    return MadeRows(_left(rows[0] if rows else open_rows[0], expired_before), not_removed)


def _left(rows: pa.RecordBatch, expired_before: int) -> pa.RecordBatch:
    """Return versions without those that have expired."""
    until = rows.column("_valid_to")
    kept = as_mask(until.is_null()) | (microseconds(until) >= expired_before)
    return rows if kept.all() else rows.filter(pa.array(kept))


def _apart(operations: Operations) -> tuple[Operations, dict[int, Operations]]:
    """Return the operations under the name of the history, and those of each arrival."""
    touches = operations.touches
    if "arrival" not in touches.schema.names:
        return operations, {}
    marks = as_numbers(pc.fill_null(touches.column("arrival"), -1))
    bare = Operations(touches.drop_columns(["arrival"]), operations.rows)
    return bare.chosen(marks < 0), {int(one): bare.chosen(marks == one) for one in np.unique(marks[marks >= 0])}


def _eras_of(operations: Operations, eras: Sequence[VersionEra]) -> Numbers:
    """Return the number of each operation's era; rows that stand are of the first one."""
    found = np.zeros(operations.count, np.int64)
    lineage, file, offset = (operations.numbers(name) for name in POSITION)
    for era in eras:
        at = era.position
        later = (file > at.file) | ((file == at.file) & (offset > at.position))
        found += (lineage > at.lineage) | ((lineage == at.lineage) & later)
    return found


def _is_of(position: SourcePosition, eras: Sequence[VersionEra], number: int) -> bool:
    return (number == 0 or eras[number - 1].position < position) and (
        number == len(eras) or position <= eras[number].position
    )


def _ended_behind(rows: pa.RecordBatch, time: int) -> pa.RecordBatch:
    """Return ended versions that may give their time to a version which begins at a time."""
    return rows.filter(pa.array(microseconds(rows.column("_valid_to")) > time))


def _standing(rows: pa.RecordBatch, shape: RowShape) -> Operations:
    texts = {place: text_of(rows.column("_invalid"), [name]) for place, name in enumerate(shape.names)}
    told = {place: text for place, text in texts.items() if text.null_count < len(text)}
    return standing(rows, shape, told, hashed=True)


def _came(
    arrivals: Mapping[int, Operations], era: VersionEra, shape: RowShape, *, fold_absent: bool
) -> list[Operations]:
    """Return the rows that came from another name, as operations at the position of the statement."""
    operations = None if era.arrival is None else arrivals.get(era.arrival)
    if operations is None:
        return []
    made = versions_of(operations, shape, truncations=era.truncations, fold_absent=fold_absent).rows
    rows = made.filter(made.column("_valid_to").is_null())
    found = _standing(rows, shape)
    touches, count = found.touches, rows.num_rows
    place = dict(zip(POSITION, (era.position.lineage, era.position.file, era.position.position), strict=True))
    told = {
        name: pa.array(np.full(count, one, np.int64))
        for name, one in {**place, "time": era.time, "row_number": 0}.items()
    }
    told["op"] = pa.array([RENAME] * count, touches.column("op").type)
    for name, values in told.items():
        touches = touches.set_column(touches.schema.get_field_index(name), name, values)
    return [replace(found, touches=touches)]


def _filled(rows: pa.RecordBatch, shape: RowShape, fills: Sequence[ColumnFill], earlier: _Earlier) -> pa.RecordBatch:
    """Return open versions with the values that a statement gave their columns, all at once."""
    if not fills or not rows.num_rows:
        return rows
    cells = {fill.place: _values(rows, shape, fill, earlier) for fill in fills if fill.place is not None}
    texts = [
        (name, cells[place].texts if place in cells else text_of(rows.column("_invalid"), [name]))
        for place, name in enumerate(shape.names)
    ]
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns |= {shape.names[place]: one.values for place, one in cells.items()}
    columns["_invalid"] = invalid_texts(texts, rows.num_rows, rows.schema.field("_invalid").type)
    return pa.RecordBatch.from_arrays([columns[name] for name in rows.schema.names], schema=rows.schema)


def _values(rows: pa.RecordBatch, shape: RowShape, fill: ColumnFill, earlier: _Earlier) -> Cells:
    """Return the values that a column gets in open versions."""
    assert fill.place is not None, "columns that the history does not have are left out"
    kind, name = shape.columns[fill.place].type, None if fill.origin is None else shape.names[fill.origin]
    # Of versions that began since, no event has told the column: it is NULL.
    source = rows if fill.origin is None or fill.left_at is None else earlier.get(fill.left_at)
    stored = None if name is None or source is None else source.column(name)
    told = None if name is None or source is None else text_of(source.column("_invalid"), [name])
    found: Cells | None = None
    for number, (since, path) in enumerate(fill.ways):
        cells = followed(path, stored, told, rows.num_rows, kind, None)
        found = cells if number == 0 or found is None else found.with_others(cells, _begun_at(rows, since))
    assert found is not None, "a column has one way at least"
    found = replace(found, values=held_as(found.values, shape.types[fill.place]))
    if not fill.of_key or stored is None or not found.unknown.any():
        return found
    # Rows of a key that nobody knows are several rows all the same: they keep the values by which they differ.
    before = Cells.of(stored, told)
    if fill.origin != fill.place:
        before = Cells.of(found.values, as_texts(before).values)
    return found.with_others(before, found.unknown)


def _begun_at(rows: pa.RecordBatch, position: SourcePosition) -> Mask:
    """Return which versions began at a position or behind it."""
    begin = rows.column("_valid_from_position")
    lineage, file, offset = places_in(begin)
    later = (file > position.file) | ((file == position.file) & (offset >= position.position))
    return np.asarray((lineage > position.lineage) | ((lineage == position.lineage) & later), np.bool_)
