"""The assets of source tables: a changelog and a snapshot each, by window, all made by one step and one Spark job.

Outputs have neutral names, ``t0``, ``t1``, ...: Dagster allows only letters, digits and underscores there, and table names may
hold anything. A table that is found in the data before it is in the graph is made all the same and reported under its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg

from dts_assets.defs.automation import tables_condition
from dts_assets.defs.checks import (
    BALANCE,
    COMPLETENESS,
    report_per_partition,
    window_balance_result,
    window_completeness_result,
)
from dts_assets.defs.failures import explained
from dts_assets.defs.ingest_assets import OWNERS
from dts_assets.defs.metadata import changelog_metadata, column_schema, of_run, snapshot_metadata
from dts_assets.defs.partition_metadata import add_partition_metadata
from dts_assets.defs.partitions import window_partitions, windows_of
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.flows.layers import EVERYTHING, Selection
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.settings.models import Subscription
from dts_assets.store.columns import changelog_columns, flat_name, snapshot_columns
from dts_assets.store.registry import read_registry

if TYPE_CHECKING:
    from dts_assets.flows.reports import TableReport, TablesReport, WindowReport

Layer = Literal["changelog", "snapshot"]


@dataclass(frozen=True, slots=True)
class TableAsset:
    """One layer of one source table, with the name of its output; ``columns`` is empty where no event has described it yet."""

    output: str
    layer: Layer
    table: TableId
    columns: tuple[Column, ...]
    subscription: str

    @property
    def key(self) -> dg.AssetKey:
        """Equal to the lake table's path."""
        return dg.AssetKey([self.subscription, self.layer, *self.table.path])


_WINDOW_CHECKS = {COMPLETENESS: "window_check", BALANCE: "balance_check"}
"""The outputs of the checks of a window: neutral too, where Dagster's own names are made from the asset key."""


def graph_tables(subscription: Subscription) -> tuple[TableAsset, ...]:
    """The table assets that the graph shows: those in the registry, and those that the configuration names exactly."""
    known: dict[TableId, tuple[Column, ...]] = dict.fromkeys(subscription.tables.exact, ())
    for table, registered in read_registry(subscription.registry_path).items():
        if subscription.tables.takes(table):
            known[table] = tuple(column.column for column in registered.columns)
    pairs: list[tuple[Layer, TableId, tuple[Column, ...]]] = []
    for table, columns in sorted(known.items()):
        pairs.append(("changelog", table, columns))
        if any(column.is_key for column in columns):
            pairs.append(("snapshot", table, columns))
    return tuple(
        TableAsset(f"t{number}", layer, table, columns, subscription.name)
        for number, (layer, table, columns) in enumerate(pairs)
    )


