"""Sensors: closed windows become runs of raw and entries, ready windows become runs of the tables.

The decisions are in ``planning.ticks``; here is only what Dagster needs around them. Both start stopped: a person switches
them on.
"""

from collections.abc import Iterable

import dagster as dg

from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import span_tags, window_tags
from dts_assets.defs.resources import PipelineResource
from dts_assets.errors import DtsAssetsError
from dts_assets.planning.ticks import Cursor, SpanRequest, ingest_tick, tables_tick
from dts_assets.settings.models import Subscription

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def ingest_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Follows the source: a growing capture folder now."""

    @dg.sensor(
        name=f"{subscription.name}_follow_source",
        job_name=ingest_job_name(subscription.name),
        minimum_interval_seconds=30,
        description="Asks for raw_envelopes and entries of windows that have closed at the source.",
    )
    def follow_source(
        context: dg.SensorEvaluationContext, pipelines: PipelineResource
    ) -> dg.SensorResult | dg.SkipReason:
        from dts_assets.flows.status import find_status

        try:
            pipeline = pipelines.pipeline(subscription.name)
            status = find_status(pipeline)
        except DtsAssetsError as error:
            return dg.SkipReason(str(error))
        tick = ingest_tick(
            Cursor.of_text(context.cursor),
            missing=status.work.ingest,
            stale=status.work.stale_entries,
            ends=status.ends,
            inputs=status.entries_inputs,
        )
        observation = dg.AssetObservation(
            dg.AssetKey([subscription.name, "topic"]),
            metadata={
                "closed_partitions_waiting": len(status.work.ingest),
                **{f"p{number:02d}_end_offset": mark.high for number, mark in pipeline.source.watermarks().items()},
            },
        )
        return dg.SensorResult(
            run_requests=[_request(subscription.name, request) for request in tick.requests],
            cursor=tick.cursor.to_text(),
            asset_events=[observation],
            skip_reason=None if tick.requests else "every closed window was asked for already",
        )

    return follow_source


def tables_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Follows the ledger."""
    job = tables_job_name(subscription.name)

    @dg.sensor(
        name=f"{subscription.name}_follow_ledger",
        job_name=job,
        minimum_interval_seconds=30,
        description="Asks for the tables of windows whose entries are all there, and of windows whose entries are newer.",
    )
    def follow_ledger(
        context: dg.SensorEvaluationContext, pipelines: PipelineResource
    ) -> dg.SensorResult | dg.SkipReason:
        from dts_assets.flows.status import find_status

        unfinished = dg.RunsFilter(job_name=job, statuses=_UNFINISHED)
        if context.instance.get_runs_count(unfinished):
            return dg.SkipReason("a run of the tables has not finished; the next tick asks for what is left then")
        try:
            status = find_status(pipelines.pipeline(subscription.name))
        except DtsAssetsError as error:
            return dg.SkipReason(str(error))
        requests = tables_tick(status.work.tables, inputs=status.tables_inputs)
        waiting = [window.key for window in status.work.waiting]
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=request.run_key, tags=window_tags(request.windows)) for request in requests
            ],
            skip_reason=None if requests else _nothing(waiting),
        )

    return follow_ledger


def _request(subscription: str, request: SpanRequest) -> dg.RunRequest:
    only = [dg.AssetKey([subscription, "entries"])] if request.entries_only else None
    return dg.RunRequest(run_key=request.run_key, tags=span_tags(request.span), asset_selection=only)


def _nothing(waiting: Iterable[str]) -> str:
    named = ", ".join(list(waiting)[:5])
    return f"waiting for entries of {named}" if named else "the tables of every window are up to date"
