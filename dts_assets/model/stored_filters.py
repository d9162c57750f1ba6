"""Row filters as merges use them: rows are judged as they stand in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dts_assets.model.column_rules import TableRules, no_rule, table_rules
from dts_assets.model.columns import Column, has_key, same_name
from dts_assets.model.row_filters import RowFilter, columns_of, misfit

_WHOLE_NUMBERS = frozenset({"int", "bigint"})
"""The types whose values are compared alike, whichever of them a column has."""


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """A row filter with names of the lake, for changes that do not tell all its columns.

    ``fields`` has for each of its columns the names that a changelog may have for it. ``clause`` says why rows that stand cannot
    be judged by it; None where they can.
    """

    rows: RowFilter
    fields: tuple[tuple[str, ...], ...]
    clause: str | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the filter looks at."""
        return columns_of(self.rows)


def screen(rules: TableRules, columns: Sequence[Column]) -> StoredFilter | None:
    """Return the filter for all rows of a table, of which some were not under it."""
    if rules.rows is None:
        return None
    found = table_rules(columns, no_rule, rules.rows)
    assert found is not None, "a table with a filter has rules"
    assert found.rows is not None, "the filter is among them"
    clause = misfit(found.rows, {column.name: column.type for column in columns})
    if not rules.merge_judges:
        clause = "its row filter looks at a column with a rule"
    return StoredFilter(found.rows, (), clause)


def stored_filter(rules: TableRules | None, columns: Sequence[Column]) -> StoredFilter | None:
    """Return the filter by which a merge judges the rows of a table; None where it judges none.

    ``columns`` are those of the merged table. Its rows may have got other values or types than their changes told, by statements.
    """
    if rules is None or not rules.merge_judges or not has_key(columns):
        return None
    told = rules.filter_columns
    found = table_rules(columns, no_rule, rules.rows)
    assert found is not None, "a table with a filter has rules"
    assert found.rows is not None, "the filter is among them"
    clause = misfit(found.rows, {column.name: column.type for column in columns})
    were = {same_name(column.name): column.type for column in told}
    for column in found.filter_columns if clause is None else ():
        was = were[same_name(column.name)]
        if column.type != was and not {column.type, was} <= _WHOLE_NUMBERS:
            clause = (
                f"its row filter looks at {column.name}, which is {column.type} in its rows and {was} in its changes"
            )
    return StoredFilter(found.rows, tuple(column.lake_names for column in told), clause)
