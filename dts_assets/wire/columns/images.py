"""Images of rows, as every format gives them to the pivot.

Values stand one after the other, and each row says where its own begin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import Bools, offsets_of
from dts_assets.wire.columns.texts import Charsets

NULL, NUMBER, BYTES, UNSIGNED, ABSENT, UNFIT = 0, 1, 2, 4, 8, 16
"""Kinds of a value: NULL, text in ``sv``, bytes in ``bv``, unsigned (beside NUMBER), not sent.

The last one is no value of its column, whatever its bytes.
"""

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
    has_unfit: bool = False

    @property
    def bytes_of_row(self) -> int:
        """The bytes of a row's values on the average."""
        offsets = [offsets_of(one) for one in (self.sv, self.bv)[: 1 if self.has_one_field else 2]]
        return sum(int(one[-1]) - int(one[0]) for one in offsets) // max(1, int(np.count_nonzero(self.present)))

    @property
    def has_one_field(self) -> bool:
        """True where all values stand in one array, whatever their field."""
        return self.sv is self.bv

    @property
    def nothing(self) -> int:
        """The number of the value that stands for every value that was not sent."""
        return len(self.kinds) - 1

    def take(self, cells: npt.NDArray[np.int32], usual: int) -> pa.Array:
        """Return the bytes of values from the field of a kind, NUMBER or BYTES."""
        if self.has_one_field:
            cells = cells * np.int32(2)
            cells += np.int32(1)
        return (self.sv if usual == NUMBER else self.bv).take(pa.array(cells))

    def take_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep these rows, in this order."""
        self.starts, self.sizes, self.present = self.starts[rows], self.sizes[rows], self.present[rows]
