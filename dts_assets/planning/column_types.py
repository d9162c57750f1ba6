"""The type of a lake column from all types that it had at its source, in any order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from dts_assets.model.columns import Column, ColumnShape, joined_type, reads_alike
from dts_assets.model.tables import TableId


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The lake type of a column, and the types by which values of some source types are read.

    ``own`` is as in :class:`dts_assets.model.columns.Column`.
    """

    type: str
    own: tuple[tuple[str, str], ...] = ()


def column_types(kind: str, kinds: Mapping[str, str], taught: Collection[str] = ()) -> ColumnTypes:
    """Return the type that holds all values of a column.

    Args:
        kind: The type that the column has had in the lake, such as ``int``.
        kinds: The lake types of its source types: ``{"int(11)": "int", "varchar(20)": "string"}``.
        taught: The source types that have another lake type than their texts say. They are always among ``own``.
    """
    joined = reduce(joined_type, kinds.values(), kind)
    own = tuple(sorted((text, one) for text, one in kinds.items() if text in taught or not reads_alike(one, joined)))
    return ColumnTypes(joined, own)


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column whose lake type holds values of some source types in another form.

    An example is text that holds numbers.
    """

    column: str
    lake_type: str
    source_types: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence for people, which holds no value."""
        return f"{self.column} is {', '.join(self.source_types)} in events, and {self.lake_type} in the lake for all its types"


def converted_columns(
    columns: Iterable[Column], texts: Mapping[str, Iterable[str]] | None = None
) -> tuple[ConvertedColumn, ...]:
    """Return the columns that hold values in another form, with the source types of these values.

    Args:
        columns: The columns of a table.
        texts: The source types to look at, by the column's name in events; None stands for all that there ever were.
    """
    found = []
    for column in columns if texts is None else (column for column in columns if column.own_types):
        asked = None if texts is None else {text for name in column.source_names for text in texts.get(name, ())}
        mine = tuple(
            text for text, kind in column.own_types if kind != column.type and (asked is None or text in asked)
        )
        if mine:
            found.append(ConvertedColumn(column.name, column.type, mine))
    return tuple(found)


def source_texts(shapes: Iterable[tuple[TableId, Iterable[ColumnShape]]]) -> dict[TableId, dict[str, set[str]]]:
    """Return the source types that columns have in some shapes, by table and name: ``{orders: {"n": {"int(11)"}}}``."""
    found: dict[TableId, dict[str, set[str]]] = {}
    for table, columns in shapes:
        mine = found.setdefault(table, {})
        for column in columns:
            mine.setdefault(column.name, set()).add(column.original_type)
    return found
