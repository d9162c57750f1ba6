"""Tables as they will be with a planned schema, which comes in the same commit as their files.

No reader sees a table whose new columns have no values yet. The field ids of new columns follow from the schema that a plan was
made on, so files that were written before the commit have them already. The catalog makes the commit only if they are still
right, and a schema that the table had before is taken up again instead of a second one like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, Self

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField

from dts_assets.errors import LakeTableError, StaleGenerationError
from dts_assets.model.layouts import Layout
from dts_assets.store.layouts import LayoutChange, layout_change

_DROPPED = "was dropped"
_REPLACED = "became another type"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """A table's schema at the moment of a plan, told by two ids.

    They are the schema's, and the greatest that a field of the table ever had. The second one tells of columns that came and
    went meanwhile, after which the table has its former schema again.
    """

    schema_id: int
    last_column_id: int

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return the state of a table as it is."""
        return cls(table.metadata.current_schema_id, table.metadata.last_column_id)

    def __str__(self) -> str:
        return f"schema {self.schema_id} with fields up to {self.last_column_id}"


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table as it will be, and what the catalog is asked for.

    ``former`` has the ids of the fields in whose place others have come, by the new ids: ``{27: 4}``. Where ``updates`` is empty
    the table is as it was.
    """

    table: Table
    former: Mapping[int, int] = field(default_factory=dict)
    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()

    @property
    def former_ids(self) -> dict[bytes, bytes]:
        """``former`` as Arrow has field ids."""
        return {str(new).encode(): str(old).encode() for new, old in self.former.items()}

    @property
    def lays_out(self) -> bool:
        """True if new files get another layout than the table's files had."""
        return any(isinstance(one, SetDefaultSpecUpdate | SetDefaultSortOrderUpdate) for one in self.updates)


class PlannedChange(Protocol):
    """A change of a table's schema, and the state that it was planned on."""

    @property
    def made_on(self) -> SchemaState:
        """The state of the table's schema."""
        ...

    def staged(self, table: Table) -> StagedTable:
        """Return the table with the change."""
        ...


def as_planned(table: Table, planned: PlannedChange | None, *, unsure: bool = False) -> StagedTable:
    """Return a table with the columns that new files have; the table itself where no change is planned.

    ``unsure`` says that the catalog has left a commit of the change without an answer.

    Raises:
        StaleGenerationError: The columns of the table were changed since the plan was made.
        LakeTableError: A partition field or the sort order of the table needs a column that goes, or cannot be made of it.
    """
    if planned is None:
        return StagedTable(table)
    found = SchemaState.of(table)
    if found != planned.made_on:
        raise StaleGenerationError(
            ".".join(table.name()), expected=str(planned.made_on), found=str(found), unsure=unsure
        )
    return planned.staged(table)


def with_schema(
    table: Table, fields: Sequence[NestedField], former: Mapping[int, int], layout: Layout | None = None
) -> StagedTable:
    """Return a table with other fields, and a layout that is made of them; None keeps its own.

    ``former`` is as in :class:`StagedTable`.

    Raises:
        LakeTableError: A partition field or the sort order of the table needs a column that goes, a column cannot be laid out as
            the layout says, or a partition field of another column has the name of a new one.
    """
    present, metadata = table.schema(), table.metadata
    there = Schema(*fields).field_ids
    made = Schema(
        *fields,
        schema_id=max(one.schema_id for one in metadata.schemas) + 1,
        identifier_field_ids=[number for number in present.identifier_field_ids if number in there],
    )
    change = LayoutChange()
    if layout is None:
        _refuse_laid_out(table, made, set(former.values()))
    else:
        change = layout_change(table, made, layout)
    _refuse_taken(table, made)
    known = next((one for one in metadata.schemas if one == made), None)
    updates: tuple[TableUpdate, ...] = (AddSchemaUpdate(schema_=made), SetCurrentSchemaUpdate(schema_id=-1))
    if known is not None:
        updates = (SetCurrentSchemaUpdate(schema_id=known.schema_id),)
    requirements: tuple[TableRequirement, ...] = (
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )
    return staged(table, (*updates, *change.updates), (*requirements, *change.requirements), former)


def staged(
    table: Table,
    updates: tuple[TableUpdate, ...],
    requirements: tuple[TableRequirement, ...],
    former: Mapping[int, int] = MappingProxyType({}),
) -> StagedTable:
    """Return a table as it will be behind some updates of the catalog's."""
    changed = update_table_metadata(table.metadata, updates)
    made = Table(table.name(), changed, table.metadata_location, table.io, table.catalog, table.config)
    return StagedTable(made, former, updates, requirements)


def _refuse_laid_out(table: Table, made: Schema, replaced: set[int]) -> None:
    """Refuse that a column goes which files are partitioned or sorted by now.

    Former layouts do not count, or a table could never lose such a column. Everybody reads such a table; Spark cannot insert into
    it after a former sort order has lost its column (Iceberg 1.11 takes all sort orders along to its writers).

    Raises:
        LakeTableError: There is such a column.
    """
    present = table.schema()
    laid_out = {one.source_id for one in table.spec().fields if not isinstance(one.transform, VoidTransform)}
    needed = {*laid_out, *(one.source_id for one in table.sort_order().fields)}
    gone = {
        str(present.find_column_name(number)): _REPLACED if number in replaced else _DROPPED
        for number in needed.difference(made.field_ids)
    }
    if gone:
        raise LakeTableError(
            ".".join(table.name()),
            "its layout needs "
            + ", and ".join(f"{name}, which {what} at the source" for name, what in sorted(gone.items())),
            "leave it out of layout in the configuration, then resume the table",
        )


def _refuse_taken(table: Table, made: Schema) -> None:
    """Refuse a column with the name of a partition field that is made of another column.

    Iceberg's Java code could not load the table any more: "Cannot create identity partition sourced from different field". It
    says so of fields of former specs, too, unless their column is gone.

    Raises:
        LakeTableError: There is such a column.
    """
    numbers, there = {one.name: one.field_id for one in made.fields}, set(made.field_ids)
    taken = {
        one.name
        for spec in table.metadata.partition_specs
        for one in spec.fields
        if one.source_id in there and numbers.get(one.name, one.source_id) != one.source_id
    }
    if taken:
        raise LakeTableError(
            ".".join(table.name()),
            f"a partition field of its present or a former layout has the name of its new column {', '.join(sorted(taken))}",
            "rename the column at the source, or use another subscription name, whose tables start empty",
        )
