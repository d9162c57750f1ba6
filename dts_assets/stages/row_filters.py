"""Row filters run on columns of images by Arrow, with the truths of Spark: true, false and NULL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.row_filters import (
    Conjunction,
    Disjunction,
    Likeness,
    Literal,
    Membership,
    Negation,
    Nullness,
    RowFilter,
    Truth,
    moment,
)

_COMPARED: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal, "<=>": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip

_WALL_CLOCK = pa.timestamp("us")
_WIDE, _MOST_SCALE = 76, 38
"""The digits of a decimal that holds any two of the lake's, before they are compared."""


def truths(rows: RowFilter, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """Return what a filter says of each row: true, false, or null for NULL.

    ``columns`` are the typed columns that the filter looks at; :func:`dts_assets.model.row_filters.misfit` has found that it can.
    """
    if isinstance(rows, Negation):
        return pc.invert(truths(rows.operand, columns))
    if isinstance(rows, Conjunction | Disjunction):
        joined = pc.and_kleene if isinstance(rows, Conjunction) else pc.or_kleene
        return reduce(joined, (truths(one, columns) for one in rows.operands))
    column = columns[rows.column]
    if isinstance(rows, Nullness):
        return column.is_null()
    if isinstance(rows, Truth):
        return column
    if isinstance(rows, Likeness):
        return pc.match_substring_regex(column, pattern=like_pattern(rows.pattern, rows.escape))
    if isinstance(rows, Membership):
        return reduce(pc.or_kleene, (_compared("=", column, one) for one in rows.literals))
    found = _compared(rows.operator, column, rows.literal)
    return pc.fill_null(found, False) if rows.operator == "<=>" else found


def like_pattern(pattern: str, escape: str) -> str:
    """Return a pattern of LIKE as a regular expression that matches the same texts, each as a whole."""
    found, escaped = [], False
    for character in pattern:
        if character == escape and not escaped:
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        found.append(re.escape(character) if wild is None else wild)
        escaped = False
    return f"(?s)\\A{''.join(found)}\\z"


def _compared(operator: str, column: pa.Array, literal: Any) -> pa.Array:
    kind, compare = column.type, _COMPARED[operator]
    if pa.types.is_floating(kind):
        return _with_nan(operator, column, compare(column.cast(pa.float64()), pa.scalar(float(literal), pa.float64())))
    if pa.types.is_integer(kind) and isinstance(literal, int):
        return compare(column.cast(pa.int64()), pa.scalar(literal, pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return compare(*_as_decimals(column, Decimal(literal)))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return compare(_as_clock(column), pa.scalar(_instant(literal), _WALL_CLOCK))
    return compare(column, pa.scalar(literal, kind))


def _with_nan(operator: str, column: pa.Array, found: pa.Array) -> pa.Array:
    """Return what is true of NaN, too: for Spark it is greater than every number."""
    return pc.or_kleene(found, pc.is_nan(column)) if operator in (">", ">=") else found


def _as_decimals(column: pa.Array, literal: Decimal) -> tuple[pa.Array, pa.Scalar]:
    """Return exact numbers in one type that holds both."""
    exponent = literal.as_tuple().exponent
    scale = max(column.type.scale if pa.types.is_decimal(column.type) else 0, -int(exponent))
    wide = pa.decimal256(_WIDE, min(scale, _MOST_SCALE))
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(19, 0)) if column.type == pa.int64() else column.cast(pa.decimal128(10, 0))
    return column.cast(wide), pa.scalar(literal, wide)


def _as_clock(column: pa.Array) -> pa.Array:
    """Return dates and times as wall clocks in microseconds, instants as those of UTC."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64()).view(_WALL_CLOCK)
    return column.cast(_WALL_CLOCK)


def _instant(literal: Literal) -> datetime:
    found = moment(literal)
    assert found is not None, "the literals were looked at before"
    return found
