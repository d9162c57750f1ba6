"""Copies of a table of a life at one of its moments, written as a reader of the database writes them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa

from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import add_chunks, begin, finish, prepare
from dts_assets.flows.jdbc_rows import write_chunk
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.copied_texts import copied_type
from tests.dts_emulator.judged_histories import position_of
from tests.dts_emulator.server_lives import Held, Life
from tests.flows.harness import Harness

COPIED = TableId("d", "", "items")
"""The table that is copied."""


def copy_at(harness: Harness, life: Life, number: int) -> bool:
    """Copy the table as it was at a moment, and tell whether it was there."""
    moment = life.moments[number % len(life.moments)]
    held = moment.tables.get(COPIED)
    if held is None or not moment.end:
        return False
    pipeline = harness.pipeline
    pipeline.check_shape()
    columns = tuple(ColumnShape(one.name, one.type, one.name in held.schema.key) for one in held.schema.columns)
    rules = rules_to_pass(pipeline, COPIED, columns)
    kind = CopyKind.RESYNC if any(pipeline.ledger.copied_tables()) else CopyKind.BOOTSTRAP
    copied = begin(pipeline, COPIED, columns, kind, "a test", [CopiedChunk(0, None, None)], rules)
    prepare(pipeline, copied)
    at: SourcePosition = position_of(life.transactions[moment.end - 1])
    target = pipeline.lake.target(copies_path(pipeline, copied.table), pipeline.new_run())
    chunk = CopiedChunk(0, None, None, at, at)
    written = write_chunk(target, copied.copy, chunk, columns, [_texts(columns, held)], "0", 0, rules)
    finish(pipeline, add_chunks(pipeline, copied, [written.chunk], written.files))
    return True


def _texts(columns: tuple[ColumnShape, ...], held: Held) -> pa.RecordBatch:
    """Rows as a server prints them in UTC."""
    arrays = []
    for place, column in enumerate(columns):
        arrays.append(pa.array([_text(row[place]) for row in held.rows], copied_type(column)))
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


def _text(value: Any) -> Any:
    if value is None or isinstance(value, bytes | str):
        return value
    if isinstance(value, tuple):
        return value[1]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f" if value.microsecond else "%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else repr(value) if isinstance(value, float) else str(value)
