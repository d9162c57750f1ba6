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


def screen(rules: TableRules, columns: Sequence[Column], *, is_history: bool = False) -> StoredFilter | None:
    """Return the filter for all rows of a table, of which some were not under it.

    A history has the columns that events reported; a snapshot has the present ones, so it never lacks the last names.
    """
    if rules.rows is None:
        return None
    found = table_rules(columns, no_rule, _present_rows(rules, columns))
    assert found is not None, "a table with a filter has rules"
    assert found.rows is not None, "the filter is among them"
    types = {column.name: column.type for column in columns}
    clause = misfit(found.rows, types) or _several_names(rules, columns)
    if is_history and clause is None:
        clause = _name_without_events(rules, columns)
    if not rules.merge_judges:
        clause = "its row filter looks at a column with a rule"
    return StoredFilter(found.rows, (), clause)


def stored_filter(rules: TableRules | None, columns: Sequence[Column]) -> StoredFilter | None:
    """Return the filter by which a merge judges the rows of a table; None where it judges none.

    ``columns`` are those of the merged table. Its rows may have got other values or types than their changes told, by statements.
    """
    if rules is None or not rules.merge_judges:
        return None
    found = table_rules(columns, no_rule, _present_rows(rules, columns))
    assert found is not None, "a table with a filter has rules"
    assert found.rows is not None, "the filter is among them"
    clause = misfit(found.rows, {column.name: column.type for column in columns})
    if not has_key(columns):
        clause = "no primary key finds the row that it changes"
    if rules.eras:
        clause = "a statement renamed a column of its row filter, and some images lack columns"
    # No change before a statement may have the column that it renames later.
    known = {same_name(column.name): column for column in (*found.filter_columns, *rules.filter_columns)}
    for column in found.filter_columns if clause is None else ():
        was = known[same_name(column.name)].type
        if column.type != was and not {column.type, was} <= _WHOLE_NUMBERS:
            clause = (
                f"its row filter looks at {column.name}, which is {column.type} in its rows and {was} in its changes"
            )
    return StoredFilter(found.rows, tuple(column.lake_names for column in known.values()), clause)


def _present_rows(rules: TableRules, columns: Sequence[Column]) -> RowFilter:
    """Return the filter of a table with the last names of its columns that are among some."""
    assert rules.rows is not None, "the caller has looked"
    names = {same_name(name) for column in columns for name in (column.name, *column.source_names)}
    return next(
        (one.rows for one in reversed(rules.eras) if names.issuperset(map(same_name, columns_of(one.rows)))), rules.rows
    )


def _name_without_events(rules: TableRules, columns: Sequence[Column]) -> str | None:
    """Return a clause about a filter's column that a history has by a former name alone.

    Rows that a statement brings may have the last name alone. None without any.
    """
    names = {same_name(name) for column in columns for name in (column.name, *column.source_names)}
    for source in dict.fromkeys(era.source for era in rules.eras):
        gone = [sorted(one for one in columns_of(era.rows) if same_name(one) not in names)
                for era in rules.eras if era.source == source]  # fmt: skip
        if gone[-1] and not all(gone):
            return f"its row filter looks at {gone[-1][0]}, a name that no event of the table has reported"
    return None


def _several_names(rules: TableRules, columns: Sequence[Column]) -> str | None:
    """Return a clause about columns of the filter that rows have under several names.

    Rows of histories may have such columns; None without any.
    """
    names = {same_name(column.name) for column in columns}
    there = [one for one in rules.eras if names.issuperset(map(same_name, columns_of(one.rows)))]
    if len({columns_of(one.rows) for one in there}) > 1:
        return "its row filter looks at a column that a statement renamed, which its rows have by both names"
    return None
