"""The policies that all assets of a subscription share, such as owners, code version, kinds and tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from dts_assets.defs.metadata import column_schema
from dts_assets.model.version import CODE_VERSION
from dts_assets.settings.models import Subscription
from dts_assets.store.columns import NamedType

OWNERS = ["team:data-engineering"]

ONE_RUN = dg.BackfillPolicy.single_run()
"""A backfill of any rectangle is one run with one Spark start, not one run per partition."""


def asset_key(subscription: str, *parts: str) -> dg.AssetKey:
    """Return the key of an asset, which is also the path of its lake table: `shop/entries`."""
    return dg.AssetKey([subscription, *parts])


def group_of(subscription: Subscription, layer: str) -> str:
    """Return the group of a layer's assets in the UI, `shop_changelog`: each subscription has groups of its own."""
    return f"{subscription.name}_{layer}"


def made_asset(
    subscription: Subscription,
    key: dg.AssetKey,
    *,
    description: str,
    group: str,
    deps: Iterable[dg.AssetDep],
    partitions: dg.PartitionsDefinition[str],
    columns: Iterable[NamedType],
    keys: Iterable[str] = (),
    kinds: Iterable[str] = (),
    condition: dg.AutomationCondition[dg.AssetKey] | None = None,
) -> dg.AssetSpec:
    """Return the spec of an asset that runs make; without `columns` the asset declares no column schema yet."""
    metadata: dict[str, Any] = {"dagster/table_name": ".".join(["lake", *key.path])}
    if declared := tuple(columns):
        metadata["dagster/column_schema"] = column_schema(declared, keys=keys)
    return dg.AssetSpec(
        key=key,
        deps=deps,
        partitions_def=partitions,
        group_name=group_of(subscription, group),
        kinds={"pyspark", "iceberg", *kinds},
        owners=OWNERS,
        code_version=CODE_VERSION,
        description=description,
        metadata=metadata,
        tags={"subscription": subscription.name},
        automation_condition=condition,
    )
