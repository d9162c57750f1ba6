"""Partition specs and sort orders of snapshots, made from layouts.

A table keeps its former specs for the files that were written with them. Iceberg reads all of them together; files of a former
spec are written anew when files are put in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.transforms import (
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.typedef import Identifier
from pyiceberg.types import BinaryType, DoubleType, FloatType, IcebergType, NestedField

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import same_name
from dts_assets.model.layouts import Layout
from dts_assets.store.columns import flat_name
from dts_assets.store.contention import until_it_gets_through
from dts_assets.store.iceberg_tables import TRIED_AGAIN

LAYOUT_PROPERTY = "dts-assets.layout"
"""The property of a table whose partition fields a configuration has asked for.

Their values may be null. Those of all other tables may not.
"""

_WAY_OUT = "change layout in the configuration, then resume the table"

_Wanted = tuple[tuple[int, str, Transform[Any, Any]], ...]
"""Partition fields: the column's id, its name in the table, and the transform."""


def is_laid_out(table: Table, layout: Layout) -> bool:
    """Tell whether new files of a table are partitioned and sorted as a layout says."""
    schema = table.schema()
    # A column that the table has not is None, which no field has.
    wanted = {(_column(schema, one.column), one.transform) for one in layout.partition}
    return wanted == _fields_of(table.spec()) and _sort_ids(table) == [_column(schema, name) for name in layout.sort]


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """The updates of a catalog's table that give its new files another layout; none where they have it."""

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()


def lay_out(catalog: Catalog, identifier: Identifier, layout: Layout) -> None:
    """Let new files of a table be partitioned and sorted as a layout says. Files that stand stay as they are.

    Raises:
        LakeTableError: The layout names a column that the table has not, or one whose type the transform cannot take.
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = catalog.load_table(identifier)
        change = layout_change(table, table.schema(), layout)
        if change.updates:
            table._do_commit(change.updates, (AssertTableUUID(uuid=table.metadata.table_uuid), *change.requirements))

    until_it_gets_through(".".join(identifier), attempt, lost=TRIED_AGAIN)


def layout_change(table: Table, schema: Schema, layout: Layout) -> LayoutChange:
    """Return the updates by which new files of a table have a layout, where it gets a schema.

    A column that became another type is a new field, and so are its partition fields.

    Raises:
        LakeTableError: The layout names a column that the table will not have, or one whose type the transform cannot take.
    """
    metadata = table.metadata
    updates, requirements = list[TableUpdate](), list[TableRequirement]()
    wanted = _wanted(table, schema, layout)
    if {(column, str(transform)) for column, _, transform in wanted} != _fields_of(table.spec()):
        spec = _spec(table, schema, wanted)
        known = next((one.spec_id for one in metadata.partition_specs if one.fields == spec.fields), None)
        updates += [SetPropertiesUpdate(updates={LAYOUT_PROPERTY: _text(layout)})]
        updates += [AddPartitionSpecUpdate(spec=spec)] if known is None else []
        updates += [SetDefaultSpecUpdate(spec_id=-1 if known is None else known)]
        requirements += [
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
            AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id),
        ]
    numbers = [_named(table, schema, name).field_id for name in layout.sort]
    if numbers != _sort_ids(table):
        fields = [SortField(one, IdentityTransform(), null_order=NullOrder.NULLS_LAST) for one in numbers]
        order = next((one.order_id for one in metadata.sort_orders if one.fields == fields), None)
        made = SortOrder(*fields, order_id=max(one.order_id for one in metadata.sort_orders) + 1)
        updates += [AddSortOrderUpdate(sort_order=made)] if order is None else []
        updates += [SetDefaultSortOrderUpdate(sort_order_id=-1 if order is None else order)]
        requirements += [AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id)]
    return LayoutChange(tuple(updates), tuple(requirements))


def transforms_of(table: Table) -> tuple[str, ...]:
    """Return the transforms of the partition fields of a table that was laid out, ``("month", "bucket[16]")``; else none."""
    return tuple(str(one.transform) for one in table.spec().fields) if LAYOUT_PROPERTY in table.properties else ()


def sorted_by(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that rows of new files are sorted by."""
    return tuple(str(table.schema().find_column_name(number)) for number in _sort_ids(table))


def _text(layout: Layout) -> str:
    return ", ".join(f"{one.transform} of {one.column}" for one in layout.partition) or "unpartitioned"


