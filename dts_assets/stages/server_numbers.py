"""Numbers as a server converts them: from any type to whole numbers, decimals, floats and years.

Numbers are exact between types, with up to 46 digits before and 30 behind the point; a server has no more behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.server_types import Kind, ServerType
from dts_assets.stages.sql_text import matching, with_nulls
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import moment_texts

_EXACT = pa.decimal256(76, 30)
_LONG = Context(prec=200, rounding=ROUND_HALF_UP)
_NO_TEXT = pa.scalar(None, pa.string())
_MOST_BEFORE = _EXACT.precision - _EXACT.scale
_FITS = r"^[+-]?0*[0-9]{0,46}(\.[0-9]{0,30})?$"
_ZEROS_BEYOND = r"(\.[0-9]{30})0+$"
_MOST_REAL, _LEAST_REAL = 1e45, 1e-25
_SPACES = r"^[ \t\n\v\f\r]*"
_WHOLE_PREFIX = _SPACES + r"(?P<number>[+-]?[0-9]+)(?P<rest>(?s:.*))$"
_PREFIX = _SPACES + r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_TIME = r"^(?P<sign>-?)(?P<hours>[0-9]+):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2}(?:\.[0-9]+)?)$"


@dataclass(frozen=True, slots=True)
class Numbers:
    """Exact numbers, or floats; ``unknown`` marks those that are not known, which are null."""

    values: pa.Array
    unknown: Mask


def exact_numbers(values: pa.Array, old: ServerType, *, whole: bool = False) -> Numbers:
    """Return the exact number that a value of any type is.

    ``whole`` asks for the way to whole numbers. On that way a text counts up to its first sign that is no digit.
    """
    none = np.zeros(len(values), np.bool_)
    if old.kind in (Kind.WHOLE, Kind.BIT, Kind.YEAR):
        return Numbers(values.cast(_EXACT), none)
    if old.kind is Kind.DECIMAL:
        if pa.types.is_string(values.type):
            return _of_texts(values)
        return _of_texts(values.cast(pa.string())) if old.digits > _EXACT.scale else Numbers(values.cast(_EXACT), none)
    if old.kind is Kind.REAL:
        size = pc.fill_null(pc.abs(values.cast(pa.float64())), 0.0).to_numpy(zero_copy_only=False)
        odd = (size >= _MOST_REAL) | ((size < _LEAST_REAL) & (size > 0))
        return _with(_of_texts(with_nulls(values.cast(pa.float64()).cast(pa.string()), odd)), odd)
    if old.kind is Kind.DATE:
        return _of_texts(pc.replace_substring(values.cast(pa.string()), "-", ""))
    if old.kind is Kind.CLOCK:
        return _whole_only(pc.replace_substring_regex(moment_texts(values), r"[-: ]", ""), whole=whole)
    if old.kind is Kind.TIME:
        return _of_times(values, whole=whole)
    if old.kind in (Kind.ENUM, Kind.SET):
        return _of_labels(values, old)
    if old.kind is Kind.BYTES:
        ascii_only = as_mask(pc.fill_null(pc.match_substring_regex(values, rb"^[\x00-\x7f]*$"), True))
        found = _prefixes(with_nulls(values, ~ascii_only).cast(pa.string()), whole=whole)
        return _with(found, ~ascii_only & as_mask(values.is_valid()))
    return _prefixes(values, whole=whole)


def real_numbers(values: pa.Array, old: ServerType) -> Numbers:
    """Return the double that a value of any type is."""
    if old.kind is Kind.REAL:
        return Numbers(values.cast(pa.float64()), np.zeros(len(values), np.bool_))
    exact = exact_numbers(values, old)
    return Numbers(exact.values.cast(pa.string()).cast(pa.float64()), exact.unknown)


def to_wholes(numbers: Numbers, new: ServerType, *, from_reals: bool = False) -> tuple[pa.Array, Mask]:
    """Return whole numbers or bits, rounded and clamped to their range.

    Exact numbers are rounded half away from zero, floats half to even.
    """
    least, most = new.bounds
    kind = arrow_type(new.lake_type)
    if from_reals:
        rounded = pc.round(numbers.values, 0, "half_to_even")
        size = pc.fill_null(rounded, 0.0).to_numpy(zero_copy_only=False)
        outside = (size < least) | (size > most)
        unknown = numbers.unknown | (outside & ((new.kind is Kind.BIT) | new.declared.unsigned))
        kept = pc.if_else(pa.array(outside), pa.scalar(None, pa.float64()), rounded).cast(pa.decimal256(76, 0))
        low, high = (_number(bound, kept.type) for bound in (least, most))
        made = pc.if_else(pa.array(size > most), high, pc.if_else(pa.array(size < least), low, kept))
        return with_nulls(made.cast(kind), unknown), unknown
    rounded = pc.round(numbers.values, 0, "half_towards_infinity")
    below, above = (
        as_mask(pc.fill_null(one, False))
        for one in (pc.less(rounded, _number(least, _EXACT)), pc.greater(rounded, _number(most, _EXACT)))
    )
    unknown = numbers.unknown | ((below | above) & (new.kind is Kind.BIT))
    made = pc.if_else(
        pa.array(below), _number(least, _EXACT), pc.if_else(pa.array(above), _number(most, _EXACT), rounded)
    )
    return with_nulls(made.cast(kind), unknown), unknown


def to_years(numbers: Numbers) -> tuple[pa.Array, Mask]:
    """Return years. Numbers from 1 to 69 are those from 2001 on, from 70 to 99 those from 1970 on; 0 stays."""
    values = pc.fill_null(pc.round(numbers.values, 0, "half_towards_infinity"), _number(0, _EXACT))
    inside = as_mask(
        pc.and_(pc.greater_equal(values, _number(0, _EXACT)), pc.less_equal(values, _number(2155, _EXACT)))
    )
    found = pc.if_else(pa.array(inside), values, _number(0, _EXACT)).cast(pa.int64()).to_numpy()
    made = np.where(
        (found >= 1) & (found <= 69), found + 2000, np.where((found >= 70) & (found <= 99), found + 1900, found)
    )
    there = as_mask(numbers.values.is_valid())
    unknown = numbers.unknown | (there & (~inside | ((made != 0) & (made < 1901))))
    return pa.array(made.astype(np.int32), mask=~there | unknown), unknown


def to_decimals(numbers: Numbers, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return decimals, rounded half away from zero and clamped to their digits."""
    before, digits = min(new.precision - new.digits, _MOST_BEFORE), min(new.digits, _EXACT.scale)
    rounded = pc.round(numbers.values, digits, "half_towards_infinity")
    most = "9" * before + "." + "9" * digits
    top, bottom = (pa.scalar(text, pa.string()).cast(_EXACT) for text in (most, "-" + most))
    bottom = _number(0, _EXACT) if new.declared.unsigned else bottom
    over, under = pc.greater(rounded, top), pc.less(rounded, bottom)
    unknown = numbers.unknown
    if digits < new.digits:  # the greatest number has more digits than are counted with here
        unknown = np.asarray(unknown | as_mask(pc.fill_null(pc.or_(over, under), False)), np.bool_)
    made = with_nulls(pc.if_else(over, top, pc.if_else(under, bottom, rounded)), unknown)
    if new.lake_type != "string":
        return made.cast(arrow_type(new.lake_type)), unknown
    texts = pc.utf8_slice_codeunits(_plain(made), 0, -(_EXACT.scale - digits) or None)
    zeros = pa.scalar("0" * (new.digits - digits))
    return pc.binary_join_element_wise(pc.utf8_rtrim(texts, "."), zeros, ""), unknown


