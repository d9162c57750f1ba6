"""Open windows to which nothing can be appended: changes at one place came in pieces.

The changes at a place are numbered in their order, and a run that appends does not know how many came there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.open_windows import files_of_cells
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.tables_plan import TablesPlan
from dts_assets.flows.tables_tasks import TablesResult
from dts_assets.model.spans import Cell
from dts_assets.stages.rows_at_places import is_place_split
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import read_batches

_PLACE_COLUMNS = ("message_type", "last_offset", "schema", "event_time", "file_name", "position")


def windows_with_split_places(
    pipeline: Pipeline, plan: TablesPlan, results: Iterable[TablesResult]
) -> frozenset[datetime]:
    """Return the starts of open windows whose first new change shares the place of the last stored one.

    The run appends to these windows. Entries are read of the cells alone where a change of a table is not behind all stored ones.
    """
    stored = {
        (row.window_start, row.kafka_partition, row.table): row.last_position
        for row in plan.counted
        if row.window_start in plan.appends.marks and row.last_position is not None
    }
    doubted = {
        Cell(partition, pipeline.grid.of_start(start))
        for result in results
        for (start, partition, table), tally in result.tallies.items()
        if tally.first is not None
        and (last := stored.get((start, partition, table))) is not None
        and tally.first <= last
    }
    return frozenset(cell.window.start for cell in sorted(doubted) if _is_split(pipeline, plan, cell))


def _is_split(pipeline: Pipeline, plan: TablesPlan, cell: Cell) -> bool:
    path, end = pipeline.path("entries"), plan.appends.from_offsets[cell.kafka_partition, cell.window.start]
    rectangle: Rectangle = {"window_start": {cell.window.start}, "kafka_partition": {cell.kafka_partition}}
    files = files_of_cells(pipeline, pipeline.lake.data_files(path, rectangle), plan.ingested).get(cell, [])
    batches = read_batches(pipeline.lake.file_store(path), [file.path for file in files], _PLACE_COLUMNS)
    table = pa.Table.from_batches(batches).filter(pc.equal(pc.field("message_type"), "DML")).combine_chunks()
    if not table.num_rows:
        return False
    (entries,) = table.to_batches()
    return is_place_split(entries, pc.sum(pc.less(entries["last_offset"], end)).as_py())
