"""Columns of a lake table that become another type, which Iceberg cannot promote theirs to.

Such a column is a new field in the place of the old one, under its name. All data files are written anew with it, and the new
schema comes in the same commit as the files: no reader sees a table whose column has no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from pyiceberg.table import Table
from pyiceberg.types import NestedField, StructType

from dts_assets.model.columns import joined_type, widened
from dts_assets.model.layouts import Layout
from dts_assets.store.columns import NamedType
from dts_assets.store.iceberg_tables import Fields
from dts_assets.store.staged_tables import SchemaState, StagedTable, with_schema
from dts_assets.store.types import iceberg_schema, lake_type


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """The columns to which a table is converted.

    A column is a name and a lake type, ``("n", "string")``. ``made_on`` is the state of the schema that this was planned on. New
    files get a ``layout``; None stands for that of the table.
    """

    columns: tuple[NamedType, ...]
    made_on: SchemaState
    layout: Layout | None = None

    def staged(self, table: Table) -> StagedTable:
        """Return the table with these columns; see :func:`converted`."""
        return converted(table, self.columns, self.layout)


def converted(table: Table, columns: Sequence[NamedType], layout: Layout | None = None) -> StagedTable:
    """Return a table whose columns have the types of ``columns`` where they cannot be promoted to them.

    It gets a layout of these columns; None keeps its own.

    Raises:
        LakeTableError: A partition field or the sort order of the table needs such a column, or cannot be made of it.
    """
    former: dict[int, int] = {}
    ids = count(table.metadata.last_column_id + 1)
    fields = tuple(_fields(table.schema().as_struct(), iceberg_schema(columns).as_struct(), ids, former))
    return with_schema(table, fields, former, layout) if former else StagedTable(table)


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
