"""Values as the text of SQL in columns: digits, numbers, moments and quotes that dialects share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.wire.columns.buffers import binary_array, offsets_of

_PAIRS = np.frombuffer(b"".join(f"{byte:02X}".encode() for byte in range(256)), np.uint16)
"""The two digits of every byte, side by side."""

NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
"""A number that SQL reads exactly, as a regular expression."""


def hex_digits(values: pa.Array) -> pa.Array:
    """Return bytes or texts as hexadecimal digits, ``4A7C`` for ``J|``; null stays null."""
    values = values.cast(pa.binary())
    offsets = offsets_of(values).astype(np.int64)
    data = values.buffers()[2]
    used = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    bounds = (2 * (offsets - offsets[0])).astype(np.int32)
    made = binary_array(pa.string(), bounds, pa.py_buffer(_PAIRS[used].tobytes()), None)
    return with_nulls(made, as_mask(values.is_null()))


def with_nulls(texts: pa.Array, nulls: Mask) -> pa.Array:
    """Return texts, null where a mask says so."""
    return pc.if_else(pa.array(nulls), pa.scalar(None, texts.type), texts) if nulls.any() else texts


def joined(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Return texts joined row by row; a row with a null is null."""
    return pc.binary_join_element_wise(*(pa.scalar(one) if isinstance(one, str) else one for one in parts), between)


def in_quotes(texts: pa.Array) -> pa.Array:
    """Return texts between single quotes, which are doubled inside them."""
    return joined("'", pc.replace_substring(texts, "'", "''"), "'")


def matching(texts: pa.Array, pattern: str) -> Mask:
    """Tell which texts have a match of a regular expression; null has none."""
    return as_mask(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
