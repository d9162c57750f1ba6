"""New delete files on their way into a table, checked against the table as a try finds it.

A row that was deleted comes back if its data file is written anew by somebody who does not know of it, and is counted twice if it
is deleted again. So a commit names the delete files that were applied when its data files were read, and is refused if the
table has others for them, or has lost one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.types import LongType

from dts_assets.errors import ForeignDeletesError, LakeChangeError, LakeTableError, StaleGenerationError
from dts_assets.store.damage import damage_named
from dts_assets.store.data_files import partition_value
from dts_assets.store.delete_files import PATH_ID, POSITION_ID, WrittenDeletes
from dts_assets.store.delete_index import only_file
from dts_assets.store.files import leaf_column
from dts_assets.store.replacement_plan import Plan

_THREADS = 8


@dataclass(frozen=True, slots=True)
class RowRemovals:
    """The new delete files of one commit, and the paths of those that its makers have applied.

    ``applied`` is None if they read whole files.
    """

    table: str
    written: tuple[WrittenDeletes, ...]
    applied: frozenset[str] | None

    def check(self, plan: Plan, *, unsure: bool) -> None:
        """Check that no row comes back, or is deleted twice, by the replacement of a plan.

        Raises:
            StaleGenerationError: A file that loses rows is gone, or rows of it or of a removed file were deleted since.
            LakeTableError: The new delete files do not fit each other or the table.
            ForeignDeletesError: Rows of such a file are deleted, and its makers read whole files.
        """
        concerned = {one.data_file for one in self.written}
        if len(concerned) < len(self.written):
            raise LakeTableError(self.table, "two new delete files concern one data file")
        if both := concerned.intersection(entry.data_file.file_path for entry in plan.removed):
            raise LakeTableError(self.table, f"rows of {min(both)} are to be deleted, and the file itself is, too")
        for path in sorted(concerned):
            if path not in plan.staying:
                raise StaleGenerationError(self.table, expected=f"the file {path}", found="none", unsure=unsure)
            if path not in plan.inside:
                raise LakeTableError(self.table, f"rows of {path}, outside of what is replaced, are to be deleted")
        there = {
            deletes.file_path
            for entry in (*plan.removed, *(plan.staying[path] for path in concerned))
            for deletes in plan.deletes.of(entry)
        }
        applied = self.applied or frozenset()
        if there and self.applied is None:
            raise ForeignDeletesError(self.table)
        if there - applied or applied - plan.deletes.paths:
            expected, found = f"{len(applied)} delete files", "others"
            raise StaleGenerationError(self.table, expected=expected, found=found, unsure=unsure)

    def delete_files(self, plan: Plan, new: Sequence[NewDeletes]) -> list[DataFile]:
        """Return the new delete files, of which :func:`new_deletes` has seen the footers, as the table would hold them.

        Raises:
            LakeTableError: One does not fit the data file that it concerns.
        """
        found = []
        for one in new:
            entry = plan.staying[one.written.data_file]
            self._check_fit(one, entry.data_file, plan.deletes.of(entry))
            found.append(one.delete_file(entry.data_file))
        return found

    def _check_fit(self, new: NewDeletes, data: DataFile, before: Sequence[DataFile]) -> None:
        """Check a new delete file against its data file and the delete files that are there for it.

        Raises:
            LakeTableError: They do not fit.
        """
        written, alone = new.written, {one.file_path: one for one in before if only_file(one)}
        if any(one.file_path == written.path for one in before):
            raise LakeTableError(self.table, f"the new delete file {written.path} is part of it already")
        partition = [partition_value(data.partition[number]) for number in range(len(data.partition))]
        if [partition_value(value) for value in written.partition] != partition:
            raise LakeTableError(
                self.table, f"{written.path} was reported with another partition than its data file has"
            )
        # What concerns several data files cannot go because the rows of one of them stand elsewhere, too.
        if not alone.keys() >= set(written.instead_of):
            raise LakeTableError(self.table, f"{written.path} would stand for files that concern other data files, too")
        others = sum(one.record_count for path, one in alone.items() if path not in written.instead_of)
        if new.greatest >= data.record_count or written.rows + others > data.record_count:
            raise LakeTableError(self.table, f"{written.path} deletes more rows than its data file has")


@dataclass(frozen=True, slots=True)
class NewDeletes:
    """A delete file that was looked at: its writer's report, its bytes, and its least and greatest position."""

    written: WrittenDeletes
    bytes: int
    least: int
    greatest: int

    def delete_file(self, concerned: DataFile) -> DataFile:
        """Return the delete file as the table would hold it, in the partition of its data file."""
        path = self.written.data_file.encode()
        least, greatest = (to_bytes(LongType(), number) for number in (self.least, self.greatest))
        made = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=self.written.path,
            file_format=FileFormat.PARQUET,
            partition=concerned.partition,
            record_count=self.written.rows,
            file_size_in_bytes=self.bytes,
            column_sizes=None,
            value_counts=dict.fromkeys((PATH_ID, POSITION_ID), self.written.rows),
            null_value_counts=dict.fromkeys((PATH_ID, POSITION_ID), 0),
            nan_value_counts=None,
            lower_bounds={PATH_ID: path, POSITION_ID: least},
            upper_bounds={PATH_ID: path, POSITION_ID: greatest},
            split_offsets=None,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
        )
        made.spec_id = concerned.spec_id
        return made


def new_deletes(table: Table, written: Sequence[WrittenDeletes]) -> list[NewDeletes]:
    """Return delete files as their footers show them, after a check against their writers' reports.

    Raises:
        LakeChangeError: A file is missing.
        LakeTableError: A file is not as its writer reported.
    """
    if len(written) < 2:
        return [_looked_at(table, one) for one in written]
    with ThreadPoolExecutor(min(_THREADS, len(written))) as pool:
        return list(pool.map(lambda one: _looked_at(table, one), written))


def _looked_at(table: Table, written: WrittenDeletes) -> NewDeletes:
    """Return a delete file as its footer shows it.

    Raises:
        LakeChangeError: The file is missing.
        LakeTableError: The file is not as its writer reported.
    """
    name, source = ".".join(table.name()), table.io.new_input(written.path)
    try:
        size = len(source)
        with damage_named(source), source.open() as stream:
            footer = pq.read_metadata(stream)
    except FileNotFoundError:
        raise LakeChangeError(name, f"its new delete file {written.path} is not there") from None
    if footer.num_rows != written.rows or footer.num_rows == 0:
        what = f"holds {footer.num_rows} rows and was reported with {written.rows}"
        raise LakeTableError(name, f"its new delete file {written.path} {what}")
    paths, positions = _bounds(footer, "file_path"), _bounds(footer, "pos")
    if paths != (written.data_file, written.data_file) or positions is None:
        raise LakeTableError(name, f"its new delete file {written.path} does not concern {written.data_file} alone")
    return NewDeletes(written, size, *positions)


def _bounds(footer: pq.FileMetaData, column: str) -> tuple[Any, Any] | None:
    """Return the least and greatest value of a column; None where a bound is missing."""
    position = leaf_column(footer, column)
    if position is None:
        return None
    found = [footer.row_group(group).column(position).statistics for group in range(footer.num_row_groups)]
    if any(one is None or not one.has_min_max for one in found):
        return None
    return min(one.min for one in found), max(one.max for one in found)
