"""The check that a snapshot has one row for each key.

Nothing that this project does can put a key in twice; a fault of its own, or another program that writes to the table, can. All
key columns have to be read for it, a second or so for a million rows: too dear for every refresh, so it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from dts_assets.errors import LakeTableError
from dts_assets.flows.compared_snapshots import last_state
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.one_by_one import OneByOne, one_by_one
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.stages.repeated_keys import INVALID, repeated_keys
from dts_assets.store.columns import flat_name


def find_repeated_keys(
    pipeline: Pipeline, *, most_rows: int | None = None, tables: Collection[TableId] | None = None
) -> OneByOne[TableId, int]:
    """Return how many keys stand in a snapshot more than once, by table.

    Beside them stand the failures of tables that could not be read. ``most_rows`` is the number of rows to look at together:
    smaller tables come first, and the others are left out. A table that failed and stands still is left out, too: it may be one
    that cannot be opened. ``tables`` are those to look at, None for all.
    """
    known = known_tables(pipeline)
    failed = failed_tables(pipeline)

    def named(table: TableId) -> str:
        return f"The look at the keys of {table}"

    opened = one_by_one(
        (table for table in known if table not in failed and (tables is None or table in tables)),
        partial(_keyed, pipeline, known),
        named=named,
    )
    keyed = {table: one for table, one in opened.results.items() if one is not None}
    chosen: list[TableId] = []
    looked_at = 0
    for table in sorted(keyed, key=lambda one: (keyed[one][0], one)):
        looked_at += keyed[table][0]
        if most_rows is not None and looked_at > most_rows:
            break
        chosen.append(table)
    found = one_by_one(chosen, lambda table: _repeated(pipeline, table, keyed[table][1]), named=named)
    return OneByOne(found.results, {**opened.failures, **found.failures})


def failed_tables(pipeline: Pipeline) -> frozenset[TableId]:
    """Return the tables that stand still because they failed."""
    return frozenset(table for table, row in paused_here(pipeline).items() if row.by is PausedBy.FAILURE)


def _keyed(
    pipeline: Pipeline, known: Mapping[TableId, Sequence[Column]], table: TableId
) -> tuple[int, tuple[str, ...]] | None:
    """Return the rows of a snapshot and its key columns; None without a snapshot, or without a key.

    Raises:
        LakeTableError: The snapshot lacks a column of its key.
    """
    path = pipeline.table_path(SNAPSHOT.name, table)
    snapshot, size = pipeline.lake.table(path), pipeline.lake.size(path)
    if snapshot is None or size is None:
        return None
    keys = key_names(last_state(snapshot), known[table])
    there = {field.name for field in snapshot.schema().fields}
    for name in keys:
        if name not in there:
            raise LakeTableError(".".join(path), f"it has no column {name}, which its key has")
    return (size.rows, keys) if keys else None


def key_names(state: SnapshotState | None, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the columns of a snapshot that tell its rows apart; none where rows have no key.

    They are those that the snapshot was made with. ``columns`` are known of the table by now, and may be of a later moment: a key
    that has got another name, or other columns, behind the place where the snapshot stands.
    """
    if state is not None and state.present is not None:
        return tuple(one.name for one in state.present.columns if one.is_key)
    if state is not None and state.keys:
        names = {name: flat_name(column.name) for column in columns for name in column.source_names}
        return tuple(names.get(name, flat_name(name)) for name in state.keys[-1].columns)
    return SNAPSHOT.key_columns(columns)


def _repeated(pipeline: Pipeline, table: TableId, keys: tuple[str, ...]) -> int:
    return repeated_keys(partial(_rows, pipeline, table, keys), keys)


def _rows(pipeline: Pipeline, table: TableId, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    found = pipeline.lake.batches(pipeline.table_path(SNAPSHOT.name, table), columns=(*keys, INVALID))
    return iter(found)
