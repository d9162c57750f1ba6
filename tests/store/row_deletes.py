"""Deletes of single rows in tests: by the store's own writer, and as other programs write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from dts_assets.store.commit import Replaced, files_with_deletes, replace
from dts_assets.store.delete_files import PATH_ID, POSITION_ID, WrittenDeletes, write_deletes
from dts_assets.store.delete_index import only_file
from dts_assets.store.files import WriteTarget
from dts_assets.store.new_version import NewVersion
from dts_assets.store.replacement_plan import plan_replacement
from dts_assets.store.types import FIELD_ID

if TYPE_CHECKING:
    from tests.store.conftest import Cells


def table_of(cells: Cells) -> Table:
    return cells.catalog.load_table(cells.identifier)


def found_in(cells: Cells, snapshot_id: int | None = None) -> list[tuple[DataFile, list[DataFile]]]:
    """Data files by path, with their delete files."""
    found = files_with_deletes(table_of(cells), {}, snapshot_id=snapshot_id)
    return sorted(found, key=lambda one: one[0].file_path)


def partition_of(file: DataFile) -> tuple[object, ...]:
    return tuple(file.partition[number] for number in range(len(file.partition)))


def written(
    cells: Cells,
    file: DataFile,
    rows: Iterable[int],
    *,
    instead_of: Sequence[str] = (),
    target: WriteTarget | None = None,
) -> WrittenDeletes:
    return write_deletes(
        target or cells.target("deletes"), "0", np.array(sorted(rows), np.int64),
        data_file=file.file_path, partition=partition_of(file), instead_of=instead_of,
    )  # fmt: skip


def delete_rows(cells: Cells, rows: Mapping[str, Iterable[int]], *, merge: bool = False) -> Replaced:
    """Delete rows of data files (by path) in one commit; with ``merge`` the new delete files stand for the earlier ones."""
    found = {file.file_path: (file, deletes) for file, deletes in found_in(cells)}
    deletes = [
        written(
            cells, found[path][0], some,
            instead_of=[one.file_path for one in found[path][1] if only_file(one)] if merge else (),
        )
        for path, some in rows.items()
    ]  # fmt: skip
    applied = {one.file_path for path in rows for one in found[path][1]}
    return replace(cells.catalog, cells.identifier, {}, (), keep=lambda _: True, deletes=deletes, applied=applied)


def foreign_file(cells: Cells, rows: Sequence[tuple[str, int]], *, row_group: int = 1000) -> str:
    """A delete file as another program may write it: any order, several data files, more columns, other names."""
    path = f"{table_of(cells).location()}/data/foreign/{abs(hash(tuple(rows)))}-{len(rows)}.parquet"
    fields = [
        pa.field("path_of_file", pa.string(), metadata={FIELD_ID: str(PATH_ID)}),
        pa.field("at", pa.int64(), metadata={FIELD_ID: str(POSITION_ID)}),
        pa.field("row", pa.struct([pa.field("x", pa.int32())])),
    ]
    columns = [[path for path, _ in rows], [at for _, at in rows], [None for _ in rows]]
    with table_of(cells).io.new_output(path).create(overwrite=True) as stream:
        table = pa.Table.from_arrays(
            [pa.array(some, field.type) for some, field in zip(columns, fields, strict=True)],
            schema=pa.schema(fields),
        )
        pq.write_table(table, stream, row_group_size=row_group)
    return path


def commit_foreign(
    cells: Cells,
    rows: Sequence[tuple[str, int]],
    *,
    bounds: bool,
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    file_format: FileFormat = FileFormat.PARQUET,
    partition_of_path: str | None = None,
    everywhere: bool = False,
) -> str:
    """Commit a delete file as another program would: pyiceberg reads ``file_path`` and ``pos``, so names are Iceberg's."""
    table = table_of(cells)
    path = f"{table.location()}/data/foreign/{uuid4().hex}-deletes.parquet"
    with table.io.new_output(path).create(overwrite=True) as stream:
        pq.write_table(
            pa.table(
                [pa.array([one for one, _ in rows]), pa.array([at for _, at in rows], pa.int64())],
                schema=pa.schema([
                    pa.field("file_path", pa.string(), metadata={FIELD_ID: str(PATH_ID)}),
                    pa.field("pos", pa.int64(), metadata={FIELD_ID: str(POSITION_ID)}),
                ]),
            ),
            stream,
        )  # fmt: skip
    paths = [one for one, _ in rows]
    (like,) = (file for file, _ in found_in(cells) if file.file_path == (partition_of_path or paths[0]))
    low, high = (to_bytes(StringType(), one) for one in (min(paths), max(paths)))
    made = DataFile.from_args(
        content=content, file_path=path, file_format=file_format, partition=Record() if everywhere else like.partition,
        record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(path)), column_sizes=None, value_counts=None, null_value_counts=None,
        nan_value_counts=None, lower_bounds={PATH_ID: low} if bounds else None,
        upper_bounds={PATH_ID: high} if bounds else None, split_offsets=None, sort_order_id=None,
        equality_ids=[4] if content == DataFileContent.EQUALITY_DELETES else None, key_metadata=None,
    )  # fmt: skip
    made.spec_id = table.metadata.default_spec_id if everywhere else like.spec_id
    plan = plan_replacement(table, table.current_snapshot(), {}, lambda _: True)
    snapshot = NewVersion(table, table.metadata.new_snapshot_id()).write(plan, [], {}, deletes=[made])
    table._do_commit(
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(
                ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id,
                max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
            ),
        ),
        (),
    )  # fmt: skip
    return path
