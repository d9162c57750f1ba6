"""Copies of tables from files and from Iceberg tables.

Their rows are those of one position, which a person declares or a dump tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError

from dts_assets.errors.databases import CopyError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import Copying, add_chunks, begin, finish, prepare, require_positions, unfinished
from dts_assets.flows.jdbc_rows import write_chunk
from dts_assets.flows.known_moments import known_position
from dts_assets.flows.known_tables import known_tables, source_types
from dts_assets.flows.reports import rate
from dts_assets.flows.schema_history import SchemaSources
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopiedTable, CopyKind
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtGtid, AtPosition, moment_of, position_of
from dts_assets.sources.dump_files import DumpedTable, rows_of_dump, tables_of_dump
from dts_assets.sources.table_files import batches_of, tables_of_folder
from dts_assets.stages.copied_texts import as_copied, as_dumped, declared_type, stored_kind
from dts_assets.store.columns import SNAPSHOT_SYSTEM
from dts_assets.wire.ddl.schema_model import apply
from dts_assets.wire.ddl.table_schemas import Catalog

_OURS = frozenset(name for name, _ in SNAPSHOT_SYSTEM)
"""Columns that snapshots have beside the source's: files that ``dts-assets as-of`` wrote have them, too."""

Rows = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table that are to be copied, and where they come from, for people.

    ``columns`` are those that the source tells, and ``at`` is the position that it tells. Else the lake and a person know.
    """

    table: TableId
    origin: str
    rows: Rows
    columns: tuple[ColumnShape, ...] = ()
    at: str = ""


def tables_of_files(work: Copying) -> Iterator[TableRows]:
    """Yield the tables that the files of a bootstrap have, or its Iceberg table.

    Raises:
        CopyError: There is no such Iceberg table, or several tables would be it.
    """
    source = work.bootstrap.source
    for folder, ending in ((source.parquet, ".parquet"), (source.csv, ".csv")):
        if folder is None:
            continue
        for table, files in tables_of_folder(folder, ending).items():
            origin = f"{ending[1:]} {folder.name}"
            yield TableRows(table, origin, partial(batches_of, table, files, ending))
    if source.table is not None:
        yield _iceberg_table(work, source.table)
    if source.mysqldump is not None:
        yield from _dumped_tables(source.mysqldump)


def _dumped_tables(file: Path) -> Iterator[TableRows]:
    """Yield the tables of a dump, with the columns that their definitions say.

    Raises:
        CopyError: The file cannot be read.
    """
    for dumped in tables_of_dump(file):  # a FLOAT's text has six digits there; docs/copies.md says so
        made = apply(Catalog(), dumped.definition, dumped.table.database).catalog.tables.get(dumped.table)
        columns = () if made is None else tuple(ColumnShape(c.name, c.type, c.name in made.key) for c in made.columns)
        at = "" if dumped.place is None else f"{dumped.place[0]}:{dumped.place[1]}"
        yield TableRows(
            dumped.table, f"mysqldump {file.name}", partial(_dumped_rows, file, dumped, columns), columns, at
        )


def _dumped_rows(file: Path, dumped: DumpedTable, columns: tuple[ColumnShape, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dumped table as texts.

    Raises:
        CopyError: Its definition or its rows cannot be read.
    """
    if not columns:
        raise CopyError(str(dumped.table), "its definition in the dump is not understood", "copy it from the database")
    names = tuple(one.name for one in columns)
    yield pa.RecordBatch.from_arrays([as_dumped([], one) for one in columns], names=names)
    for cells in rows_of_dump(file, dumped, names):
        count = len(next(iter(cells.values())))
        try:
            arrays = [as_dumped(cells.get(one.name, [None] * count), one) for one in columns]
        except pa.ArrowInvalid:
            raise CopyError(str(dumped.table), "a text of the dump is no UTF-8", "dump it with utf8mb4") from None
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _iceberg_table(work: Copying, name: str) -> TableRows:
    """Return the rows of an Iceberg table for the one table that the bootstrap names.

    Raises:
        CopyError: There is no such table, or it is not clear which source table it is.
    """
    globs = work.bootstrap.tables
    parts = globs[0].split(".")
    if len(globs) != 1 or len(parts) not in (2, 3) or set("*?[") & set(globs[0]):
        what = "an Iceberg table is copied to one table, and tables names several"
        raise CopyError(name, what, "write tables: [shopdb.orders], the name of the table at the source")
    table = TableId(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])
    try:
        found = work.pipeline.lake.catalog.load_table(name)
    except NoSuchTableError:
        raise CopyError(str(table), f"the catalog has no Iceberg table {name}", "look at its name") from None
    return TableRows(table, f"table {name}", lambda: found.scan().to_arrow_batch_reader())


