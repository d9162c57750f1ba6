"""The check that a snapshot has one row for each key.

Nothing that this project does can put a key in twice; a fault of its own, or another program that writes to the table, can. All
key columns have to be read for it, a second or so for a million rows: too dear for every refresh, so it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import has_key
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.model.tables import TableId
from dts_assets.stages.repeated_keys import INVALID, repeated_keys


def find_repeated_keys(pipeline: Pipeline, *, most_rows: int | None = None) -> dict[TableId, int]:
    """Return how many keys stand in a snapshot more than once, by table.

    ``most_rows`` is the number of rows to look at together: smaller tables come first, and the others are left out. A table that
    failed and stands still is left out, too: it may be one that cannot be opened.
    """
    sizes: dict[TableId, int] = {}
    failed = {table for table, row in paused_here(pipeline).items() if row.by is PausedBy.FAILURE}
    for table, columns in known_tables(pipeline).items():
        if table in failed:
            continue
        size = pipeline.lake.size(pipeline.table_path(SNAPSHOT.name, table)) if has_key(columns) else None
        if size is not None:
            sizes[table] = size.rows
    found: dict[TableId, int] = {}
    looked_at = 0
    for table in sorted(sizes, key=lambda one: (sizes[one], one)):
        looked_at += sizes[table]
        if most_rows is not None and looked_at > most_rows:
            break
        keys = SNAPSHOT.key_columns(known_tables(pipeline)[table])
        found[table] = repeated_keys(partial(_rows, pipeline, table, keys), keys)
    return found


def _rows(pipeline: Pipeline, table: TableId, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    found = pipeline.lake.batches(pipeline.table_path(SNAPSHOT.name, table), columns=(*keys, INVALID))
    return iter(found)
