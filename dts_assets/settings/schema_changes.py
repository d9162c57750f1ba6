"""Policies on schema changes by globs of tables, of which the first that matches counts."""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.model.routes import Routes
from dts_assets.model.schema_policies import NEW_COLUMNS, SchemaPolicy
from dts_assets.model.tables import TableId
from dts_assets.settings.values import mistake


def policy_for(policies: Mapping[str, SchemaPolicy], routes: Routes, table: TableId) -> SchemaPolicy:
    """Return what a table's snapshot does when its columns change; a merged table follows its shards."""
    found = next((one for glob, one in policies.items() if routes.means(table, glob)), None)
    return SchemaPolicy.FOLLOW if found is None or routes.shard_columns(table) else found


def check_policies(policies: Mapping[str, SchemaPolicy], routes: Routes) -> None:
    """Refuse a policy that names a merged table: it always follows the statements of its shards.

    Raises:
        mistake: A glob is the name of a merged table, or that of its shards.
    """
    for glob, policy in policies.items():
        for merge in routes.merges:
            if policy is not SchemaPolicy.FOLLOW and (
                glob in merge.globs or (merge.into.matches(glob) and "*" not in glob)
            ):
                raise mistake(
                    f"the merged table {merge.into} always follows the statements of its shards",
                    f"remove the line, or write follow instead of {policy}",
                    at=("schema_changes", glob),
                )


def columns_for(policy: SchemaPolicy) -> tuple[str, ...]:
    """Return the columns that snapshots have by a policy, beside those of their tables."""
    return (NEW_COLUMNS,) if policy is SchemaPolicy.FREEZE else ()


def policy_requests(policies: Mapping[str, SchemaPolicy]) -> tuple[str, ...]:
    """Return policies as texts, ``("keep shopdb.*",)``; none where all snapshots have the columns of the source."""
    by_them = any(one.shapes_columns for one in policies.values())
    return tuple(f"{one} {glob}" for glob, one in policies.items()) if by_them else ()
