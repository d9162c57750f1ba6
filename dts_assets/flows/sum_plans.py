"""The plan of a merge for the sum of its table's rows."""

from __future__ import annotations

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.row_sum_counts import summed_columns
from dts_assets.model.stored_sums import SUMS_PROPERTY, StoredSums, SumPlan
from dts_assets.model.tables import TableId
from dts_assets.store.columns import ROW_SUM
from dts_assets.store.files import WriteTarget
from dts_assets.store.types import FIELD_ID


def sum_plan(pipeline: Pipeline, layer: str, table: TableId, target: WriteTarget, *, anew: bool) -> SumPlan | None:
    """Return how a merge goes on with the sum of its table; None where the table has none.

    ``anew`` says that no row stays as it stands in a file.
    """
    schema = target.arrow_schema
    at = schema.get_field_index(ROW_SUM)
    if at < 0 or not pipeline.settings.carries_sum(table):
        return None
    state = pipeline.lake.state(pipeline.table_path(layer, table))
    before = None if state is None else StoredSums.of_text(state.properties.get(SUMS_PROPERTY))
    columns = {one.tag: one.kind for one in summed_columns(schema)}
    return SumPlan(columns, int(schema.field(at).metadata[FIELD_ID]), before, anew=anew or state is None)
