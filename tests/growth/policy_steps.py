"""Columns that a policy keeps, freezes or puts into a map, as tables get more columns and more statements."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dts_assets.model.positions import SourcePosition
from dts_assets.model.schema_policies import NEW_COLUMNS, SchemaPolicy, in_map
from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import Cells
from dts_assets.stages.mapped_columns import out_of_map, with_map, with_mapped
from dts_assets.stages.mapped_texts import as_texts, from_texts
from dts_assets.stages.placed_columns import placed_columns
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnDropped, SchemaChange
from dts_assets.wire.ddl.schema_history import SchemaState, SourceStatement
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema
from tests.growth.long_histories import Case

_TABLE = TableId("shopdb", "", "items")
_MAP = pa.map_(pa.string(), pa.string())


def _states(count: int) -> tuple[SchemaState, ...]:
    """Columns come and go, one with each statement."""
    found = [SchemaState(SourcePosition(0, 1, 0), TableSchema((SchemaColumn("id", "int(11)"),), ("id",)))]
    for number in range(1, count):
        before = found[-1].schema
        assert before is not None
        column = SchemaColumn(f"c{number // 2}", "int(11)")
        change: SchemaChange = (
            ColumnDropped(_TABLE, column.name) if number % 2 else ColumnAdded(_TABLE, column, None, Fill.NULL, None)
        )
        columns = before.columns[:1] if number % 2 else (*before.columns, SchemaColumn(f"c{number // 2}", "int(11)"))
        place = SourcePosition(0, 1, number)
        found.append(
            SchemaState(place, TableSchema(columns, ("id",)), None, SourceStatement(place, "d", "s"), (change,))
        )
    return tuple(found)


def _place(states: Sequence[SchemaState]) -> None:
    for policy in SchemaPolicy:
        placed_columns(states, policy)


def _map(values: pa.Array) -> None:
    texts = as_texts(Cells.of(values)).values
    name = in_map("note")
    whole = with_map(pa.RecordBatch.from_pydict({"id": values, name: texts}), _MAP)
    from_texts(out_of_map(whole.column(NEW_COLUMNS), name), "binary")
    with_mapped(whole.schema, [name])


POLICY_STEPS: dict[str, Case] = {
    "columns that come and go under each policy": (lambda count: _states(count // 10 + 2), _place),
    "texts in the map of new columns": (
        lambda count: pa.array([str(number).encode() for number in range(count)], pa.binary()),
        _map,
    ),
}
"""By kind: what makes a list, and what is done with it."""
