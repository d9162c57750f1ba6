"""Columns of a lake table that become another type, which Iceberg cannot promote theirs to.

Such a column is a new field in the place of the old one, under its name. All data files are written anew with it, and the new
schema comes in the same commit as the files: no reader sees a table whose column has no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField, StructType

from dts_assets.errors import LakeTableError, StaleGenerationError
from dts_assets.model.columns import joined_type, widened
from dts_assets.store.columns import NamedType
from dts_assets.store.iceberg_tables import Fields
from dts_assets.store.types import iceberg_schema, lake_type


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """The columns to which a table is converted, and the schema that this was planned on.

    A column is a name and a lake type, ``("n", "string")``; ``schema_id`` is the id of the schema.
    The field ids of new columns follow from that schema, and the new files have them already.
    """

    columns: tuple[NamedType, ...]
    schema_id: int


@dataclass(frozen=True, slots=True)
class ConvertedColumns:
    """A table as it will be with converted columns, and what the catalog is asked for.

    ``former`` has the ids of the fields in whose place others have come, by the new ids: ``{27: 4}``. Where it is empty the table
    is as it was.
    """

    table: Table
    former: dict[int, int]
    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()


def converted(table: Table, columns: Sequence[NamedType]) -> ConvertedColumns:
    """Return a table whose columns have the types of ``columns`` where they cannot be promoted to them.

    Raises:
        LakeTableError: A partition field or the sort order of the table needs such a column.
    """
    schema, former = table.schema(), dict[int, int]()
    ids = count(table.metadata.last_column_id + 1)
    fields = tuple(_fields(schema.as_struct(), iceberg_schema(columns).as_struct(), ids, former))
    if not former:
        return ConvertedColumns(table, former)
    _refuse_laid_out(table, set(former.values()))
    made = Schema(
        *fields,
        schema_id=max(one.schema_id for one in table.metadata.schemas) + 1,
        identifier_field_ids=schema.identifier_field_ids,
    )
    updates: tuple[TableUpdate, ...] = (AddSchemaUpdate(schema_=made), SetCurrentSchemaUpdate(schema_id=-1))
    requirements: tuple[TableRequirement, ...] = (
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=table.metadata.last_column_id),
    )
    metadata = update_table_metadata(table.metadata, updates)
    staged = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
    return ConvertedColumns(staged, former, updates, requirements)


def as_planned(table: Table, planned: PlannedColumns | None) -> ConvertedColumns:
    """Return a table with the columns that new files have; the table itself where none is converted.

    Raises:
        StaleGenerationError: The columns of the table were changed since the conversion was planned.
        LakeTableError: A partition field or the sort order of the table needs such a column.
    """
    if planned is None:
        return ConvertedColumns(table, {})
    found = table.metadata.current_schema_id
    if found != planned.schema_id:
        raise StaleGenerationError(
            ".".join(table.name()), expected=f"schema {planned.schema_id}", found=f"schema {found}"
        )
    return converted(table, planned.columns)


def needs_conversion(present: str, wanted: str) -> bool:
    """Return whether a lake type holds all values of another one, but cannot be reached by promotion.

    It does so with ``int`` and ``string``, and not with ``string`` and ``int``.
    """
    return widened(present, wanted) is None and joined_type(present, wanted) == wanted


def _fields(
    present: StructType, wanted: StructType, ids: Iterator[int], former: dict[int, int]
) -> Iterator[NestedField]:
    asked = Fields(wanted)
    for field in present.fields:
        found, asked_for = field.field_type, asked.find(field.name)
        kind = None if asked_for is None else asked_for.field_type
        if isinstance(found, StructType) and isinstance(kind, StructType):
            yield field.model_copy(update={"field_type": StructType(*_fields(found, kind, ids, former))})
        elif kind is None or not kind.is_primitive or not needs_conversion(lake_type(found), lake_type(kind)):
            yield field
        else:
            number = next(ids)
            former[number] = field.field_id
            yield NestedField(number, field.name, kind, required=False, doc=field.doc)


def _refuse_laid_out(table: Table, fields: set[int]) -> None:
    laid_out = {one.source_id for one in table.spec().fields if not isinstance(one.transform, VoidTransform)}
    found = fields & {*laid_out, *(one.source_id for one in table.sort_order().fields)}
    if found:
        names = sorted(str(table.schema().find_column_name(number)) for number in found)
        raise LakeTableError(
            ".".join(table.name()),
            f"its layout needs {', '.join(names)}, which became another type at the source",
            "leave it out of layout in the configuration, then resume the table",
        )
