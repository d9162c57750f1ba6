"""Parquet files as workers write and read them, without a catalog or Spark.

Workers need a table's folder, its schema and its file store. A writer holds little: rows of a partition tuple are buffered up to
one row group, all tuples together up to a limit. A file belongs to no table until :mod:`dts_assets.store.commit` says so;
files that a failed or repeated task leaves behind are orphans under ``data/<run id>/``, never duplicates.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.transforms import parse_transform
from pyiceberg.types import UnknownType

from dts_assets.errors import LakeTableError
from dts_assets.model.offsets import OffsetRange
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import NamedType
from dts_assets.store.file_stores import FileStore
from dts_assets.store.open_files import file_io, open_parquet
from dts_assets.store.types import FIELD_ID, arrow_schema, iceberg_schema

ROW_GROUP_BYTES = 32 << 20
"""The bytes of Arrow data per row group.

A reader of raw holds one row group at a time, forwards or backwards.
"""

BUFFER_BYTES = 128 << 20
"""Bytes that a writer buffers over all its partition tuples before it writes the largest out."""

_WRITE_BATCH_BYTES = 1 << 20

_SMALL_BYTES = 32 << 10
"""The bytes of Arrow data below which a file is written without zstd and dictionaries.

zstd and dictionaries are set up for every column anew: a changelog file of 13 rows takes 1 ms instead of 4, and is no larger.
"""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The place for the files that a worker writes for one table; picklable.

    ``schema`` is the table's Arrow schema with field ids, as Arrow IPC bytes; ``partition_by`` names the partition columns in
    the order of the table's partition fields; ``run`` is the folder under ``data`` that this run's files share. ``transforms``
    are Iceberg's names of the transforms of partition columns, ``("month", "bucket[16]")``, whose values may be null; without
    them the columns' own values count, and none may be null. The rows of each row group are sorted by ``sort_by``. Columns in
    ``distinct`` hold a value of its own in nearly every row, as the only column of a key does. ``former_ids`` has, by the id of a
    converted column, the id that it has in files that were written before.
    """

    location: str
    schema: bytes
    partition_by: tuple[str, ...]
    run: str
    store: FileStore = field(default_factory=FileStore)
    compression: str = "zstd"
    transforms: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()
    former_ids: Mapping[bytes, bytes] = field(default_factory=dict)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema that files are written with."""
        return pa.ipc.read_schema(pa.BufferReader(self.schema))


FIRST_OWN_ID = 1 << 30
"""The first field id of columns that no table has."""


def with_columns(target: WriteTarget, columns: Iterable[NamedType], *, first: int = 0) -> WriteTarget:
    """Return the place for files with more columns than the table has: files between two steps.

    ``first`` is the number of the first of them among all such columns, which tells them apart from step to step.
    """
    more = [
        field.with_metadata({FIELD_ID: str(FIRST_OWN_ID + first + number).encode()})
        for number, field in enumerate(arrow_schema(iceberg_schema(tuple(columns))))
    ]
    whole = target.arrow_schema
    return replace(target, schema=pa.schema([*whole, *more], whole.metadata).serialize().to_pybytes())


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file: its path, the partition tuple of its rows, their number, and its size in bytes."""

    path: str
    partition: tuple[Any, ...]
    rows: int
    bytes: int


