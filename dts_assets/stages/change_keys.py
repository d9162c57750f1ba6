"""The keys of changes, as each image of a row has them.

A server with minimal row images does not send the key of an updated row that kept it: it is the old image's. An old image may
have changed columns only: of a table with a key, what it lacks is the new image's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.change_columns import Changes, RowShape, is_operation
from dts_assets.stages.keys import Mask


def key_of(changes: Changes, image: str, other: str) -> dict[str, pa.Array]:
    """Return the key of an image, with the ``other`` image's value where the image was not sent it."""
    shape, values, texts = changes.shape, list[pa.Array](), list[pa.Array | None]()
    for place in shape.keys:
        value, text = changes.values(image, place), changes.texts(image, place)
        absent = absent_of_key(changes, image, place)
        if absent is not None:
            mask = pa.array(absent)
            value = pc.if_else(mask, changes.values(other, place), value)
            others = changes.texts(other, place)
            if text is not None or others is not None:
                none = pa.nulls(changes.count, pa.string())
                text = pc.if_else(mask, none if others is None else others, none if text is None else text)
        values.append(value)
        texts.append(text)
    return key_columns(shape, values, texts)


def absent_of_key(changes: Changes, image: str, place: int) -> Mask | None:
    """Return the changes whose image did not send a column of the key; None where all sent it.

    The shard of a row is that of its other image where one is missing: no change moves a row to another shard.
    """
    absent = changes.absent(image, place)
    if changes.shape.columns[place].name not in changes.shape.shards:
        return absent
    missing = ~(changes.has_before if image == "before" else changes.has_after)
    return missing if absent is None else missing | absent


def key_columns(shape: RowShape, values: Sequence[pa.Array], texts: Sequence[pa.Array | None]) -> dict[str, pa.Array]:
    """Return the columns of a key by their names among operations.

    These are its values and, where they may not fit, their texts.
    """
    found = {f"k{number}": value for number, value in enumerate(values)}
    if shape.unfit:
        count = len(values[0])
        found |= {f"u{n}": pa.nulls(count, pa.string()) if text is None else text for n, text in enumerate(texts)}
    return found


def lacks_values(changes: Changes) -> Mask:
    """Return the changes whose new image lacks a column."""
    return _any(changes, [changes.absent("after", place) for place in range(len(changes.shape.columns))])


def lacks_old_values(changes: Changes) -> Mask:
    """Return the changes of a row of which neither image has some column of its key.

    There is none in a table without a key, whose rows are found by the columns that were sent (``stages/matched_rows.py``).
    """
    unsent: list[Mask] = []
    if changes.shape.is_bag:
        return np.zeros(changes.count, np.bool_)
    for place in changes.shape.keys:
        before, after = changes.absent("before", place), changes.absent("after", place)
        if before is not None:
            unsent.append(before & (~changes.has_after if after is None else ~changes.has_after | after))
    removes = is_operation(changes.rows, "delete") | is_operation(changes.rows, "update")
    return _any(changes, unsent) & changes.has_before & removes


def _any(changes: Changes, masks: Iterable[Mask | None]) -> Mask:
    """Return the changes that are in one of the masks."""
    found = np.zeros(changes.count, np.bool_)
    for mask in masks:
        if mask is not None:
            found |= mask
    return found
