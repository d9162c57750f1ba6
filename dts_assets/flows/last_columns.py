"""The names and the key of registered columns, as the last event of each table told them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from dts_assets.flows.lake_shapes import shapes_as_told
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import ColumnShape, same_name
from dts_assets.model.tables import TableId
from dts_assets.planning.column_names import ColumnNames, spelled_as_last
from dts_assets.store.registry import RegisteredColumn, RegisteredTable
from dts_assets.wire.format import TableShape

Columns = Mapping[TableId, Mapping[str, RegisteredColumn]]
"""Columns by table, and by name without case."""

Sources = Mapping[TableId, Iterable[TableId]]
"""The source tables of lake tables."""


def spelled_as_told(
    pipeline: Pipeline, found: Columns, before: Columns, shapes: Iterable[TableShape], sources: Sources
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the spelling of their latest event over all windows, whichever window this run is of.

    The ledger is read where it may say otherwise: where a spelling is new, or is not the last one.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    described = {(shape.table, column.name) for shape in shapes for column in shape.columns}
    doubtful = {
        (table, key)
        for table, columns in found.items()
        for key, column in columns.items()
        if column.spellings[1:]
        and (
            any((table, name) in described for name in column.spellings[:-1])
            or column.spellings != _spellings(before.get(table, {}).get(key))
        )
    }
    if not doubtful:
        return made
    seen: dict[tuple[TableId, str], int] = {}
    for number, row in enumerate(shapes_as_told(pipeline, {table for table, _ in doubtful}, sources)):
        seen |= {(row.table, shown.name): number for shown in row.columns}
    for table, key in doubtful:
        column = made[table][key]
        names = spelled_as_last(names_of(column), partial(_place_of, seen, table))
        made[table][key] = replace(column, name=names.lake, spellings=names.source)
    return made


def keyed_as_told(
    pipeline: Pipeline,
    found: Columns,
    before: Mapping[TableId, RegisteredTable],
    shapes: Iterable[TableShape],
    sources: Sources,
) -> dict[TableId, dict[str, RegisteredColumn]]:
    """Return columns with the primary key of the latest event, whichever windows this run is of.

    The ledger is read where a table has got another key.
    """
    made = {table: dict(columns) for table, columns in found.items()}
    keys = {table: {key_names(entry.columns)} for table, entry in before.items() if table in made}
    for shape in shapes:
        if shape.table in made:
            keys.setdefault(shape.table, set()).add(key_names(shape.columns))
    doubtful = {table for table, some in keys.items() if len(some) > 1}
    last = {row.table: row.columns for row in shapes_as_told(pipeline, doubtful, sources, whole=True)}
    for table, columns in last.items():
        key = {column.name for column in columns if column.is_key}
        for name, column in {**by_name(before.get(table)), **made[table]}.items():
            made[table][name] = replace(column, is_key=not key.isdisjoint(column.column.source_names))
    return made


def _place_of(seen: Mapping[tuple[TableId, str], int], table: TableId, name: str) -> int:
    """Return where a name was seen last, before all else if no event of the ledger has it."""
    return seen.get((table, name), -1)


def key_names(columns: Iterable[RegisteredColumn | ColumnShape]) -> frozenset[str]:
    """Return the names of the columns of a primary key, without case."""
    return frozenset(same_name(column.name) for column in columns if column.is_key)


def _spellings(column: RegisteredColumn | None) -> tuple[str, ...]:
    return () if column is None else column.spellings


def by_name(table: RegisteredTable | None) -> dict[str, RegisteredColumn]:
    """Return columns by their name without case, which no two columns of a table share."""
    return {} if table is None else {same_name(column.name): column for column in table.columns}


def names_of(column: RegisteredColumn) -> ColumnNames:
    """Return the names of a column in the lake and at the source."""
    return ColumnNames(column.name, column.spellings or (column.name,))
