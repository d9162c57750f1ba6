"""Values as the text of SQL in columns: digits, numbers, moments and quotes that dialects share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.wire.columns.buffers import binary_array, offsets_of

_PAIRS = np.frombuffer(b"".join(f"{byte:02X}".encode() for byte in range(256)), np.uint16)
"""The two digits of every byte, side by side."""

_MOST_DIGITS = 38

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


def decimal_texts(values: pa.Array) -> pa.Array:
    """Return decimals as plain digits, ``-0.0000000010``: Arrow's own text may have an exponent, which is no exact number."""
    scale = values.type.scale
    whole = pa.Array.from_buffers(
        pa.decimal128(_MOST_DIGITS, 0), len(values), values.buffers(), values.null_count, values.offset
    ).cast(pa.string())
    if not scale:
        return whole
    digits = pc.utf8_lpad(pc.replace_substring(whole, "-", ""), scale + 1, "0")
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    front, back = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale, None)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, front, ""), back, ".")


def float_texts(values: pa.Array) -> pa.Array:
    """Return floats and doubles as the fewest digits that name their double: ``0.1``, ``1e+20``.

    A float's text is that of the float where it names the float, read as a double, too.
    """
    wide = values.cast(pa.float64())
    texts = wide.cast(pa.string())
    if pa.types.is_float64(values.type):
        return texts
    short = values.cast(pa.string())
    with np.errstate(over="ignore"):
        again = short.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float32)
    safe = again == values.to_numpy(zero_copy_only=False)
    return pc.if_else(pa.array(safe), short, texts)


def exact_texts(values: pa.Array) -> pa.Array:
    """Return floats and doubles as the digits that name exactly their double: ``0.10000000149011612`` for the float 0.1."""
    return values.cast(pa.float64()).cast(pa.string())


def moment_texts(values: pa.Array) -> pa.Array:
    """Return instants in UTC, and wall clocks, as ``2026-01-05 10:00:00.125000``; a fraction that is zero is left out."""
    clocks = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64()).view(pa.timestamp("us"))
    return pc.replace_substring_regex(clocks.cast(pa.string()), r"\.0+$", "")


def joined(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Return texts joined row by row; a row with a null is null."""
    return pc.binary_join_element_wise(*(pa.scalar(one) if isinstance(one, str) else one for one in parts), between)


def in_quotes(texts: pa.Array) -> pa.Array:
    """Return texts between single quotes, which are doubled inside them."""
    return joined("'", pc.replace_substring(texts, "'", "''"), "'")


def matching(texts: pa.Array, pattern: str) -> Mask:
    """Tell which texts have a match of a regular expression; null has none."""
    return as_mask(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
