"""The type of a lake column from all types that it had at its source, in any order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

from dts_assets.model.columns import Column, ColumnShape, joined_type, reads_alike


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


def converted_columns(columns: Iterable[Column]) -> tuple[ConvertedColumn, ...]:
    """Return the columns that hold values in another form, with the source types of these values."""
    return tuple(
        ConvertedColumn(column.name, column.type, tuple(text for text, _ in column.own_types))
        for column in columns
        if column.own_types
    )


def converted_in_windows(
    columns: Collection[Column],
    told: Mapping[datetime, Iterable[Iterable[ColumnShape]]],
    starts: Collection[datetime],
    lake_type: Callable[[str], str],
) -> dict[datetime, tuple[ConvertedColumn, ...]]:
    """Return the columns that hold values in another form, by the types told up to windows.

    A window counts if its events have such values, or if it told the type because of which earlier values have another form.

    Args:
        columns: The columns of a table.
        told: What events of the table listed, by window start, in all windows.
        starts: The windows to look at.
        lake_type: The function that gives the lake type of a source type.
    """
    walks = {column.name: _TypesSoFar(dict(column.own_types), lake_type) for column in columns if column.own_types}
    names = {name: column.name for column in columns if column.own_types for name in column.source_names}
    found: dict[datetime, tuple[ConvertedColumn, ...]] = {}
    for start in sorted(told):
        texts: dict[str, set[str]] = {}
        for one in (one for shape in told[start] for one in shape if one.name in names):
            texts.setdefault(names[one.name], set()).add(one.original_type)
        converted = ((name, walks[name].told(some)) for name, some in texts.items())
        mine = tuple(ConvertedColumn(name, walks[name].type, tuple(sorted(some))) for name, some in converted if some)
        if mine and start in starts:
            found[start] = mine
    return found


@dataclass(slots=True)
class _TypesSoFar:
    """The types that a column was told to have.

    ``own`` are those whose values the joined type holds in another form.
    """

    known: Mapping[str, str]
    lake_type: Callable[[str], str]
    type: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)

    def told(self, texts: Collection[str]) -> set[str]:
        """Add the types of a window, and return those with another form in it, or because of it."""
        fresh = {text: self.known.get(text) or self.lake_type(text) for text in texts if text not in self.kinds}
        self.kinds |= fresh
        joined = reduce(joined_type, fresh.values(), self.type or next(iter(self.kinds.values())))
        asked = fresh if joined == self.type else self.kinds  # a type holds few others, so it changes a few times
        self.type = joined
        new = {text for text, kind in asked.items() if text not in self.own and not reads_alike(kind, joined)}
        self.own |= new
        return new | {text for text in texts if text in self.own}
