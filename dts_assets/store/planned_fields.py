"""The columns that a flat table gets, in their order, when its source table was altered.

A column that follows a present one keeps its Iceberg field, so files stay as they are: readers find values by the field's id,
whatever its name and its place are now. A column whose type the present one cannot be promoted to is a new field in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import same_name, widened
from dts_assets.model.layouts import Layout
from dts_assets.store.layouts import LayoutChange, layout_change
from dts_assets.store.staged_tables import SchemaState, StagedTable, staged, with_schema
from dts_assets.store.types import iceberg_type, lake_type


@dataclass(frozen=True, slots=True)
class PlannedField:
    """A column that a table gets, with its name and its lake type.

    ``former`` is the name of the present column that it follows. It is None for a column that has no values yet, even if a
    present one has its name.
    """

    name: str
    type: str
    former: str | None


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """All columns that a table gets, in their order.

    Present columns that none of them follows are dropped. ``made_on`` is the state of the schema that this was planned on. New
    files get a ``layout``, None stands for that of the table; ``lays_out`` says that the table's files had another one.
    """

    fields: tuple[PlannedField, ...]
    made_on: SchemaState
    layout: Layout | None = None
    lays_out: bool = False

    def staged(self, table: Table) -> StagedTable:
        """Return the table with these columns; see :func:`with_fields`."""
        return with_fields(table, self.fields, self.layout)


def with_fields(table: Table, fields: Sequence[PlannedField], layout: Layout | None = None) -> StagedTable:
    """Return a table that has exactly these columns, in their order, and a layout of them.

    No layout stands for that of the table. It is the table itself where it has them already. A column that follows another one
    keeps its field id, its comment and whether it identifies rows. New ids count on from the greatest that the table ever had, in
    the order of ``fields``.

    Raises:
        LakeTableError: A partition field or the sort order of the table needs a column that goes, a column cannot be laid out as
            the layout says, two columns have one name or follow the same column, or one follows a column that is not there.
    """
    present = {one.name: one for one in table.schema().fields}
    _refuse_unclear(table, fields, present)
    ids, former = count(table.metadata.last_column_id + 1), dict[int, int]()
    made: list[NestedField] = []
    for wanted in fields:
        found = None if wanted.former is None else present[wanted.former]
        kind = None if found is None else _promoted(found.field_type, wanted.type)
        if found is not None and kind is not None:
            made.append(found.model_copy(update={"name": wanted.name, "field_type": kind}))
            continue
        number = next(ids)
        doc = None if found is None else found.doc
        made.append(NestedField(number, wanted.name, iceberg_type(wanted.type, ids), required=False, doc=doc))
        if found is not None:
            former[number] = found.field_id
    if tuple(made) != table.schema().fields:
        return with_schema(table, made, former, layout)
    change = LayoutChange() if layout is None else layout_change(table, table.schema(), layout)
    return staged(table, change.updates, change.requirements) if change.updates else StagedTable(table)


def _promoted(present: IcebergType, wanted: str) -> IcebergType | None:
    """Return the type of a field that is promoted to a lake type; None if Iceberg cannot."""
    kind = iceberg_type(wanted)
    found, asked = lake_type(present), lake_type(kind)
    if found == asked:
        return present  # with the ids of its nested fields
    return kind if widened(found, asked) == asked else None


def _refuse_unclear(table: Table, fields: Sequence[PlannedField], present: Iterable[str]) -> None:
    named = Counter(same_name(one.name) for one in fields)
    followed = Counter(one.former for one in fields if one.former is not None)
    twice = [one.name for one in fields if named[same_name(one.name)] > 1]
    shared = [name for name, columns in followed.items() if columns > 1]
    unknown = sorted(followed.keys() - set(present))
    for names, what in (
        (twice, "has one name twice, perhaps in other case"),
        (shared, "follows one column twice"),
        (unknown, "follows columns that it has not"),
    ):
        if names:
            raise LakeTableError(".".join(table.name()), f"its planned schema {what}: {', '.join(names)}")