class TableWriter:
    """A writer of one table's batches in one task, with one file per partition tuple.

    ``attempt`` goes into the file names, so that a task's files can be told from those of its repetition. Used as a context
    manager it removes its files if the body raises; :meth:`close` returns the finished files.
    """

    def __init__(
        self,
        target: WriteTarget,
        attempt: str = "0",
        *,
        row_group_bytes: int = ROW_GROUP_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._target = target
        self._schema = target.arrow_schema
        self._attempt = attempt
        self._row_group_bytes = row_group_bytes
        self._buffer_bytes = buffer_bytes
        self._buffered = 0
        self._open: dict[tuple[Any, ...], _OpenFile] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in their order; columns are matched by name, a missing one is null.

        Raises:
            LakeTableError: A column is not the table's, a value does not fit its type, or a partition value is null.
        """
        if batch.num_rows == 0:
            return
        batch = cast_to_schema(batch, self._schema, self._target.location, self._target.former_ids)
        for partition, rows in _split(batch, self._target):
            self._add(partition, rows)

    def write_partition(self, partition: tuple[Any, ...], batch: pa.RecordBatch) -> None:
        """Add rows that the caller knows to share ``partition``; the commit checks it again from the file's footer.

        Raises:
            LakeTableError: A column is not the table's, or a value does not fit its type.
        """
        if batch.num_rows:
            self._add(partition, cast_to_schema(batch, self._schema, self._target.location, self._target.former_ids))

    def close(self) -> tuple[WrittenFile, ...]:
        """Finish all files and return them, in the order in which their partition tuples first came."""
        written = tuple(opened.close() for opened in self._open.values())
        self._open.clear()
        return written

    def abort(self) -> None:
        """Remove all files that were written."""
        for opened in self._open.values():
            opened.abort()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _add(self, partition: tuple[Any, ...], batch: pa.RecordBatch) -> None:
        opened = self._open.get(partition)
        if opened is None:
            opened = self._open[partition] = _OpenFile(self._target, self._schema, self._attempt, partition)
        for piece in _pieces(batch, self._row_group_bytes):
            self._buffered += opened.add(piece)
            if opened.buffered >= self._row_group_bytes:
                self._buffered -= opened.flush()
        while self._buffered > self._buffer_bytes:
            self._buffered -= max(self._open.values(), key=lambda one: one.buffered).flush()


class _OpenFile:
    """A file being written.

    Its Parquet writer is opened at the first row group, when the size of a row is known.
    """

    def __init__(self, target: WriteTarget, schema: pa.Schema, attempt: str, partition: tuple[Any, ...]) -> None:
        self.path = f"{target.location}/data/{target.run}/{attempt}-{uuid.uuid4().hex}.parquet"
        self.buffered = 0
        self._partition = partition
        self._target = target
        self._schema = schema
        self._io = file_io(target.store, target.location)
        self._batches: list[pa.RecordBatch] = []
        self._stream: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> int:
        """Buffer a batch, and return its size in bytes."""
        size: int = batch.nbytes
        self._batches.append(batch)
        self.buffered += size
        return size

    def flush(self) -> int:
        """Write the buffered batches as one row group, and return the bytes that they took."""
        freed, self.buffered = self.buffered, 0
        batches, self._batches = self._batches, []
        if batches:
            table = pa.Table.from_batches(batches, self._schema)
            if self._target.sort_by:
                table = table.sort_by([(name, "ascending") for name in self._target.sort_by])
            self._rows += table.num_rows
            with self._target.store.explained():
                writer = self._writer or self._start(max(1, freed // table.num_rows), small=freed < _SMALL_BYTES)
                writer.write_table(table, row_group_size=table.num_rows)
        return freed

    def close(self) -> WrittenFile:
        """Write the buffered rows and the footer."""
        self.flush()
        assert self._writer is not None, "a file is opened with its first rows"
        with self._target.store.explained():
            self._writer.close()
            size = self._stream.tell()
            self._stream.close()
        return WrittenFile(self.path, self._partition, self._rows, size)

    def abort(self) -> None:
        """Drop the file. If it cannot be removed it is an orphan, which harms nothing."""
        self._batches.clear()
        if self._writer is not None:
            for undo in (self._writer.close, self._stream.close, partial(self._io.delete, self.path)):
                with suppress(OSError, pa.ArrowException):
                    undo()

    @property
    def _is_local(self) -> bool:
        return "://" not in self.path or self.path.startswith("file://")

    def _start(self, row_bytes: int, *, small: bool) -> pq.ParquetWriter:
        leaves, distinct = _leaves(self._target.schema), set(self._target.distinct)
        plain = [path for path, kind in leaves.items() if not pa.types.is_binary(kind)]
        codec = "snappy" if small and self._target.compression == "zstd" else self._target.compression
        self._stream = self._io.new_output(self.path).create(overwrite=True)
        self._writer = pq.ParquetWriter(
            self._stream,
            self._schema,
            # Keys are looked for in all rows. Integers are read three times as fast as they are, if no network carries them.
            compression={
                path: "none" if path in distinct and pa.types.is_integer(kind) and self._is_local else codec
                for path, kind in leaves.items()
            },
            # Payloads and keys repeat too rarely for a dictionary, and payloads' bounds would only swell the footer.
            use_dictionary=False if small else [path for path in plain if path not in distinct],
            write_statistics=plain,
            # Pages are cut between write batches only: 1,024 rows of 500 KB would make one page of half a gigabyte.
            write_batch_size=min(1024, max(1, _WRITE_BATCH_BYTES // row_bytes)),
            store_schema=False,
            write_page_checksum=True,
        )
        return self._writer


def read_batches(
    store: FileStore,
    paths: Sequence[str],
    columns: Sequence[str],
    *,
    offsets: OffsetRange | None = None,
    batch_bytes: int = ROW_GROUP_BYTES,
    backwards: bool = False,
    parts: Mapping[str, Collection[str]] = MappingProxyType({}),
    optional: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield batches of some columns of some files, in the order of files and rows.

    One row group is in memory at a time. ``offsets`` keeps only rows whose ``offset`` lies in the range; row groups and files
    whose footer excludes them are not read. A row group of more than ``batch_bytes`` comes in several batches of equal size.
    ``backwards`` takes files and row groups last first, each row group being one batch in its own ascending order. ``parts``
    names fields of structs, without the others: ``{"before": ["id"]}``. A struct without these comes whole. ``optional`` columns
    are left out where a file lacks them.

    Raises:
        LakeTableError: A file lacks one of ``columns``, or ``offset`` where ``offsets`` are given.
        ExpiredCredentialsError: The vended credentials of the store have expired.
    """
    wanted = list(dict.fromkeys([*columns, "offset"] if offsets is not None else columns))
    kept = partial(_kept, columns=list(columns), offsets=offsets)
    for path in reversed(paths) if backwards else paths:
        with open_parquet(store, path) as opened:
            if missing := {*wanted} - {*opened.schema_arrow.names, *optional}:
                raise LakeTableError(
                    path, f"this data file has no column {', '.join(sorted(missing))}", "materialize its window again"
                )
            groups, leaves = _row_groups(opened.metadata, offsets), _leaves_of(opened.schema_arrow, wanted, parts)
            for group in reversed(groups) if backwards else groups:
                rows = _rows_of(opened.metadata.row_group(group), wanted, None if backwards else batch_bytes)
                # Mapped, because a loop would hold each batch as it was read for as long as its reader works on it.
                batches = map(kept, opened.iter_batches(rows, row_groups=[group], columns=leaves))
                yield from filter(lambda batch: batch.num_rows, batches)


def _leaves_of(schema: pa.Schema, columns: Sequence[str], parts: Mapping[str, Collection[str]]) -> list[str]:
    """Return columns as Parquet paths, those of ``parts`` by their fields: ``["op", "before.id"]``."""
    structs = [one for one in map(schema.field, parts) if pa.types.is_struct(one.type)]
    fields = {one.name: [part.name for part in one.type if part.name in parts[one.name]] for one in structs}
    return [path for name in columns for path in ([f"{name}.{field}" for field in fields.get(name, ())] or [name])]


def _kept(batch: pa.RecordBatch, *, columns: list[str], offsets: OffsetRange | None) -> pa.RecordBatch:
    if offsets is not None:
        values = batch.column("offset")
        inside = pc.and_(pc.greater_equal(values, offsets.start), pc.less(values, offsets.end))
        batch = batch if pc.all(inside).as_py() else batch.filter(inside)
    return batch.select([name for name in columns if name in batch.schema.names])


def _rows_of(group: pq.RowGroupMetaData, columns: Sequence[str], batch_bytes: int | None) -> int:
    """Return the number of rows of a row group to read at a time."""
    rows: int = group.num_rows
    if batch_bytes is None:
        return max(1, rows)
    chunks = (group.column(number) for number in range(group.num_columns))
    size: int = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.partition(".")[0] in columns)
    return max(1, -(-rows // max(1, -(-size // batch_bytes))))


def _row_groups(metadata: pq.FileMetaData, offsets: OffsetRange | None) -> list[int]:
    """Return the row groups whose bounds of the offsets meet ``offsets``."""
    numbers = list(range(metadata.num_row_groups))
    position = leaf_column(metadata, "offset") if numbers and offsets is not None else None
    if offsets is None or position is None:
        return numbers
    bounds = [metadata.row_group(number).column(position).statistics for number in numbers]
    return [
        number
        for number, one in zip(numbers, bounds, strict=True)
        if one is None or not one.has_min_max or (one.max >= offsets.start and one.min < offsets.end)
    ]


def leaf_column(metadata: pq.FileMetaData, path: str) -> int | None:
    """Return the number of the leaf column at a Parquet path, None without one. The file has rows."""
    first = metadata.row_group(0)
    return next((i for i in range(metadata.num_columns) if first.column(i).path_in_schema == path), None)


def _split(batch: pa.RecordBatch, target: WriteTarget) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield each partition tuple with its rows, in the order of first rows: ``((0, <start>), <batch>)``.

    Raises:
        LakeTableError: A partition column is null, and the table is not one whose partition values may be null.
    """
    names = target.partition_by
    if not names:
        yield (), batch
        return
    columns = [batch.column(name) for name in names]
    if target.transforms:
        columns = [_transformed(one, kind) for one, kind in zip(columns, target.transforms, strict=True)]
    else:
        for name, column in zip(names, columns, strict=True):
            if column.null_count:
                raise LakeTableError(
                    target.location, f"{column.null_count} rows have no {name}, a column that it is partitioned by"
                )
    bounds = [pc.min_max(column) for column in columns]
    if all(bound["min"] == bound["max"] and not one.null_count for bound, one in zip(bounds, columns, strict=True)):
        yield tuple(bound["min"].as_py() for bound in bounds), batch
        return
    code = np.zeros(batch.num_rows, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        code = code * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    for number in np.argsort(first):
        where = int(first[number])
        rows = np.flatnonzero(group == number)
        yield tuple(column[where].as_py() for column in columns), batch.take(pa.array(rows))


def _transformed(column: pa.Array, transform: str) -> pa.Array:
    """Return the partition values of a column, by Iceberg's name of the transform."""
    # The function goes by the type of the array; it does not look at the type that is asked for here.
    return parse_transform(transform).pyarrow_transform(UnknownType())(column)


def _pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces that are not much larger than ``limit`` bytes."""
    parts = min(batch.num_rows, max(1, -(-batch.nbytes // limit)))
    step = -(-batch.num_rows // parts)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


@lru_cache(maxsize=4096)
def _leaves(schema: bytes) -> Mapping[str, pa.DataType]:
    """Return the types of leaf columns by their Parquet paths: ``before.id``, ``absent.list.element``.

    The schema is given as Arrow IPC bytes.
    """

    def walk(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
        if pa.types.is_struct(kind):
            for child in kind:
                yield from walk(child.type, f"{path}.{child.name}")
        elif pa.types.is_map(kind):
            yield from walk(kind.key_type, f"{path}.key_value.key")
            yield from walk(kind.item_type, f"{path}.key_value.value")
        elif pa.types.is_list(kind):
            yield from walk(kind.value_type, f"{path}.list.element")
        else:
            yield path, kind

    columns = pa.ipc.read_schema(pa.BufferReader(schema))
    return dict(leaf for column in columns for leaf in walk(column.type, column.name))
