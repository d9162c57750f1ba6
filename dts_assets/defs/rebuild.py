"""The job that rebuilds tables, started in the UI's Launchpad or by ``dts-assets tables rebuild``."""

from typing import TYPE_CHECKING

import dagster as dg

from dts_assets.defs.flow_step import flow_step
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline
    from dts_assets.model.tables import TableId


class RebuildConfig(dg.Config):
    """The tables to rebuild, by their names at the source: `shopdb.orders`.

    They are rebuilt from rows of `source`, which is `changelog` or `entries`.
    """

    tables: list[str]
    source: str = "changelog"


def rebuild_job_name(subscription: str) -> str:
    """Return the name of the job that rebuilds tables."""
    return f"{subscription}_rebuild"


def rebuild_op_name(subscription: str) -> str:
    """Return the name of the job's only op, whose configuration names the tables."""
    return f"{subscription}_rebuild_tables"


def rebuild_job(subscription: Subscription) -> dg.JobDefinition:
    """Return the job that makes all rows of some tables again."""

    @dg.op(
        name=rebuild_op_name(subscription.name),
        pool=f"{subscription.name}_tables",
        tags={"subscription": subscription.name},
        out=dg.Out(dg.Nothing),
    )
    def rebuild(
        context: dg.OpExecutionContext, config: RebuildConfig, pipelines: PipelineResource, spark: SparkResource
    ) -> None:
        with flow_step(context, subscription.name, pipelines, spark) as step:
            from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables

            windows = rebuild_tables(
                step.pipeline,
                tables_named(step.pipeline, config.tables),
                RebuildFrom(config.source),
                spark=step.spark,
                progress=step.progress,
            )
        context.add_output_metadata({"tables": len(config.tables), "windows": windows})

    @dg.job(
        name=rebuild_job_name(subscription.name),
        description="Makes all rows of the snapshots and histories of some tables again, from their changelogs or from entries. "
        "Readers see the old rows until the new ones are committed.",
    )
    def job() -> None:
        rebuild()

    return job


def tables_named(pipeline: "Pipeline", names: list[str]) -> "list[TableId]":
    """Return known tables by name.

    Raises:
        Failure: No known table has a name, or several have it.
    """
    from dts_assets.flows.known_tables import known_tables

    found: list[TableId] = []
    for name in names:
        mine = [table for table in known_tables(pipeline) if table.is_called(name)]
        if len(mine) != 1:
            there = "is no table of" if not mine else "may be several tables of"
            raise dg.Failure(
                f"{name} {there} {pipeline.name}; dts-assets tables lists their names", allow_retries=False
            )
        found += mine
    return found
