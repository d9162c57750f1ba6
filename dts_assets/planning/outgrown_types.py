"""Columns whose type at the source became one that their type in the lake does not hold.

A column of the lake keeps a type that holds all values it ever had, where there is one. Where there is none it keeps its first
type: what does not fit is NULL in snapshots, with its text in ``_invalid``, and what fits is shown as the first type shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dts_assets.model.columns import Column, ColumnShape, holds
from dts_assets.model.ledger_rows import InvalidColumn, WindowTable
from dts_assets.model.tables import TableId


class LakeTypes(Protocol):
    """The lake type of a source type: ``column_type`` of a wire format."""

    def __call__(self, original_type: str, *, unsigned: bool) -> str:
        """Return the lake type."""


@dataclass(frozen=True, slots=True)
class OutgrownColumn:
    """A column that outgrew its type, and the types that it has had at the source since.

    ``values`` counts the values of changes, in old and new images, that do not fit.
    """

    column: str
    source_types: tuple[str, ...]
    values: int

    def __str__(self) -> str:
        """Return a sentence for people, which holds no value."""
        became = f"{self.column} became {', '.join(self.source_types)} at the source, and keeps its first type here"
        if not self.values:
            return became
        return f"{became}; {self.values} {'value' if self.values == 1 else 'values'} of changes did not fit and became NULL"


def outgrown(columns: Iterable[Column], shape: Iterable[ColumnShape], lake_type: LakeTypes) -> dict[str, str]:
    """Return the ``columns`` of a table whose types do not hold those of a shape: ``{"n": "varchar(20)"}``."""
    known = {name: column for column in columns for name in column.source_names}
    return {
        known[one.name].name: one.original_type
        for one in shape
        if one.name in known and not holds(known[one.name].type, lake_type(one.original_type, unsigned=False))
    }


def invalid_columns(values: Mapping[str, int], source_types: Mapping[str, str]) -> tuple[InvalidColumn, ...]:
    """Return the ledger's words on columns with values that do not fit, or that outgrew their types."""
    return tuple(
        InvalidColumn(column, values.get(column, 0), source_types.get(column))
        for column in sorted(values.keys() | source_types.keys())
    )


def outgrown_columns(rows: Iterable[WindowTable]) -> dict[TableId, tuple[OutgrownColumn, ...]]:
    """Return the columns that outgrew their types, by table, over all windows."""
    types: dict[tuple[TableId, str], set[str]] = {}
    values: Counter[tuple[TableId, str]] = Counter()
    for row in rows:
        for one in row.invalid_columns:
            if one.source_type is not None:
                types.setdefault((row.table, one.column), set()).add(one.source_type)
                values[row.table, one.column] += one.values
    found: dict[TableId, list[OutgrownColumn]] = {}
    for (table, column), mine in sorted(types.items()):
        found.setdefault(table, []).append(OutgrownColumn(column, tuple(sorted(mine)), values[table, column]))
    return {table: tuple(columns) for table, columns in found.items()}
