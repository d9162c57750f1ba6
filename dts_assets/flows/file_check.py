"""All files that the present versions of a subscription's tables name, read whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from dts_assets.errors.damage import DamagedFileError
from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.known_tables import stored_tables
from dts_assets.flows.maintained_tables import Path, layer_paths, system_paths
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.byte_sizes import rounded_size
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.store.damage import damage_of, opened
from dts_assets.store.data_files import instant_of
from dts_assets.store.replacement_plan import field_names

_SAY_EVERY = 5.0
"""Seconds between two lines of progress."""

_CELL = ("kafka_partition", "window_start")


@dataclass(slots=True)
class FileCheck:
    """The files of a subscription that were read, and the damaged ones, by path.

    ``partitions`` has the partition keys of damaged files of ``raw_envelopes`` and ``entries``, by path.
    """

    tables: int = 0
    files: int = 0
    bytes: int = 0
    damaged: dict[str, DamagedFileError] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)


def check_files(pipeline: Pipeline, progress: Progress = lambda _: None) -> FileCheck:
    """Read every file that present versions name, and return the damaged and missing ones.

    A file that cannot be read hides those that it alone names.

    Raises:
        DamagedCatalogError: The catalog is damaged.
        OSError: The store does not give a file that is there.
    """
    check, said = FileCheck(), time.monotonic()
    for path in _paths(pipeline):
        try:
            table = opened(pipeline.lake.catalog, pipeline.lake.identifier(path), path)
        except NoSuchTableError:
            continue
        except DamagedFileError as error:
            check.damaged[error.path] = error
            continue
        check.tables += 1
        for one in _files(table, check):
            check.files += 1
            check.bytes += one
            if time.monotonic() - said > _SAY_EVERY:
                said = time.monotonic()
                files = f"{check.files:,} files of {check.tables:,} tables"
                progress(f"verify files: {pipeline.name}: {files}, {rounded_size(check.bytes)}")
    return check


def _paths(pipeline: Pipeline) -> Iterator[Path]:
    """Yield the asset keys of all tables that can be known. A damaged file that hides some is found with its own table."""
    yield from system_paths(pipeline)
    with suppress(DamagedFileError):
        for table in stored_tables(pipeline):
            yield from layer_paths(pipeline, table)
    with suppress(DamagedFileError):
        for table in sorted({one.table for one in pipeline.ledger.copied_tables()}):
            yield copies_path(pipeline, table)


def _files(table: Table, check: FileCheck) -> Iterator[int]:
    """Read the files of a table, note the damaged ones, and yield the bytes of each."""
    snapshot, done = table.current_snapshot(), set[str]()

    def look(path: str, *, size: int | None = None, rows: int | None = None, data: DataFile | None = None) -> int:
        found = None if path in done else damage_of(table.io.new_input(path), size=size, rows=rows)
        done.add(path)
        if found is not None:
            check.damaged[path] = found
            if data is not None and (key := _partition_key(table, data)):
                check.partitions[path] = key
        return size or 0

    if table.metadata_location:
        yield look(table.metadata_location)
    if snapshot is None:
        return
    yield look(snapshot.manifest_list)
    if snapshot.manifest_list in check.damaged:
        return
    for manifest in snapshot.manifests(table.io):
        yield look(manifest.manifest_path, size=manifest.manifest_length)
        if manifest.manifest_path in check.damaged:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            data = entry.data_file
            yield look(data.file_path, size=data.file_size_in_bytes, rows=data.record_count, data=data)


def _partition_key(table: Table, data: DataFile) -> str:
    """Return the partition key of a file of raw or entries; empty for other tables."""
    names = field_names(table)[data.spec_id]
    if tuple(names) != _CELL:
        return ""
    start = instant_of(data.partition[1])
    return str(Cell(data.partition[0], Window(start, start)))
