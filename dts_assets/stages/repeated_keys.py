"""The keys that stand in a snapshot more than once: there must be none.

Keys are first compared by a hash of 64 bits, which takes eight bytes a row whatever the keys are. Only rows whose hash comes
again are then compared by their keys, so that no chance likeness is taken for a repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

INVALID = "_invalid"

_PRIME = np.uint64(1_099_511_628_211)


_OF_BYTES = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
)  # fmt: skip
"""The types whose values are compared as they are; bytes need not be text. Readers of Iceberg give the large ones."""


def repeated_keys(read: Callable[[], Iterable[pa.RecordBatch]], keys: Sequence[str]) -> int:
    """Return how many keys stand in more than one row.

    ``read`` gives all rows with the key columns and ``_invalid``, and is called a second time only if a hash comes twice. The
    text of a value that does not fit its column belongs to the key.
    """
    hashes = [_hashes(_key_of(batch, keys)) for batch in read()]
    if not hashes:
        return 0
    ordered = np.sort(np.concatenate(hashes))
    suspects = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(suspects):
        return 0
    found = []
    for batch in read():
        key = _key_of(batch, keys)
        found.append(key.filter(pa.array(np.isin(_hashes(key), suspects))))
    rows = pa.Table.from_batches(found)
    counted = rows.group_by(rows.schema.names).aggregate([([], "count_all")])
    return int(pc.sum(pc.greater(counted["count_all"], 1)).as_py() or 0)


def _key_of(batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """Return the key columns and the texts of their values that do not fit."""
    invalid = batch.column(INVALID)
    columns = [batch.column(name) for name in keys]
    if invalid.null_count < len(invalid):
        columns += [pc.map_lookup(invalid, pa.scalar(name, invalid.type.key_type), "first") for name in keys]
    else:  # batches of both kinds are put together
        columns += [pa.nulls(len(invalid), invalid.type.item_type) for _ in keys]
    return pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])


def _hashes(key: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return a hash of every key: the same for equal keys, however rows are cut into batches. A null counts as 0."""
    found = np.zeros(key.num_rows, np.uint64)
    for column in key.columns:
        found *= _PRIME
        if column.null_count < len(column):
            found += np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(0), _hashes_of(column))
    return found


def _hashes_of(column: pa.Array) -> npt.NDArray[np.uint64]:
    kind = column.type
    if pa.types.is_integer(kind):
        values = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy()
    elif any(is_kind(kind) for is_kind in _OF_BYTES):
        values = column.to_numpy(zero_copy_only=False)
    else:
        values = pc.cast(column, pa.string()).to_numpy(zero_copy_only=False)
    hashes: npt.NDArray[np.uint64] = pd.util.hash_array(values, categorize=False)
    return hashes
