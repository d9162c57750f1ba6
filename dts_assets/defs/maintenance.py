"""Maintenance as Dagster shows it: a job, a schedule, and an asset whose numbers the UI plots.

Each step of a run is an observation of the asset `<subscription>/maintenance`: what it did and how many bytes it freed. At the
end the bytes of each layer are observed.
"""

from collections import Counter
from typing import TYPE_CHECKING

import dagster as dg

from dts_assets.defs.flow_step import TableEvent, flow_step, log_events
from dts_assets.defs.metadata import Metadata
from dts_assets.defs.policies import OWNERS, asset_key, group_of
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.model.maintenance import Step, StepReport
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline

_USUAL_TIME = "30 3 * * *"
_SHOWN = 50
"""The most lines about single tables that the metadata of a step has."""


class MaintenanceConfig(dg.Config):
    """The steps to do: retention, tags, compaction, sorting, expiry, orphans.

    None stands for those of the settings. With `dry_run` nothing is changed.
    """

    only: list[str] = []  # noqa: RUF012  # a pydantic field: each instance has its own
    dry_run: bool = False


def maintenance_job_name(subscription: str) -> str:
    """Return the name of the job, and of its schedule."""
    return f"{subscription}_maintenance"


def maintenance_asset(subscription: Subscription) -> dg.AssetSpec:
    """Return the asset that has the numbers of maintenance; it is no table, and nothing makes it."""
    return dg.AssetSpec(
        key=asset_key(subscription.name, "maintenance"),
        description=f"What maintenance did to the tables of {subscription.name}, and how large these are.",
        group_name=group_of(subscription, "source"),
        owners=OWNERS,
    )


def maintenance_job(subscription: Subscription) -> dg.JobDefinition:
    """Return the job that puts the files of tables in order, and removes old ones."""
    key = asset_key(subscription.name, "maintenance")

    @dg.op(
        name=f"{subscription.name}_maintain",
        pool=f"{subscription.name}_tables",
        tags={"subscription": subscription.name},
        out=dg.Out(dg.Nothing),
    )
    def maintain_tables(
        context: dg.OpExecutionContext, config: MaintenanceConfig, pipelines: PipelineResource, spark: SparkResource
    ) -> None:
        only, failed, freed = _steps_of(config), list[str](), 0
        # Spark starts when a step asks for it: where no file is worth a compaction it never does.
        with flow_step(context, subscription.name, pipelines, spark, start=False) as step:
            from dts_assets.flows.maintenance import maintain

            for report in maintain(
                step.pipeline, only=only, dry_run=config.dry_run, spark=step.spark, progress=step.progress
            ):
                events: list[TableEvent] = [
                    dg.AssetObservation(key, metadata=step_metadata(report, dry_run=config.dry_run))
                ]
                log_events(context, events)
                freed += report.freed_bytes
                failed += [f"{report.step}: {line}" for line in report.failed]
            sizes: list[TableEvent] = [dg.AssetObservation(key, metadata=size_metadata(step.pipeline))]
            log_events(context, sizes)
        context.add_output_metadata({"freed_bytes": freed, "dry_run": config.dry_run, "failed": len(failed)})
        if failed:
            raise dg.Failure(f"Some maintenance was not done; the next run tries again. {'; '.join(failed[:5])}")

    @dg.job(
        name=maintenance_job_name(subscription.name),
        description="Puts the files of tables in order, and removes old ones. Its steps are in the asset's observations.",
    )
    def job() -> None:
        maintain_tables()

    return job


def maintenance_schedule(subscription: Subscription, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Return the schedule of the job. It runs from the start where the settings name a time."""
    cron = subscription.maintenance.schedule
    return dg.ScheduleDefinition(
        name=maintenance_job_name(subscription.name),
        job=job,
        cron_schedule=cron or _USUAL_TIME,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED if cron is None else dg.DefaultScheduleStatus.RUNNING,
        description="Asks for maintenance. Without maintenance.schedule in the settings it is off until it is switched on: live "
        "runs compact and let versions expire by themselves.",
    )


def step_metadata(report: StepReport, *, dry_run: bool = False) -> Metadata:
    """Return the numbers of a step under names that begin with it, and its details."""
    prefix = "dry_run_" if dry_run else ""
    numbers = {"tables": report.tables, "freed_bytes": report.freed_bytes, **report.numbers}
    lines = [*report.details[:_SHOWN], *report.failed]
    told = {"did": dg.MetadataValue.md("\n".join(f"- {line}" for line in lines))} if lines else {}
    return {**{f"{prefix}{report.step}_{name}": value for name, value in numbers.items()}, **told}


def size_metadata(pipeline: "Pipeline") -> Metadata:
    """Return the bytes of the present versions by layer, as the tables' own summaries have them."""
    from dts_assets.flows.maintained_tables import layer_of, maintained_paths
    from dts_assets.flows.one_by_one import one_by_one

    sizes = Counter[str]()
    # A table that cannot be opened is named by the steps, which have met it.
    states = one_by_one(maintained_paths(pipeline), pipeline.lake.state, named=".".join)
    for path, state in states.results.items():
        if state is not None:
            sizes[layer_of(path)] += int(state.properties.get("total-files-size", 0))
    return {**{f"{layer}_bytes": size for layer, size in sizes.items()}, "all_bytes": sizes.total()}


def _steps_of(config: MaintenanceConfig) -> tuple[Step, ...]:
    """Return the steps that a configuration names.

    Raises:
        Failure: There is no such step.
    """
    for name in config.only:
        if name not in list(Step):
            known = ", ".join(Step)
            raise dg.Failure(f"{name} is no step of maintenance; write some of {known}", allow_retries=False)
    return tuple(Step(name) for name in config.only)
