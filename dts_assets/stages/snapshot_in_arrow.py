"""Changes applied to current rows in Arrow, for the few changes of an open window.

This stage is the twin of ``stages/snapshot_in_spark.py``.

Spark plans, compiles and runs several jobs to merge into one table: with twenty tables and 500 changes each that took 26 to 50 s
and 45 to 70 s of processor time, whatever had changed. Here the last operation on every key is found by sorting, and the rows
that it replaces are found by looking its keys up in the files.

Which operation on a key is the last is told in the same way: by source position, then by row number within the piece of one
event, and between pieces of one event taking wins. Absent columns and truncations are not for this stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.wire.columns.buffers import offsets_of

CHANGE_COLUMNS = (
    "op", "before", "after", "invalid", "event_time", "source_position", "row_number", "kafka_partition", "kafka_offset",
    "window_start",
)  # fmt: skip
"""The columns of a changelog that this stage needs."""

SHOWN = {"_event_time": "event_time", "_kafka_partition": "kafka_partition", "_kafka_offset": "kafka_offset"}
"""The columns that a snapshot shows of a row's last change, and their names in a changelog."""

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


class Keys:
    """Distinct keys, of one or more columns, and where they are found again. Nulls are found nowhere."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Take the keys in ``columns``, which hold no null; ``codes`` has the number of each row's key."""
        self._dictionaries: list[pa.Array] = []
        self._steps: list[_Numbers] = []
        self.codes: _Numbers = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            encoded = column.dictionary_encode()
            self._dictionaries.append(encoded.dictionary)
            combined = self.codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
            distinct, codes = np.unique(combined, return_inverse=True)
            self._steps.append(distinct)
            self.codes = codes.astype(np.int64)

    def among(self, columns: Sequence[pa.Array]) -> _Mask:
        """Tell which rows of other columns, of equal types and order, have one of these keys."""
        count = len(columns[0])
        codes, found = np.zeros(count, np.int64), np.ones(count, np.bool_)
        for column, dictionary, distinct in zip(columns, self._dictionaries, self._steps, strict=True):
            if not len(distinct):
                return np.zeros(count, np.bool_)
            at = pc.fill_null(pc.index_in(column, value_set=dictionary), -1).to_numpy(zero_copy_only=False)
            combined = codes * len(dictionary) + at
            codes = np.minimum(np.searchsorted(distinct, combined), len(distinct) - 1)
            found &= (at >= 0) & (distinct[codes] == combined)
        return found


@dataclass(frozen=True, slots=True)
class Taken:
    """The effect of changes on their keys: ``keys`` are left, and ``rows`` live afterwards."""

    keys: Keys
    rows: pa.RecordBatch


def take_changes(
    changes: Sequence[pa.RecordBatch],
    columns: Sequence[Column],
    schema: pa.Schema,
    *,
    names: Sequence[str],
    before: Frontier,
    after: Frontier,
) -> Taken | None:
    """Apply the changes that ``after`` holds and ``before`` does not; None where a key has a null.

    ``changes`` are changelog rows (:data:`CHANGE_COLUMNS`) without absent columns; ``schema`` is the snapshot's, whose names of
    ``columns`` are ``names``.
    """
    kinds = [schema.field(name).type for name in names]
    images = {column: pa.field(column.name, kind) for column, kind in zip(columns, kinds, strict=True)}
    fresh = [_held(batch, after) & ~_held(batch, before) & ~_is(batch, "truncate") for batch in changes]
    kept = [_with_images(batch, images).filter(pa.array(mask)) for batch, mask in zip(changes, fresh, strict=True)]
    rows = _joined(kept, pa.struct(images.values()))
    deletes, updates = _is(rows, "delete"), _is(rows, "update")
    new, old = rows.column("after"), rows.column("before")
    taking = np.flatnonzero(~deletes)
    leaving = np.flatnonzero(deletes | (updates & _mask(old.is_valid())))
    at = [number for number, column in enumerate(columns) if column.is_key]
    key_columns = [
        pa.concat_arrays([_of(new, number).take(pa.array(taking)), _of(old, number).take(pa.array(leaving))])
        for number in at
    ]
    if any(column.null_count for column in key_columns):
        return None
    keys = Keys(key_columns)
    takes = np.concatenate([np.ones(len(taking), np.bool_), np.zeros(len(leaving), np.bool_)])
    source = np.concatenate([taking, leaving])
    last = _last(rows, keys.codes, source, takes)
    alive = pa.array(source[last[takes[last]]])
    values = [_of(new, number).take(alive) for number in range(len(columns))]
    shown = [rows.column(name).take(alive).cast(schema.field(target).type) for target, name in SHOWN.items()]
    invalid = _invalid(rows.column("invalid").take(alive), columns, names)
    made = pa.RecordBatch.from_arrays([*values, *shown, invalid], names=[*names, *SHOWN, "_invalid"])
    return Taken(keys, made)


