"""Position delete files: the numbers of rows that have left data files.

A refresh that touches few rows of a large file leaves the file as it is and writes down which of its rows no longer count. A
delete file of ours concerns one data file, so it can go when that file goes; those of other programs may concern several. Like a
data file it belongs to no table until :mod:`dts_assets.store.commit` says so.

No position may be deleted twice: readers would not notice, but the number of a table's rows would be too small. So a task takes
the rows that are still live (:func:`live_rows`) for its candidates, and the new file may stand for the earlier ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.errors import LakeTableError
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import WriteTarget
from dts_assets.store.open_files import file_io, open_parquet
from dts_assets.store.types import FIELD_ID

PATH_ID = 2147483546
"""The field id of ``file_path`` in Iceberg's format."""

POSITION_ID = 2147483545
"""The field id of ``pos`` in Iceberg's format."""

Positions = npt.NDArray[np.int64]
"""Numbers of rows in a data file, from 0, ascending and each once."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_ID)}),
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenDeletes:
    """A finished delete file, and the data file that it concerns, with its partition tuple.

    ``instead_of`` are the earlier delete files whose rows it repeats; they go when it comes.
    """

    path: str
    data_file: str
    partition: tuple[Any, ...]
    rows: int
    bytes: int
    instead_of: tuple[str, ...] = ()


def write_deletes(
    target: WriteTarget,
    attempt: str,
    rows: Positions,
    *,
    data_file: str,
    partition: tuple[Any, ...],
    instead_of: Sequence[str] = (),
    earlier: Positions | None = None,
) -> WrittenDeletes:
    """Write the delete file for some rows of a data file of a table.

    ``instead_of`` names earlier delete files of this data file alone, whose rows are written once more. ``earlier`` has these
    rows where they are known, else they are read.

    Raises:
        LakeTableError: The rows are none, or they are not ascending and each once, or one of them was deleted before.
    """
    positions = np.asarray(rows, np.int64)
    if not len(positions) or positions[0] < 0 or not (np.diff(positions) > 0).all():
        raise LakeTableError(data_file, "its rows to delete are not given as ascending numbers, each once")
    earlier = deleted_positions(target.store, data_file, instead_of) if earlier is None else earlier
    positions = np.union1d(earlier, positions)
    if len(positions) < len(earlier) + len(rows):
        raise LakeTableError(data_file, "a row of it would be deleted twice")
    path = f"{target.location}/data/{target.run}/{attempt}-{uuid.uuid4().hex}-deletes.parquet"
    size = _write(target, path, data_file, positions)
    return WrittenDeletes(path, data_file, partition, len(positions), size, tuple(instead_of))


def _write(target: WriteTarget, path: str, data_file: str, positions: Positions) -> int:
    """Write a delete file and return its bytes; an error leaves no file behind."""
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([data_file]))
    table = pa.Table.from_arrays([paths.cast(pa.string()), pa.array(positions)], schema=_SCHEMA)
    io = file_io(target.store, path)
    with target.store.explained():
        stream: Any = io.new_output(path).create(overwrite=True)
        try:
            # Ascending numbers as they are, in zstd, take less than two bytes a row; every reader knows them so.
            pq.write_table(
                table,
                stream,
                compression=target.compression,
                use_dictionary=["file_path"],
                store_schema=False,
                write_page_checksum=True,
            )
            size: int = stream.tell()
            stream.close()
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                stream.close()
                io.delete(path)
            raise
    return size


def deleted_positions(store: FileStore, data_file: str, delete_files: Sequence[str]) -> Positions:
    """Return the numbers of the deleted rows of a data file, from its delete files.

    These may be of any writer: with rows of several data files, in any order, and more than once. Row groups whose bounds
    exclude the data file are not read.

    Raises:
        LakeTableError: A file is no position delete file.
        ExpiredCredentialsError: The vended credentials of the store have expired.
    """
    parts = [part for path in delete_files for part in _positions_in(store, path, data_file)]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def live_rows(store: FileStore, data_file: str, rows: int, delete_files: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which of the ``rows`` of a data file are live, in the order of the file.

    A number beyond the rows deletes nothing, as for every other reader of Iceberg.

    Raises:
        LakeTableError: A file is no position delete file.
        ExpiredCredentialsError: The vended credentials of the store have expired.
    """
    live = np.ones(rows, np.bool_)
    deleted = deleted_positions(store, data_file, delete_files)
    live[deleted[: np.searchsorted(deleted, rows)]] = False
    return live


def _positions_in(store: FileStore, path: str, data_file: str) -> Iterator[Positions]:
    """Yield the positions that a delete file has of a data file, by row group."""
    with open_parquet(store, path) as opened:
        file_path, pos = (_column(opened, path, number) for number in (PATH_ID, POSITION_ID))
        for group in range(opened.num_row_groups):
            found = opened.metadata.row_group(group).column(opened.schema_arrow.get_field_index(file_path)).statistics
            if found is not None and found.has_min_max and not found.min <= data_file <= found.max:
                continue
            if found is not None and found.has_min_max and found.min == found.max:
                # Of this data file alone: bounds that a writer has cut short differ.
                positions = opened.read_row_group(group, [pos])[pos]
            else:
                table = opened.read_row_group(group, [file_path, pos])
                positions = table[pos].filter(pc.equal(table[file_path], data_file))
            yield positions.to_numpy().astype(np.int64)


def _column(opened: pq.ParquetFile, path: str, number: int) -> str:
    """Return the name of a column by its field id.

    Raises:
        LakeTableError: There is no such column.
    """
    for field in opened.schema_arrow:
        if (field.metadata or {}).get(FIELD_ID) == str(number).encode():
            return str(field.name)
    raise LakeTableError(path, f"this delete file has no column with the id {number}")
