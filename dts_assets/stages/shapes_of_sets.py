"""The columns that events described, set by set.

A TDSQL sends the entries of all its sets through one topic, and a statement reaches one set after the other. So the tables of
each set have columns of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import ServerPosition
from dts_assets.model.tables import TableId
from dts_assets.stages.entry_columns import EntryColumns, rows_by_shard
from dts_assets.wire.columns.buffers import joint_codes
from dts_assets.wire.format import DecodedEntries, TableShape

Placed = tuple[TableShape, ServerPosition]


def placed_shapes(
    decoded: DecodedEntries, columns: EntryColumns, sets: pa.RecordBatch, entries: Callable[[pa.Array], DecodedEntries]
) -> Iterator[Placed]:
    """Yield the shapes of a call, each with the place of its first event.

    Of a TDSQL they are those of each set. ``columns`` are those of the decoded batch, ``sets`` the entry sets that it was
    decoded from. ``entries`` decodes entry sets: where a table has several shapes here, and several sets too, those of each
    are decoded once more to tell which set told which.
    """
    if columns.shards in ((), ("",)):
        yield from ((shape, ServerPosition(*columns.place(row))) for shape, row in decoded.shapes.items())
    elif len(columns.shards) == 1:
        yield from _of_one(decoded, columns)
    elif max(Counter(shape.table for shape in decoded.shapes).values(), default=0) <= 1:
        yield from _first_of_each(decoded, columns)
    else:
        for _, rows in rows_by_shard(sets["shard"], among=np.ones(sets.num_rows, np.bool_)):
            mine = sets.take(pa.array(rows))
            again = entries(mine["data"])
            yield from _of_one(again, EntryColumns.of(again.batch, mine))


def _of_one(decoded: DecodedEntries, columns: EntryColumns) -> Iterator[Placed]:
    """Yield the shapes of entries that are all of one set."""
    for shape, row in decoded.shapes.items():
        yield _in_set(shape, columns.shards[0]), ServerPosition(*columns.place(row))


def _first_of_each(decoded: DecodedEntries, columns: EntryColumns) -> Iterator[Placed]:
    """Yield the shapes of tables that have one each, with the first row of each set."""
    shapes, batch = {shape.table: shape for shape in decoded.shapes}, decoded.batch
    rows = np.flatnonzero(np.asarray(batch["rows"].is_valid()))
    names = [pc.fill_null(batch[name].take(pa.array(rows)), "") for name in ("database", "schema", "table")]
    sets = pa.array([columns.shard(row) for row in rows.tolist()], pa.string())
    _, first = joint_codes(*names, sets)
    distinct = (column.take(pa.array(first)).to_pylist() for column in (*names, sets))
    for database, schema, table, source_set, row in zip(*distinct, rows[first].tolist(), strict=True):
        if (shape := shapes.get(TableId(database, schema, table))) is not None:
            yield _in_set(shape, source_set), ServerPosition(*columns.place(row))


def _in_set(shape: TableShape, source_set: str) -> TableShape:
    """Return a shape as that of one set.

    Statements of a PostgreSQL change no rows, so its tables, which have a schema, are those of all sets.
    """
    return shape if shape.table.schema else TableShape(shape.table.of_set(source_set), shape.columns)