def _wanted(table: Table, schema: Schema, layout: Layout) -> _Wanted:
    """Return the partition fields that a layout asks for.

    Raises:
        LakeTableError: A column is not there, or a transform cannot take its type, or there are two times of one column.
    """
    found = dict[tuple[int, str], tuple[int, str, Transform[Any, Any]]]()
    for one in layout.partition:
        field, transform = _named(table, schema, one.column), parse_transform(one.transform)
        if not _can_take(transform, field.field_type):
            former = _column(table.schema(), one.column)
            became = former is not None and table.schema().find_type(former) != field.field_type
            has = "became the type" if became else "has the type"
            raise LakeTableError(
                ".".join(table.name()),
                f"its layout asks for {one.transform} of {one.column}, which {has} {field.field_type}",
                _WAY_OUT,
            )
        found.setdefault((field.field_id, one.transform), (field.field_id, field.name, transform))
    times = Counter(number for number, _, transform in found.values() if isinstance(transform, TimeTransform))
    for number in (one for one, often in times.items() if often > 1):
        what = f"its layout asks for several times of {schema.find_column_name(number)}, of which Iceberg takes one"
        raise LakeTableError(".".join(table.name()), what, _WAY_OUT)
    return tuple(found.values())


def _spec(table: Table, schema: Schema, wanted: _Wanted) -> PartitionSpec:
    """Return a partition spec with the fields that are asked for.

    Those that the table had have their former ids. No field has the name of a column, nor that of a former field of another
    column that is there: Iceberg's Java code reads metadata tables no more where two fields have one name (apache/iceberg#4661).
    """
    had = {(one.source_id, str(one.transform)): one for spec in table.metadata.partition_specs for one in spec.fields}
    columns = {same_name(name) for name in schema.column_names}
    numbers = count((table.metadata.last_partition_id or PARTITION_FIELD_ID_START - 1) + 1)
    made = list[PartitionField]()
    for column, name, transform in wanted:
        key = (column, str(transform))
        found = had.get(key)
        others = {same_name(one.name) for mine, one in had.items() if mine != key and one.source_id in schema.field_ids}
        others |= {same_name(one.name) for one in made}
        if found is None or (same_name(found.name) in columns and found.name != name):
            number = next(numbers) if found is None else found.field_id
            found = PartitionField(column, number, transform, _field_name(name, transform, columns, others))
        made.append(found)
    return PartitionSpec(*made, spec_id=max(one.spec_id for one in table.metadata.partition_specs) + 1)


def _can_take(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    """Tell whether a transform takes a type. Files have no bounds of binary columns, and NaN has no order."""
    if not kind.is_primitive or not transform.can_transform(kind) or isinstance(kind, FloatType | DoubleType):
        return False
    return not (isinstance(kind, BinaryType) and isinstance(transform, IdentityTransform | TruncateTransform))


def _named(table: Table, schema: Schema, column: str) -> NestedField:
    """Return the field of a source column in a schema that a table has, or gets.

    Raises:
        LakeTableError: There is no such column.
    """
    number = _column(schema, column)
    if number is None:
        why = "which it has not" if _column(table.schema(), column) is None else "which was dropped at the source"
        raise LakeTableError(".".join(table.name()), f"its layout names the column {column}, {why}", _WAY_OUT)
    return schema.find_field(number)


def _column(schema: Schema, column: str) -> int | None:
    """Return the id of a source column; a name that differs in case only is the same one."""
    wanted = flat_name(column)
    exact = next((one.field_id for one in schema.fields if one.name == wanted), None)
    return exact or next((one.field_id for one in schema.fields if same_name(one.name) == same_name(wanted)), None)


def _fields_of(spec: PartitionSpec) -> set[tuple[int, str]]:
    return {(one.source_id, str(one.transform)) for one in spec.fields if not _is_void(one.transform)}


def _is_void(transform: Transform[Any, Any]) -> bool:
    return isinstance(transform, VoidTransform)


def _sort_ids(table: Table) -> list[int]:
    return [one.source_id for one in table.sort_order().fields]


def _field_name(column: str, transform: Transform[Any, Any], columns: Collection[str], others: Collection[str]) -> str:
    """Return Iceberg's name of a partition field, with underscores where a column or another field is called so."""
    if isinstance(transform, IdentityTransform):
        name, taken = column, set(columns) - {same_name(column)}
    else:
        kind, _, number = str(transform).rstrip("]").partition("[")
        kind = "trunc" if kind == "truncate" else kind
        name, taken = (
            f"{column}_{kind}" if isinstance(transform, TimeTransform) else f"{column}_{kind}_{number}",
            set(columns),
        )
    while same_name(name) in taken.union(others):
        name += "_"
    return name
