"""The sensors: closed windows become runs of raw and entries, ready windows become runs of the tables.

The decisions are in ``planning.ticks`` and ``planning.work``; this module adds only the calls of Dagster. Where windows are
followed live, the sensors run from the start; elsewhere a person switches them on.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import dagster as dg

from dts_assets.defs.failures import CANNOT_BE_RETRIED, Ticked, skips_with_reason, trouble_of
from dts_assets.defs.jobs import ingest_job_name, tables_job_name
from dts_assets.defs.live import FOLLOWS_FROM, HAS_WORKED, live_config, live_job_name
from dts_assets.defs.partitions import RANGE_END, RANGE_START, span_of_range, span_tags, window_tags, windows_of_range
from dts_assets.defs.policies import asset_key
from dts_assets.defs.reload import TableReloader
from dts_assets.defs.resources import PipelineResource
from dts_assets.defs.table_assets import TableAsset
from dts_assets.model.spans import Cell
from dts_assets.model.windows import KEY_FORMAT, Window, WindowGrid
from dts_assets.planning.latches import Failure, Latch, Trouble, latch_after
from dts_assets.planning.ticks import Cursor, Runs, SpanRequest, ingest_tick, tables_tick
from dts_assets.settings import ui_address
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.planning.work import Work

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_EVERY = 30
_EVERY_LIVE = 10
"""Seconds between two ticks. Where windows are followed live, a late tick costs more than a tick."""

_MOST_FAILED = 100
"""The most failed runs to look at, the latest ones."""

_MOST_LIVE = 16
"""The most runs of the live job to look at. Fewer failures reach the longest pause."""

Key = TypeVar("Key", bound=Hashable)


def _sensor(
    subscription: Subscription, name: str, job: str, description: str
) -> Callable[[Callable[..., Ticked]], dg.SensorDefinition]:
    """Return the decorator of a tick, which says what runs of a job to ask for."""
    live = subscription.window.live
    decorate = dg.sensor(
        name=f"{subscription.name}_{name}",
        job_name=job,
        minimum_interval_seconds=_EVERY_LIVE if live else _EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING if live else dg.DefaultSensorStatus.STOPPED,
        description=description,
    )
    return lambda tick: decorate(skips_with_reason(tick))


def ingest_sensor(subscription: Subscription, assets: Sequence[TableAsset]) -> dg.SensorDefinition:
    """Return the sensor that follows the source: a Kafka topic, or a growing capture folder.

    `assets` are the tables of the graph: the sensor asks for a reload when there are others.
    """
    job = ingest_job_name(subscription.name)
    reloader = TableReloader(subscription, ui_address(), frozenset(asset.key for asset in assets))

    @_sensor(
        subscription,
        "follow_source",
        job,
        "Asks for raw_envelopes and entries of windows that have closed at the source, and of the open window where "
        "windows are followed live.",
    )
    def follow_source(context: dg.SensorEvaluationContext, pipelines: PipelineResource) -> Ticked:
        from dts_assets.flows.find_work import find_work

        # Read first: the marks of a run that ends meanwhile are read after it, so that its cells are not asked for again.
        runs = _runs(context.instance, job, subscription.grid, pipelines.changed_at())
        work = find_work(pipelines.pipeline(subscription.name))
        theirs = _followed_from(context.instance, subscription)
        mine = work.within(until=theirs)
        cursor = Cursor.of_text(context.cursor)
        mine = mine.without_live if has_live_job(subscription) else mine
        tick = ingest_tick(cursor, mine, runs=runs)
        reloaded = reloader.reload_if_new_tables()
        wanted = filter(runs.is_latched, (*mine.ingest, *mine.stale_entries, *mine.live))
        waiting = _told_latches(context, {str(cell): runs.latches[cell] for cell in wanted})
        nothing = waiting or "every closed window was asked for already"
        nothing += f"; {reloaded}" if reloaded else ""
        return dg.SensorResult(
            run_requests=[_request(subscription.name, request) for request in tick.requests],
            cursor=tick.cursor.to_text(),
            skip_reason=None if tick.requests else nothing,
        )

    return follow_source


def tables_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Return the sensor that follows the ledger and asks for tables."""
    job = tables_job_name(subscription.name)

    @_sensor(
        subscription,
        "follow_ledger",
        job,
        "Asks for the tables of windows whose entries are all there, and again where entries are newer.",
    )
    def follow_ledger(context: dg.SensorEvaluationContext, pipelines: PipelineResource) -> Ticked:
        from dts_assets.flows.find_work import find_work

        unfinished = dg.RunsFilter(job_name=job, statuses=_UNFINISHED)
        if context.instance.get_runs_count(unfinished):
            return dg.SkipReason("a run of the tables has not finished; the next tick asks for what is left then")
        work = find_work(pipelines.pipeline(subscription.name))
        theirs = _followed_from(context.instance, subscription)
        now, mine = _now(), work.within(until=theirs)
        failed = _failed(context.instance, job, lambda run: _windows(run, subscription.grid))
        latches = _latches(failed, pipelines.changed_at(), now)
        requests = tables_tick(mine, latches={window.start: latch for window, latch in latches.items()}, now=now)
        latched = {
            window.key: latches[window] for window in mine.tables if window in latches and latches[window].holds(now)
        }
        waiting = [window.key for window in work.waiting]
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=request.run_key, tags=window_tags(request.windows)) for request in requests
            ],
            skip_reason=None if requests else _told_latches(context, latched) or _nothing(waiting),
        )

    return follow_ledger


