"""The images of changelog rows column by column, with what is told of single columns.

A column is wanted by the names that a changelog may have for it. Columns that were not sent, and values that do not fit, are told
by name, ``after.note``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, Numbers, as_mask, as_numbers
from dts_assets.wire.columns.buffers import offsets_of

IMAGES = ("before", "after")


class StoredImages:
    """Both images of changelog rows, in the types that are stored."""

    def __init__(self, rows: pa.RecordBatch, names: Sequence[Sequence[str]]) -> None:
        """Take changelog rows, and for each wanted column the names that it may have there, the likeliest first."""
        self.rows = rows
        self._names = names
        self._places = {
            name: {child.name: place for place, child in enumerate(rows.schema.field(name).type)} for name in IMAGES
        }
        lists, maps = rows.column("absent"), rows.column("invalid")
        self._absent = _told(lists, _inside(lists, lists.values), names)
        self._invalid = _told(maps, _inside(maps, maps.keys), names)
        self._texts = _inside(maps, maps.items)

    def has(self, image: str) -> Mask:
        """Return which rows have an image."""
        return as_mask(self.rows.column(image).is_valid())

    def values(self, image: str, column: int) -> pa.Array | None:
        """Return an image's values of a column, null without an image; None where it is not stored."""
        places = self._places[image]
        place = next((places[name] for name in self._names[column] if name in places), None)
        return None if place is None else pc.struct_field(self.rows.column(image), [place])

    def absent(self, image: str, column: int) -> Mask | None:
        """Return the rows whose image did not send a column; None where all sent it."""
        told = self._absent.get((image, column))
        if told is None:
            return None
        mask = np.zeros(self.rows.num_rows, np.bool_)
        mask[told[0]] = True
        return mask

    def texts(self, image: str, column: int) -> pa.Array | None:
        """Return the source's texts of values that do not fit, null where they do; None where all fit."""
        told = self._invalid.get((image, column))
        if told is None:
            return None
        at = np.full(self.rows.num_rows, -1, np.int64)
        at[told[0]] = told[1]
        return self._texts.take(pa.array(at, mask=at < 0))


def _inside(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """Return the elements of lists or maps, of which a slice shows all that its whole had."""
    bounds = offsets_of(lists)
    return elements.slice(bounds[0], bounds[-1] - bounds[0])


def _told(
    lists: pa.Array, told: pa.Array, names: Sequence[Sequence[str]]
) -> Mapping[tuple[str, int], tuple[Numbers, Numbers]]:
    """Return by image and column the rows that name it, and the places of the names.

    A name is ``after.note``.
    """
    if not len(told):
        return {}
    wanted: dict[str, list[tuple[str, int]]] = {}  # two columns may have one origin
    for column, some in enumerate(names):
        for text, image in ((f"{image}.{name}", image) for image in IMAGES for name in some):
            wanted.setdefault(text, []).append((image, column))
    at = as_numbers(pc.fill_null(pc.index_in(told, value_set=pa.array(list(wanted), pa.string())), -1))
    bounds = offsets_of(lists)
    owners = np.repeat(np.arange(len(lists)), np.diff(bounds))
    found: dict[tuple[str, int], tuple[Numbers, Numbers]] = {}
    asked = list(wanted.values())
    for number in np.unique(at[at >= 0]):
        places = np.flatnonzero(at == number)
        mine = owners[places], places
        for one in asked[number]:
            # A column may be told under a former spelling, too.
            rows, texts = (np.append(*pair) for pair in zip(found[one], mine, strict=True)) if one in found else mine
            found[one] = (rows, texts)
    return found
