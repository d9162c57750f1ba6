"""The assets that follow Kafka's own order, `raw_envelopes` and `entries`, by Kafka partition and window; and the topic."""

from collections.abc import Sequence

import dagster as dg

from dts_assets.defs.checks import BALANCE, COMPLETENESS, balance_result, completeness_result, report_per_partition
from dts_assets.defs.flow_step import flow_step
from dts_assets.defs.group_commit import group_metadata
from dts_assets.defs.metadata import entries_metadata, of_run, raw_metadata
from dts_assets.defs.partition_metadata import add_partition_metadata
from dts_assets.defs.partitions import cell_partitions, span_of
from dts_assets.defs.policies import ONE_RUN, OWNERS, asset_key, group_of, made_asset
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.settings.models import Subscription
from dts_assets.store.columns import ENTRIES, RAW_ENVELOPES

_CHECKS = {
    COMPLETENESS: "How complete the partition is known to be, and what is missing.",
    BALANCE: "Every message, fragment and entry is accounted for.",
}

_LACKS_TABLES = "**The graph lacks tables.** {} Then reload the code location."


def topic_asset(subscription: Subscription, troubles: Sequence[str] = ()) -> dg.AssetSpec:
    """Return the topic itself: not ours to make, only to watch.

    ``troubles`` are sentences that say why the graph lacks tables.
    """
    capture = subscription.source.capture
    where = "a broker" if capture is None else f"the capture {capture.path.name}"
    return dg.AssetSpec(
        key=asset_key(subscription.name, "topic"),
        description="\n\n".join(
            [
                f"The Kafka topic of subscription {subscription.name}, read from {where}.",
                *map(_LACKS_TABLES.format, troubles),
            ]
        ),
        group_name=group_of(subscription, "source"),
        kinds={"kafka"},
        owners=OWNERS,
        metadata={
            "format": subscription.format,
            "evidence": ", ".join(sorted(subscription.traits.evidence)) or "none",
            "kafka_partitions": subscription.partitions,
        },
    )


def raw_envelopes_asset(subscription: Subscription) -> dg.AssetsDefinition:
    """Return the asset of every message as it came."""
    key = asset_key(subscription.name, "raw_envelopes")
    spec = made_asset(
        subscription,
        key,
        description="Every Kafka message as it came, byte for byte, with its offset, time and headers.",
        group="raw",
        deps=[dg.AssetDep(asset_key(subscription.name, "topic"))],
        partitions=cell_partitions(subscription),
        columns=RAW_ENVELOPES,
    )

    @dg.multi_asset(name=key.to_python_identifier(), specs=[spec], backfill_policy=ONE_RUN)
    def raw_envelopes(
        context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster compares with the bare class
        with flow_step(context, subscription.name, pipelines, spark) as step:
            from dts_assets.flows.raw import materialize_raw

            span = span_of(list(context.partition_keys), step.pipeline.grid)
            report = materialize_raw(step.pipeline, span, spark=step.spark, progress=step.progress)
        run = of_run(report.seconds, columns=RAW_ENVELOPES, location=report.location)
        add_partition_metadata(context, key, {str(cell.row.cell): raw_metadata(cell) for cell in report.cells})
        return dg.MaterializeResult(metadata=run)

    return raw_envelopes


def entries_asset(subscription: Subscription) -> dg.AssetsDefinition:
    """Return the asset of messages joined and decoded."""
    key = asset_key(subscription.name, "entries")
    raw = asset_key(subscription.name, "raw_envelopes")
    spec = made_asset(
        subscription,
        key,
        description="Binlog events from joined messages: every copy that arrived, decoded to its header, with its own bytes.",
        group="entries",
        # Heads of sets are read from earlier windows too, but that must not stand in the graph: a backfill of raw and entries of
        # some windows would then also ask for entries of the window behind them, whose raw nobody asked for.
        deps=[dg.AssetDep(raw, partition_mapping=dg.IdentityPartitionMapping())],
        partitions=cell_partitions(subscription),
        columns=ENTRIES,
        kinds={subscription.traits.kind},
    )
    checks = [
        dg.AssetCheckSpec(
            name,
            asset=key,
            partitions_def=cell_partitions(subscription),
            description=description,
            blocking=subscription.on_incomplete == "block",
        )
        for name, description in _CHECKS.items()
    ]

    @dg.multi_asset(name=key.to_python_identifier(), specs=[spec], check_specs=checks, backfill_policy=ONE_RUN)
    def entries(
        context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster compares with the bare class
        with flow_step(context, subscription.name, pipelines, spark) as step:
            from dts_assets.flows.entries import materialize_entries

            span = span_of(list(context.partition_keys), step.pipeline.grid)
            report = materialize_entries(step.pipeline, span, spark=step.spark, progress=step.progress)
        if report.new_tables:
            names = ", ".join(str(table) for table in report.new_tables)
            context.log.info(f"new tables: {names}. Reload the code location to see them in the graph.")
        results = [
            report_per_partition(context, key, {str(cell.row.cell): judge(cell) for cell in report.cells})
            for judge in (lambda cell: completeness_result(cell.judgement), balance_result)
        ]
        run = of_run(report.seconds, columns=ENTRIES, location=report.location, decoder=report.decoder)
        moved = group_metadata(context, step.pipeline)
        add_partition_metadata(context, key, {str(cell.row.cell): entries_metadata(cell) for cell in report.cells})
        return dg.MaterializeResult(metadata={**run, **moved}, check_results=results)

    return entries