def copy_from_files(work: Copying, found: TableRows, kind: CopyKind) -> CopiedTable:
    """Copy the rows of a table, all of the declared position, and return the copy.

    Raises:
        CopyError: A file cannot be read, or nothing tells the position.
        NothingFoundError: The position is a GTID that the lake does not know.
    """
    pipeline, table = work.pipeline, found.table
    require_positions(pipeline, table, ids=True)
    at, began = _position(work, table, found.at), time.monotonic()
    batches = iter(found.rows())
    first = next(batches, None)
    if first is None:
        raise CopyError(str(table), "its files have no columns", "write at least one file, with a header")
    columns = found.columns or _columns(work, table, first.schema)
    rules = rules_to_pass(pipeline, table, columns, at=at)
    unfinished(pipeline, table, (), kind, found.origin)  # one that was killed begins anew: it is one chunk
    copied = begin(pipeline, table, columns, kind, found.origin, [CopiedChunk(0, None, None)], rules)
    work.progress(f"copy: {table} begins, as of {at}, from {found.origin}")
    prepare(pipeline, copied)
    target = pipeline.lake.target(copies_path(pipeline, table), pipeline.new_run())
    chunk = replace(copied.chunks[0], low=at, high=at)
    texts = (_texts(table, columns, batch) for batch in _chained(first, batches))
    read = write_chunk(target, copied.copy, chunk, columns, texts, "0", at.lineage, rules)
    copied = add_chunks(pipeline, copied, [read.chunk], read.files)
    work.progress(f"copy: {table}: {rate(read.chunk.rows or 0, 'rows', time.monotonic() - began)}")
    return finish(pipeline, copied)


def _chained(first: pa.RecordBatch, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches


def _position(work: Copying, table: TableId, told: str) -> SourcePosition:
    """Return the declared position of the files, or the one that they tell themselves.

    Raises:
        CopyError: It is not declared as a position or a GTID.
        NothingFoundError: The lake does not know the GTID.
    """
    pipeline, text = work.pipeline, work.bootstrap.at or told
    try:
        moment = moment_of(text)
        if isinstance(moment, AtPosition):
            return position_of(moment, [one.lineage for one in pipeline.ledger.lineages()])
    except ValueError as error:
        raise CopyError(str(table), f"its position is not clear: {error}", "mend at: below bootstrap") from None
    if isinstance(moment, AtGtid):
        return known_position(SchemaSources.of(pipeline), moment, sought="a copy")[0]
    raise CopyError(str(table), "files are of a position or a GTID, and at: is a time", "mend at: below bootstrap")


def _columns(work: Copying, table: TableId, schema: pa.Schema) -> tuple[ColumnShape, ...]:
    """Return the columns of files.

    They have the types that the table is known to have, else those of the files.
    """
    routes = work.pipeline.settings.routes
    lake_table = (routes.decoded_table(table) if routes else table) or table
    known = {name: column for column in known_tables(work.pipeline).get(lake_table, ()) for name in column.source_names}
    told = source_types(work.pipeline).get(lake_table, {})
    return tuple(
        ColumnShape(
            field.name,
            told.get(known[field.name].name, "") if field.name in known else declared_type(field.type),
            field.name in known and known[field.name].is_key,
        )
        for field in schema
        if field.name not in _OURS
    )


def _texts(table: TableId, columns: Iterable[ColumnShape], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch's rows as texts, and bytes where the source has bytes.

    Raises:
        CopyError: A column's values have no text.
    """
    names, made = [], []
    for column in columns:
        try:
            made.append(as_copied(batch[column.name], stored_kind(column)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"the values of {column.name} have no text of their type ({type(error).__name__})"
            raise CopyError(str(table), what, "write the column as text") from None
        names.append(column.name)
    return pa.RecordBatch.from_arrays(made, names=names)