def _invalid(texts: pa.MapArray, columns: Sequence[Column], names: Sequence[str]) -> pa.MapArray:
    """Return the texts of new images by the snapshot's names; null where a row has none."""
    wanted = {f"after.{lake}": name for column, name in zip(columns, names, strict=True) for lake in column.lake_names}
    at = pc.index_in(texts.keys, value_set=pa.array(wanted, pa.string()))
    mine = at.is_valid()
    rows = np.repeat(np.arange(len(texts)), np.diff(offsets_of(texts)) if len(texts) else 0)
    counts = np.bincount(rows[_mask(mine)], minlength=len(texts))
    offsets = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    found = pa.array(wanted.values(), pa.string()).take(at.filter(mine))
    return pa.MapArray.from_arrays(offsets, found, texts.items.filter(mine), mask=pa.array(counts == 0))


def _last(rows: pa.RecordBatch, codes: _Numbers, source: _Numbers, takes: _Mask) -> _Numbers:
    """Return the place, among the operations, of the last operation on every key."""
    beside = (_numbers(rows.column(name)) for name in ("kafka_partition", "row_number"))
    lineage, file, offset, piece, number = (numbers[source] for numbers in (*_places(rows), *beside))
    # An update that keeps its key leaves and takes it in one row; taking comes later there, too.
    order = np.lexsort((takes, number, piece, offset, file, lineage, codes))
    order = order[_ends(order, codes, lineage, file, offset, piece)]
    order = order[np.lexsort((takes[order], offset[order], file[order], lineage[order], codes[order]))]
    return order[_ends(order, codes)]


def _ends(order: _Numbers, *columns: npt.NDArray[Any]) -> _Mask:
    """Return the places, in some order, of the last row of each run of equal values."""
    differs = np.zeros(max(0, len(order) - 1), np.bool_)
    for column in columns:
        ordered = column[order]
        differs |= ordered[1:] != ordered[:-1]
    return np.append(differs, np.ones(min(1, len(order)), np.bool_))


def _held(changes: pa.RecordBatch, frontier: Frontier) -> _Mask:
    """Apply ``Frontier.holds`` to many rows."""
    start, held = changes.column("window_start"), np.zeros(changes.num_rows, np.bool_)
    if frontier.window is None:
        return held
    if (cut := frontier.cut) is not None:
        lineage, file, offset = _places(changes)
        earlier = (file < cut.file) | ((file == cut.file) & (offset <= cut.position))
        held = (lineage < cut.lineage) | ((lineage == cut.lineage) & earlier)
    if frontier.whole_until is not None:
        held |= _mask(pc.less_equal(start, pa.scalar(frontier.whole_until, start.type)))
    return held & _mask(pc.less_equal(start, pa.scalar(frontier.window, start.type)))


def _with_images(changes: pa.RecordBatch, images: Mapping[Column, pa.Field]) -> pa.RecordBatch:
    """Give both images exactly these fields.

    A file may be older than a column, or than its type or its spelling.
    """
    made = {name: changes.column(name) for name in CHANGE_COLUMNS}
    for name in ("before", "after"):
        image = made[name]
        at = {field.name: number for number, field in enumerate(image.type)}
        places = [next((at[one] for one in column.lake_names if one in at), None) for column in images]
        fields = [
            pa.nulls(len(image), field.type) if place is None else _of(image, place).cast(field.type)
            for place, field in zip(places, images.values(), strict=True)
        ]
        made[name] = pa.StructArray.from_arrays(fields, fields=list(images.values()), mask=image.is_null())
    return pa.RecordBatch.from_pydict(made)


def _joined(batches: Sequence[pa.RecordBatch], images: pa.StructType) -> pa.RecordBatch:
    """Return all rows in one batch."""
    if not batches:
        kinds = {**_EMPTY, "before": images, "after": images}
        return pa.RecordBatch.from_pydict({name: pa.array([], kinds[name]) for name in CHANGE_COLUMNS})
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


_EMPTY = {
    "op": pa.string(),
    "invalid": pa.map_(pa.string(), pa.string()),
    "event_time": pa.timestamp("us", "UTC"),
    "source_position": pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())]),
    "row_number": pa.int32(),
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    "window_start": pa.timestamp("us", "UTC"),
}


def _of(struct: pa.StructArray, number: int) -> pa.Array:
    """Return a field of a struct by number, null where the struct is null: names may hold dots."""
    return pc.struct_field(struct, [number])


def _places(rows: pa.RecordBatch) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return lineage, file and position of changes."""
    position = rows.column("source_position")
    lineage, file, offset = (_numbers(pc.struct_field(position, name)) for name in ("lineage", "file", "position"))
    return lineage, file, offset


def _is(rows: pa.RecordBatch, operation: str) -> _Mask:
    return _mask(pc.equal(rows.column("op"), operation))


def _mask(array: pa.Array) -> _Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _numbers(array: pa.Array) -> _Numbers:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
