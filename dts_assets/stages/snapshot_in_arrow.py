"""Changes become current rows: the step behind the snapshot tables, in Arrow.

There is one engine for few and many changes, new and replaced windows, truncations and changes that lack columns. Spark only
carries its tasks: it plans, compiles and runs several jobs to merge into one table, which took 22 CPU seconds for 1.5 M changes
where this takes 2 to 4.

Operations on keys (``stages/key_operations.py``) are folded to the rows that live (``stages/row_folds.py``). Rows of the snapshot
with a key that is touched go. Where changes lack columns these rows are operations, too, older than any change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.change_columns import NO_TIME, RowShape
from dts_assets.stages.key_operations import Operations
from dts_assets.stages.keys import BoundsOf, Hashes, Keys, Mask, among_sorted, as_mask, hash_keys
from dts_assets.stages.moved_rows import connected
from dts_assets.stages.row_patterns import NO_PATTERNS, RowPatterns, partial_rows, patterns_of_old_rows
from dts_assets.stages.sent_columns import marks_of


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys that changes touch: ``keys``, exactly, and the sorted hashes ``again`` of keys that are computed again.

    Two keys may have one hash. Both are computed again then, which costs time and changes nothing. ``since`` is the least time
    of the changes in microseconds, where they are for a history: a version that ended later gives its time to the next one.
    ``all`` stands for all keys. In a bag ``patterns`` stand for the rows that changes may mean which send a part of them.
    """

    keys: Keys | None
    again: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    since: int = NO_TIME
    all: bool = False
    patterns: RowPatterns = NO_PATTERNS

    def reach(self, bounds_of: BoundsOf) -> bool:
        """Tell whether changes may touch a row within bounds."""
        if self.all or len(self.again):
            return True
        return (self.keys is not None and self.keys.reach(bounds_of)) or self.patterns.reach(bounds_of)

    def rows(self, keys: Sequence[pa.Array]) -> Mask:
        """Tell which rows have a key that changes touch."""
        return np.full(len(keys[0]), fill_value=True) if self.all else self.named(keys)

    def named(self, keys: Sequence[pa.Array]) -> Mask:
        """Tell which rows have a key that a change names, or that is computed again."""
        found = self.rows_again(keys)
        found = found if self.keys is None else self.keys.among(keys) | found
        return self.patterns.fits(keys) | found if self.patterns.patterns else found

    def rows_again(self, keys: Sequence[pa.Array]) -> Mask:
        """Tell which rows have a key that is computed again."""
        if not len(self.again):
            return np.zeros(len(keys[0]), np.bool_)
        return among_sorted(hash_keys(keys), self.again)


def keys_of_rows(rows: pa.RecordBatch, shape: RowShape) -> list[pa.Array]:
    """Return the columns that tell the keys of a snapshot's rows apart."""
    names = [shape.names[place] for place in shape.keys]
    values = [rows.column(name) for name in names]
    if not shape.unfit:
        return values
    return [*values, *(text_of(rows.column("_invalid"), [name]) for name in names)]


def text_of(invalid: pa.MapArray, names: Sequence[str]) -> pa.Array:
    """Return the texts that rows have under one of some names, the first of them that has one."""
    texts = [pc.map_lookup(invalid, name, "first") for name in names]
    return texts[0] if len(texts) == 1 else pc.coalesce(*texts)


def invalid_texts(columns: Sequence[tuple[str, pa.Array]], count: int, kind: pa.DataType) -> pa.MapArray:
    """Return the texts of values that do not fit by column name, the inverse of :func:`text_of`.

    They are null where a row has none. ``columns`` have their names and, for each of so many rows, the text or null. ``kind`` is
    the type of the maps.
    """
    rows = [np.flatnonzero(as_mask(texts.is_valid())) for _, texts in columns]
    names = [np.full(len(at), number) for number, at in enumerate(rows)]
    if not sum(map(len, rows)):
        return pa.nulls(count, kind)
    whole = np.concatenate(rows)
    order = np.argsort(whole, kind="stable")
    counts = np.bincount(whole, minlength=count)
    texts = pa.concat_arrays([column.drop_null() for _, column in columns]).take(pa.array(order))
    named = pa.array([name for name, _ in columns]).take(pa.array(np.concatenate(names)[order]))
    offsets = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, named, texts, mask=pa.array(counts == 0)).cast(kind)


def linked_keys(pairs: Iterable[tuple[Hashes, Hashes]]) -> Mapping[str, Hashes]:
    """Return the keys that moves link, and a number that all keys of a group have.

    The keys are sorted hashes (``member``), the numbers stand beside them (``group``). Each pair has the keys that rows left, and
    the keys that they took.
    """
    both = list(pairs)
    none = np.zeros(0, np.uint64)
    left, taken = (np.concatenate([none, *(pair[side] for pair in both)]) for side in (0, 1))
    table = {name: pa.array(hashes.view(np.int64)) for name, hashes in (("one", left), ("other", taken))}
    found = connected(pa.table(table))
    member = found["member"].to_numpy().view(np.uint64)
    order = np.argsort(member)
    return {"member": member[order], "group": found["linked"].to_numpy().astype(np.uint64)[order]}


def with_linked(hashes: Hashes, linked: Mapping[str, Hashes]) -> Hashes:
    """Return sorted hashes of keys, and of all keys that moves link to them."""
    groups = np.unique(linked["group"][among_sorted(linked["member"], np.unique(hashes))])
    return np.unique(np.concatenate([hashes, linked["member"][np.isin(linked["group"], groups)]]))


def touched_keys(parts: Sequence[Operations], again: Hashes | None = None) -> Touched:
    """Return the keys that operations touch. Rows that an operation sends in part are known by patterns alone."""
    columns = [pa.concat_arrays(list(some)) for some in zip(*map(_whole_keys, parts), strict=True)]
    times = [int(part.numbers("time").min()) for part in parts if part.count and "time" in part.touches.schema.names]
    return Touched(
        Keys(columns) if columns else None,
        np.zeros(0, np.uint64) if again is None else again,
        min(times, default=NO_TIME),
        patterns=RowPatterns.joined(patterns_of_old_rows(part.touches, part.keys, ~part.takes) for part in parts),
    )


def _whole_keys(part: Operations) -> list[pa.Array]:
    """Return the keys of the operations that send them whole."""
    marks = marks_of(part.touches)
    return part.keys if marks is None else [column.filter(pa.array(~partial_rows(marks))) for column in part.keys]
