"""The schemas of shards as events tell them: changes are counted for the merged table alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime

from dts_assets.model.ledger_rows import TableShapeRow, WindowTable
from dts_assets.model.statement_words import TablesByWord
from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.schema_history import SourceStatement
from dts_assets.wire.ddl.told_schemas import ToldShapes

Cell = tuple[datetime, int]
"""A window, by its start, and a Kafka partition."""


def told_of_shards(
    shapes: Iterable[TableShapeRow],
    counts: Iterable[WindowTable],
    statements: Iterable[SourceStatement],
    lake_table: Callable[[TableId], TableId],
) -> Iterator[ToldShapes]:
    """Yield the shapes that events of shards told.

    A cell tells where a shard was met first, and not where it was met last. So a cell in which the shard had one shape tells that
    position alone. Of several shapes the last one is told at the end of the cell, unless statements of the window say more.
    """
    kept = {(row.window_start, row.kafka_partition, row.table): row for row in counts if row.kept}
    cells: dict[tuple[Cell, TableId], list[TableShapeRow]] = {}
    for row in shapes:
        cells.setdefault(((row.window_start, row.kafka_partition), row.table), []).append(row)
    altered = _altered({table for _, table in cells}, statements)
    for (cell, shard), rows in sorted(cells.items(), key=lambda one: one[0]):
        count = kept.get((*cell, lake_table(shard)))
        first = min((row.first_position for row in rows if row.first_position is not None), default=None)
        if count is None or first is None or count.last_position is None:
            continue
        found = tuple(sorted({row.columns for row in rows}, key=repr))
        last = first if len(found) == 1 else count.last_position
        ends = (cell[0], shard) not in altered
        yield ToldShapes(shard, first, last, found, bool(count.keys), cell[0], ends)


def _altered(
    shards: Collection[TableId], statements: Iterable[SourceStatement]
) -> Collection[tuple[datetime | None, TableId]]:
    """Return the windows with a statement that may be about a shard, with the shard."""
    by_word = TablesByWord(shards)
    return {(one.window_start, shard) for one in statements for shard in by_word.named_in(one.naming_text)}
