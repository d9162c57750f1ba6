"""The ``properties`` map of entries: everything that the vendor sends and that has no column of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, empty_maps, offsets_of, run_lengths


class Properties:
    """Gathers properties column by column; the map of each row holds them in the order they were added."""

    def __init__(self, rows: int) -> None:
        self._count = rows
        self._rows: list[npt.NDArray[np.int64]] = []
        self._keys: list[pa.Array] = []
        self._values: list[pa.Array] = []

    def add(self, key: str, values: pa.Array, where: Bools) -> None:
        """A property of the rows ``where``; ``values`` (any type) has a value per row."""
        rows = np.flatnonzero(where)
        if len(rows):
            taken = values if len(rows) == len(values) else values.take(pa.array(rows))
            self._append(rows, pa.repeat(pa.scalar(key), len(rows)), pc.cast(taken, pa.string()))

    def add_pairs(self, pairs: pa.ListArray) -> None:
        """The vendor's own key and value pairs: a list of structs of two byte strings, checked to be UTF-8."""
        counts = np.diff(offsets_of(pairs))
        if counts.any():
            keys, values = (pc.cast(pairs.values.field(name), pa.string()) for name in ("key", "value"))
            self._append(np.repeat(np.arange(len(counts)), counts), keys, values)

    def maps(self) -> pa.MapArray:
        """One map per row. Of a key that came twice the later value stands: readers refuse a map with a repeated key."""
        if not self._rows:
            return empty_maps(self._count)
        rows = np.concatenate(self._rows)
        keys, values = pa.concat_arrays(self._keys), pa.concat_arrays(self._values)
        if len(self._rows) > 1 or np.any(np.diff(rows) == 0):
            order = _last_of_each(rows, keys)
            rows, keys, values = rows[order], keys.take(pa.array(order)), values.take(pa.array(order))
        offsets = pa.array(run_lengths(np.bincount(rows, minlength=self._count)))
        return pa.MapArray.from_arrays(offsets, keys, values)

    def _append(self, rows: npt.NDArray[np.int64], keys: pa.Array, values: pa.Array) -> None:
        self._rows.append(rows)
        self._keys.append(keys)
        self._values.append(values)


def _last_of_each(rows: npt.NDArray[np.int64], keys: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers of the properties by row, without those that a later one of the same row and key replaces."""
    order = np.argsort(rows, kind="stable")
    codes = keys.dictionary_encode()
    pairs = rows * len(codes.dictionary) + codes.indices.to_numpy()
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(pairs):
        return order
    kept = np.zeros(len(pairs), np.bool_)
    kept[len(pairs) - 1 - last] = True
    return order[kept[order]]