def long_decimals(values: pa.Array, new: ServerType) -> pa.Array:
    """Return decimals from decimals of any number of digits, as :func:`to_decimals` does; value by value."""
    step = Decimal(1).scaleb(-new.digits)
    top = Decimal(f"{'9' * (new.precision - new.digits)}.{'9' * new.digits}")
    bottom = Decimal(0) if new.declared.unsigned else top.copy_negate()
    found = [
        None if value is None else max(bottom, min(top, _LONG.quantize(Decimal(value), step)))
        for value in values.cast(pa.string()).to_pylist()
    ]
    if new.lake_type != "string":
        return pa.array(found, arrow_type(new.lake_type))
    return pa.array([None if one is None else f"{one:.{new.digits}f}" for one in found], pa.string())


def to_reals(numbers: Numbers, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return floats or doubles.

    Those that are too large, and those of a type with a number of digits, are not known.
    """
    size = pc.fill_null(numbers.values, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        too_large = np.isinf(size.astype(np.float32)) if new.base == "float" else np.isinf(size)
    unknown = numbers.unknown | too_large | (new.declared.unsigned & (size < 0))
    if new.is_rounded_real:
        unknown = unknown | as_mask(numbers.values.is_valid())
    return with_nulls(numbers.values, unknown).cast(arrow_type(new.lake_type), safe=False), unknown


def _number(value: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(str(value), pa.string()).cast(kind)


def _with(numbers: Numbers, unknown: Mask) -> Numbers:
    return Numbers(numbers.values, np.asarray(numbers.unknown | unknown, np.bool_))


def _of_texts(texts: pa.Array) -> Numbers:
    """Return numbers from plain digits, or digits with an exponent; those with too many digits are not known."""
    exponent = matching(texts, "[eE]")
    if exponent.any():
        plain = [format(Decimal(text), "f") for text in texts.filter(pa.array(exponent)).to_pylist()]
        texts = pc.replace_with_mask(texts, pa.array(exponent), pa.array(plain, pa.string()))
    texts = pc.replace_substring_regex(texts, _ZEROS_BEYOND, r"\1")
    fits = as_mask(pc.fill_null(pc.match_substring_regex(texts, _FITS), True))
    unknown = ~fits & as_mask(texts.is_valid())
    return Numbers(with_nulls(texts, unknown).cast(_EXACT), unknown)


def _plain(values: pa.Array) -> pa.Array:
    """Return exact numbers as digits without an exponent, all with 30 digits behind the point."""
    return pa.array([None if value is None else format(value, "f") for value in values.to_pylist()], pa.string())


def _whole_only(texts: pa.Array, *, whole: bool) -> Numbers:
    """Return numbers from texts.

    On the way to whole numbers those with a fraction are not known, since servers differ.
    """
    found = _of_texts(texts)
    if not whole:
        return found
    fraction = matching(texts, r"\.[0-9]*[1-9]")
    return Numbers(with_nulls(found.values, fraction), found.unknown | fraction)


def _of_times(values: pa.Array, *, whole: bool) -> Numbers:
    parts = pc.extract_regex(values, _TIME)
    joined = pc.binary_join_element_wise(
        *(pc.struct_field(parts, name) for name in ("sign", "hours", "minutes", "seconds")), ""
    )
    found = _whole_only(joined, whole=whole)
    return _with(found, as_mask(values.is_valid()) & as_mask(joined.is_null()))


def _of_labels(values: pa.Array, old: ServerType) -> Numbers:
    """Return the number of each label of an enum, or the bits of a set. The empty text is 0."""
    encoded = values.dictionary_encode()
    numbers: list[int | None] = []
    for text in encoded.dictionary.to_pylist():
        some = [] if not text else text.split(",") if old.kind is Kind.SET else [text]
        at = [old.labels.index(one) for one in some if one in old.labels]
        numbers.append(
            None if len(at) < len(some) else sum((1 << one) if old.kind is Kind.SET else one + 1 for one in at)
        )
    found = pa.array(numbers, pa.decimal128(20, 0)).take(encoded.indices).cast(_EXACT)
    return Numbers(found, as_mask(values.is_valid()) & as_mask(found.is_null()))


def _prefixes(texts: pa.Array, *, whole: bool) -> Numbers:
    """Return the numbers that texts begin with, 0 where they begin with none."""
    zero = pc.if_else(texts.is_valid(), pa.scalar("0"), _NO_TEXT)
    if not whole:
        found = pc.struct_field(pc.extract_regex(texts, _PREFIX), "number")
        return _of_texts(pc.replace_substring_regex(pc.coalesce(found, zero), r"^\+", ""))
    parts = pc.extract_regex(texts, _WHOLE_PREFIX)
    number, rest = pc.struct_field(parts, "number"), pc.struct_field(parts, "rest")
    # MySQL rounds 12.5 and MariaDB cuts it; both know no more than 64 bits.
    differs = matching(rest, r"^(\.[0-9]|[eE])")
    differs |= matching(texts, _SPACES + r"[+-]?\.[0-9]")
    found = _of_texts(with_nulls(pc.replace_substring_regex(pc.coalesce(number, zero), r"^\+", ""), differs))
    far = as_mask(pc.fill_null(pc.greater(pc.abs(found.values), _number((1 << 63) - 1, _EXACT)), False))
    unknown = np.asarray(found.unknown | differs | far, np.bool_)
    return Numbers(with_nulls(found.values, far), unknown)
