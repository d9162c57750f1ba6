"""The job that follows a source live: for a quarter of an hour it refreshes the open window.

It refreshes every ten seconds. A run for each refresh would cost more than the refresh: a process, a Spark session and their
imports take ten seconds of processor time, as much as all the work on five thousand row changes in twenty tables.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs.checks import evaluation
from dts_assets.defs.flow_step import TableEvent, flow_step, log_events, partition_event
from dts_assets.defs.group_commit import group_metadata
from dts_assets.defs.layers import layers_of
from dts_assets.defs.metadata import raw_metadata
from dts_assets.defs.policies import asset_key
from dts_assets.defs.redrive import entries_events, instant_of
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.defs.table_assets import PlacedCheck, TableAsset, graph_checks
from dts_assets.defs.table_checks import concerned_checks
from dts_assets.model.windows import ClosedBy
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.follow import Refreshed
    from dts_assets.flows.reports import TablesReport

FOLLOWS_FROM = "dts-assets/follows-from"
"""A run tag: the start of the first window that the run follows. No other run touches this window and later windows."""

HAS_WORKED = "dts-assets/has-worked"
"""A run tag: the run's own id, once a refresh has succeeded. A failure after that is the first one in a row."""

LASTS = timedelta(minutes=15)
"""The time that one run follows. Then the sensor asks for the next run: the list of runs shows little of an endless run."""

_TELL_AGAIN = 60.0
"""Seconds between two reports of a partition that is still open: events stay in Dagster's storage for ever."""


def live_job_name(subscription: str) -> str:
    """Return the name of the job that follows the source live."""
    return f"{subscription}_live"


class LiveConfig(dg.Config):
    """The start of the first window to follow, and the number of seconds to follow.

    The start is ISO 8601, in UTC where it names no zone; empty means the window that is open now.
    """

    since: str = ""
    seconds: int = int(LASTS.total_seconds())


def live_config(subscription: str, since: datetime) -> dict[str, Any]:
    """Return the run config of a run whose first window starts at ``since``."""
    return {"ops": {_op_name(subscription): {"config": {"since": since.isoformat()}}}}


def live_job(subscription: Subscription, assets: tuple[TableAsset, ...]) -> dg.JobDefinition:
    """Return the job that follows the source: raw, entries and all tables of the open window."""

    @dg.op(name=_op_name(subscription.name), tags={"subscription": subscription.name}, out=dg.Out(dg.Nothing))
    def follow_live(
        context: dg.OpExecutionContext, config: LiveConfig, pipelines: PipelineResource, spark: SparkResource
    ) -> None:
        told, count = _Told(subscription.name, graph_checks(assets)), 0
        with flow_step(context, subscription.name, pipelines, spark) as step:
            from dts_assets.flows.follow import first_open, follow

            since, lasts = instant_of(config.since) or first_open(step.pipeline), timedelta(seconds=config.seconds)
            refreshes = follow(step.reopen, since, lasts=lasts, spark=step.spark, progress=step.progress)
            for count, done in enumerate(refreshes, start=1):
                if count == 1:
                    context.instance.add_run_tags(context.run.run_id, {HAS_WORKED: context.run.run_id})
                log_events(context, told.events(done))
                if done.entries:
                    group_metadata(context, step.reopen())
        context.add_output_metadata({"refreshes": count})

    @dg.job(
        name=live_job_name(subscription.name),
        description="Follows the source live: refreshes raw, entries and all tables of the open window every ten seconds.",
        # The sensor asks for the next run when one has ended, however it did. Dagster's own retry of a crashed run would be a
        # second one beside it, and the two would do everything twice.
        tags={"dagster/max_retries": "0"},
    )
    def job() -> None:
        follow_live()

    return job


def _op_name(subscription: str) -> str:
    return f"{subscription}_follow_live"


@dataclass
class _Told:
    """The record of the partitions that the run has reported.

    A partition that is still open is observed now and then, and materialized when its window has closed.
    """

    subscription: str
    checks: tuple[PlacedCheck, ...]
    last: dict[tuple[dg.AssetKey | dg.AssetCheckKey, str], tuple[float, bool]] = field(default_factory=dict)

    def events(self, done: "Refreshed") -> Iterator[TableEvent]:
        """Give the events of a refresh that are due."""
        raw, entries = (asset_key(self.subscription, name) for name in ("raw_envelopes", "entries"))
        for cell in (cell for report in done.raw for cell in report.cells):
            partition = str(cell.row.cell)
            still_open = cell.row.closed_by is ClosedBy.OPEN
            if self._due(raw, partition, still_open=still_open):
                yield partition_event(raw, partition, raw_metadata(cell), still_open=still_open)
        for one in (cell for report in done.entries for cell in report.cells):
            partition = str(one.row.cell)
            if self._due(entries, partition, still_open=one.row.closed_by is ClosedBy.OPEN):
                yield from entries_events(entries, one)
        for tables in done.tables:
            yield from self._of_tables(tables, _open_windows(done))

    def _of_tables(self, report: "TablesReport", still_open: frozenset[str]) -> Iterator[TableEvent]:
        for table in report.tables:
            for layer in layers_of(table) if table.table not in report.paused else ():
                key = layer.key(self.subscription, table.table)
                for window in report.windows:
                    partition = window.row.window.key
                    # While a window is open, a table in which nothing has changed has nothing to tell.
                    if partition in still_open and not table.changes.get(window.row.window.start):
                        continue
                    if self._due(key, partition, still_open=partition in still_open):
                        metadata = layer.metadata(table, window)
                        yield partition_event(key, partition, metadata, still_open=partition in still_open)
        for check in self.checks:
            for partition, result in check.results(report).items():
                if self._due(check.key, partition, still_open=partition in still_open):
                    yield evaluation(check.asset, result, partition)
        for layer, one, table, window in concerned_checks(report):
            key, partition = layer.key(self.subscription, table.table), window.row.window.key
            if partition in still_open and not table.changes.get(window.row.window.start):
                continue
            if self._due(dg.AssetCheckKey(key, one.name), partition, still_open=partition in still_open):
                yield evaluation(key, one.judge(table, window), partition)

    def _due(self, key: dg.AssetKey | dg.AssetCheckKey, partition: str, *, still_open: bool) -> bool:
        now = time.monotonic()
        at, was_open = self.last.get((key, partition), (float("-inf"), True))
        if now - at < _TELL_AGAIN and was_open == still_open:
            return False
        self.last[key, partition] = (now, still_open)
        return True


def _open_windows(done: "Refreshed") -> frozenset[str]:
    """Return the windows of a refresh that have not closed in every Kafka partition, by key."""
    return frozenset(
        cell.row.window.key for report in done.entries for cell in report.cells if cell.row.closed_by is ClosedBy.OPEN
    )
