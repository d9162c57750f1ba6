"""The rows of each table among those of a call, with their column lists and primary keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape, is_json, mysql_type
from dts_assets.model.key_periods import list_digest
from dts_assets.model.tables import TableId
from dts_assets.wire.format import ToldKeys


@dataclass(frozen=True, slots=True, eq=False)
class ColumnList:
    """The columns of an event, compared by identity: equal bytes give the same object.

    ``unknown`` names the fields in them that the protocol does not have.
    """

    columns: tuple[ColumnShape, ...]
    positions: Mapping[str, int]
    unknown: tuple[str, ...] = ()

    def place(self, column: Column) -> tuple[int, ColumnShape] | None:
        """Return a column's position and description; None if the event does not carry it."""
        numbers = (self.positions.get(name) for name in column.source_names)
        number = next((one for one in numbers if one is not None), None)
        return None if number is None else (number, self.columns[number])

    def position(self, column: Column, kind: str, signed: str) -> int | None:
        """Return a column's position if its values are read by a lake type; None without it.

        ``signed`` is the type's text where it should be one of whole numbers that says no sign, else empty.
        """
        place = self.place(column)
        if place is None or signed_text(place[1].original_type) != signed:
            return None
        return None if column.own_type(place[1].original_type) != kind else place[0]


def signed_text(original_type: str) -> str:
    """Return the text of a source type that unsigned values would widen; empty for any other type."""
    return original_type if mysql_type(original_type) != mysql_type(original_type, unsigned=True) else ""


def list_of(shapes: tuple[ColumnShape, ...]) -> ColumnList | None:
    """Return columns as a list; None where there are none, or where a column has no name."""
    positions: dict[str, int] = {}
    for number, shape in enumerate(shapes):
        positions.setdefault(shape.name, number)
    return ColumnList(shapes, positions) if shapes and all(positions) else None


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows ``start`` to ``end`` of the images, which belong to one table.

    ``lists`` are the column lists they came with; ``list_numbers`` says which list each row has, None where there is only one.
    """

    table: TableId
    columns: tuple[Column, ...]
    start: int
    end: int
    lists: tuple[ColumnList, ...]
    list_numbers: npt.NDArray[np.int64] | None

    def told(self, keys: Sequence[tuple[str, ...]]) -> ToldKeys:
        """Return the primary keys of the rows, or their columns; ``keys`` has those of each column list."""
        if self.list_numbers is None:
            return ToldKeys(tuple(keys))
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        if len(distinct) == 1:
            return ToldKeys(tuple(distinct))
        return ToldKeys(tuple(distinct), np.asarray([distinct[key] for key in keys])[self.list_numbers])


def keys_of(lists: Iterable[ColumnList], columns: Iterable[Column]) -> tuple[tuple[str, ...], ...]:
    """Return the primary key that each column list tells, as the names of its columns, sorted."""
    return tuple(
        tuple(sorted(column.name for column in columns if (place := one.place(column)) and place[1].is_key))
        for one in lists
    )


def json_by(lists: Iterable[ColumnList], columns: Iterable[Column]) -> tuple[tuple[str, ...], ...]:
    """Return the columns whose values are JSON by each column list, sorted."""
    return tuple(
        tuple(sorted(one.name for one in columns if (place := each.place(one)) and is_json(place[1].original_type)))
        for each in lists
    )


def carried_by(lists: Iterable[ColumnList]) -> tuple[tuple[str, ...], ...]:
    """Return the digest of the columns of each column list: ``(("5d41402abc4b",),)``."""
    return tuple((list_digest(column.name for column in one.columns),) for one in lists)


def table_rows(
    tables: Mapping[TableId, tuple[Column, ...]],
    entry_tables: npt.NDArray[np.int64],
    entry_lists: npt.NDArray[np.int64],
    groups: Sequence[ColumnList | None],
    owners: npt.NDArray[np.int64],
) -> list[TableRows]:
    """Return the rows of each table that has some, when rows are sorted by table.

    ``entry_tables`` and ``entry_lists`` are the numbers of each entry's table in ``tables`` and of its column list in
    ``groups``; ``owners`` is the entry of each row.
    """
    names, of_row = list(tables), entry_tables[owners]
    counts = np.bincount(of_row, minlength=len(names))
    by_table: dict[int, list[int]] = {}
    for pair in sorted(pa.array(of_row * len(groups) + entry_lists[owners]).unique().to_pylist()):
        by_table.setdefault(pair // len(groups), []).append(pair % len(groups))
    found, start = [], 0
    for table, numbers in by_table.items():
        end = start + int(counts[table])
        lists = tuple(one for number in numbers if (one := groups[number]) is not None)
        of_rows = np.searchsorted(numbers, entry_lists[owners[of_row == table]]) if len(numbers) > 1 else None
        found.append(TableRows(names[table], tables[names[table]], start, end, lists, of_rows))
        start = end
    return found
