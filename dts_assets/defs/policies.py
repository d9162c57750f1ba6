"""The policies that all assets of a subscription share, such as owners, code version, kinds and tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import dagster as dg

from dts_assets.defs.metadata import column_schema
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.settings.models import Subscription
from dts_assets.store.columns import NamedType

OWNERS = ["team:data-engineering"]

_TAG = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""The values that Dagster takes for a tag."""

ONE_RUN = dg.BackfillPolicy.single_run()
"""A backfill of any rectangle is one run with one Spark start, not one run per partition."""


def asset_key(subscription: str, *parts: str) -> dg.AssetKey:
    """Return the key of an asset, which is also the path of its lake table: `shop/entries`."""
    return dg.AssetKey([subscription, *parts])


def group_of(subscription: Subscription, layer: str) -> str:
    """Return the group of a layer's assets in the UI, `shop_changelog`: each subscription has groups of its own."""
    return f"{subscription.name}_{layer}"


def table_tags(table: TableId) -> dict[str, str]:
    """Return the tags by which people find the assets of a database or schema: ``{"database": "shopdb"}``.

    A name that Dagster takes for no tag has none; the asset's key has it.
    """
    named = {"database": table.database, "schema": table.schema}
    return {name: value for name, value in named.items() if _TAG.fullmatch(value)}


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
    tags: Mapping[str, str] = MappingProxyType({}),
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
        tags={"subscription": subscription.name, **tags},
        automation_condition=condition,
    )
