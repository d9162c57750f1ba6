"""A hash of changelog rows that says whether two computations of a window gave the same rows.

It is a sum over rows, so that partitions and batches add up in any order, of a hash of each row's canonical text: every value
that is there, by column name. A column that was added since is null in old rows and does not stand in the text; numbers are
written the same way whatever their width. So neither widening nor column order changes the hash.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_FIELD = b"\x1f"
_MASK = (1 << 64) - 1


def row_hash(rows: pa.RecordBatch) -> int:
    """The sum of the rows' hashes as a signed 64-bit number."""
    if not rows.num_rows:
        return 0
    parts = [
        text for name, column in zip(rows.schema.names, rows.columns, strict=True) for text in _texts(name, column)
    ]
    lines = pc.binary_join_element_wise(*parts, pa.scalar(_FIELD, pa.binary()), null_handling="skip")
    hashes = pd.util.hash_array(lines.to_numpy(zero_copy_only=False), categorize=False)
    return signed(int(np.sum(hashes, dtype=np.uint64)))


def signed(number: int) -> int:
    """A sum of hashes folded into the range of a lake bigint."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


def _texts(name: str, column: pa.Array) -> list[pa.Array]:
    """``name=value`` for every leaf under a column, null where the value is."""
    if pa.types.is_struct(column.type):
        children = zip(column.type, column.flatten(), strict=True)
        return [text for child, values in children for text in _texts(f"{name}.{child.name}", values)]
    if pa.types.is_map(column.type) or pa.types.is_list(column.type):
        if column.offsets[0].as_py() == column.offsets[-1].as_py():  # nothing in any of them
            return []
        values = pa.array([None if not value else repr(sorted(value)) for value in column.to_pylist()], pa.string())
        return _texts(name, values)
    label = pa.scalar(f"{name}=".encode(), pa.binary())
    return [pc.binary_join_element_wise(label, _canonical(column), pa.scalar(b"", pa.binary()))]


def _canonical(column: pa.Array) -> pa.Array:
    """Values as bytes. Floats go by way of double and instants by way of microseconds, so that widening keeps the text."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        whole = column.cast(pa.int32()) if pa.types.is_date(kind) else column.cast(pa.int64())
        return whole.cast(pa.string()).cast(pa.binary())
    return column if pa.types.is_binary(kind) else column.cast(pa.string()).cast(pa.binary())
