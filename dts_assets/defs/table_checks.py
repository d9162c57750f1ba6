"""The checks about one table, which a run logs for tables with changes.

They are no outputs of the run's job: Dagster would plan each check of each table for each window, however few tables had changes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from dts_assets.defs.checks import evaluation
from dts_assets.defs.layers import AssetLayer, TableCheck, layers_of

if TYPE_CHECKING:
    from dts_assets.flows.reports import TableReport, TablesReport, WindowReport
    from dts_assets.settings import Subscription

Judged = tuple[AssetLayer, TableCheck, "TableReport", "WindowReport"]


def concerned_checks(report: TablesReport) -> Iterator[Judged]:
    """Yield the checks about one table for each window with changes of it."""
    for table in report.tables:
        for layer in layers_of(table):
            for check in layer.table_checks:
                for window in report.windows:
                    if check.is_about(table, window):
                        yield layer, check, table, window


def log_table_checks(
    context: dg.AssetExecutionContext,
    subscription: Subscription,
    selected: Collection[dg.AssetKey],
    report: TablesReport,
    *,
    whole: bool,
) -> None:
    """Log the evaluations of the selected tables.

    With ``whole`` those of tables that the graph does not show yet are among them.
    """
    from dts_assets.defs.event_log import gathered_events  # its databases' libraries are not needed to load definitions

    targets: dict[dg.AssetKey, Mapping[str, int]] = {}
    partitions = {window.row.window.key for window in report.windows}
    with gathered_events(context.instance):
        for layer, check, table, window in concerned_checks(report):
            key, partition = layer.key(subscription.name, table.table), window.row.window.key
            if not whole and key not in selected:
                continue
            if key not in targets:
                targets[key] = _materialized(context.instance, key, partitions)
            number = targets[key].get(partition)
            target = None if number is None else _target(context, number)
            context.log_event(evaluation(key, check.judge(table, window), partition, target=target))


def _materialized(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Collection[str]) -> Mapping[str, int]:
    """Return the numbers of the newest materializations by partition: Dagster shows results about these alone."""
    return instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION, {*partitions}
    )


def _target(context: dg.AssetExecutionContext, number: int) -> AssetCheckEvaluationTargetMaterializationData:
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=number, run_id=context.run.run_id, timestamp=time.time()
    )
