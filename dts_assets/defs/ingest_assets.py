"""The assets that follow Kafka's own order: ``raw_envelopes`` and ``entries``, by Kafka partition and window; and the topic."""

from collections.abc import Iterable
from typing import Any

import dagster as dg

from dts_assets.defs.checks import BALANCE, COMPLETENESS, balance_result, completeness_result, report_per_partition
from dts_assets.defs.failures import explained
from dts_assets.defs.group_commit import group_metadata
from dts_assets.defs.metadata import column_schema, entries_metadata, of_run, raw_metadata
from dts_assets.defs.partition_metadata import add_partition_metadata
from dts_assets.defs.partitions import cell_partitions, span_of
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.model.version import CODE_VERSION
from dts_assets.settings.models import Subscription
from dts_assets.store.columns import ENTRIES, RAW_ENVELOPES

OWNERS = ["team:data-engineering"]

ONE_RUN = dg.BackfillPolicy.single_run()
"""A backfill of any rectangle is one run with one Spark start, not one run per partition."""


def topic_asset(subscription: Subscription) -> dg.AssetSpec:
    """The topic itself: not ours to make, only to watch."""
    capture = subscription.source.capture
    where = "a broker" if capture is None else f"the capture {capture.path.name}"
    return dg.AssetSpec(
        key=[subscription.name, "topic"],
        description=f"The Kafka topic of subscription {subscription.name}, read from {where}.",
        group_name="source",
        kinds={"kafka"},
        owners=OWNERS,
        metadata={
            "format": subscription.format,
            "evidence": ", ".join(sorted(subscription.traits.evidence)) or "none",
            "kafka_partitions": subscription.partitions,
        },
    )


def raw_envelopes_asset(subscription: Subscription) -> dg.AssetsDefinition:
    """Every message as it came."""
    key = dg.AssetKey([subscription.name, "raw_envelopes"])

    @dg.asset(
        key=key,
        description="Every Kafka message as it came, byte for byte, with its offset, time and headers.",
        deps=[dg.AssetKey([subscription.name, "topic"])],
        kinds={"pyspark", "iceberg"},
        metadata=_table("raw_envelopes", RAW_ENVELOPES, subscription),
        group_name="raw",
        owners=OWNERS,
        code_version=CODE_VERSION,
        partitions_def=cell_partitions(subscription),
        backfill_policy=ONE_RUN,
        tags={"subscription": subscription.name},
    )
    def raw_envelopes(
        context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster compares with the bare class
        spark.start()
        from dts_assets.flows.raw import materialize_raw

        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            span = span_of(list(context.partition_keys), pipeline.grid)
            report = materialize_raw(pipeline, span, spark=spark.session, progress=context.log.info)
        add_partition_metadata(context, key, {str(cell.row.cell): raw_metadata(cell) for cell in report.cells})
        return dg.MaterializeResult(metadata=of_run(report.seconds, columns=RAW_ENVELOPES, location=report.location))

    return raw_envelopes


def entries_asset(subscription: Subscription) -> dg.AssetsDefinition:
    """Messages joined and decoded."""
    key = dg.AssetKey([subscription.name, "entries"])

    @dg.asset(
        key=key,
        description="Binlog events from joined messages: every copy that arrived, decoded to its header, with its own bytes.",
        # Heads of sets are read from earlier windows too, but that must not stand in the graph: a backfill of raw and entries of
        # some windows would then also ask for entries of the window behind them, whose raw nobody asked for.
        deps=[dg.AssetDep([subscription.name, "raw_envelopes"], partition_mapping=dg.IdentityPartitionMapping())],
        check_specs=[_check(subscription, key, name) for name in (COMPLETENESS, BALANCE)],
        kinds={"pyspark", "iceberg", subscription.traits.kind},
        metadata=_table("entries", ENTRIES, subscription),
        group_name="entries",
        owners=OWNERS,
        code_version=CODE_VERSION,
        partitions_def=cell_partitions(subscription),
        backfill_policy=ONE_RUN,
        tags={"subscription": subscription.name},
    )
    def entries(
        context: dg.AssetExecutionContext, pipelines: PipelineResource, spark: SparkResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster compares with the bare class
        spark.start()
        from dts_assets.flows.entries import materialize_entries

        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            span = span_of(list(context.partition_keys), pipeline.grid)
            report = materialize_entries(pipeline, span, spark=spark.session, progress=context.log.info)
        add_partition_metadata(context, key, {str(cell.row.cell): entries_metadata(cell) for cell in report.cells})
        if report.new_tables:
            names = ", ".join(str(table) for table in report.new_tables)
            context.log.info(f"new tables: {names}. Reload the code location to see them in the graph.")
        results = [
            report_per_partition(context, key, {str(cell.row.cell): judge(cell.row) for cell in report.cells})
            for judge in (completeness_result, balance_result)
        ]
        about = {
            **of_run(report.seconds, columns=ENTRIES, location=report.location, decoder=report.decoder),
            **group_metadata(context, pipeline),
        }
        return dg.MaterializeResult(metadata=about, check_results=results)

    return entries


_CHECKS = {
    COMPLETENESS: "How complete the partition is known to be, and what is missing.",
    BALANCE: "Every message, fragment and entry is accounted for.",
}


def _check(subscription: Subscription, key: dg.AssetKey, name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name,
        asset=key,
        partitions_def=cell_partitions(subscription),
        description=_CHECKS[name],
        blocking=subscription.on_incomplete == "block",
    )


def _table(name: str, columns: Iterable[tuple[str, str]], subscription: Subscription) -> dict[str, Any]:
    return {
        "dagster/column_schema": column_schema(columns),
        "dagster/table_name": f"lake.{subscription.name}.{name}",
    }
