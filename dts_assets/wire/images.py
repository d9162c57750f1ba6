"""The row images of decoded DML entries as flat arrays: where each row's values begin, and what kind of value each one is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.buffers import Bools, numbers_of, offsets_of, with_empty_last
from dts_assets.wire.charsets import Charsets, charsets_of
from dts_assets.wire.plain_values import plain_values

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
    Where ``sv`` and ``bv`` are one, it has two elements for each value: what stands before the value, and the value.
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
        """The bytes of values from the field where a kind, NUMBER or BYTES, stands."""
        if self.sv is self.bv:
            cells = cells * np.int32(2)
            cells += np.int32(1)
        return (self.sv if usual == NUMBER else self.bv).take(pa.array(cells))

    def take_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep these rows, in this order."""
        self.starts, self.sizes, self.present = self.starts[rows], self.sizes[rows], self.present[rows]


def plain_image(lists: pa.ListArray) -> Image | None:
    """The images from a list of ``Data`` messages per row, if every one is of the usual layout."""
    found = plain_values(lists.values)
    if found is None:
        return None
    charsets = None if found.names is None else charsets_of(found.names)
    return _image(lists, _KINDS.take(found.types), (found.values, found.values), charsets, {})


def image_of(lists: pa.ListArray) -> Image:
    """The images from a list of Data structs per row."""
    values = lists.values
    types, sv, bv = numbers_of(values.field("dataType")), values.field("sv"), values.field("bv")
    kinds, unknown = _kinds(types, bv)
    charsets = charsets_of(values.field("charset"))
    fields = with_empty_last(sv), with_empty_last(bv)
    return _image(lists, np.append(kinds, np.uint8(NULL)), fields, charsets, unknown)


def _image(
    lists: pa.ListArray,
    kinds: npt.NDArray[np.uint8],
    fields: tuple[pa.Array, pa.Array],
    charsets: Charsets | None,
    unknown: dict[str, int],
) -> Image:
    offsets = offsets_of(lists)
    sizes = np.diff(offsets)
    present = sizes > 0
    starts = offsets[:-1] if present.all() else np.where(present, offsets[:-1], np.int32(len(kinds) - 1))
    if charsets is not None:
        for code, count in enumerate(np.bincount(charsets.codes[:-1], minlength=len(charsets.names)).tolist()):
            name = charsets.unknown_name(code)
            if count and name is not None:
                unknown[f"charset {name}"] = count
    combined = int(np.bitwise_or.reduce(kinds))
    return Image(
        starts, sizes, present, kinds, *fields, charsets, bool(combined & UNSIGNED), bool(combined & ABSENT), unknown
    )


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
