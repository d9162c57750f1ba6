"""Snapshots written anew in the order of their keys, where many files may hold one key.

The keys are read first, which says for each row the file that it comes to. Then all rows are read once, and dealt out to parts on
disk, each of which fits into memory and becomes one file. Rows and state stay as they are, so readers that follow the table need
not look (REPLACE). Another run that writes to the snapshot meanwhile wins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table

from dts_assets.errors import LakeTableError
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.row_keys import key_names
from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.planning.sorting import KeyRange, is_worth_sorting
from dts_assets.store.commit import stands_at
from dts_assets.store.files import TableWriter, WrittenFile
from dts_assets.store.stored_files import StoredFile

FILE_BYTES = 128 << 20
"""The bytes of a file, about, as the files before had them."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A snapshot that was sorted, or would be: its files before and after, and their bytes."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class _Work:
    table: Table
    snapshot_id: int
    state: str
    files: Sequence[StoredFile]
    keys: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)


def sort_snapshot(
    pipeline: Pipeline, table: TableId, columns: Sequence[Column], *, dry_run: bool = False
) -> Sorted | None:
    """Write a snapshot anew in the order of its keys; None if readers gain nothing.

    It is the caller's turn in the tables.

    Raises:
        StaleGenerationError: Another run has written the snapshot since.
    """
    work = _work(pipeline, table, columns)
    if work is None:
        return None
    parts = 1 + work.bytes // FILE_BYTES
    if dry_run:
        return Sorted(len(work.files), int(parts), work.bytes, work.bytes)
    path = pipeline.table_path(SNAPSHOT.name, table)
    files = _written(pipeline, work, path, int(parts))
    old = frozenset(one.path for one in work.files)
    try:
        pipeline.lake.replace(
            path,
            {},
            files,
            properties={STATE_PROPERTY: work.state},
            keep=lambda file: file.file_path not in old,
            assertion=stands_at(work.snapshot_id),
            applied={deletes for one in work.files for deletes in one.deletes},
            same_rows=True,
        )
    except Exception:
        pipeline.lake.discard(path, files)
        raise
    return Sorted(len(work.files), len(files), work.bytes, sum(one.bytes for one in files))


def _work(pipeline: Pipeline, table: TableId, columns: Sequence[Column]) -> _Work | None:
    """Return the work of sorting; None without a key or a snapshot, or where readers gain nothing."""
    path = pipeline.table_path(SNAPSHOT.name, table)
    iceberg, state = pipeline.lake.table(path), pipeline.lake.state(path)
    if iceberg is None or state is None or STATE_PROPERTY not in state.properties:
        return None
    names = {field.name for field in iceberg.schema().fields}
    told = key_names(SnapshotState.of_text(state.properties[STATE_PROPERTY]), columns)
    keys = tuple(name for name in told if name in names)
    if not keys:
        return None
    files = pipeline.lake.data_files(path, snapshot_id=state.snapshot_id, applies_deletes=True, bounds=keys[:1])
    ranges = [
        KeyRange(one.least[keys[0]], one.greatest[keys[0]], one.rows)
        for one in files
        if keys[0] in one.least and keys[0] in one.greatest
    ]
    if len(ranges) < len(files) or not is_worth_sorting(ranges):
        return None
    return _Work(iceberg, state.snapshot_id, state.properties[STATE_PROPERTY], files, keys)


def _written(pipeline: Pipeline, work: _Work, path: Sequence[str], parts: int) -> list[WrittenFile]:
    target, order = pipeline.lake.target(path, pipeline.new_run()), [(name, "ascending") for name in work.keys]
    numbers = _part_numbers(work, parts)
    written: list[WrittenFile] = []
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        names, at = [Path(folder) / f"{number}.arrow" for number in range(parts)], 0
        writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        for batch in _batches(work, ("*",)):
            mine = numbers[at : at + batch.num_rows]
            at += batch.num_rows
            for number in np.unique(mine).tolist():
                if number not in writers:
                    writers[number] = pa.ipc.new_file(str(names[number]), batch.schema)
                writers[number].write_batch(batch.filter(pa.array(mine == number)))
        for one in writers.values():
            one.close()
        try:
            for number in sorted(writers):
                rows = pa.ipc.open_file(str(names[number])).read_all().sort_by(order)
                with TableWriter(target, f"sorted-{number}") as writer:
                    for batch in rows.combine_chunks().to_batches():
                        writer.write(batch)
                    written += writer.close()
            if sum(one.rows for one in written) != len(numbers):
                raise LakeTableError(".".join(path), "it gave other rows when it was read again")
        except BaseException:
            pipeline.lake.discard(path, written)
            raise
    return written


def _part_numbers(work: _Work, parts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each row, in the order of reading, the number of the part that it comes to."""
    keys = pa.Table.from_batches(list(_batches(work, work.keys)))
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in work.keys]).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks * parts // max(1, len(order))


def _batches(work: _Work, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that live, file by file and always in one order."""
    scan = work.table.scan(selected_fields=tuple(columns), snapshot_id=work.snapshot_id)
    reader = ArrowScan(work.table.metadata, work.table.io, scan.projection(), scan.row_filter)
    for task in sorted(scan.plan_files(), key=lambda one: one.file.file_path):
        yield from reader.to_record_batches([task])
