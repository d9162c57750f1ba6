"""Which columns of its row a change of a table without a key sends.

A server may send fewer columns than a row has. So each column that tells rows apart has a mark in an operation: its value was
*sent* or *unsent*. Of an old row that has changed columns only, a value that is the new row's may have been NULL before (*sent or
NULL*). Where NULL may stand for a value that was not sent, it is *NULL or unsent*.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.change_columns import Changes, is_operation
from dts_assets.stages.keys import Mask, Numbers, as_mask, as_numbers, differ
from dts_assets.stages.row_places import POSITION, positions_of
from dts_assets.stages.stored_images import IMAGES

SENT, UNSENT, SENT_OR_NULL, NULL_OR_UNSENT = range(4)
"""The marks of a column in an operation. An operation that takes its row has none but the first two."""

CHANGE, OFFSET, WINDOW = "change", "offset", "window"
"""The columns that say of which change an operation is.

These are a number that both operations of a change have, its Kafka offset, and the start of its window in microseconds since 1970
UTC.
"""

Marks = npt.NDArray[np.uint8]
"""Marks of columns, a row for each operation."""


def sent_marks(changes: Changes, taking: Numbers, leaving: Numbers) -> dict[str, pa.Array]:
    """Return the marks ``x0``, ``x1``, ... of operations, and the columns that say of which change they are.

    There are none where all changes send their rows whole, and in a table with a key. ``taking`` and ``leaving`` are the numbers
    of the changes that take rows, and of those that leave some.
    """
    if not changes.shape.is_bag:
        return {}
    updates = is_operation(changes.rows, "update")
    removes = updates | is_operation(changes.rows, "delete")
    if _are_whole(changes, removes):
        return {}
    found: dict[str, pa.Array] = {}
    for number, place in enumerate(changes.shape.keys):
        old = _marks_of_old(changes, place, updates, removes)
        new = np.where(_unsent(changes, "after", place) & (old != SENT), UNSENT, SENT).astype(np.uint8)
        found[f"x{number}"] = pa.array(np.concatenate([new[taking], old[leaving]]))
    if not any(pc.any(pc.greater(marks, SENT)).as_py() for marks in found.values()):
        return {}
    source = pa.array(np.concatenate([taking, leaving]))
    windows = changes.rows.column("window_start").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    places = {CHANGE: source, OFFSET: changes.rows.column("kafka_offset").take(source), WINDOW: windows.take(source)}
    return found | places


def _are_whole(changes: Changes, removes: Mask) -> bool:
    """Tell whether it is clear at once that all changes send their rows whole."""
    shape = changes.shape
    if shape.changed_only or shape.null_if_unsent or (removes & ~changes.has_before).any():
        return False
    return all(changes.absent(image, place) is None for image in IMAGES for place in shape.keys)


def _marks_of_old(changes: Changes, place: int, updates: Mask, removes: Mask) -> Marks:
    """Return how the old rows of changes send a column."""
    shape, marks = changes.shape, np.full(changes.count, SENT, np.uint8)
    if shape.changed_only:
        old, new = ([changes.values(image, place), _texts(changes, image, place)] for image in IMAGES)
        same = ~differ(old[0], new[0]) & ~differ(old[1], new[1]) & ~nulls_in(new)
        marks[same & updates & _may_lack_null(changes)] = SENT_OR_NULL
    elif shape.null_if_unsent:
        marks[removes & nulls_in([changes.values("before", place), _texts(changes, "before", place)])] = NULL_OR_UNSENT
    marks[removes & _unsent(changes, "before", place)] = UNSENT
    return marks


def _may_lack_null(changes: Changes) -> Mask:
    """Return the changes whose old row may lack a column that was NULL.

    Old rows have changed columns only. Those of TiCDC stand at the timestamps of their transactions, in no file, and lack none.
    """
    file = positions_of(changes.rows)[POSITION.index("file")]
    return np.asarray(file != 0, np.bool_)


def _unsent(changes: Changes, image: str, place: int) -> Mask:
    """Return the changes whose image lacks a column, or is not there."""
    absent = changes.absent(image, place)
    missing = ~(changes.has_before if image == "before" else changes.has_after)
    if changes.shape.columns[place].name in changes.shape.shards:  # the shard is known where one image is there
        missing &= ~(changes.has_before | changes.has_after)
    return missing if absent is None else missing | absent


def _texts(changes: Changes, image: str, place: int) -> pa.Array:
    found = changes.texts(image, place)
    return pa.nulls(changes.count, pa.string()) if found is None else found


def marks_of(touches: pa.RecordBatch) -> Marks | None:
    """Return the marks of operations, a row for each; None where all send their rows whole."""
    names = [name for name in touches.schema.names if name[0] == "x" and name[1:].isdigit()]
    if not names:
        return None
    columns = [pc.fill_null(touches.column(name), SENT).to_numpy(zero_copy_only=False) for name in names]
    return np.stack(columns, axis=1).astype(np.uint8, copy=False)


def change_numbers(touches: pa.RecordBatch) -> Numbers:
    """Return a number for the change of each operation, which both operations of a change have.

    It is -1 where all changes of a batch send their rows whole.
    """
    return as_numbers(pc.fill_null(touches.column(CHANGE), -1))


def nulls_in(column: Sequence[pa.Array]) -> Mask:
    """Return which rows have neither a value nor the text of one; ``column`` has both."""
    found = np.ones(len(column[0]), np.bool_)
    for array in column:
        found &= as_mask(array.is_null())
    return found
