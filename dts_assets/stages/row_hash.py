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
_ESCAPES = ((b"\x1e", b"\x1e0"), (_FIELD, b"\x1e1"))
"""What stands in the text in place of the border between two columns, so that no value can pass for one."""

_MASK = (1 << 64) - 1


def row_hash(rows: pa.RecordBatch) -> int:
    """The sum of the rows' hashes as a signed 64-bit number."""
    if not rows.num_rows:
        return 0
    leaves = [
        leaf for name, column in zip(rows.schema.names, rows.columns, strict=True) for leaf in _leaves(name, column)
    ]
    texts = [_text(name, column) for name, column in sorted(leaves, key=lambda leaf: leaf[0])]
    lines = pc.binary_join_element_wise(*texts, pa.scalar(_FIELD, pa.binary()), null_handling="skip")
    hashes = pd.util.hash_array(lines.to_numpy(zero_copy_only=False), categorize=False)
    return signed(int(np.sum(hashes, dtype=np.uint64)))


def signed(number: int) -> int:
    """A sum of hashes folded into the range of a lake bigint."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


def _leaves(name: str, column: pa.Array) -> list[tuple[str, pa.Array]]:
    """The columns under a column, by their whole name. Lists and maps that hold nothing are as good as null."""
    if pa.types.is_struct(column.type):
        children = zip(column.type, column.flatten(), strict=True)
        return [leaf for child, values in children for leaf in _leaves(f"{name}.{child.name}", values)]
    if pa.types.is_map(column.type) or pa.types.is_list(column.type):
        if column.offsets[0].as_py() == column.offsets[-1].as_py():  # nothing in any of them
            return []
        texts = [None if not value else repr(sorted(value)) for value in column.to_pylist()]
        return [(name, pa.array(texts, pa.string()))]
    return [(name, column)]


def _text(name: str, column: pa.Array) -> pa.Array:
    """``name=value`` as bytes, null where the value is."""
    label = pa.scalar(f"{name}=".encode(), pa.binary())
    return pc.binary_join_element_wise(label, _canonical(column), pa.scalar(b"", pa.binary()))


def _canonical(column: pa.Array) -> pa.Array:
    """Values as bytes. Floats go by way of double and instants by way of microseconds, so that widening keeps the text."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _escaped(column.cast(pa.binary()))
    return column.cast(pa.string()).cast(pa.binary())


def _escaped(column: pa.BinaryArray) -> pa.BinaryArray:
    """The values without the border's byte. Looking for it in all values at once costs a tenth of looking in each."""
    data = column.buffers()[2]
    found = b"" if data is None else data.to_pybytes()
    if any(byte in found for byte, _ in _ESCAPES):
        for byte, escape in _ESCAPES:
            column = pc.replace_substring(column, byte, escape)
    return column
