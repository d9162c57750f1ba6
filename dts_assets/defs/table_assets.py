"""The assets of source tables, one for each layer of a table, all made by one step.

Outputs have neutral names, `t0`, `t1`, ...: Dagster allows only letters, digits and underscores there, and table names may hold
anything. A table that entries bring before the graph shows it is made all the same and is reported under its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs import layers
from dts_assets.defs.automation import tables_condition
from dts_assets.defs.checks import report_per_partition
from dts_assets.defs.flow_step import flow_step
from dts_assets.defs.layers import AssetLayer, LayerCheck, TableCheck, layers_of
from dts_assets.defs.partition_metadata import add_partition_metadata
from dts_assets.defs.partitions import window_partitions, windows_of
from dts_assets.defs.policies import ONE_RUN, asset_key, made_asset, table_tags
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.defs.table_checks import log_table_checks
from dts_assets.errors import LakeTableError
from dts_assets.flows.layers import EVERYTHING, Selection
from dts_assets.model.column_rules import stored_columns
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.settings.models import Subscription
from dts_assets.store.registry import RegisteredTable, read_registry

if TYPE_CHECKING:
    from dts_assets.flows.reports import TablesReport


@dataclass(frozen=True, slots=True)
class TableAsset:
    """The asset of one layer of one source table, with the name of its output.

    `columns` is empty where no event has described the table yet. `key` is also the lake table's path.
    """

    output: str
    layer: AssetLayer
    table: TableId
    columns: tuple[Column, ...]
    key: dg.AssetKey


@dataclass(frozen=True, slots=True)
class PlacedCheck:
    """A check of a layer in its place in the graph.

    It is the layer's first table, or the table that the check is about.
    """

    check: LayerCheck | TableCheck
    asset: dg.AssetKey
    output: str

    @property
    def key(self) -> dg.AssetCheckKey:
        """The key of the check in the graph."""
        return dg.AssetCheckKey(self.asset, self.check.name)

    def results(self, report: "TablesReport") -> dict[str, dg.AssetCheckResult]:
        """Return the result of each window by partition key: `{"2026-01-05-00:00": AssetCheckResult(...)}`.

        It is empty for a check about one table, whose results are :func:`table_results`.
        """
        if isinstance(self.check, TableCheck):
            return {}
        return {window.row.window.key: self.check.judge(report, window) for window in report.windows}


def graph_tables(subscription: Subscription) -> tuple[TableAsset, ...]:
    """Return the table assets of the graph: tables of the registry, and tables that the configuration names exactly.

    While no table of the lake is known, the registry is the file that was shipped with the configuration, if there is one. So it
    is while the registry cannot be used. Tables that a person has removed are not shown.
    """
    exact = map(subscription.routes.lake_table, subscription.tables.exact)
    known: dict[TableId, tuple[Column, ...]] = dict.fromkeys(exact, ())
    found, _ = _registered(subscription)
    for table, registered in found.items():
        if registered.removed:
            known.pop(table, None)
        elif subscription.decoded_sources(table, registered.sources):
            known[table] = stored_columns(registered.shape, subscription.rule_finder(table))
    shown = [
        (layer, table, known[table])
        for table in sorted(known)
        for layer in layers.LAYERS
        if layer.stored.takes(subscription, table)
    ]
    return tuple(
        TableAsset(f"t{number}", layer, table, columns, layer.key(subscription.name, table))
        for number, (layer, table, columns) in enumerate(shown)
    )


def registry_troubles(subscription: Subscription) -> tuple[str, ...]:
    """Return why the graph lacks tables, as a sentence for each registry file that cannot be used."""
    return _registered(subscription)[1]


def _registered(subscription: Subscription) -> tuple[dict[TableId, RegisteredTable], tuple[str, ...]]:
    """Return the registered tables, and the sentences of registry files that cannot be used."""
    troubles = []
    for path in (subscription.registry_path, subscription.shipped_registry_path):
        try:
            found = read_registry(path)
        except LakeTableError as error:  # one bad file must not take the graph of all others away
            troubles.append(str(error))
            continue
        if found:
            return found, tuple(troubles)
    return {}, tuple(troubles)


def graph_checks(assets: Sequence[TableAsset]) -> tuple[PlacedCheck, ...]:
    """Return the checks about all tables: those of the layers that have a table in the graph."""
    first: dict[str, TableAsset] = {}
    for asset in assets:
        first.setdefault(asset.layer.name, asset)
    return tuple(
        PlacedCheck(check, asset.key, f"{asset.layer.name}_{check.name}_check")
        for asset in first.values()
        for check in asset.layer.checks
    )


def graph_table_checks(assets: Sequence[TableAsset]) -> tuple[PlacedCheck, ...]:
    """Return the checks about one table, at each table of their layers."""
    return tuple(
        PlacedCheck(check, asset.key, f"{asset.output}_{check.name}_check")
        for asset in assets
        for check in asset.layer.table_checks
    )


def table_assets(subscription: Subscription, assets: Sequence[TableAsset]) -> dg.AssetsDefinition | None:
    """Return one step for all tables of a subscription; None while no table is known.

    A run may select any tables of it. The step is made from an op and specs, because Dagster's decorator for assets with
    named outputs makes each spec three times: 2,000 assets took 0.7 s with it, and take 0.25 s without.
    """
    if not assets:
        return None
    partitions = window_partitions(subscription)
    checks = (*graph_checks(assets), *graph_table_checks(assets))
    return dg.AssetsDefinition(
        keys_by_input_name={"entries": asset_key(subscription.name, "entries")},
        keys_by_output_name={asset.output: asset.key for asset in assets},
        node_def=_tables_op(subscription, assets, checks),
        specs=_specs(subscription, assets, partitions),
        check_specs_by_output_name={
            one.output: dg.AssetCheckSpec(
                one.check.name, asset=one.asset, partitions_def=partitions, description=one.check.description
            )
            for one in checks
        },
        can_subset=True,
        backfill_policy=ONE_RUN,
    )


def _tables_op(
    subscription: Subscription, assets: Sequence[TableAsset], checks: Sequence[PlacedCheck]
) -> dg.OpDefinition:
    """Return the step that makes all tables of some windows."""
    outputs = [*(asset.output for asset in assets), *(check.output for check in checks)]
    nothing = dg.Out(dg.Nothing, is_required=False)

    @dg.op(
        name=f"{subscription.name}_make_tables",  # not the name of the job: Dagster keeps both in one namespace
        ins={"entries": dg.In(dg.Nothing)},
        out=dict.fromkeys(outputs, nothing),
        # Two runs at once would compute the same frontier twice; the second would find its snapshots moved.
        pool=f"{subscription.name}_tables",
        tags={"subscription": subscription.name},
    )
    def tables(context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource):  # type: ignore[no-untyped-def]
        # No annotation: Dagster takes none for a step of many outputs that yields.
        selected = [asset for asset in assets if asset.key in context.selected_asset_keys]
        chosen = _selection(selected, assets)
        with flow_step(context, subscription.name, pipelines, spark) as step:
            from dts_assets.flows.tables import materialize_tables

            windows = windows_of(list(context.partition_keys), step.pipeline.grid)
            report = materialize_tables(
                step.pipeline, windows, selection=chosen, spark=step.spark, progress=step.progress
            )
        # A table that stands still gets no event: Dagster would show the windows as done that it lacks.
        yield from (
            _result(context, subscription, asset, report) for asset in selected if asset.table not in report.paused
        )
        if chosen.whole:
            _report_new(context, subscription, {asset.key for asset in assets}, report)
        log_table_checks(context, subscription, {asset.key for asset in selected}, report, whole=chosen.whole)
        for one in checks:
            if one.key in context.selected_asset_check_keys and (results := one.results(report)):
                yield report_per_partition(context, one.asset, results)

    return tables


def _specs(
    subscription: Subscription, assets: Sequence[TableAsset], partitions: dg.PartitionsDefinition[str]
) -> list[dg.AssetSpec]:
    """Return the spec of every table asset."""
    condition = tables_condition() if subscription.automation == "conditions" else None
    return [
        made_asset(
            subscription,
            asset.key,
            description=asset.layer.description.format(table=asset.table),
            group=asset.layer.name,
            deps=[dep],
            partitions=partitions,
            columns=asset.layer.stored.columns_of(subscription, asset.table, asset.columns) if asset.columns else (),
            keys=asset.layer.stored.key_columns(asset.columns),
            tags=table_tags(asset.table),
            condition=condition,
        )
        for asset, dep in zip(assets, _deps(subscription, assets), strict=True)
    ]


def _deps(subscription: Subscription, assets: Sequence[TableAsset]) -> list[dg.AssetDep]:
    """Return the dependency of every table asset on the asset that it is made from.

    Assets that are made from one asset share it: Dagster spends time on each dependency that is made.
    """
    # Entries are by Kafka partition and window, tables by window.
    of_windows = dg.MultiToSingleDimensionPartitionMapping("window")
    made: dict[tuple[str, TableId | None], dg.AssetDep] = {}
    found = []
    for asset in assets:
        source = asset.layer.stored.made_from
        place = ("entries", None) if source is None else (source.name, asset.table)
        if place not in made:
            key = asset.layer.source_key(subscription.name, asset.table)
            made[place] = dg.AssetDep(key, partition_mapping=of_windows if source is None else None)
        found.append(made[place])
    return found


def _selection(selected: Sequence[TableAsset], assets: Sequence[TableAsset]) -> Selection:
    if len(selected) == len(assets):
        return EVERYTHING
    return Selection(
        {layer.name: {asset.table for asset in selected if asset.layer == layer} for layer in layers.LAYERS}
    )


def _result(
    context: dg.AssetExecutionContext, subscription: Subscription, asset: TableAsset, report: "TablesReport"
) -> dg.MaterializeResult[Any]:
    table = next((one for one in report.tables if one.table == asset.table), None)
    if table is None:  # named by the configuration, but no event has described it yet
        return dg.MaterializeResult(asset_key=asset.key, metadata={"dagster/partition_row_count": 0})
    metadata = {window.row.window.key: asset.layer.metadata(table, window) for window in report.windows}
    add_partition_metadata(context, asset.key, metadata)
    return dg.MaterializeResult(asset_key=asset.key, metadata=asset.layer.run_metadata(subscription, table, report))


def _report_new(
    context: dg.AssetExecutionContext, subscription: Subscription, known: set[dg.AssetKey], report: "TablesReport"
) -> None:
    """Report the tables that the graph does not show yet: their rows are written all the same."""
    for table in report.tables:
        for layer in layers_of(table):
            key = layer.key(subscription.name, table.table)
            if key in known or table.table in report.paused:
                continue
            context.log.info(f"{key.to_user_string()} is new: reload the code location to see it in the graph")
            of_run: Mapping[str, Any] = layer.run_metadata(subscription, table, report)
            for window in report.windows:
                context.instance.report_runless_asset_event(
                    dg.AssetMaterialization(
                        key, metadata={**layer.metadata(table, window), **of_run}, partition=window.row.window.key
                    )
                )
