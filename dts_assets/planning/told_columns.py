"""The columns that events carried, for every Kafka partition, window and table.

An insert lists those of its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.columns import Column
from dts_assets.model.key_periods import KeyPeriod, ToldColumns, list_digest
from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId

Cells: TypeAlias = Mapping[tuple[datetime, TableId], Mapping[int, ToldColumns]]
"""Columns that events told, by window start and table, then by Kafka partition."""

_BEGIN = SourcePosition(0, 0, 0)


def told_columns(
    counts: Iterable[WindowTable], shapes: Iterable[TableShapeRow], tables: Mapping[TableId, Sequence[Column]]
) -> Cells:
    """Return the keys and the columns that events of some windows told of their tables.

    The counts of a cell have digests of the lists of columns, its shapes have their names. A cell that an earlier version made
    has no digests: its list is known if it has one shape. A list that no shape has is all columns of the table.
    """
    described: dict[tuple[datetime, int, TableId], dict[str, tuple[str, ...]]] = {}
    lake_names = {
        table: {name: column.name for column in columns for name in column.source_names}
        for table, columns in tables.items()
    }
    for row in shapes:
        names = lake_names.get(row.table, {})
        carried = tuple(names[one.name] for one in row.columns if one.name in names)
        digest = list_digest(one.name for one in row.columns)
        described.setdefault((row.window_start, row.kafka_partition, row.table), {})[digest] = carried
    found: dict[tuple[datetime, TableId], dict[int, ToldColumns]] = {}
    for count in counts:
        known = described.get((count.window_start, count.kafka_partition, count.table), {})
        lists = _named(count, known, tuple(column.name for column in tables.get(count.table, ())))
        found.setdefault((count.window_start, count.table), {})[count.kafka_partition] = ToldColumns(count.keys, lists)
    return found


def _named(
    count: WindowTable, known: Mapping[str, tuple[str, ...]], everything: tuple[str, ...]
) -> tuple[KeyPeriod, ...]:
    """Return the periods of lists with the names of their columns in place of digests."""
    if not count.lists and len(known) == 1:
        first, last = count.first_position or _BEGIN, count.last_position or _BEGIN
        return (KeyPeriod(first, last, next(iter(known.values()))),)
    return tuple(replace(one, columns=known.get(one.columns[0], everything)) for one in count.lists)
