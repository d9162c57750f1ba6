"""Typed values of the lake as text: digits, numbers and moments, each text naming exactly its value.

A column that had several types at its source holds all of its values as such texts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.wire.columns.buffers import Bools, valid
from dts_assets.wire.columns.casts import arrow_type, parse

_MOST_DIGITS = 38


def held_as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type that holds each of them exactly.

    It is a wider type, such as ``bigint`` for ``int``, or text for any type. The text of a float is that of its double,
    ``0.10000000149011612``; a boolean is ``1`` or ``0``; an instant has the offset of UTC, ``2026-01-05 10:00:00+00:00``, which a
    wall clock has not. Text becomes bytes as UTF-8.

    Raises:
        ArrowInvalid: A value does not fit the type, or is no text.
        ArrowNotImplementedError: No value of one type is one of the other.
    """
    if values.type.equals(kind):
        return values
    if pa.types.is_binary(kind):
        return held_as(values, pa.string()).cast(kind)
    if _is_number(values.type) != _is_number(kind) and pa.types.is_temporal(values.type) != pa.types.is_temporal(kind):
        # Arrow takes the number 20260105 for so many days or microseconds since 1970, and the reverse.
        raise pa.ArrowNotImplementedError(f"no {values.type} is a {kind}")
    return _texts(values) if pa.types.is_string(kind) else values.cast(kind)


def read_back(values: pa.Array, lake_type: str) -> tuple[pa.Array, Bools | None]:
    """Return values in the type that they had before :func:`held_as`, and those of no such type.

    The latter are null; the mask is None where there are none. Values that were never of another type stay as they are. What
    becomes of a value does not depend on the other ones.
    """
    kind = arrow_type(lake_type)
    if values.type.equals(kind):
        return values, None
    if not _is_text(values.type):
        try:
            made = held_as(values, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _parsed(values, lake_type)
        if _is_text(kind) or pa.types.is_decimal(values.type):
            return made, None
        # A cast makes true of 7, infinity of a large double, and a whole day of its noon.
        kept = pc.fill_null(pc.equal(made.cast(values.type, safe=False), values), True)
        if pc.all(kept).as_py():
            return made, None
        others, bad = _parsed(pc.if_else(kept, pa.scalar(None, values.type), values), lake_type)
        return pc.if_else(kept, made, others), bad
    if not _is_text(kind):
        return parse(values.view(pa.binary()), lake_type)
    if pa.types.is_binary(kind):
        return values.cast(kind), None
    try:
        return values.cast(kind), None
    except pa.ArrowInvalid:
        texts = [_text_or_none(one) for one in values.to_pylist()]
        made = pa.array(texts, kind)
        return made, valid(values) & ~valid(made)


def _parsed(values: pa.Array, lake_type: str) -> tuple[pa.Array, Bools | None]:
    """Return the texts of values in a type; a decimal without a fraction is a whole number."""
    texts = held_as(values, pa.string())
    if pa.types.is_decimal(values.type) and lake_type in ("int", "bigint"):
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return parse(texts.view(pa.binary()), lake_type)


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _texts(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal(kind):
        return decimal_texts(values)
    if pa.types.is_floating(kind):
        return exact_texts(values)
    if pa.types.is_boolean(kind):
        return values.cast(pa.uint8()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        texts = moment_texts(values)
        return texts if kind.tz is None else pc.binary_join_element_wise(texts, "+00:00", "")
    return values.cast(pa.string())


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

    A float's text is that of the float where it names the float, read as a double, too. The greatest float has the digits of its
    double: ``3.4028235e+38`` is more than it, which a strict server refuses.
    """
    wide = values.cast(pa.float64())
    texts = wide.cast(pa.string())
    if pa.types.is_float64(values.type):
        return texts
    short = values.cast(pa.string())
    read = short.cast(pa.float64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        again = read.astype(np.float32)
    safe = (again == values.to_numpy(zero_copy_only=False)) & (np.abs(read) <= np.finfo(np.float32).max)
    return pc.if_else(pa.array(safe), short, texts)


def exact_texts(values: pa.Array) -> pa.Array:
    """Return floats and doubles as the digits that name exactly their double: ``0.10000000149011612`` for the float 0.1."""
    return values.cast(pa.float64()).cast(pa.string())


def moment_texts(values: pa.Array) -> pa.Array:
    """Return instants in UTC, and wall clocks, as ``2026-01-05 10:00:00.125000``; a fraction that is zero is left out."""
    clocks = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64()).view(pa.timestamp("us"))
    return pc.replace_substring_regex(clocks.cast(pa.string()), r"\.0+$", "")
