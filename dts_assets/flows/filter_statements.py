"""The statements that may give columns of row filters other names, as they will be stored.

A run stores its statements when it has decoded its changes, and a filter judges these changes by the names behind the statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.flows.known_tables import known_tables, ruled_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.flows.tables_plan import TablesPlan
from dts_assets.model.column_rules import first_difference
from dts_assets.model.ledger_rows import Cut, WindowTable
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
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


@dataclass(frozen=True, slots=True)
class JudgedOtherwise:
    """The windows whose rows filters judged without the statements of a run.

    ``others`` are the marks of those that the run leaves as they are. They are stale from now on: the next run makes their
    rows by the names that columns had. ``appended`` are the starts of the windows that the run was to append to.
    """

    others: tuple[Cut, ...] = ()
    appended: frozenset[datetime] = frozenset()


def judged_otherwise(pipeline: Pipeline, plan: TablesPlan) -> JudgedOtherwise:
    """Return the windows that a filter judged without the statements of a run, before the run stores these."""
    if not pipeline.settings.rows or not plan.selection.whole:
        return JudgedOtherwise()
    changed = _with_other_statements(pipeline, plan)
    if not changed:
        return JudgedOtherwise()
    again = {window.start for window in plan.windows_again}
    cuts = pipeline.ledger.cuts()
    # A window that is made again may have got statements since its last mark; others were judged without these.
    marked = {place for cut in cuts for place in _marked_statements(cut, pipeline.kafka_partitions)}
    known = [one for one in stored_statements(pipeline, None) if one.place in marked]
    tables = [table for table in known_tables(pipeline) if pipeline.settings.row_filter(table) is not None]
    before = ruled_tables(pipeline, tables, known)
    now = ruled_tables(pipeline, tables, statements_of_run(pipeline, plan))
    since = {table: first for table in now if (first := first_difference(before[table], now[table])) is not None}
    if not since:
        return JudgedOtherwise()
    # A statement may arrive one window behind rows of other Kafka partitions. What was left out has no position.
    begin = (pipeline.grid.previous(min(changed)) or min(changed)).start

    def concerned(rows: Iterable[WindowTable]) -> set[datetime]:
        return {
            row.window_start
            for row in rows
            if row.table in since
            and (
                (row.last_position is not None and row.last_position >= since[row.table])
                or (row.filtered and row.window_start >= begin)
            )
        }

    others = [one for one in cuts if one.window.start not in again]
    stale = concerned(pipeline.ledger.window_tables([one.window for one in others]))
    return JudgedOtherwise(
        tuple(with_other_names(one) for one in others if one.window.start in stale),
        frozenset(concerned(plan.counted) & plan.appends.marks.keys()),
    )


def with_other_names(mark: Cut) -> Cut:
    """Return a mark with the input that says that filters judged by former names of columns."""
    text = input_text(FILTERS_INPUT, OTHER_NAMES)
    return mark if text in mark.inputs else replace(mark, inputs=(*mark.inputs, text))


def _with_other_statements(pipeline: Pipeline, plan: TablesPlan) -> set[Window]:
    """Return the windows to make whose statements that count are not those of their marks."""
    now, found = plan.history.statements, set()
    for window in plan.windows_again:
        mark = plan.stored.get(window.start)
        then = set() if mark is None else {*_marked_statements(mark, pipeline.kafka_partitions)}
        cells = (Cell(partition, window) for partition in pipeline.kafka_partitions)
        if then != {(cell.kafka_partition, offset) for cell in cells for offset in now.get(cell, ())}:
            found.add(window)
    return found


def _marked_statements(mark: Cut, kafka_partitions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the Kafka partitions and offsets of the statements that a mark was made with."""
    then = dict(text.rsplit("=", 1) for text in mark.inputs)
    for partition in kafka_partitions:
        for offset in offsets_in(then.get(statements_input(Cell(partition, mark.window)), "")):
            yield partition, offset
