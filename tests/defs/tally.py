"""A layer made up for tests: how many changes of each kind a window of a table has. One stage, one flow, one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg

from dts_assets.defs.layers import AssetLayer, LayerCheck
from dts_assets.flows.layers import CHANGELOG, Layer, LayerWork
from dts_assets.flows.reports import LayerOutcome, TablesReport, WindowReport
from dts_assets.model.tables import TableId
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (("window_start", "timestamp"), ("op", "string"), ("changes", "bigint"))


def tallied(changes: DataFrame) -> DataFrame:
    """The stage."""
    from pyspark.sql import functions as F

    return changes.groupBy("window_start", "op").agg(F.count("*").alias("changes"))


def make_tallies(work: LayerWork) -> Mapping[TableId, LayerOutcome]:
    """The flow."""
    from pyspark.sql import functions as F

    made = {}
    lake, starts = work.pipeline.lake, [window.start for window in work.windows]
    for table in work.tables:
        path = work.pipeline.table_path(TALLY.name, table)
        lake.ensure(path, layout(iceberg_schema(COLUMNS), partition_by=("window_start",)))
        changelog = work.spark().table(lake.spark_name(work.pipeline.table_path(CHANGELOG.name, table)))
        tallied(changelog.where(F.col("window_start").isin(starts))).writeTo(
            lake.spark_name(path)
        ).overwritePartitions()
        state = lake.state(path)
        made[table] = LayerOutcome(True, None if state is None else int(state.properties["total-records"]))
    return made


def tallied_result(report: TablesReport, window: WindowReport) -> dg.AssetCheckResult:
    everywhere = all(TALLY.name in table.layers for table in report.tables)
    return dg.AssetCheckResult(check_name="tallied", passed=everywhere, metadata={"changes": window.changes})


TALLY = Layer("tally", lambda _: COLUMNS, made_from=CHANGELOG, make=make_tallies)

TALLY_ASSETS = AssetLayer(
    TALLY,
    "How many changes of each kind {table} has in a window.",
    lambda table, window: {
        "dagster/row_count": table.layers[TALLY.name].rows,
        "row_changes": table.changes.get(window.row.window.start, 0),
    },
    checks=(LayerCheck("tallied", "Every table is tallied.", tallied_result),),
)