def live_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Return the sensor that keeps one run going, which follows the source live."""
    job = live_job_name(subscription.name)

    @_sensor(
        subscription,
        "follow_live",
        job,
        "Asks for a run that refreshes the open window, when no such run is going on.",
    )
    def follow_live(context: dg.SensorEvaluationContext, pipelines: PipelineResource) -> Ticked:
        from dts_assets.flows.find_work import find_work

        records = context.instance.get_run_records(dg.RunsFilter(job_name=job), limit=_MOST_LIVE)
        last = records[0].dagster_run if records else None
        if reason := _why_no_other_run(records, pipelines.changed_at(), _now()):
            context.log.info(reason)
            return dg.SkipReason(reason)
        work = find_work(pipelines.pipeline(subscription.name))
        if not work.followed:
            return dg.SkipReason("there is no message yet")
        return dg.SensorResult(run_requests=[_live_request(subscription.name, work, last)])

    return follow_live


def _why_no_other_run(records: Sequence[dg.RunRecord], changed: datetime | None, now: datetime) -> str | None:
    """Return the reason against another run after live runs, the latest first; None without a reason.

    A run waits by itself for a trouble to pass, so after it the next run need not.
    """
    if not records:
        return None
    last = records[0].dagster_run
    if last.status in _UNFINISHED:
        return f"run {last.run_id[:8]} follows from {last.tags.get(FOLLOWS_FROM)} on"
    latch = latch_after(_live_failures(records), changed=changed, now=now)
    if latch is None or not latch.holds(now) or trouble_of(last) is Trouble.PASSING:
        return None
    why = f" and would fail again ({last.tags[CANNOT_BE_RETRIED]})" if trouble_of(last) is Trouble.LASTING else ""
    return f"run {last.run_id[:8]} failed{why}, {_next_try(latch, 're-execute the run')}"


def _live_failures(records: Iterable[dg.RunRecord]) -> Iterator[Failure]:
    """Give the failures of live runs since one of them has worked; given are the latest first."""
    for record in records:
        if record.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
            return
        yield _failure(record)
        if record.dagster_run.tags.get(HAS_WORKED) == record.dagster_run.run_id:  # else it is the tag of the parent
            return


def _next_try(latch: Latch, by_hand: str) -> str:
    """Return how often runs have failed and when the next try comes, for people."""
    times = "once" if latch.failures == 1 else f"{latch.failures} times in a row"
    at = f"{latch.until:%H:%M:%S} UTC"
    return f"{times}: mend it; the next try is at {at}, or when the configuration changes or you {by_hand}"


def _told_latches(context: dg.SensorEvaluationContext, latches: Mapping[str, Latch]) -> str:
    """Return what waits for its next try, for people, and log it; empty if nothing waits."""
    if not latches:
        return ""
    first = min(latches, key=lambda name: latches[name].until)
    more = f" and {len(latches) - 1} more" if len(latches) > 1 else ""
    reason = f"{first}{more} failed {_next_try(latches[first], 'materialize it')}"
    context.log.info(reason)
    return reason


def _live_request(subscription: str, work: "Work", last: dg.DagsterRun | None) -> dg.RunRequest:
    since = min(cell.window.start for cell in work.followed)
    ends = ",".join(str(work.ends[cell]) for cell in work.followed)
    before = "" if last is None else f":after-{last.run_id[:8]}"
    return dg.RunRequest(
        run_key=f"live:{since:{KEY_FORMAT}}:{ends}{before}",
        run_config=live_config(subscription, since),
        tags={FOLLOWS_FROM: f"{since:{KEY_FORMAT}}"},
    )


def has_live_job(subscription: Subscription) -> bool:
    """Return whether one job refreshes the open window through all steps.

    AutomationConditions need the runs of each step, so with them no such job exists.
    """
    return subscription.window.live and subscription.automation == "sensors"


def _followed_from(instance: dg.DagsterInstance, subscription: Subscription) -> datetime:
    """Return the start of the first window that a run follows live; without a run, datetime.max."""
    if has_live_job(subscription):
        following = dg.RunsFilter(job_name=live_job_name(subscription.name), statuses=_UNFINISHED)
        for record in instance.get_run_records(following, limit=1):
            if FOLLOWS_FROM in record.dagster_run.tags:
                return subscription.grid.of_key(record.dagster_run.tags[FOLLOWS_FROM]).start
    return datetime.max.replace(tzinfo=UTC)


def _runs(instance: dg.DagsterInstance, job: str, grid: WindowGrid, changed: datetime | None) -> Runs:
    """Return the cells of unfinished ingest runs, and the latches that failed ones have left."""
    unfinished = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED))
    busy = frozenset(cell for record in unfinished for cell in _cells(record.dagster_run, grid))
    now = _now()
    return Runs(busy, _latches(_failed(instance, job, lambda run: _cells(run, grid)), changed, now), now)


def _failed(
    instance: dg.DagsterInstance, job: str, parts_of: Callable[[dg.DagsterRun], Iterable[Key]]
) -> dict[Key, list[Failure]]:
    """Return the latest failures of a job, by each part that the runs were about."""
    failed = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.FAILURE])
    found: dict[Key, list[Failure]] = defaultdict(list)
    for record in instance.get_run_records(failed, limit=_MOST_FAILED):
        for part in parts_of(record.dagster_run):
            found[part].append(_failure(record))
    return found


def _now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


def _latches(failed: Mapping[Key, Iterable[Failure]], changed: datetime | None, now: datetime) -> dict[Key, Latch]:
    latches = {part: latch_after(failures, changed=changed, now=now) for part, failures in failed.items()}
    return {part: latch for part, latch in latches.items() if latch is not None}


def _failure(record: dg.RunRecord) -> Failure:
    """Return the failure of a run; one that never began was created then."""
    began, ended = record.start_time, record.end_time
    return Failure(
        record.dagster_run.run_id,
        datetime.fromtimestamp(began, UTC) if began else record.create_timestamp.replace(tzinfo=UTC),
        datetime.fromtimestamp(ended, UTC) if ended else record.update_timestamp.replace(tzinfo=UTC),
        trouble_of(record.dagster_run),
    )


def _windows(run: dg.DagsterRun, grid: WindowGrid) -> tuple[Window, ...]:
    """Return the windows of a run of the tables; none if its tags name no range."""
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    if first is None or last is None:
        return ()
    return windows_of_range(first, last, grid)


def _cells(run: dg.DagsterRun, grid: WindowGrid) -> Iterator[Cell]:
    """Give the cells of a run of raw or entries; none if its tags name no partition."""
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    if first is None or last is None:
        first = last = run.tags.get("dagster/partition")
    if first is not None and last is not None:
        yield from span_of_range(first, last, grid).cells()


def _request(subscription: str, request: SpanRequest) -> dg.RunRequest:
    only = [asset_key(subscription, "entries")] if request.entries_only else None
    return dg.RunRequest(run_key=request.run_key, tags=span_tags(request.span), asset_selection=only)


def _nothing(waiting: Iterable[str]) -> str:
    named = ", ".join(list(waiting)[:5])
    return f"waiting for entries of {named}" if named else "the tables of every window are up to date"
