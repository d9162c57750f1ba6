"""The values of all entries of a call, one behind the other, and where images begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from dts_assets.model.problems import Reason
from dts_assets.wire.flat_json.messages import CellsSent, Described, Refused

NONE = -1
"""The place of an image that an entry has not."""

_UNDESCRIBED = "a row has a column that the message does not describe"

_MOST_TEXTS = 1 << 14
"""The most texts that are kept as objects: a million of them would take a hundred megabytes."""

_NOWHERE = np.zeros(0, np.int64)


@dataclass(slots=True)
class ValueList:
    """The values of all entries, added entry by entry.

    ``texts`` are values that are no Arrow yet, and ``count`` is the number of all others. ``absent`` has rows that
    lack values: the number of the row's first value, and the places of those that were not sent. Rows that lack the same share
    the places: a message may have thousands of short rows and columns.
    """

    texts: list[str | bytes | None] = field(default_factory=list)
    count: int = 0
    parts: list[pa.Array] = field(default_factory=list)
    absent: list[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=list)
    _lack: tuple[tuple[str, ...], tuple[str, ...], npt.NDArray[np.int64]] = ((), (), _NOWHERE)

    def begin(self) -> int:
        """Begin an entry; return the number of its first value."""
        if len(self.texts) > _MOST_TEXTS:
            self.settle()
        return self.count + len(self.texts)

    def add_whole(self, rows: Sequence[Any] | None) -> int:
        """Add rows of an entry that have a field for each column.

        It returns the number of the first value. None stands for an entry that has no such image.
        """
        if rows is None:
            return NONE
        texts = self.texts
        start = self.count + len(texts)
        for row in rows:
            texts += astuple(row)
        return start

    def add_entries(self, lists: Iterable[Sequence[Any] | None]) -> int:
        """Add rows of many entries, of which each has a field for each column.

        It returns the number of the first value.
        """
        start, texts = self.begin(), self.texts
        for row in chain.from_iterable(filter(None, lists)):
            texts += astuple(row)
        return start

    def add(self, rows: Sequence[CellsSent] | None, columns: Described) -> int:
        """Add the rows of an entry, None where it has no such image.

        It returns the number of the first value.

        Raises:
            Refused: a row has a column that the message does not describe.
        """
        if rows is None:
            return NONE
        start = self.count + len(self.texts)
        names, add = columns.names, self.texts.extend
        for row in rows:
            keys = tuple(row)
            if keys == names:
                add(row.values())
                continue
            if not row.keys() <= columns.list.positions.keys():
                raise Refused(Reason.RAGGED_ROW, _UNDESCRIBED)
            if len(keys) < len(names):
                self.absent.append((self.count + len(self.texts), self._lacking(keys, names)))
            add(map(row.get, names))
        return start

    def _lacking(self, keys: tuple[str, ...], names: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Return the places of the names that are not among the keys of a row."""
        had, of, places = self._lack
        if of is not names or had != keys:
            there = set(keys)
            places = np.asarray([place for place, name in enumerate(names) if name not in there], np.int64)
            self._lack = keys, names, places
        return places

    def add_changed(self, rows: Sequence[Any], changed: Sequence[CellsSent], columns: Described) -> int:
        """Add what whole rows were before the values of their changed columns became the present ones.

        It returns the number of the first value.

        Raises:
            Refused: a changed column is none that the message describes.
        """
        texts, positions = self.texts, columns.list.positions
        begin = self.count + len(texts)
        for row, cells in zip(rows, changed, strict=True):
            start = len(texts)
            texts += astuple(row)
            for name, text in cells.items():
                place = positions.get(name)
                if place is None:
                    raise Refused(Reason.RAGGED_ROW, _UNDESCRIBED)
                texts[start + place] = text
        return begin

    def cut(self, start: int) -> None:
        """Remove the values from a number on, with which an entry began."""
        del self.texts[start - self.count :]
        self.absent = [one for one in self.absent if one[0] < start]

    def settle(self) -> None:
        """Turn the texts into Arrow and let go of them.

        So memory does not grow with the call.
        """
        self.parts.append(pa.array(self.texts, pa.binary()))
        self.count += len(self.texts)
        self.texts.clear()

    def all(self) -> pa.Array:
        """Return all values and let go of them."""
        self.settle()
        parts, self.parts = self.parts, []
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


@dataclass(frozen=True, slots=True)
class SentCells:
    """The values of one image of all entries.

    ``starts`` has the number of each entry's first value, :data:`NONE` where it has no such image, and ``sizes`` how many it has
    there. ``operations`` are those of entries.
    """

    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int64]

    def among(self, cells: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return those of some values, in ascending order, that are of this image, and the entry of each."""
        filled = np.flatnonzero((self.starts != NONE) & (self.sizes > 0))
        filled = filled[np.argsort(self.starts[filled])]
        if not len(filled):
            return cells[:0], filled
        owners = filled[np.maximum(np.searchsorted(self.starts[filled], cells, side="right") - 1, 0)]
        inside = (cells >= self.starts[owners]) & (cells < self.starts[owners] + self.sizes[owners])
        return cells[inside], owners[inside]
