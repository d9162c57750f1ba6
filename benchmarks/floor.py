"""The least that a window can cost: as many bytes read and written, without decoding.

What would be decoded is taken from a :class:`Template` instead: rows of entries and changelogs that a real run made, written
again and again as payload comes by. Layout of the files, tasks and commits are the product's own; there is no ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workbench import Workbench
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.spark_tasks import run_tasks
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.sources.source import Source
from dts_assets.stages.cell_decoder import CHUNK_BYTES
from dts_assets.stages.raw_rows import with_coordinates
from dts_assets.store.commit import Rectangle
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, read_batches
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import ENTRIES, RAW_ENVELOPES, TableLayout, changelog_layout

Files: TypeAlias = tuple[WrittenFile, ...]

_RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_ENTRIES_COLUMNS = (
    "kafka_partition", "epoch", "window_start", "last_offset", "event_time", "gtid", "transaction_id", "file_name", "position",
    "message_type", "database", "schema", "table", "rows", "payload",
)  # fmt: skip
_TEMPLATE_BYTES = 256 << 20
"""Bytes of a template, enough for several row groups of each table.

A row that comes twice in one group would be written as an index into a dictionary.
"""


@dataclass(frozen=True, slots=True)
class Template:
    """The Arrow files that hold the rows of some payload."""

    payload: int
    entries: str
    changelogs: Mapping[TableId, str]


@dataclass(frozen=True, slots=True)
class _Copy:
    source: Source
    cell: Cell
    offsets: OffsetRange
    target: WriteTarget


@dataclass(frozen=True, slots=True)
class _Entries:
    cell: Cell
    paths: tuple[str, ...]
    target: WriteTarget
    template: Template


@dataclass(frozen=True, slots=True)
class _Changelogs:
    window_start: datetime
    paths: tuple[str, ...]
    targets: Mapping[TableId, WriteTarget]
    template: Template


def make_template(pipeline: Pipeline, folder: Path) -> Template:
    """Rows of some of the payload out of what a run of the product made."""
    folder.mkdir()
    entries, payload = [], 0
    for batch in _stored(pipeline, "entries"):
        entries.append(batch)
        payload += batch["payload"].nbytes
        if payload >= _TEMPLATE_BYTES:
            break
    total = sum(row.bytes for row in pipeline.ledger.raw_windows())
    changelogs = {}
    for number, table in enumerate(known_tables(pipeline)):
        path = pipeline.table_path("changelog", table)
        rows = sum(file.rows for file in pipeline.lake.data_files(path)) * payload // total
        made = pa.Table.from_batches(list(_stored(pipeline, *path[1:]))).slice(0, rows)
        changelogs[table] = _keep(made, folder / f"{number}.arrow")
    return Template(payload, _keep(pa.Table.from_batches(entries), folder / "entries.arrow"), changelogs)


def run(bench: Workbench, name: str, model: Pipeline, template: Template) -> int:
    """Raw, entries and changelogs of everything that ``model`` has; the bytes of the files written."""
    lake, rows = Lake(bench.lake), {row.cell: row for row in model.ledger.raw_windows()}
    cells = sorted(rows)
    windows = sorted({cell.window.start for cell in cells})
    rectangle: Rectangle = {"kafka_partition": set(model.kafka_partitions), "window_start": set(windows)}

    target = _target(lake, (name, "raw_envelopes"), RAW_ENVELOPES)
    copies = [_Copy(model.source, cell, rows[cell].offsets, target) for cell in cells]
    raw = run_tasks(bench.spark, copies, _copy, weight=lambda task: rows[task.cell].bytes)
    lake.replace((name, "raw_envelopes"), rectangle, _all(raw))

    target = _target(lake, (name, "entries"), ENTRIES)
    headers = [
        _Entries(cell, _paths(files), target, template) for cell, files in zip(cells, raw, strict=True)
    ]  # fmt: skip
    entries = run_tasks(bench.spark, headers, _entries, weight=lambda task: rows[task.cell].bytes)
    lake.replace((name, "entries"), rectangle, _all(entries))

    paths = {table: (name, "changelog", *table.path) for table in template.changelogs}
    known = known_tables(model)
    targets = {table: _target(lake, path, changelog_layout(table, known[table])) for table, path in paths.items()}
    by_window = {
        start: [files for cell, files in zip(cells, entries, strict=True) if cell.window.start == start]
        for start in windows
    }
    changes = [
        _Changelogs(start, _paths(_all(files)[half::2]), targets, template)
        for start, files in by_window.items()
        for half in range(2)
    ]
    made = run_tasks(bench.spark, changes, _changelogs, weight=lambda task: len(task.paths))
    for table, path in paths.items():
        lake.replace(path, {"window_start": set(windows)}, _all([files[table] for files in made]))
    everything = [*_all(raw), *_all(entries), *(file for files in made for file in _all(files.values()))]
    return sum(file.bytes for file in everything)


def _copy(task: _Copy, attempt: str) -> Files:
    """Raw as the product copies it, without a digest and without counting."""
    with TableWriter(task.target, attempt) as writer:
        for batch in task.source.read(task.cell.kafka_partition, task.offsets):
            writer.write(with_coordinates(batch, cell=task.cell, epoch=0))
        return writer.close()


def _entries(task: _Entries, attempt: str) -> Files:
    """Raw is read, and as many rows of the template written as its payload stands for."""
    repeated = _Repeated(task.template.entries, task.template.payload)
    place = {"kafka_partition": task.cell.kafka_partition, "window_start": task.cell.window.start}
    with TableWriter(task.target, attempt) as writer:
        for batch in read_batches(FileStore(), task.paths, _RAW_COLUMNS, batch_bytes=CHUNK_BYTES):
            for piece in repeated.after(batch["value"]):
                writer.write_partition(tuple(place.values()), _placed(piece, place))
        return writer.close()


def _changelogs(task: _Changelogs, attempt: str) -> dict[TableId, Files]:
    """Entries are read, and as many rows of every table written as their payload stands for."""
    template = task.template
    repeated = {table: _Repeated(path, template.payload) for table, path in template.changelogs.items()}
    with ExitStack() as stack:
        writers = {
            table: stack.enter_context(TableWriter(target, attempt)) for table, target in task.targets.items()
        }  # fmt: skip
        for batch in read_batches(FileStore(), task.paths, _ENTRIES_COLUMNS, batch_bytes=CHUNK_BYTES):
            for table, rows in repeated.items():
                for piece in rows.after(batch["payload"]):
                    placed = _placed(piece, {"window_start": task.window_start})
                    writers[table].write_partition((task.window_start,), placed)
        return {table: writer.close() for table, writer in writers.items()}


class _Repeated:
    """The rows of a template, given out in chunks, in proportion to the payload seen so far."""

    def __init__(self, path: str, payload: int) -> None:
        with pa.memory_map(path) as source:
            (self._rows,) = pa.ipc.open_file(source).read_all().combine_chunks().to_batches()
        self._payload = payload
        self._seen = 0
        self._given = 0

    def after(self, values: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
        self._seen += pc.sum(pc.binary_length(values)).as_py() or 0
        due = self._seen * self._rows.num_rows // self._payload
        while self._given < due:
            start = self._given % self._rows.num_rows
            piece = self._rows.slice(start, due - self._given)
            self._given += piece.num_rows
            yield piece


def _placed(rows: pa.RecordBatch, place: Mapping[str, Any]) -> pa.RecordBatch:
    for name, value in place.items():
        number = rows.schema.get_field_index(name)
        values = pa.repeat(pa.scalar(value, rows.schema.field(number).type), rows.num_rows)
        rows = rows.set_column(number, name, values)
    return rows


def _stored(pipeline: Pipeline, *path: str) -> Iterator[pa.RecordBatch]:
    """All rows of a table of the lake, as its files hold them."""
    for file in pipeline.lake.data_files(pipeline.path(*path)):
        with pq.ParquetFile(file.path.removeprefix("file://")) as parquet:
            yield from parquet.iter_batches(4096)


def _keep(rows: pa.Table, path: Path) -> str:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return str(path)


def _target(lake: Lake, path: Sequence[str], layout: TableLayout) -> WriteTarget:
    lake.ensure(path, layout)
    return lake.target(path, "floor")


def _all(files: Iterable[Files]) -> Files:
    return tuple(file for some in files for file in some)


def _paths(files: Iterable[WrittenFile]) -> tuple[str, ...]:
    return tuple(file.path for file in files)
