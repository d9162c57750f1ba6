"""The files of the ledger's tables: which there are, and their rows, both remembered by this process.

A sensor asks every few seconds, and files never change. So a manifest is read once, and a row is made from Arrow once: of a day's
file that was written anew only the rows that the file before did not have are made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table

from dts_assets.model.tables import TableId
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.commit import files_in
from dts_assets.store.damage import damage_named
from dts_assets.store.replacement_plan import field_names
from dts_assets.store.rows import Kind, from_arrow
from dts_assets.store.schemas import DAY
from dts_assets.store.types import arrow_schema

_LOCK = threading.Lock()

_MOST_MANIFESTS = 500
_MANIFESTS: OrderedDict[str, tuple[DataFile, ...]] = OrderedDict()
"""The live files of manifests by path, those that were asked for last. A year of days is two manifests of each table."""

_KEPT_ROWS = 50_000
"""The number of rows that a process keeps, of the files that were asked for last."""

_MOST_VERSIONS = 16
"""The most files whose columns are kept beside their rows.

The next version of their day takes rows over from them.
"""


def live_files(table: Table) -> list[DataFile]:
    """Return all live data files of a table, manifest by manifest.

    Raises:
        LakeTableError: The table has row-level deletes.
    """
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    if any(manifest.content != ManifestContent.DATA for manifest in manifests):
        return files_in(table, {})
    found: list[DataFile] = []
    for manifest in manifests:
        if not manifest.has_added_files() and not manifest.has_existing_files():
            continue
        files = _MANIFESTS.get(manifest.manifest_path)
        if files is None:
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            files = tuple(entry.data_file for entry in entries)
        with _LOCK:
            _MANIFESTS[manifest.manifest_path] = files
            _MANIFESTS.move_to_end(manifest.manifest_path)
            while len(_MANIFESTS) > _MOST_MANIFESTS:
                _MANIFESTS.popitem(last=False)
        found += files
    return found


def files_by_day(table: Table) -> Mapping[int, tuple[DataFile, ...]]:
    """Return the live files of a table of the ledger by day, counted from 1970-01-01 in UTC.

    Raises:
        LakeTableError: The table has row-level deletes.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return {}
    key = snapshot.manifest_list
    known = _DAYS.get(key)
    if known is not None:
        return known
    places = {spec: names.index(DAY) for spec, names in field_names(table).items() if DAY in names}
    found: dict[int, list[DataFile]] = {}
    for file in live_files(table):
        found.setdefault(file.partition[places[file.spec_id]], []).append(file)
    by_day = {day: tuple(files) for day, files in found.items()}
    with _LOCK:
        _keep(_DAYS, key, by_day, most=_MOST_VERSIONS)
    return by_day


def read_files(table: Table, files: Sequence[DataFile], *, without: Sequence[str] = ()) -> pa.Table:
    """Return all rows of some files in the table's present schema; columns ``without`` are null."""
    schema = arrow_schema(table.schema())
    columns = [name for name in schema.names if name not in without]
    batches: list[pa.RecordBatch] = []
    for file in files:
        source = table.io.new_input(file.file_path)
        with (
            damage_named(source),
            source.open() as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as opened,
        ):
            names = set(opened.schema_arrow.names)
            present = [name for name in columns if name in names]
            # Without threads, which take longer to wake than such a file takes to be read.
            batches += (
                cast_to_schema(batch, schema, file.file_path)
                for batch in opened.iter_batches(columns=present, use_threads=False)
            )
    return pa.Table.from_batches(batches, schema)


def rows_of_file(table: Table, file: DataFile, kind: type[Kind], without: Sequence[str]) -> tuple[Kind, ...]:
    """Return all rows of a file, and keep them in memory.

    A day of 1,152 rows takes half a second to make.
    """
    key = (file.file_path, kind.__name__, tuple(without))
    found = _ROWS.get(key)
    if found is None:
        read = read_files(table, [file], without=without).combine_chunks()
        of = (table.location(), kind.__name__, tuple(without), repr(file.partition))
        version = _Version(read, _taken_over(_VERSIONS.get(of), read, kind))
        found = version.rows
        with _LOCK:
            _keep(_VERSIONS, of, version, most=_MOST_VERSIONS)
    with _LOCK:
        _ROWS[key] = found
        _ROWS.move_to_end(key)
        while len(_ROWS) > 1 and sum(map(len, _ROWS.values())) > _KEPT_ROWS:
            _ROWS.popitem(last=False)
    return found


def rows_of_tables(table: Table, kind: type[Kind], tables: Collection[TableId]) -> list[Kind]:
    """Return the rows of some source tables in a table of the ledger, file by file."""
    names, found = pa.array({one.table for one in tables}, pa.string()), list[Kind]()
    for file in live_files(table):
        rows = read_files(table, [file])
        rows = rows.filter(pc.is_in(rows["table"], value_set=names))  # other databases may have tables of these names
        ids = zip(*(rows[part].to_pylist() for part in ("database", "schema", "table")), strict=True)
        mask = [TableId(*name) in tables for name in ids]
        found += from_arrow(kind, rows.filter(pa.array(mask, pa.bool_())))
    return found


@dataclass(frozen=True, slots=True)
class _Version(Generic[Kind]):
    """A file's columns, and its rows."""

    read: pa.Table
    rows: tuple[Kind, ...]


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, *, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def _taken_over(before: _Version[Kind] | None, read: pa.Table, kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the rows of a table; those that the version before has are taken from there."""
    if before is None or before.read.schema != read.schema:
        return tuple(from_arrow(kind, read))
    rows: list[Kind | None] = [None] * read.num_rows
    for start, count, old in _stretches(before.read, read):
        for place, length, at in _equal_parts(before.read, read, start, count, old):
            rows[place : place + length] = before.rows[at : at + length]
    new = [place for place, row in enumerate(rows) if row is None]
    made = from_arrow(kind, read.take(pa.array(new, pa.int64()))) if new else []
    for place, row in zip(new, made, strict=True):
        rows[place] = row
    return tuple(row for row in rows if row is not None)


def _stretches(before: pa.Table, now: pa.Table) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of rows of equal cells.

    Each has the place of its first row now, its length, and the place of its first row before.
    """
    names = [name for name in ("kafka_partition", "window_start") if name in now.schema.names]
    of = {key: place for place, key in enumerate(zip(*(before[name].to_pylist() for name in names), strict=True))}
    start = count = old = 0
    for place, key in enumerate(zip(*(now[name].to_pylist() for name in names), strict=True)):
        found = of.get(key)
        if count and found == old + count:
            count += 1
            continue
        if count:
            yield start, count, old
        start, count, old = (place, 1, found) if found is not None else (place, 0, 0)
    if count:
        yield start, count, old


def _equal_parts(before: pa.Table, now: pa.Table, start: int, count: int, old: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a stretch whose rows are equal in all columns."""
    if now.slice(start, count).equals(before.slice(old, count)):
        yield start, count, old
    elif count > 1:
        half = count // 2
        yield from _equal_parts(before, now, start, half, old)
        yield from _equal_parts(before, now, start + half, count - half, old + half)


_DAYS: OrderedDict[str, Mapping[int, tuple[DataFile, ...]]] = OrderedDict()
_ROWS: OrderedDict[tuple[str, str, tuple[str, ...]], tuple[Any, ...]] = OrderedDict()
_VERSIONS: OrderedDict[Any, _Version[Any]] = OrderedDict()


def forget() -> None:
    """Forget all that this process remembers, as a fresh process does not know it."""
    with _LOCK:
        for kept in (_MANIFESTS, _DAYS, _ROWS, _VERSIONS):
            kept.clear()
