"""Policies on schema changes by globs of tables, of which the first that matches counts."""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.model.routes import Routes
from dts_assets.model.schema_policies import NEW_COLUMNS, SchemaPolicy
from dts_assets.model.tables import TableId


def policy_for(policies: Mapping[str, SchemaPolicy], routes: Routes, table: TableId) -> SchemaPolicy:
    """Return what a table's snapshot does when its columns change; a merged table follows no statement."""
    found = next((one for glob, one in policies.items() if routes.means(table, glob)), None)
    return SchemaPolicy.FOLLOW if found is None or routes.shard_columns(table) else found


def columns_for(policy: SchemaPolicy) -> tuple[str, ...]:
    """Return the columns that snapshots have by a policy, beside those of their tables."""
    return (NEW_COLUMNS,) if policy is SchemaPolicy.FREEZE else ()


def policy_requests(policies: Mapping[str, SchemaPolicy]) -> tuple[str, ...]:
    """Return policies as texts, ``("keep shopdb.*",)``; none where all snapshots have the columns of the source."""
    by_them = any(one.shapes_columns for one in policies.values())
    return tuple(f"{one} {glob}" for glob, one in policies.items()) if by_them else ()
