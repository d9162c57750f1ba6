"""Copies of the made-up database: its rows at some moment, written as a reader of the database would write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from random import Random
from typing import Any

import pyarrow as pa

from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import add_chunks, begin, finish, prepare
from dts_assets.flows.jdbc_rows import write_chunk
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.copied_texts import stored_kind
from tests.flows.harness import Harness, table_id
from tests.flows.source import Position
from tests.flows.source_tables import Row, Table


@dataclass(frozen=True)
class Read:
    """Rows that were read between two looks at the binlog, as they were at some position between."""

    low: Position
    high: Position
    rows: tuple[Row, ...]


def reads_of(
    table: Table, at: Callable[[Position], Iterable[Row]], positions: list[Position], random: Random
) -> list[Read]:
    """A few chunks by key, each read somewhere between two positions; ``at`` has all rows of the table then."""
    chunks, found = random.randint(1, 4), []
    for number in range(chunks):
        low, read, high = sorted(random.choices(positions, k=3))
        rows = (row for row in at(read) if hash(repr(table.key(row))) % chunks == number)
        found.append(Read(low, high, tuple(rows)))
    return found


def copy_rows(
    harness: Harness,
    table: Table,
    reads: Iterable[Read],
    kind: CopyKind = CopyKind.BOOTSTRAP,
    *,
    finished: bool = True,
) -> CopiedTable:
    """A copy of a table, whole, that no window has taken yet; or one that has all its chunks and is not finished."""
    pipeline, reads = harness.pipeline, list(reads)
    pipeline.check_shape()
    columns = tuple(ColumnShape(one.name, one.kind.original_type, one.is_key) for one in table.columns)
    chunks = [CopiedChunk(number, None, None) for number in range(len(reads))]
    rules = rules_to_pass(pipeline, table_id(table.name), columns)
    copied = begin(pipeline, table_id(table.name), columns, kind, "a test", chunks, rules)
    prepare(pipeline, copied)
    for number, read in enumerate(reads):
        target = pipeline.lake.target(copies_path(pipeline, copied.table), pipeline.new_run())
        chunk = CopiedChunk(number, None, None, SourcePosition(0, *read.low), SourcePosition(0, *read.high))
        written = write_chunk(target, copied.copy, chunk, columns, [texts(columns, read.rows)], "0", 0, rules)
        copied = add_chunks(pipeline, copied, [written.chunk], written.files)
    return finish(pipeline, copied) if finished else copied


def texts(columns: Iterable[ColumnShape], rows: Iterable[Row]) -> pa.RecordBatch:
    """Rows as a server prints them in UTC."""
    rows, columns = list(rows), list(columns)
    arrays = []
    for column in columns:
        binary = stored_kind(column) == "binary"
        values = [row[column.name] for row in rows]
        kind = pa.binary() if binary else pa.string()
        arrays.append(pa.array([None if one is None else one if binary else _text(one) for one in values], kind))
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f" if value.microsecond else "%Y-%m-%d %H:%M:%S")
    if isinstance(value, date):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else str(value)


def rows_of(contents: Mapping[str, Mapping[Any, Row]], name: str) -> Iterable[Row]:
    return contents[name].values()
