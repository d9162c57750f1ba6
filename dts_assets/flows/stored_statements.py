"""The statements of a subscription, as the table ``ddl`` has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

import pyarrow as pa

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.positions import SourcePosition
from dts_assets.planning.snapshot_plans import may_reach
from dts_assets.stages.ddl_statements import source_statements
from dts_assets.store.files import read_batches
from dts_assets.store.schemas import POSITION_COLUMNS
from dts_assets.store.stored_files import last_position
from dts_assets.wire.ddl.schema_history import SourceStatement

_KEYS = "foreign_keys"
DDL_COLUMNS = (
    "kafka_partition", "window_start", "kafka_offset", "source_position", "gtid", "event_time", "execution_seconds",
    "database", "sql", "effect", "source_type", "source_set",
)  # fmt: skip


def stored_statements(
    pipeline: Pipeline, starts: Collection[datetime] | None, *, since: SourcePosition | None = None
) -> Iterator[SourceStatement]:
    """Yield the statements of some windows (None: of all), as the table ``ddl`` has them.

    Files that have no statement at or behind ``since`` are not read.
    """
    for rows in _ddl_rows(pipeline, starts, since):
        yield from source_statements(rows)


def windows_with_keys(pipeline: Pipeline) -> frozenset[datetime]:
    """Return the starts of the windows whose statements declare foreign keys, or may do so.

    No file is read: those of earlier versions do not tell it.
    """
    path = pipeline.path("ddl")
    table = pipeline.lake.table(path)
    if table is None:
        return frozenset()
    told = [_KEYS] if _KEYS in table.schema().column_names else []
    files = pipeline.lake.data_files(path, {"stage": {"tables"}}, bounds=told)
    return frozenset(file.partition["window_start"] for file in files if file.greatest.get(_KEYS, 1))


def _ddl_rows(
    pipeline: Pipeline, starts: Collection[datetime] | None, since: SourcePosition | None
) -> Iterator[pa.RecordBatch]:
    path = pipeline.path("ddl")
    rectangle: dict[str, set[object]] = (
        {"stage": {"tables"}} if starts is None else {"window_start": set(starts), "stage": {"tables"}}
    )
    bounds = () if since is None else POSITION_COLUMNS
    files = [] if starts is not None and not starts else pipeline.lake.data_files(path, rectangle, bounds=bounds)
    files = [file for file in files if since is None or may_reach(last_position(file), since)]
    store = pipeline.lake.file_store(path) if files else None
    for file in files:
        assert store is not None, "files have a store"
        yield from read_batches(
            store, [file.path], DDL_COLUMNS, optional=("source_type", "source_set")
        )  # an earlier version had none
