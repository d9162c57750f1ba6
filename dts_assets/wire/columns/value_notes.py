"""What has to be said beside a table's typed rows: values that were not sent, and the text of those that did not fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column
from dts_assets.wire.columns.buffers import run_lengths
from dts_assets.wire.columns.charsets import readable


class Marks:
    """Marks of one table, gathered type by type and turned into one column each at the end."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._absent: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        self._invalid: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pa.Array]] = []

    def absent(self, side: int, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int32]) -> None:
        """Values of ``rows`` (of the table) and ``columns`` were not sent. ``side`` is 0 for before, 1 for after."""
        self._absent.append((rows, side * len(self._columns) + columns.astype(np.int64)))

    def invalid(self, side: int, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], values: pa.Array) -> None:
        """Values did not fit; ``values`` are their bytes."""
        self._invalid.append((rows, side * len(self._columns) + columns.astype(np.int64), _texts(values)))

    def absent_lists(self, count: int) -> pa.ListArray | None:
        """A list of ``before.<column>`` and ``after.<column>`` per row, in the order of the columns; None: all are empty."""
        if not self._absent:
            return None
        rows = np.concatenate([part[0] for part in self._absent])
        places = np.concatenate([part[1] for part in self._absent])
        order = np.lexsort((places, rows))
        return pa.ListArray.from_arrays(_offsets(rows, count), self._names().take(pa.array(places[order])))

    def invalid_maps(self, count: int) -> pa.MapArray | None:
        """A map of ``before.<column>`` and ``after.<column>`` to the original text per row; None: all are empty."""
        if not self._invalid:
            return None
        rows = np.concatenate([part[0] for part in self._invalid])
        places = np.concatenate([part[1] for part in self._invalid])
        texts = pa.concat_arrays([part[2] for part in self._invalid])
        order = np.lexsort((places, rows))
        keys = self._names().take(pa.array(places[order]))
        return pa.MapArray.from_arrays(_offsets(rows, count), keys, texts.take(pa.array(order)))

    def _names(self) -> pa.Array:
        return pa.array(
            [f"{side}.{column.name}" for side in ("before", "after") for column in self._columns], pa.string()
        )


def _offsets(rows: npt.NDArray[np.int64], count: int) -> pa.Array:
    return pa.array(run_lengths(np.bincount(rows, minlength=count)))


def _texts(values: pa.Array) -> pa.Array:
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return pa.array([readable(value) for value in values.to_pylist()], pa.string())