def table_assets(subscription: Subscription, assets: Sequence[TableAsset]) -> dg.AssetsDefinition | None:
    """One step for all tables of a subscription, of which any may be selected; None while no table is known.

    Made from an op and specs, because Dagster's decorator for assets with named outputs makes each spec three times: 2,000
    assets took it 0.7 s, and take 0.25 s so.
    """
    if not assets:
        return None
    entries = dg.AssetKey([subscription.name, "entries"])
    first = assets[0].key
    partitions = window_partitions(subscription)
    of_windows = dg.AssetDep(entries, partition_mapping=dg.MultiToSingleDimensionPartitionMapping("window"))
    descriptions = {
        COMPLETENESS: "How complete the window is known to be over all Kafka partitions; holds for every table.",
        BALANCE: "Every change of the window was kept, was delivered before, or is in quarantine; holds for every table.",
    }
    checks = {
        output: dg.AssetCheckSpec(name, asset=first, partitions_def=partitions, description=descriptions[name])
        for name, output in _WINDOW_CHECKS.items()
    }
    names = (*(asset.output for asset in assets), *checks)
    condition = tables_condition() if subscription.automation == "conditions" else None

    @dg.op(
        name=f"{subscription.name}_make_tables",  # not the name of the job: Dagster keeps both in one namespace
        ins={"entries": dg.In(dg.Nothing)},
        out={name: dg.Out(dg.Nothing, is_required=False) for name in names},
        # Two runs at once would compute the same frontier twice; the second would find its snapshots moved.
        pool=f"{subscription.name}_tables",
        tags={"subscription": subscription.name},
    )
    def tables(context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource):  # type: ignore[no-untyped-def]
        # No annotation: Dagster takes none for a step of many outputs that yields.
        spark.start()
        from dts_assets.flows.tables import materialize_tables

        selected = [asset for asset in assets if asset.key in context.selected_asset_keys]
        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            windows = windows_of(list(context.partition_keys), pipeline.grid)
            report = materialize_tables(
                pipeline,
                windows,
                selection=_selection(selected, assets),
                spark=spark.session,
                progress=context.log.info,
            )
        for asset in selected:
            yield _result(context, asset, report)
        if len(selected) == len(assets):
            _report_new(context, subscription.name, {asset.key for asset in assets}, report)
        asked = {key.name for key in context.selected_asset_check_keys}
        for name, judged in (
            (COMPLETENESS, lambda window: window_completeness_result(window.row)),
            (BALANCE, window_balance_result),
        ):
            if name in asked:
                results = {window.row.window.key: judged(window) for window in report.windows}
                yield _of(first, report_per_partition(context, first, results))

    return dg.AssetsDefinition(
        keys_by_input_name={"entries": entries},
        keys_by_output_name={asset.output: asset.key for asset in assets},
        node_def=tables,
        specs=[_spec(asset, of_windows, partitions, condition) for asset in assets],
        check_specs_by_output_name=checks,
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def _spec(
    asset: TableAsset,
    entries: dg.AssetDep,
    partitions: dg.PartitionsDefinition,
    condition: dg.AutomationCondition[dg.AssetKey] | None,
) -> dg.AssetSpec:
    if asset.layer == "changelog":
        columns = changelog_columns(asset.columns) if asset.columns else ()
        text = f"Every row change of {asset.table}, in the source's own order, with both images."
    else:
        columns = snapshot_columns(asset.columns)
        text = f"The current rows of {asset.table}, at the same transaction as every other snapshot."
    metadata: dict[str, Any] = {"dagster/table_name": ".".join(["lake", *asset.key.path])}
    if columns:
        keys = _flat_keys(asset.columns) if asset.layer == "snapshot" else ()
        metadata["dagster/column_schema"] = column_schema(columns, keys=keys)
    return dg.AssetSpec(
        key=asset.key,
        deps=[entries if asset.layer == "changelog" else dg.AssetDep(_changelog_of(asset))],
        partitions_def=partitions,
        group_name=asset.layer,
        kinds={"pyspark", "iceberg"},
        owners=OWNERS,
        code_version=CODE_VERSION,
        description=text,
        metadata=metadata,
        tags={"subscription": asset.subscription},
        automation_condition=condition,
    )


def _changelog_of(asset: TableAsset) -> dg.AssetKey:
    return dg.AssetKey([asset.subscription, "changelog", *asset.table.path])


def _selection(selected: Sequence[TableAsset], assets: Sequence[TableAsset]) -> Selection:
    if len(selected) == len(assets):
        return EVERYTHING
    chosen: dict[str, set[TableId]] = {asset.layer: set() for asset in assets}
    for asset in selected:
        chosen[asset.layer].add(asset.table)
    return Selection(chosen)


def _result(context: dg.AssetExecutionContext, asset: TableAsset, report: "TablesReport") -> dg.MaterializeResult[Any]:
    table = next((one for one in report.tables if one.table == asset.table), None)
    if table is None:  # named by the configuration, but no event has described it yet
        return dg.MaterializeResult(asset_key=asset.key, metadata={"dagster/partition_row_count": 0})
    metadata = {window.row.window.key: table_metadata(asset.layer, table, window) for window in report.windows}
    add_partition_metadata(context, asset.key, metadata)
    return dg.MaterializeResult(asset_key=asset.key, metadata=_of_run(asset.layer, table, report))


def _report_new(
    context: dg.AssetExecutionContext, subscription: str, known: set[dg.AssetKey], report: "TablesReport"
) -> None:
    """Materializations of tables that the graph does not show yet: their rows are written, so their keys must say so."""
    for table in report.tables:
        for layer in layers(table):
            key = dg.AssetKey([subscription, layer, *table.table.path])
            if key in known:
                continue
            context.log.info(f"{key.to_user_string()} is new: reload the code location to see it in the graph")
            for window in report.windows:
                context.instance.report_runless_asset_event(
                    dg.AssetMaterialization(
                        key,
                        metadata={**table_metadata(layer, table, window), **_of_run(layer, table, report)},
                        partition=window.row.window.key,
                    )
                )


def layers(table: "TableReport") -> tuple[Layer, ...]:
    """The layers that a table has: without a key it has no snapshot."""
    return ("changelog", "snapshot") if "snapshot" in table.layers else ("changelog",)


def table_metadata(layer: Layer, table: "TableReport", window: "WindowReport") -> Mapping[str, Any]:
    """The numbers of one window of one table."""
    return changelog_metadata(table, window) if layer == "changelog" else snapshot_metadata(table, window)


def _of_run(layer: Layer, table: "TableReport", report: "TablesReport") -> Mapping[str, Any]:
    if layer == "changelog":
        return of_run(report.seconds, columns=changelog_columns(table.columns), decoder=report.decoder)
    return of_run(report.seconds, columns=snapshot_columns(table.columns), keys=_flat_keys(table.columns))


def _flat_keys(columns: Sequence[Column]) -> list[str]:
    """The key columns of a snapshot, as it calls them."""
    return [flat_name(column.name) for column in columns if column.is_key]


def _of(key: dg.AssetKey, result: dg.AssetCheckResult) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
    )
