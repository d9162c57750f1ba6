"""The work of one Spark task of a refresh.

It takes the changes of one table over into some of the files of its snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.flows.apart import fault_at
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault
from dts_assets.stages.snapshot_in_arrow import CHANGE_COLUMNS, Taken, take_changes
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import flat_name
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile, open_parquet, read_batches

_FIELD_ID = b"PARQUET:field_id"
_BATCH_ROWS = 65536


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file of a snapshot table.

    ``rewrite`` says that it is written anew even if no change touches a row of it.
    """

    path: str
    rewrite: bool = False


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """A task that takes the changes between two frontiers over into files of a snapshot.

    ``changelog`` are the files with the changes. ``adds`` says that this task, of all tasks of its table, writes the new and
    changed rows. ``bytes`` is the size of the files that it reads.
    """

    table: TableId
    columns: tuple[Column, ...]
    changelog: tuple[str, ...]
    files: tuple[HeldFile, ...]
    adds: bool
    before: Frontier
    after: Frontier
    target: WriteTarget
    bytes: int
    changelog_store: FileStore = field(default_factory=FileStore)


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The files that a task removes from a snapshot, and the files that take their place.

    The new files hold the untouched rows of the removed files, and the changed rows. ``null_key`` says that no file was written
    because a change has a null in its key, ``fault`` that none was because the task failed.
    """

    table: TableId
    removed: tuple[str, ...] = ()
    written: tuple[WrittenFile, ...] = ()
    null_key: bool = False
    fault: Fault | None = None


def refresh_files(task: RefreshTask, attempt: str) -> RefreshResult:
    """Take the changes of a task over into its files, and return the removed and the written files.

    Raises:
        Exception: The task failed with an error that concerns the run and not the table.
    """
    try:
        return _refreshed(task, attempt)
    except Exception as error:
        return RefreshResult(task.table, fault=fault_at(SNAPSHOT.name, error))


def _refreshed(task: RefreshTask, attempt: str) -> RefreshResult:
    schema = task.target.arrow_schema
    names = [flat_name(column.name) for column in task.columns]
    changes = list(read_batches(task.changelog_store, task.changelog, CHANGE_COLUMNS))
    taken = take_changes(changes, task.columns, schema, names=names, before=task.before, after=task.after)
    if taken is None:
        return RefreshResult(task.table, null_key=True)
    key_names = [name for name, column in zip(names, task.columns, strict=True) if column.is_key]
    removed: list[str] = []
    with TableWriter(task.target, attempt) as writer:
        for held in task.files:
            with open_parquet(task.target.store, held.path) as file:
                snapshot = _Snapshot(file, held.path, schema)
                gone = snapshot.touched(taken, key_names)
                if held.rewrite or gone.any():
                    removed.append(held.path)
                    for batch in snapshot.without(gone):
                        writer.write(batch)
        if task.adds:
            writer.write(taken.rows)
        return RefreshResult(task.table, tuple(removed), writer.close())


class _Snapshot:
    """A data file of a snapshot table, its columns found by their ids.

    Iceberg does so, too: the file may be older than a column.
    """

    def __init__(self, file: pq.ParquetFile, path: str, schema: pa.Schema) -> None:
        self._file = file
        self._path = path
        self._schema = schema
        by_id = {one.metadata[_FIELD_ID]: one.name for one in self._file.schema_arrow if one.metadata}
        self._stored = {one.name: by_id[one.metadata[_FIELD_ID]] for one in schema if one.metadata[_FIELD_ID] in by_id}

    def touched(self, taken: Taken, key_names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which rows have a key that the changes touch."""
        found = [taken.keys.among([batch.column(name) for name in key_names]) for batch in self._batches(key_names)]
        return np.concatenate(found) if found else np.zeros(0, np.bool_)

    def without(self, gone: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Yield all rows but those that are ``gone``."""
        at = 0
        for batch in self._batches(self._schema.names):
            yield batch.filter(pa.array(~gone[at : at + batch.num_rows]))
            at += batch.num_rows

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with some columns, as the table has them now.

        Columns that the file lacks are null.
        """
        wanted = pa.schema([self._schema.field(name) for name in names])
        stored = {self._stored[name]: name for name in names if name in self._stored}
        for batch in self._file.iter_batches(_BATCH_ROWS, columns=list(stored)):
            named = batch.rename_columns([stored[name] for name in batch.schema.names])
            yield cast_to_schema(named, wanted, self._path)
