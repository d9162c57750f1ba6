"""The definitions of a configuration: assets, jobs and sensors of every subscription, and the resources that they share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from dts_assets.defs.automation import automation_sensor
from dts_assets.defs.copying import copy_job
from dts_assets.defs.ingest_assets import entries_asset, raw_envelopes_asset, topic_asset
from dts_assets.defs.jobs import ingest_job, tables_job
from dts_assets.defs.live import live_job
from dts_assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_schedule
from dts_assets.defs.progress import progress_logger
from dts_assets.defs.rebuild import rebuild_job
from dts_assets.defs.redrive import redrive_job
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.defs.row_keys import keys_check, keys_check_keys, keys_job
from dts_assets.defs.sensors import has_live_job, ingest_sensor, live_sensor, tables_sensor
from dts_assets.defs.source_settings import source_check, source_job, source_schedule
from dts_assets.defs.table_assets import graph_tables, registry_troubles, table_assets
from dts_assets.defs.table_states import states_job
from dts_assets.defs.topic import topic_check, watch_sensor
from dts_assets.defs.verification import compared_assets, equality_checks, verify_job, verify_schedule
from dts_assets.settings.models import Settings, Subscription


def assemble(settings: Settings, config_path: Path) -> dg.Definitions:
    """Return the definitions of a configuration.

    Needed are the configuration and the registry files: no network, no JVM and no lake.
    """
    shared = dg.Definitions(
        resources={
            "pipelines": PipelineResource(config_path=str(config_path)),
            "spark": SparkResource(config_path=str(config_path)),
        },
        loggers={"console": dg.colored_console_logger, "progress": progress_logger},
        # Every other executor starts a process, and so a JVM, for each step.
        executor=dg.in_process_executor,
    )
    with quiet():
        parts = [_subscription(subscription) for subscription in settings.subscriptions.values()]
        return dg.Definitions.merge(shared, *parts)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Dagster's warnings that a part of its interface is in beta or preview."""
    with warnings.catch_warnings():
        # The parts of that kind that are used here are pinned and under test.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def _subscription(subscription: Subscription) -> dg.Definitions:
    shown = graph_tables(subscription)
    tables = table_assets(subscription, shown)
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = [
        topic_asset(subscription, registry_troubles(subscription)),
        raw_envelopes_asset(subscription),
        entries_asset(subscription),
        maintenance_asset(subscription),
    ]
    upkeep = maintenance_job(subscription)
    jobs = [
        ingest_job(subscription),
        redrive_job(subscription),
        rebuild_job(subscription),
        states_job(subscription),
        upkeep,
    ]
    if subscription.bootstrap is not None:
        jobs.append(copy_job(subscription))
    sensors = [ingest_sensor(subscription, shown), watch_sensor(subscription)]
    if has_live_job(subscription):
        jobs.append(live_job(subscription, shown))
        sensors.append(live_sensor(subscription))
    checks = [topic_check(subscription)]
    keys_keys = keys_check_keys(shown)
    if keys_keys:
        checks.append(keys_check(subscription, keys_keys))
        jobs.append(keys_job(subscription, keys_keys))
    if tables is not None:
        keys = [asset.key for asset in shown]
        by_conditions = subscription.automation == "conditions"
        assets.append(tables)
        jobs.append(tables_job(subscription, shown))
        sensors.append(automation_sensor(subscription, keys) if by_conditions else tables_sensor(subscription))
    schedules = [maintenance_schedule(subscription, upkeep)]
    if subscription.database is not None:
        checks.append(source_check(subscription))
        jobs.append(source_job(subscription))
        schedules.append(source_schedule(subscription))
    compared = compared_assets(subscription, shown)
    if compared:
        checks.append(equality_checks(subscription, compared))
        jobs.append(verify_job(subscription, compared))
        schedule = verify_schedule(subscription)
        schedules += [] if schedule is None else [schedule]
    return dg.Definitions(assets, jobs=jobs, sensors=sensors, schedules=schedules, asset_checks=checks)
