"""Values of rows that stand, converted as a server does when a statement changes their column's type.

Rules hold for MySQL and MariaDB alike, as far as documents and a real MariaDB say. A statement that stands in the binlog
succeeded. In a strict mode no value was lost by it; otherwise numbers were clamped to the range of the new type, decimals
rounded half away from zero, texts cut by characters, and of texts the number counted that they begin with. Every other value
that a strict server refuses, and every value of which servers differ, is not known here: it is null, and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.server_numbers import (
    exact_numbers,
    long_decimals,
    real_numbers,
    to_decimals,
    to_reals,
    to_wholes,
    to_years,
)
from dts_assets.stages.server_texts import bytes_of, labels_of, texts_of, to_bytes, to_labels, to_texts
from dts_assets.stages.server_times import to_clocks, to_days, to_times
from dts_assets.stages.server_types import LABELLED, Kind, ServerType
from dts_assets.stages.sql_text import with_nulls
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl.table_schemas import Family

_CLOCK = len("0000-00-00 00:00:00")


@dataclass(frozen=True, slots=True)
class ConvertedValues:
    """The values of a column in its new type.

    Those that are ``unknown`` are null, although the old values were not. ``texts`` has texts of old values that no lake type
    holds, such as ``0000-00-00``, for rows where they stay; null elsewhere.
    """

    values: pa.Array
    texts: pa.Array
    unknown: Mask


def convert(
    values: pa.Array, texts: pa.Array, old: ServerType, new: ServerType, *, family: Family | None = None
) -> ConvertedValues:
    """Return the values of a column after its type has changed.

    Args:
        values: The values in the lake type of ``old``.
        texts: The source's texts of values that the lake type does not hold; null for all others.
        old: The type before the statement.
        new: The type behind it.
        family: The server's family, None where it is not known: then fractions of seconds that have no room are not known.
    """
    if old == new:
        return ConvertedValues(values, texts, np.zeros(len(values), np.bool_))
    made, unknown = _converted(values, old, new, family)
    unfit = as_mask(texts.is_valid())
    nothing = pa.nulls(len(values), pa.string())
    if not unfit.any():
        return ConvertedValues(made, nothing, unknown)
    if new.kind is Kind.TEXT and old.kind in (Kind.DATE, Kind.CLOCK):  # a date of no calendar is a text like others
        shown, cut = to_texts(texts, replace(old, lake_type="string"), new)
        return ConvertedValues(pc.if_else(pa.array(unfit), shown, made), nothing, np.where(unfit, cut, unknown))
    stays = unfit & (old.kind is new.kind and old.lake_type == new.lake_type)
    kept = with_nulls(_with_fraction(texts, new), ~stays)
    return ConvertedValues(made, kept, np.asarray(unknown | (unfit & ~stays), np.bool_))


def _with_fraction(texts: pa.Array, new: ServerType) -> pa.Array:
    """Return dates of no calendar with the digits that a clock has: ``0000-00-00 00:00:00.000``."""
    if new.kind not in (Kind.CLOCK, Kind.INSTANT):
        return texts
    whole, fraction = pc.utf8_slice_codeunits(texts, 0, _CLOCK), pc.utf8_slice_codeunits(texts, _CLOCK + 1)
    if not new.digits:
        return whole
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, 6, "0"), 0, new.digits)
    return pc.binary_join_element_wise(whole, digits, ".")


def _converted(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    rule = _rule(old, new)
    if rule is None:
        return pa.nulls(len(values), arrow_type(new.lake_type)), as_mask(values.is_valid())
    return rule(values, old, new, family)


def converts(old: ServerType, new: ServerType) -> bool:
    """Return whether values of a type can be known in another one; else none is."""
    return old == new or _rule(old, new) is not None


def _rule(old: ServerType, new: ServerType) -> Rule | None:
    if old.kind is Kind.INSTANT and new.kind is Kind.INSTANT:
        return to_clocks
    if Kind.INSTANT in (old.kind, new.kind) or Kind.OTHER in (old.kind, new.kind):
        return None  # between instants and clocks stands the zone of the session, which no event tells
    return _RULES.get(new.kind)


Rule = Callable[[pa.Array, ServerType, ServerType, Family | None], tuple[pa.Array, Mask]]


def _wholes(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    if old.kind is Kind.REAL:
        return to_wholes(real_numbers(values, old), new, from_reals=True)
    return to_wholes(exact_numbers(values, old, whole=True), new)


def _years(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    # Of a text -0 and 0 are two years, floats are cut or rounded, and of YEAR(2) servers keep two digits or four.
    if old.kind in (Kind.TEXT, Kind.BYTES, Kind.REAL) or new.declared.numbers == (2,):
        return pa.nulls(len(values), arrow_type(new.lake_type)), as_mask(values.is_valid())
    return to_years(exact_numbers(values, old, whole=True))


def _decimals(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    made, unknown = to_decimals(exact_numbers(values, old), new)
    if old.kind is not Kind.DECIMAL or not unknown.any():
        return made, unknown
    wide = long_decimals(values.filter(pa.array(unknown)), new)  # more digits than an array counts with
    return pc.replace_with_mask(made, pa.array(unknown), wide), np.zeros(len(values), np.bool_)


def _reals(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    made, unknown = to_reals(real_numbers(values, old), new)
    if old.kind is not Kind.BIT:
        return made, unknown
    signed = as_mask(
        pc.fill_null(
            pc.greater_equal(values.cast(pa.decimal128(20, 0)), pa.scalar(1 << 63, pa.decimal128(20, 0))), False
        )
    )
    unknown = np.asarray(unknown | signed, np.bool_)  # MariaDB takes the first of 64 bits for a sign
    return with_nulls(made, unknown), unknown


def _texts(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    shown, unknown = texts_of(values, old, new)
    made, cut = to_texts(shown, old, new)
    return made, unknown | cut


def _bytes(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    shown, unknown = bytes_of(values, old, new)
    made, cut = to_bytes(shown, new)
    return made, unknown | cut


def _labels(values: pa.Array, old: ServerType, new: ServerType, family: Family | None) -> tuple[pa.Array, Mask]:
    if old.kind in LABELLED or old.kind is Kind.TEXT:
        return to_labels(values, old, new)
    return labels_of(values, old, new)


_RULES: dict[Kind, Rule] = {
    Kind.WHOLE: _wholes,
    Kind.BIT: _wholes,
    Kind.YEAR: _years,
    Kind.DECIMAL: _decimals,
    Kind.REAL: _reals,
    Kind.DATE: to_days,
    Kind.CLOCK: to_clocks,
    Kind.TIME: to_times,
    Kind.TEXT: _texts,
    Kind.BYTES: _bytes,
    Kind.ENUM: _labels,
    Kind.SET: _labels,
}
