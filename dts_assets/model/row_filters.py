"""Row filters as values: comparisons of columns with literals, joined by AND, OR and NOT.

``settings`` reads them from Spark SQL, ``stages`` runs them on columns. Like Spark they know three truths: true, false and NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from dts_assets.model.columns import decimal_arguments

Literal: TypeAlias = str | bool | int | Decimal | float | date | datetime
"""A literal of a filter. Times are wall clocks; beside an instant they are read in UTC."""

_LEAST_BIGINT, _GREATEST_BIGINT = -(1 << 63), (1 << 63) - 1
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?)?", re.ASCII)

OPERATORS = ("=", "<=>", "<>", "<", "<=", ">", ">=")
"""The comparisons of a column with a literal, the column first."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison: ``amount >= 10``. ``operator`` is one of :data:`OPERATORS`."""

    column: str
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class Membership:
    """A list of values, of which the column is one: ``status IN ('paid', 'sent')``."""

    column: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """A pattern of SQL: ``name LIKE 'A%'``. ``escape`` takes the sense from ``%`` and ``_`` behind it."""

    column: str
    pattern: str
    escape: str


@dataclass(frozen=True, slots=True)
class Nullness:
    """A test for NULL, which itself is never NULL: ``note IS NULL``."""

    column: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A column that is true or false: ``active``."""

    column: str


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT: true for false, false for true, NULL for NULL."""

    operand: RowFilter


@dataclass(frozen=True, slots=True)
class Conjunction:
    """AND: false if one operand is, else NULL if one operand is."""

    operands: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """OR: true if one operand is, else NULL if one operand is."""

    operands: tuple[RowFilter, ...]


RowFilter: TypeAlias = Comparison | Membership | Likeness | Nullness | Truth | Negation | Conjunction | Disjunction


def columns_of(rows: RowFilter) -> frozenset[str]:
    """Return the names of the columns that a filter looks at."""
    if isinstance(rows, Negation):
        return columns_of(rows.operand)
    if isinstance(rows, Conjunction | Disjunction):
        return frozenset().union(*map(columns_of, rows.operands))
    return frozenset({rows.column})


def renamed(rows: RowFilter, name_of: Callable[[str], str]) -> RowFilter:
    """Return a filter with other names of columns."""
    if isinstance(rows, Negation):
        return Negation(renamed(rows.operand, name_of))
    if isinstance(rows, Conjunction | Disjunction):
        return replace(rows, operands=tuple(renamed(one, name_of) for one in rows.operands))
    return replace(rows, column=name_of(rows.column))


def misfit(rows: RowFilter, types: Mapping[str, str]) -> str | None:
    """Return a clause about the first column that a filter cannot look at; None without any.

    ``types`` are lake types by column: ``{"amount": "decimal(10,2)"}``. The clause holds no literal.
    """
    if isinstance(rows, Negation):
        return misfit(rows.operand, types)
    if isinstance(rows, Conjunction | Disjunction):
        return next((found for one in rows.operands if (found := misfit(one, types)) is not None), None)
    if rows.column not in types:
        return f"its row filter names {rows.column}, and no column is called so"
    kind = types[rows.column]
    if isinstance(rows, Nullness):
        return None
    about = f"its row filter looks at {rows.column}, which is {kind}"
    if isinstance(rows, Likeness):
        return None if kind == "string" else f"{about}, and LIKE is for text"
    if isinstance(rows, Truth):
        return None if kind == "boolean" else f"{about} and no truth by itself"
    literals = rows.literals if isinstance(rows, Membership) else (rows.literal,)
    wanted = next((wanted for one in literals if (wanted := _unfit(kind, one)) is not None), None)
    return None if wanted is None else f"{about}, and is compared with something else than {wanted}"


def _unfit(kind: str, literal: Literal) -> str | None:
    """Return what a column of some type is compared with, where a literal is something else."""
    if kind == "string":
        return None if isinstance(literal, str) else "a text in quotes"
    if kind == "boolean":
        return None if isinstance(literal, bool) else "true or false"
    if kind in ("float", "double"):
        fits = isinstance(literal, int | Decimal | float) and not isinstance(literal, bool)
        return None if fits else "a number without quotes"
    if kind in ("int", "bigint") or decimal_arguments(kind):
        if not isinstance(literal, int | Decimal) or isinstance(literal, bool):
            return "a number without quotes and exponent"
        # Spark says that NULL is less than a number beyond bigint, if the column is of whole numbers.
        beyond = not decimal_arguments(kind) and not _LEAST_BIGINT <= literal <= _GREATEST_BIGINT
        return "a number that a bigint holds" if beyond else None
    if kind == "date":
        return None if isinstance(literal, date) or day(literal) is not None else "a date: '2026-01-05'"
    if kind in ("timestamp", "timestamp_ntz"):
        fits = isinstance(literal, date) or moment(literal) is not None
        return None if fits else "a time: '2026-01-05 07:00:00'"
    return "NULL"


def moment(literal: Literal) -> datetime | None:
    """Return a literal as a wall clock: of a date its midnight; None if it is no time.

    A text is read in the forms ``2026-01-05`` and ``2026-01-05 07:00:00.5``, without a zone.
    """
    if isinstance(literal, datetime):
        return literal
    if isinstance(literal, date):
        return datetime(literal.year, literal.month, literal.day)
    if not isinstance(literal, str) or not _MOMENT.fullmatch(literal):
        return None
    try:
        return datetime.fromisoformat(literal)
    except ValueError:
        return None


def day(literal: Literal) -> date | None:
    """Return a text such as ``2026-01-05`` as a date; None for anything else."""
    found = moment(literal) if isinstance(literal, str) and len(literal) == len("2026-01-05") else None
    return None if found is None else found.date()
