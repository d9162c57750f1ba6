"""The statements that may give columns of row filters other names, as they will be stored.

A run stores its statements when it has decoded its changes, and a filter judges these changes by the names behind the statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.known_tables import known_tables, ruled_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.flows.tables_plan import TablesPlan
from dts_assets.model.column_rules import first_difference
from dts_assets.model.ledger_rows import Cut
from dts_assets.model.spans import Cell
from dts_assets.planning.staleness import FILTERS_INPUT, OTHER_NAMES, input_text
from dts_assets.planning.topic_marks import offsets_in, statements_input
from dts_assets.stages.ddl_statements import DDL_ENTRY_COLUMNS, ddl_rows, source_statements, statements
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.store.commit import Rectangle
from dts_assets.store.files import read_batches
from dts_assets.wire.ddl.schema_history import SourceStatement


def statements_of_run(pipeline: Pipeline, plan: TablesPlan) -> tuple[SourceStatement, ...]:
    """Return all statements as they are stored behind a run; none without filters."""
    if not pipeline.settings.rows:
        return ()
    again = {window.start for window in plan.windows_again}
    kept = (one for one in stored_statements(pipeline, None) if one.window_start not in again)
    found = [
        one for cell in plan.history.statements if cell.window.start in again for one in _in_cell(pipeline, plan, cell)
    ]
    return (*kept, *found)


def _in_cell(pipeline: Pipeline, plan: TablesPlan, cell: Cell) -> Iterator[SourceStatement]:
    """Yield the statements of a cell that count."""
    path, counted = pipeline.path("entries"), pa.array(sorted(plan.history.statements[cell]), pa.int64())
    rectangle: Rectangle = {"window_start": {cell.window.start}, "kafka_partition": {cell.kafka_partition}}
    files = pipeline.lake.data_files(path, rectangle) if len(counted) else []
    store = pipeline.lake.file_store(path)
    for batch in read_batches(store, [file.path for file in files], (*DDL_ENTRY_COLUMNS, "shard")):
        wanted = pc.and_(pc.equal(batch["message_type"], "DDL"), pc.is_in(batch["last_offset"], value_set=counted))
        ddl = batch.filter(pc.fill_null(wanted, False))
        if not ddl.num_rows:
            continue
        lineages = entry_lineages(ddl, plan.history.rules(cell))
        ddl = ddl.append_column("lineage", pa.array(lineages))
        yield from source_statements(ddl_rows(ddl, statements(ddl)))


def judged_otherwise(pipeline: Pipeline, plan: TablesPlan) -> list[Cut]:
    """Return the marks of other windows that a filter judged without the statements of a run.

    They are stale from now on: the next run makes their rows by the names that the columns had.
    """
    again = {window.start for window in plan.windows_again}
    if not pipeline.settings.rows or not any(cell.window.start in again for cell in plan.history.statements):
        return []
    cuts, said = pipeline.ledger.cuts(), tuple(stored_statements(pipeline, None))
    # A window that is made again may have got statements since its last mark; other windows were judged without these.
    marked = {place for cut in cuts for place in _marked_statements(cut, pipeline.kafka_partitions)}
    known = [one for one in said if one.place in marked]
    tables = [table for table in known_tables(pipeline) if pipeline.settings.row_filter(table) is not None]
    before, now = ruled_tables(pipeline, tables, known), ruled_tables(pipeline, tables, said)
    since = {table: first for table in now if (first := first_difference(before[table], now[table])) is not None}
    if not since:
        return []
    others = [one for one in cuts if one.window.start not in again]
    # A statement may arrive one window behind rows of other Kafka partitions. What was left out has no position.
    start = min(cell.window for cell in plan.history.statements if cell.window.start in again)
    begin = (pipeline.grid.previous(start) or start).start
    concerned = {
        row.window_start
        for row in pipeline.ledger.window_tables([one.window for one in others])
        if row.table in since
        and (
            (row.last_position is not None and row.last_position >= since[row.table])
            or (row.filtered and row.window_start >= begin)
        )
    }
    text = input_text(FILTERS_INPUT, OTHER_NAMES)
    return [
        replace(one, inputs=(*one.inputs, text))
        for one in others
        if one.window.start in concerned and text not in one.inputs
    ]


def _marked_statements(mark: Cut, kafka_partitions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the Kafka partitions and offsets of the statements that a mark was made with."""
    then = dict(text.rsplit("=", 1) for text in mark.inputs)
    for partition in kafka_partitions:
        for offset in offsets_in(then.get(statements_input(Cell(partition, mark.window)), "")):
            yield partition, offset
