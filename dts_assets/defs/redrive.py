"""The job that drives quarantine again, started in the UI's Launchpad or by ``dts-assets redrive``."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from dts_assets.defs.checks import balance_result, completeness_result, evaluation
from dts_assets.defs.flow_step import TableEvent, flow_step, log_events, partition_event
from dts_assets.defs.metadata import entries_metadata
from dts_assets.defs.policies import asset_key
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.model.problems import Reason
from dts_assets.model.windows import ClosedBy
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.redrive import Quarantined, RedriveReport
    from dts_assets.flows.reports import EntriesCellReport


class RedriveConfig(dg.Config):
    """The part of the quarantine to drive again; a field left empty means all.

    Times are ISO 8601, in UTC where they name no zone.
    """

    start: str = ""
    end: str = ""
    kafka_partitions: list[int] = []  # noqa: RUF012  # a pydantic field: each instance has its own
    reasons: list[str] = []  # noqa: RUF012


def redrive_job_name(subscription: str) -> str:
    """Return the name of the job that drives quarantine again."""
    return f"{subscription}_redrive"


def redrive_job(subscription: Subscription) -> dg.JobDefinition:
    """Return the job that reads quarantined messages and entries again and makes the tables behind them."""
    entries = asset_key(subscription.name, "entries")

    @dg.op(
        name=f"{subscription.name}_read_quarantine_again",
        pool=f"{subscription.name}_tables",
        tags={"subscription": subscription.name},
        out=dg.Out(dg.Nothing),
    )
    def read_quarantine_again(
        context: dg.OpExecutionContext, config: RedriveConfig, pipelines: PipelineResource, spark: SparkResource
    ) -> None:
        # Spark starts when the flow asks for it: where nothing is in quarantine it never does.
        with flow_step(context, subscription.name, pipelines, spark, start=False) as step:
            from dts_assets.flows.redrive import redrive

            report = redrive(step.pipeline, chosen_by(config), spark=step.spark, progress=step.progress)
        log_events(context, (event for cell in report.entries for event in entries_events(entries, cell)))
        context.add_output_metadata({"rows": dg.MetadataValue.md(_table(report)), "moved": report.moved})

    @dg.job(
        name=redrive_job_name(subscription.name),
        description="Reads quarantined messages and entries again with the code and settings of now. Rows that can be used "
        "now move on, the others stay in quarantine.",
    )
    def job() -> None:
        read_quarantine_again()

    return job


def chosen_by(config: RedriveConfig) -> "Quarantined":
    """Return the part of the quarantine that a run's config names."""
    from dts_assets.flows.redrive import Quarantined

    return Quarantined(
        instant_of(config.start),
        instant_of(config.end),
        frozenset(config.kafka_partitions) or None,
        frozenset(Reason(reason) for reason in config.reasons) or None,
    )


def entries_events(entries: dg.AssetKey, cell: "EntriesCellReport") -> Iterator[TableEvent]:
    """Give the events of a partition of entries: a materialization (an observation while it is open) and checks."""
    partition, still_open = str(cell.row.cell), cell.row.closed_by is ClosedBy.OPEN
    yield partition_event(entries, partition, entries_metadata(cell), still_open=still_open)
    for result in (completeness_result(cell.judgement), balance_result(cell)):
        yield evaluation(entries, result, partition)


def instant_of(text: str) -> datetime | None:
    """Return the instant in a field of a run's config; None if the field is empty.

    An instant without a zone is in UTC.
    """
    if not text:
        return None
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _table(report: "RedriveReport") -> str:
    lines = ["| stage | reason | were there | stayed |", "|---|---|---|---|"]
    lines += [
        f"| {stage} | {reason.value} | {count} | {report.stayed.get((stage, reason), 0)} |"
        for (stage, reason), count in sorted(report.found.items())
    ]
    return "\n".join(lines)
