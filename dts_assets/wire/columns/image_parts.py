"""Row images that are gathered block by block, for formats in which a message holds one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.wire.columns.buffers import Bools, binary_array, with_empty_last
from dts_assets.wire.columns.images import ABSENT, NULL, Image
from dts_assets.wire.columns.texts import Charsets, charsets_of

Ints = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ImagePart:
    """The before or the after images of a block of messages.

    ``charsets`` are the names of the values' character sets, None where all are UTF-8. ``sizes`` has the number of values of each
    message's image, -1 without an image; ``unusable`` marks messages with a value of a kind that nobody knows.
    """

    values: pa.Array
    kinds: Kinds
    charsets: pa.Array | None
    sizes: Ints
    unusable: Bools
    unknown: Mapping[str, int]


@dataclass(slots=True)
class ImageParts:
    """The before or the after images of messages, gathered block by block."""

    values: list[pa.Array] = field(default_factory=list)
    kinds: list[Kinds] = field(default_factory=list)
    charsets: list[pa.Array] = field(default_factory=list)
    sizes: list[Ints] = field(default_factory=list)
    unusable: list[Bools] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, part: ImagePart) -> None:
        """Add the images of a block of messages."""
        self.values.append(part.values)
        self.kinds.append(part.kinds)
        self.charsets.append(_nameless(len(part.values)) if part.charsets is None else part.charsets)
        self.sizes.append(part.sizes)
        self.unusable.append(part.unusable)
        self.unknown.update(part.unknown)

    def image(self, rows: Ints, meant: Bools) -> Image:
        """Return the images of some messages, in this order; a message has one row.

        ``meant`` says which of them have such an image by their operation.
        """
        values = pa.concat_arrays([pa.array([], pa.binary()), *self.values])
        sizes = np.concatenate([np.zeros(0, np.int64), *self.sizes])
        kinds = np.concatenate([np.zeros(0, np.uint8), *self.kinds])
        held = np.maximum(sizes, 0)
        starts, present = (np.cumsum(held) - held)[rows], (sizes[rows] >= 0) & meant
        starts = np.where(present, starts, len(values)).astype(np.int32)
        charsets = charsets_of(pa.concat_arrays([pa.array([], pa.binary()), *self.charsets]))
        fields = with_empty_last(values), with_empty_last(values)
        is_absent = bool((kinds == ABSENT).any())
        sizes, kinds = np.where(present, held[rows], 0).astype(np.int32), np.append(kinds, np.uint8(NULL))
        unknown = unknown_charsets(charsets)
        return Image(starts, sizes, present, kinds, *fields, charsets, False, is_absent, unknown)


def _nameless(count: int) -> pa.Array:
    return binary_array(pa.binary(), np.zeros(count + 1, np.int32), None, None)


def unknown_charsets(charsets: Charsets | None) -> dict[str, int]:
    """Count values in character sets without a known codec."""
    if charsets is None:
        return {}
    counts = np.bincount(charsets.codes[:-1], minlength=len(charsets.names)).tolist()
    found = ((charsets.unknown_name(code), count) for code, count in enumerate(counts))
    return {f"charset {name}": count for name, count in found if count and name is not None}
