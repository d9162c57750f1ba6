"""The check of the source database's settings at the topic's asset, daily and from the UI."""

from typing import Any

import dagster as dg

from dts_assets.defs.failures import explained
from dts_assets.defs.policies import asset_key
from dts_assets.defs.resources import PipelineResource
from dts_assets.settings.models import Subscription

SOURCE_SETTINGS = "source_settings"

_DAILY = "0 5 * * *"


def source_check(subscription: Subscription) -> dg.AssetChecksDefinition:
    """Return the check that names what the source's binlog does not tell, or tells as something else."""

    @dg.asset_check(
        asset=asset_key(subscription.name, "topic"),
        name=SOURCE_SETTINGS,
        description="The source's binlog tells every change of the tables: warns where rows cannot be proven, fails where rows "
        "are missing or wrong.",
    )
    def source_settings(context: dg.AssetCheckExecutionContext, pipelines: PipelineResource) -> dg.AssetCheckResult:
        from dts_assets.flows.source_preflight import source_findings

        with explained(context):
            found = source_findings(pipelines.pipeline(subscription.name).settings)
        lines = "\n".join(f"- {one.sentence}" for one in found)
        metadata: dict[str, Any] = {"findings": dg.MetadataValue.md(lines)} if found else {}
        worst = dg.AssetCheckSeverity.ERROR if any(one.is_wrong for one in found) else dg.AssetCheckSeverity.WARN
        said = " ".join(one.sentence for one in found) or None
        return dg.AssetCheckResult(passed=not found, severity=worst, metadata=metadata, description=said)

    return source_settings


def source_job_name(subscription: str) -> str:
    """Return the name of the job that asks the source database for its settings."""
    return f"{subscription}_source_settings"


def source_job(subscription: Subscription) -> Any:
    """Return the job that executes the check alone."""
    key = dg.AssetCheckKey(asset_key(subscription.name, "topic"), SOURCE_SETTINGS)
    return dg.define_asset_job(
        source_job_name(subscription.name),
        selection=dg.AssetSelection.checks(key),
        description="Asks the source database whether its binlog tells every change of the tables.",
    )


def source_schedule(subscription: Subscription) -> dg.ScheduleDefinition:
    """Return the schedule of the job, which runs from the start."""
    return dg.ScheduleDefinition(
        name=f"{subscription.name}_source_settings_schedule",
        job_name=source_job_name(subscription.name),
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        description="Asks the source database every day whether its binlog tells every change of the tables.",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
