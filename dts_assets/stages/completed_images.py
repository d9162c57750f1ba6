"""Images of rows that a merge judges: a new image lacks nothing that the old one has.

A row may come into the filter by such a change. Nothing of it is stored then but what the change itself tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.followed_columns import FollowedImages
from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.stored_images import StoredImages


class CompletedImages:
    """Both images of changelog rows, where new images of updates have columns from old ones, too."""

    def __init__(self, rows: pa.RecordBatch, images: StoredImages | FollowedImages) -> None:
        """Take changelog rows and their images as they were sent."""
        self._images = images
        self._both = _updates(rows)

    def values(self, image: str, place: int) -> pa.Array | None:
        """Return an image's values of a column, null without an image; None where it is not stored."""
        found, taken = self._images.values(image, place), self._from_old(image, place)
        return found if taken is None else pc.if_else(pa.array(taken), self._images.values("before", place), found)

    def texts(self, image: str, place: int) -> pa.Array | None:
        """Return the source's texts of values that do not fit, null where they do; None where all fit."""
        found, taken = self._images.texts(image, place), self._from_old(image, place)
        old = None if taken is None else self._images.texts("before", place)
        if old is None:  # where a column was not sent no text stands
            return found
        none = pa.nulls(len(old), pa.string())
        return pc.if_else(pa.array(taken), old, none if found is None else found)

    def absent(self, image: str, place: int) -> Mask | None:
        """Return the changes of which no image tells a column that this one lacks; None where all do."""
        found, taken = self._images.absent(image, place), self._from_old(image, place)
        return found if found is None or taken is None else found & ~taken

    def _from_old(self, image: str, place: int) -> Mask | None:
        """Return the changes whose new image has a column from the old one; None where none has."""
        lacking = self._images.absent("after", place) if image == "after" else None
        if lacking is None:
            return None
        untold = self._images.absent("before", place)
        taken = lacking & self._both if untold is None else lacking & self._both & ~untold
        return taken if taken.any() else None


def open_changes(rows: pa.RecordBatch, fields: Sequence[Sequence[str]]) -> tuple[Mask, Mask]:
    """Return the changes that do not tell whether their new row passes, and those whose old row may.

    Nobody has judged them: they do not tell all columns of the filter. What a new image lacks may be in the old one.
    ``fields`` has for each of the columns the names that a changelog may have for it.
    """
    images, both = StoredImages(rows, fields), _updates(rows)
    new, old = np.zeros(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_)
    for place in range(len(fields)):
        lacking, untold = images.absent("after", place), images.absent("before", place)
        if lacking is not None:
            new |= lacking & (~both if untold is None else ~both | untold)
        if untold is not None:
            old |= untold
    return new & images.has("after"), old & images.has("before")


def _updates(rows: pa.RecordBatch) -> Mask:
    """Return the changes with two images."""
    return as_mask(rows.column("before").is_valid()) & as_mask(pc.equal(rows.column("op"), "update"))
