"""Partition specs and sort orders of snapshots, made from layouts.

A table keeps its former specs for the files that were written with them. Iceberg reads all of them together; files of a former
spec are written anew when files are put in order.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.typedef import Identifier
from pyiceberg.types import BinaryType, DoubleType, FloatType, IcebergType

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


def lay_out(catalog: Catalog, identifier: Identifier, layout: Layout) -> None:
    """Let new files of a table be partitioned and sorted as a layout says. Files that stand stay as they are.

    Raises:
        LakeTableError: The layout names a column that the table has not, or one whose type the transform cannot take.
        LakeChangeError: Other writers kept the table busy all the time.
    """

    def attempt() -> None:
        table = catalog.load_table(identifier)
        wanted = _wanted(table, layout)
        present = _fields_of(table.spec())
        asked = {(column, str(transform)) for column, _, transform in wanted}
        if asked != present:
            with table.transaction() as transaction:
                transaction.set_properties({LAYOUT_PROPERTY: _text(layout)})
                update = transaction.update_spec()
                for field in table.spec().fields:
                    if (field.source_id, str(field.transform)) not in asked and not _is_void(field.transform):
                        update.remove_field(field.name)
                taken = {same_name(name) for name in table.schema().column_names}
                for column, name, transform in wanted:
                    if (column, str(transform)) not in present:
                        update.add_field(name, transform, _field_name(name, transform, taken))
                update.commit()
        table = catalog.load_table(identifier) if asked != present else table
        names = [_named(table, name) for name in layout.sort]
        if _sort_ids(table) != [table.schema().find_field(name).field_id for name in names]:
            with table.update_sort_order() as order:
                for name in names:
                    order.asc(name, IdentityTransform())

    until_it_gets_through(".".join(identifier), attempt, lost=TRIED_AGAIN)


def transforms_of(table: Table) -> tuple[str, ...]:
    """Return the transforms of the partition fields of a table that was laid out, ``("month", "bucket[16]")``; else none."""
    return tuple(str(one.transform) for one in table.spec().fields) if LAYOUT_PROPERTY in table.properties else ()


def sorted_by(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that rows of new files are sorted by."""
    return tuple(str(table.schema().find_column_name(number)) for number in _sort_ids(table))


def _text(layout: Layout) -> str:
    return ", ".join(f"{one.transform} of {one.column}" for one in layout.partition) or "unpartitioned"


def _wanted(table: Table, layout: Layout) -> _Wanted:
    """Return the partition fields that a layout asks for.

    Raises:
        LakeTableError: A column is not there, or a transform cannot take its type.
    """
    found = []
    for one in layout.partition:
        name, transform = _named(table, one.column), parse_transform(one.transform)
        field = table.schema().find_field(name)
        if not _can_take(transform, field.field_type):
            raise LakeTableError(
                ".".join(table.name()),
                f"its layout asks for {one.transform} of {one.column}, which has the type {field.field_type}",
                _WAY_OUT,
            )
        found.append((field.field_id, name, transform))
    return tuple(found)


def _can_take(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    """Tell whether a transform takes a type. Files have no bounds of binary columns, and NaN has no order."""
    if not kind.is_primitive or not transform.can_transform(kind) or isinstance(kind, FloatType | DoubleType):
        return False
    return not (isinstance(kind, BinaryType) and isinstance(transform, IdentityTransform | TruncateTransform))


def _named(table: Table, column: str) -> str:
    """Return the name of a source column in the table.

    Raises:
        LakeTableError: The table has no such column.
    """
    number = _column(table.schema(), column)
    if number is None:
        raise LakeTableError(
            ".".join(table.name()), f"its layout names the column {column}, which it has not", _WAY_OUT
        )
    return str(table.schema().find_column_name(number))


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


def _field_name(column: str, transform: Transform[Any, Any], taken: Collection[str]) -> str:
    """Return Iceberg's name of a partition field, with underscores where a column is called so."""
    if isinstance(transform, IdentityTransform):
        return column
    kind, _, count = str(transform).rstrip("]").partition("[")
    kind = "trunc" if kind == "truncate" else kind
    name = f"{column}_{kind}" if isinstance(transform, TimeTransform) else f"{column}_{kind}_{count}"
    while same_name(name) in taken:
        name += "_"
    return name
