"""Two jobs a subscription: one run cannot hold two kinds of partitions."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dts_assets.defs.policies import asset_key
from dts_assets.defs.table_assets import TableAsset
from dts_assets.settings.models import Subscription


def ingest_job_name(subscription: str) -> str:
    """The job that makes raw_envelopes and entries."""
    return f"{subscription}_ingest"


def tables_job_name(subscription: str) -> str:
    """The job that makes changelogs and snapshots."""
    return f"{subscription}_tables"


def ingest_job(subscription: Subscription) -> Any:
    """Raw messages and entries of some Kafka partitions and windows."""
    keys = [asset_key(subscription.name, name) for name in ("raw_envelopes", "entries")]
    return dg.define_asset_job(
        ingest_job_name(subscription.name),
        selection=dg.AssetSelection.assets(*keys),
        description="Reads messages of some Kafka partitions and windows and decodes them.",
    )


def tables_job(subscription: Subscription, assets: tuple[TableAsset, ...]) -> Any:
    """All tables of some windows."""
    return dg.define_asset_job(
        tables_job_name(subscription.name),
        selection=dg.AssetSelection.assets(*(asset.key for asset in assets)),
        description="Makes the changelogs of some windows and brings the snapshots to the frontier.",
    )
