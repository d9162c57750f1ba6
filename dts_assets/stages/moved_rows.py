"""Rows that moved to other keys by changes that lack columns: counted in changelogs, and their moves followed.

Such moves are rare, so all of a table's are followed at once: as pairs of numbers, in numpy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import offsets_of

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


def count_partial_moves(rows: pa.RecordBatch, keys: Iterable[str]) -> int:
    """Return how many changelog rows move a row to another key and lack columns of its new image.

    ``keys`` are the columns that may tell rows apart. Never too few: a key that is NULL in both images counts as moved, because
    its texts may differ.
    """
    bounds = offsets_of(rows["absent"])
    if bounds[-1] == bounds[0]:
        return 0
    names = rows["absent"].flatten()
    owners = np.repeat(np.arange(rows.num_rows), np.diff(bounds))
    lacking = _owned(owners, pc.starts_with(names, "after."), rows.num_rows)
    updates = _mask(pc.equal(rows["op"], "update")) & _mask(rows["before"].is_valid())
    some = np.flatnonzero(lacking & updates)
    moved = np.zeros(len(some), np.bool_)
    for name in keys if len(some) else ():
        old, new = (_field(rows[image], name).take(pa.array(some)) for image in ("before", "after"))
        either = pa.array([f"before.{name}", f"after.{name}"])  # just decoded: under the present name
        untold = _owned(owners, pc.is_in(names, value_set=either), rows.num_rows)[some]
        moved |= ~_mask(pc.fill_null(pc.equal(old, new), False)) & ~untold
    return int(np.count_nonzero(moved))


def moved_keys(rows: pa.RecordBatch, updates: _Mask, keys: Iterable[str]) -> _Mask:
    """Return which of some ``updates`` give one of the columns ``keys`` another value.

    A column that an image does not tell is not changed, or the format tells it in both.
    """
    before, after, bounds = rows["before"], rows["after"], offsets_of(rows["absent"])
    lacks = bool(bounds[-1] > bounds[0])
    names = rows["absent"].flatten() if lacks else None
    owners = np.repeat(np.arange(rows.num_rows), np.diff(bounds)) if lacks else None
    moved = np.zeros(rows.num_rows, np.bool_)
    for place in (before.type.get_field_index(name) for name in keys):
        if place < 0:
            continue
        equal = pc.equal(before.field(place), after.field(place))
        different = ~_mask(pc.fill_null(equal, False) if equal.null_count else equal)
        if owners is not None and different.any():
            name = before.type.field(place).name
            either = pa.array([f"before.{name}", f"after.{name}"])
            different &= ~_owned(owners, pc.is_in(names, value_set=either), rows.num_rows)
        moved |= different
    moved &= updates
    return moved & _mask(before.is_valid()) if before.null_count and moved.any() else moved


def changed_values(rows: pa.RecordBatch, updates: _Mask, columns: Iterable[str]) -> _Mask:
    """Return which of some ``updates`` give one of the columns another value, or may do so.

    Images that lack columns have a new value where the old one is not told.
    """
    owners = np.repeat(np.arange(rows.num_rows), np.diff(offsets_of(rows["absent"])))
    names, found = rows["absent"].flatten(), np.zeros(rows.num_rows, np.bool_)
    for name in columns:
        if rows["before"].type.get_field_index(name) < 0:
            continue
        old, new = (_field(rows[image], name) for image in ("before", "after"))
        equal = _mask(pc.fill_null(pc.equal(old, new), False)) | (_mask(old.is_null()) & _mask(new.is_null()))
        before, after = (
            _owned(owners, pc.equal(names, f"{image}.{name}"), rows.num_rows) for image in ("before", "after")
        )
        found |= ~after & (before | ~equal)
    return found & updates


def connected(pairs: pa.Table) -> pa.Table:
    """Return each ``member`` of some pairs with a number that all have which pairs connect: ``linked``."""
    members, codes = np.unique(
        np.concatenate([pairs[name].to_numpy() for name in ("one", "other")]), return_inverse=True
    )
    one, other = codes.reshape(2, -1)
    groups = np.arange(len(members))
    while True:
        least = np.minimum(groups[one], groups[other])
        now = groups.copy()
        # The group of a member joins that of the least member beside it, with all its other members.
        for side in (groups[one], groups[other]):
            np.minimum.at(now, side, least)
        while not np.array_equal(now, now[now]):
            now = now[now]
        if np.array_equal(now, groups):
            return pa.table({"member": pa.array(members, pa.int64()), "linked": pa.array(groups, pa.int64())})
        groups = now


def _owned(owners: _Numbers, chosen: pa.Array, count: int) -> _Mask:
    found = np.zeros(count, np.bool_)
    found[owners[_mask(chosen)]] = True
    return found


def _field(struct: pa.StructArray, name: str) -> pa.Array:
    return pc.struct_field(struct, [struct.type.get_field_index(name)])


def _mask(array: pa.Array) -> _Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
