"""Sensors: windows become runs of raw and entries, ready windows become runs of the tables.

The decisions are in ``planning.ticks``; here is only what Dagster needs around them. Where windows are followed live both run
from the start; elsewhere a person switches them on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg

from dts_assets.defs.failures import CANNOT_BE_RETRIED
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.partitions import RANGE_END, RANGE_START, span_of_range, span_tags, window_tags
from dts_assets.defs.reload import TableReloader
from dts_assets.defs.resources import PipelineResource
from dts_assets.defs.table_assets import graph_tables
from dts_assets.errors import DtsAssetsError
from dts_assets.model.spans import Cell
from dts_assets.model.windows import WindowGrid
from dts_assets.planning.ticks import Cursor, Runs, SpanRequest, ingest_tick, tables_tick
from dts_assets.settings import ui_address
from dts_assets.settings.models import Subscription

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_EVERY = 30
_EVERY_LIVE = 10
"""Seconds between two ticks. Where windows are followed live a tick costs less than what it is late by."""

_FAILED_SINCE = timedelta(hours=6)
_MOST_FAILED = 100
"""How far back, and how many, failed runs are looked at."""


def ingest_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Follows the source: a Kafka topic, or a capture folder that grows."""
    job = ingest_job_name(subscription.name)
    reloader = TableReloader.of(subscription, graph_tables(subscription), ui_address())

    @dg.sensor(
        name=f"{subscription.name}_follow_source",
        job_name=job,
        minimum_interval_seconds=_interval(subscription),
        default_status=_from_the_start(subscription),
        description="Asks for raw_envelopes and entries of windows that have closed at the source; of the open one, too, where "
        "windows are followed live.",
    )
    def follow_source(
        context: dg.SensorEvaluationContext, pipelines: PipelineResource
    ) -> dg.SensorResult | dg.SkipReason:
        from dts_assets.flows.status import find_status

        try:
            status = find_status(pipelines.pipeline(subscription.name))
        except DtsAssetsError as error:
            return dg.SkipReason(str(error))
        tick = ingest_tick(
            Cursor.of_text(context.cursor),
            missing=status.work.ingest,
            stale=status.work.stale_entries,
            ends=status.ends,
            inputs=status.entries_inputs,
            live=status.work.live,
            runs=_runs(context.instance, job, subscription.grid),
        )
        reloaded = reloader.reload_if_new_tables()
        nothing = "every closed window was asked for already" + (f"; {reloaded}" if reloaded else "")
        return dg.SensorResult(
            run_requests=[_request(subscription.name, request) for request in tick.requests],
            cursor=tick.cursor.to_text(),
            skip_reason=None if tick.requests else nothing,
        )

    return follow_source


def tables_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Follows the ledger."""
    job = tables_job_name(subscription.name)

    @dg.sensor(
        name=f"{subscription.name}_follow_ledger",
        job_name=job,
        minimum_interval_seconds=_interval(subscription),
        default_status=_from_the_start(subscription),
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


def _interval(subscription: Subscription) -> int:
    return _EVERY_LIVE if subscription.window.live else _EVERY


def _from_the_start(subscription: Subscription) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if subscription.window.live else dg.DefaultSensorStatus.STOPPED


def _runs(instance: dg.DagsterInstance, job: str, grid: WindowGrid) -> Runs:
    """What the runs of the ingest job are doing now, and which of them have failed lately."""
    unfinished = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED))
    since = datetime.now(UTC) - _FAILED_SINCE
    failed = instance.get_run_records(
        dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.FAILURE], created_after=since), limit=_MOST_FAILED
    )
    return Runs(
        frozenset(cell for record in unfinished for cell in _cells(record.dagster_run, grid)),
        Counter(
            cell
            for record in failed
            if CANNOT_BE_RETRIED not in record.dagster_run.tags
            for cell in _cells(record.dagster_run, grid)
        ),
    )


def _cells(run: dg.DagsterRun, grid: WindowGrid) -> Iterator[Cell]:
    """The cells that a run of raw or entries makes; none for a run that says it otherwise than ours do."""
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    if first is None or last is None:
        first = last = run.tags.get("dagster/partition")
    if first is not None and last is not None:
        yield from span_of_range(first, last, grid).cells()


def _request(subscription: str, request: SpanRequest) -> dg.RunRequest:
    only = [dg.AssetKey([subscription, "entries"])] if request.entries_only else None
    return dg.RunRequest(run_key=request.run_key, tags=span_tags(request.span), asset_selection=only)


def _nothing(waiting: Iterable[str]) -> str:
    named = ", ".join(list(waiting)[:5])
    return f"waiting for entries of {named}" if named else "the tables of every window are up to date"
