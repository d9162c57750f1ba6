"""The ``properties`` map of entries: every fact from the vendor without a column of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, empty_maps, offsets_of, run_lengths


class Properties:
    """The properties of entries, gathered column by column; each row's map holds them in the order added."""

    def __init__(self, rows: int) -> None:
        self._count = rows
        self._rows: list[npt.NDArray[np.int64]] = []
        self._keys: list[pa.Array] = []
        self._values: list[pa.Array] = []
        self._names: list[str] = []
        self._may_repeat = False

    def add(self, key: str, values: pa.Array, where: Bools) -> None:
        """Add a property of the rows ``where``; ``values`` (any type) has a value per row."""
        rows = np.flatnonzero(where)
        if len(rows):
            self._may_repeat = self._may_repeat or key in self._names
            self._names.append(key)
            taken = values if len(rows) == len(values) else values.take(pa.array(rows))
            self._append(rows, pa.repeat(pa.scalar(key), len(rows)), pc.cast(taken, pa.string()))

    def add_pairs(self, pairs: pa.ListArray) -> None:
        """Add the vendor's own pairs of key and value: lists of structs of two byte strings in UTF-8."""
        counts = np.diff(offsets_of(pairs))
        if counts.any():
            self._may_repeat = True
            keys, values = (pc.cast(pairs.values.field(name), pa.string()) for name in ("key", "value"))
            self._append(np.repeat(np.arange(len(counts)), counts), keys, values)

    def maps(self) -> pa.MapArray:
        """Return one map per row.

        Of a key that came twice the later value stands: readers refuse a map with a repeated key.
        """
        if not self._rows:
            return empty_maps(self._count)
        rows = np.concatenate(self._rows)
        keys, values = pa.concat_arrays(self._keys), pa.concat_arrays(self._values)
        if len(self._rows) > 1 or self._may_repeat:
            order = _last_of_each(rows, keys) if self._may_repeat else np.argsort(rows, kind="stable")
            rows, keys, values = rows[order], keys.take(pa.array(order)), values.take(pa.array(order))
        offsets = pa.array(run_lengths(np.bincount(rows, minlength=self._count)))
        return pa.MapArray.from_arrays(offsets, keys, values)

    def _append(self, rows: npt.NDArray[np.int64], keys: pa.Array, values: pa.Array) -> None:
        self._rows.append(rows)
        self._keys.append(keys)
        self._values.append(values)


def _last_of_each(rows: npt.NDArray[np.int64], keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers of the properties by row, each key of a row only once: its last."""
    order = np.argsort(rows, kind="stable")
    codes = keys.dictionary_encode()
    pairs = rows * len(codes.dictionary) + codes.indices.to_numpy()
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(pairs):
        return order
    kept = np.zeros(len(pairs), np.bool_)
    kept[len(pairs) - 1 - last] = True
    return order[kept[order]]
