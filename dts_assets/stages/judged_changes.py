"""Changes that their row filter could not judge before, judged by the rows at their keys.

An image may lack a column of the filter: servers that send minimal images send the key and what changed. Such a change is *open*.
Its row is judged by the values that it has behind the change: those that the row had, and those that the change sent.

All other changes were judged when they were decoded, and rows that stand pass. So a row stands behind a change that is not open.
Behind an open one it stands if it stood before and passes; where no row stood, nothing but what the change sends is known of it,
and it stays outside. An insert that lacks columns has what the merge gives them. Rows that stay outside leave their key at this
very change, whatever they were before, so it does not matter which changes a merge sees together.

Where deleted rows stay, a row that leaves the filter stays as a deleted one, with the values that it had. What is said of rows
that do not stand leaves none: they never passed, or have left before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.added_columns import DELETED_AT
from dts_assets.stages.change_columns import TIME, RowShape, Truncation
from dts_assets.stages.key_operations import Operations, eras_of
from dts_assets.stages.keys import Keys, Mask, Numbers, as_mask, as_numbers
from dts_assets.stages.row_filters import truths
from dts_assets.stages.row_folds import NOWHERE, Lives, by_key_in_order, lives_of, took


def judged(operations: Operations, shape: RowShape, truncations: Sequence[Truncation] = ()) -> Operations:
    """Return operations, of which those whose rows do not pass leave their keys.

    Their ``takes`` is false then, and their ``took`` true. With soft deletes those are ``void`` that leave a key at which no
    row stood. The shape's filter can judge its rows. ``truncations`` are in the order of their positions.
    """
    is_open = operations.marked("open")
    if shape.judged is None or not is_open.any():
        return operations
    codes = Keys(operations.keys).codes
    groups = codes * (len(truncations) + 1) + eras_of(operations, truncations, shape.shard_keys)
    order, takes = by_key_in_order(operations, groups), operations.takes.copy()
    if (is_open & takes).any():
        lives = lives_of(operations, order, groups)
        at = order[lives.places]
        passes = _truth(operations, at, lives, shape)
        takes[at] = _stand(is_open[at], operations.marked("begins")[at], passes, lives.begins)
    touches = operations.touches.append_column("took", operations.touches.column("takes"))
    touches = touches.set_column(touches.schema.get_field_index("takes"), "takes", pa.array(takes))
    found = Operations(touches, operations.rows)
    return _with_deleted(found, order, groups, shape) if shape.is_soft else found


def _with_deleted(operations: Operations, order: Numbers, groups: Numbers, shape: RowShape) -> Operations:
    """Return judged operations of which each leaves the deleted row that stood at its key, or is void.

    ``order`` has all of them by key and in order, ``groups`` the number of each one's key and era.
    """
    takes, touches, rows = operations.takes, operations.touches, operations.rows
    stood = np.zeros(operations.count, np.bool_)
    stood[order[1:]] = takes[order[:-1]] & (groups[order[1:]] == groups[order[:-1]])
    fell = took(operations) & ~takes
    void = (fell | (~took(operations) & operations.marked("open"))) & ~stood
    touches = touches.append_column("void", pa.array(void))
    at = operations.row_numbers(np.flatnonzero(fell & stood))
    if not len(at):
        return Operations(touches, rows)
    # The row is left as it was: its change has told nothing of it but what it is from then on.
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[at] = True
    for place in shape.values:
        rows = _set(rows, f"a{place}", pa.array(mask | _marked(rows, f"a{place}")))
    times = np.zeros(rows.num_rows, np.int64)
    times[at] = as_numbers(touches.column("time").filter(pa.array(fell & stood)))
    told = pa.array(times).cast(TIME).cast(rows.column(DELETED_AT).type)
    return Operations(touches, _set(rows, DELETED_AT, pc.if_else(pa.array(mask), told, rows.column(DELETED_AT))))


def _marked(rows: pa.RecordBatch, name: str) -> Mask:
    if name not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    return as_mask(pc.fill_null(rows.column(name), fill_value=False))


def _set(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)


def _stand(is_open: Mask, begins: Mask, passes: Mask, firsts: Numbers) -> Mask:
    """Return the operations behind which a row stands.

    They are in the order of lives; ``firsts`` has for each the number of the first one of its row.
    """
    numbers = np.arange(len(is_open))
    is_first = firsts == numbers
    # Nothing before these operations matters for their rows.
    anew = ~is_open | is_first
    falls = is_open & (~passes | (is_first & ~begins))
    since = np.maximum.accumulate(np.where(anew, numbers, NOWHERE))
    fell = np.maximum.accumulate(np.where(falls, numbers, NOWHERE))
    return np.asarray(fell < since, np.bool_)


def _truth(operations: Operations, at: Numbers, lives: Lives, shape: RowShape) -> Mask:
    """Return which rows pass the filter with the values that they have behind some operations."""
    assert shape.judged is not None, "the caller has looked"
    names, wanted, columns = [column.name for column in shape.columns], shape.judged.columns, dict[str, pa.Array]()
    for number, place in enumerate(shape.keys):
        if names[place] in wanted:
            columns[names[place]] = operations.touches.column(f"k{number}").take(pa.array(at))
    for place in shape.values:
        if names[place] in wanted:
            sent = lives.sent(operations, place)
            rows = lives.rows if sent is None else sent
            columns[names[place]] = operations.rows.column(f"v{place}").take(pa.array(rows, mask=rows == NOWHERE))
    return as_mask(pc.fill_null(truths(shape.judged.rows, columns), fill_value=False))
