"""Row filters as conditions of MySQL and MariaDB.

They look at columns of which the server's value is proven to be the lake's.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from dts_assets.model.columns import decimal_arguments, quoted
from dts_assets.model.row_filters import (
    Comparison,
    Conjunction,
    Disjunction,
    Literal,
    Membership,
    Negation,
    Nullness,
    RowFilter,
)
from dts_assets.stages.sum_sql import SqlColumn


def condition_of(rows: RowFilter, columns: Mapping[str, SqlColumn]) -> str | None:
    """Return a filter in SQL; None where a server could judge a row in another way.

    ``columns`` are those whose values are proven, by the names that the filter has for them. Texts are compared by their bytes,
    as the lake does, and not by a collation.
    """
    if isinstance(rows, Negation):
        inner = condition_of(rows.operand, columns)
        return None if inner is None else f"(NOT {inner})"
    if isinstance(rows, Conjunction | Disjunction):
        found = [condition_of(one, columns) for one in rows.operands]
        joined = " AND " if isinstance(rows, Conjunction) else " OR "
        return None if None in found else f"({joined.join(one for one in found if one is not None)})"
    column = columns.get(rows.column)
    if column is None:
        return None
    if isinstance(rows, Nullness):
        return f"({column.text} IS NULL)"
    literals = (
        (rows.literal,) if isinstance(rows, Comparison) else rows.literals if isinstance(rows, Membership) else ()
    )
    values = [_literal(one, column) for one in literals]
    if not values or None in values:
        return None
    operator = rows.operator if isinstance(rows, Comparison) else "="
    return f"({' OR '.join(f'{_value(column)} {operator} {one}' for one in values)})"


def _literal(literal: Literal, column: SqlColumn) -> str | None:
    """Return a literal beside a column; None where servers and lake might compare in different ways."""
    if column.column.type == "string" and column.is_free and isinstance(literal, str):
        return f"X'{literal.encode().hex()}'" if "CONVERT" in column.text else None
    is_number = isinstance(literal, int | Decimal) and not isinstance(literal, bool)
    if is_number and column.column.kind.startswith("number"):
        return f"{literal:f}" if isinstance(literal, Decimal) else str(literal)
    return None


def _value(column: SqlColumn) -> str:
    arguments, source = decimal_arguments(column.column.type), column.source
    if arguments is None or source.type != "decimal":
        return column.text
    return f"CAST({quoted(source.name)} AS DECIMAL({source.precision},{source.scale}))"
