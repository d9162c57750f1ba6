"""Marks of rows on their way into files: the columns whose values no rule of servers tells.

Such values are NULL. A value that stands and is marked was NULL until a statement filled it: it is NULL again if its row turns
out to have been deleted. The marks are a column of their own, which the files of tables do not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask

UNKNOWN = "_unknown "
"""The name of the column. No column at a source has a name that ends with a space."""

UNKNOWN_FIELD = pa.field(UNKNOWN, pa.list_(pa.string()))


def unknown_names(masks: Mapping[str, Mask], count: int) -> pa.ListArray:
    """Return for each of so many rows the names of the columns whose masks it is in."""
    some = {name: at for name, mask in masks.items() if len(at := np.flatnonzero(mask))}
    if not some:
        return pa.nulls(count, UNKNOWN_FIELD.type)
    rows = np.concatenate([*some.values()])
    numbers = np.repeat(np.arange(len(some)), [len(at) for at in some.values()])
    ends = np.cumsum(np.bincount(rows, minlength=count))
    names = pa.array([*some], pa.string()).take(pa.array(numbers[np.argsort(rows, kind="stable")]))
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends).astype(np.int32)), names)


def unknown_masks(rows: pa.RecordBatch) -> Mapping[str, Mask]:
    """Return the rows with a mark by column name, the inverse of :func:`unknown_names`."""
    if UNKNOWN not in rows.schema.names:
        return {}
    lists = rows.column(UNKNOWN)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    names, owners = lists.flatten().dictionary_encode(), np.repeat(np.arange(rows.num_rows), lengths)
    numbers, found = names.indices.to_numpy(zero_copy_only=False), dict[str, Mask]()
    for number, name in enumerate(names.dictionary.to_pylist()):
        found[name] = np.zeros(rows.num_rows, np.bool_)
        found[name][owners[numbers == number]] = True
    return found


def count_unknown(rows: pa.RecordBatch) -> Counter[str]:
    """Return how many rows have a mark by column name, and no value there."""
    found = Counter[str]()
    for name, mask in unknown_masks(rows).items():
        values = rows.column(name) if name in rows.schema.names else None
        found[name] = int((mask if values is None else mask & as_mask(values.is_null())).sum())
    return +found
