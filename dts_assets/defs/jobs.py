"""The two jobs that make the assets of a subscription: one run cannot hold two kinds of partitions."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dts_assets.defs.policies import asset_key
from dts_assets.defs.table_assets import TableAsset, graph_checks
from dts_assets.settings.models import Subscription


def ingest_job_name(subscription: str) -> str:
    """Return the name of the job that makes raw_envelopes and entries."""
    return f"{subscription}_ingest"


def tables_job_name(subscription: str) -> str:
    """Return the name of the job that makes the tables of all layers."""
    return f"{subscription}_tables"


def ingest_job(subscription: Subscription) -> Any:
    """Return the job that makes raw_envelopes and entries of some Kafka partitions and windows."""
    keys = [asset_key(subscription.name, name) for name in ("raw_envelopes", "entries")]
    return dg.define_asset_job(
        ingest_job_name(subscription.name),
        selection=dg.AssetSelection.assets(*keys),
        description="Reads the messages of some Kafka partitions and windows, and decodes them to entries.",
    )


def tables_job(subscription: Subscription, assets: tuple[TableAsset, ...]) -> Any:
    """Return the job that makes all tables of some windows.

    It does not look at all keys of the snapshots, and asks no database. It plans no check about one table: these are logged where
    something happened.
    """
    made: dg.AssetSelection = dg.AssetSelection.assets(*(asset.key for asset in assets)).without_checks()
    return dg.define_asset_job(
        tables_job_name(subscription.name),
        selection=made | dg.AssetSelection.checks(*(one.key for one in graph_checks(assets))),
        description="Makes the changelogs of some windows, and brings the snapshots up to date.",
    )
