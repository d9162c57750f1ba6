"""Live data files of a table, as flows see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField, PrimitiveType, TimestamptzType

from dts_assets.model.positions import SourcePosition
from dts_assets.store.data_files import instant_of
from dts_assets.store.delete_index import only_file
from dts_assets.store.schemas import POSITION_COLUMNS


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A live data file: its path, the values of its partition fields, its rows and its bytes.

    ``rows`` counts deleted ones, too. ``deletes`` are the delete files that may concern it, and ``shared_deletes`` those among
    them that may concern other files, too. ``deleted_rows`` is the number of rows that the other ones delete.
    ``least`` and ``greatest`` have the bounds of the columns that were asked for, if the file has them. ``is_former`` says that
    new files have other partition fields.
    """

    path: str
    partition: Mapping[str, Any]
    rows: int
    bytes: int
    deletes: tuple[str, ...] = ()
    shared_deletes: tuple[str, ...] = ()
    deleted_rows: int = 0
    least: Mapping[str, Any] = field(default_factory=dict)
    greatest: Mapping[str, Any] = field(default_factory=dict)
    is_former: bool = False


def stored_file(
    table: Table,
    file: DataFile,
    deletes: Sequence[DataFile] = (),
    columns: Mapping[str, NestedField] = MappingProxyType({}),
) -> StoredFile:
    """Return a live data file of a table, with its delete files.

    The ``columns`` whose bounds are wanted are given by name.
    """
    fields = table.specs()[file.spec_id].partition_type(table.schema()).fields
    values = {one.name: _python_value(file.partition[number], one.field_type) for number, one in enumerate(fields)}
    shared = tuple(one.file_path for one in deletes if only_file(one) is None)
    least, greatest = (
        {
            name: from_bytes(column.field_type, bounds[column.field_id])
            for name, column in columns.items()
            if column.field_id in bounds and isinstance(column.field_type, PrimitiveType)
        }
        for bounds in (file.lower_bounds or {}, file.upper_bounds or {})
    )
    return StoredFile(
        file.file_path,
        values,
        file.record_count,
        file.file_size_in_bytes,
        tuple(one.file_path for one in deletes),
        shared,
        sum(one.record_count for one in deletes if one.file_path not in shared),
        least,
        greatest,
        file.spec_id != table.spec().spec_id,
    )


def last_position(file: StoredFile) -> SourcePosition | None:
    """Return the greatest lineage, file number and position of a file's rows, each for itself; None without bounds."""
    found = [file.greatest[name] for name in POSITION_COLUMNS if name in file.greatest]
    return SourcePosition(*found) if len(found) == len(POSITION_COLUMNS) else None


def _python_value(value: Any, kind: IcebergType) -> Any:
    return instant_of(value) if isinstance(kind, TimestamptzType) and value is not None else value
