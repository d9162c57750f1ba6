"""Row images of decoded DML entries as flat arrays: places and kinds of all values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.charsets import Charsets

NULL, NUMBER, BYTES, UNSIGNED, ABSENT = 0, 1, 2, 4, 8
"""Kinds of a value: NULL, text in ``sv``, bytes in ``bv``, unsigned (beside NUMBER), not sent."""

FIELD = NUMBER | BYTES


@dataclass(slots=True)
class Image:
    """The before or the after images of all rows.

    Value ``nothing`` is one more than were sent, empty and NULL. ``starts`` holds the number of each row's first value,
    ``nothing`` for a row without this image; ``sizes`` holds how many values it has. Where ``sv`` and ``bv`` are one object,
    it has two elements for each value: the bytes before the value, and the value.
    """

    starts: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int32]
    present: Bools
    kinds: npt.NDArray[np.uint8]
    sv: pa.Array
    bv: pa.Array
    charsets: Charsets | None
    has_unsigned: bool
    has_absent: bool
    unknown: dict[str, int]

    @property
    def nothing(self) -> int:
        """The number of the value that stands for every value that was not sent."""
        return len(self.kinds) - 1

    def take(self, cells: npt.NDArray[np.int32], usual: int) -> pa.Array:
        """Return the bytes of values from the field of a kind, NUMBER or BYTES."""
        if self.sv is self.bv:
            cells = cells * np.int32(2)
            cells += np.int32(1)
        return (self.sv if usual == NUMBER else self.bv).take(pa.array(cells))

    def take_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep these rows, in this order."""
        self.starts, self.sizes, self.present = self.starts[rows], self.sizes[rows], self.present[rows]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnList:
    """The columns of an event, compared by identity: equal bytes give the same object.

    ``unknown`` names the fields in them that the protocol does not have.
    """

    columns: tuple[ColumnShape, ...]
    positions: Mapping[str, int]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows ``start`` to ``end`` of the images, which belong to one table.

    ``lists`` are the column lists they came with; ``list_numbers`` says which list each row has, None where there is only one.
    """

    table: TableId
    columns: tuple[Column, ...]
    start: int
    end: int
    lists: tuple[ColumnList, ...]
    list_numbers: npt.NDArray[np.int64] | None
