"""The row images of decoded DML entries as flat arrays: where each row's values begin, and what kind of value each one is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.buffers import Bools, numbers_of, offsets_of, with_empty_last
from dts_assets.wire.charsets import Charsets, charsets_of

NULL, NUMBER, BYTES, UNSIGNED, ABSENT = 0, 1, 2, 4, 8
"""Kinds of a value: NULL; its text is in ``sv``; its bytes are in ``bv``; beside NUMBER: the type is unsigned; not sent."""

FIELD = NUMBER | BYTES
_UNKNOWN = 16
_LAST_KNOWN = 14

# By DataType: NIL, INT8 to INT64, UINT8 to UINT64, FLOAT32, FLOAT64, BYTES, DECIMAL, STRING, NA, anything newer.
_KINDS = np.array(
    [NULL, *[NUMBER] * 4, *[NUMBER | UNSIGNED] * 4, NUMBER, NUMBER, BYTES, NUMBER, BYTES, ABSENT, _UNKNOWN], np.uint8
)


@dataclass(slots=True)
class Image:
    """The before or the after images of all rows. Value ``nothing`` is one more than were sent, empty and NULL.

    ``starts`` holds the number of each row's first value, ``nothing`` for a row without this image; ``sizes`` how many it has.
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

    def take_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep these rows, in this order."""
        self.starts, self.sizes, self.present = self.starts[rows], self.sizes[rows], self.present[rows]


def image_of(lists: pa.ListArray) -> Image:
    """The images from a list of Data structs per row."""
    values = lists.values
    offsets = offsets_of(lists)
    sizes = np.diff(offsets)
    present = sizes > 0
    types, sv, bv = numbers_of(values.field("dataType")), values.field("sv"), values.field("bv")
    kinds, unknown = _kinds(types, bv)
    starts = offsets[:-1] if present.all() else np.where(present, offsets[:-1], np.int32(len(types)))
    charsets = charsets_of(values.field("charset"))
    if charsets is not None:
        for code, count in enumerate(np.bincount(charsets.codes[:-1], minlength=len(charsets.names)).tolist()):
            name = charsets.unknown_name(code)
            if count and name is not None:
                unknown[f"charset {name}"] = count
    combined = int(np.bitwise_or.reduce(kinds)) if len(kinds) else 0
    return Image(
        starts, sizes, present, np.append(kinds, np.uint8(NULL)), with_empty_last(sv), with_empty_last(bv), charsets,
        bool(combined & UNSIGNED), bool(combined & ABSENT), unknown,
    )  # fmt: skip


def _kinds(types: npt.NDArray[np.int32], bv: pa.Array) -> tuple[npt.NDArray[np.uint8], dict[str, int]]:
    """The kinds of values, and a count per data type that is not known. A value of such a type is wherever it has bytes."""
    known = types.view(np.uint32)
    newest = int(known.max()) if len(known) else 0
    if newest <= _LAST_KNOWN:
        return _KINDS.take(types), {}
    kinds = _KINDS.take(np.minimum(known, _LAST_KNOWN + 1))
    rows = np.flatnonzero(kinds == _UNKNOWN)
    kinds[rows] = np.where(np.diff(offsets_of(bv))[rows] > 0, BYTES, NUMBER)
    names, counts = np.unique(types[rows], return_counts=True)
    return kinds, {f"data type {name}": count for name, count in zip(names.tolist(), counts.tolist(), strict=True)}
