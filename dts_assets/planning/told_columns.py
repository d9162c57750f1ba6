"""The columns that events carried, for every Kafka partition, window and table.

An insert lists those of its position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.columns import Column
from dts_assets.model.key_periods import KeyPeriod, ToldColumns
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId

Cells: TypeAlias = Mapping[tuple[datetime, TableId], Mapping[int, ToldColumns]]
"""Columns that events told, by window start and table, then by Kafka partition."""

TallyKey: TypeAlias = tuple[datetime, int, TableId]

_BEGIN = SourcePosition(0, 0, 0)


def told_columns(
    counts: Iterable[WindowTable], shapes: Iterable[TableShapeRow], tables: Mapping[TableId, Sequence[Column]]
) -> Cells:
    """Return what the events of some windows told of their tables.

    The counts of a cell say where its lists of columns begin, if it has several; else its one shape is the list. Of a cell that
    an earlier version made the lists may be unknown.
    """
    described = _described(shapes, tables)
    found: dict[tuple[datetime, TableId], dict[int, ToldColumns]] = {}
    for row in counts:
        lists = row.lists
        names = described.get((row.window_start, row.kafka_partition, row.table), ())
        if not lists and len(names) == 1:
            first, last = row.first_position or _BEGIN, row.last_position or _BEGIN
            lists = (KeyPeriod(first, last, next(iter(names))),)
        found.setdefault((row.window_start, row.table), {})[row.kafka_partition] = ToldColumns(row.keys, lists)
    return found


def described_twice(shapes: Iterable[TableShapeRow], tables: Mapping[TableId, Sequence[Column]]) -> frozenset[TallyKey]:
    """Return the cells in which entries, copies included, carried different lists of columns."""
    return frozenset(key for key, names in _described(shapes, tables).items() if len(names) > 1)


def _described(
    shapes: Iterable[TableShapeRow], tables: Mapping[TableId, Sequence[Column]]
) -> Mapping[TallyKey, Collection[tuple[str, ...]]]:
    """Return the distinct lists of columns of each cell, by the columns' names in the lake."""
    lake_names = {
        table: {name: column.name for column in columns for name in column.source_names}
        for table, columns in tables.items()
    }
    found: dict[TallyKey, dict[tuple[str, ...], None]] = {}
    for row in shapes:
        names = lake_names.get(row.table, {})
        carried = tuple(names[one.name] for one in row.columns if one.name in names)
        found.setdefault((row.window_start, row.kafka_partition, row.table), {})[carried] = None
    return found
