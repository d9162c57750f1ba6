"""The checks that snapshots have one row for each key, which are executed when somebody asks for them.

They read all keys of snapshots, so they are no part of a refresh. The job `<subscription>_keys` executes all, and the button of a
check in the UI executes one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs.failures import explained
from dts_assets.defs.resources import PipelineResource
from dts_assets.defs.table_assets import TableAsset
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.model.failures import sentences_of
from dts_assets.model.tables import TableId
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.one_by_one import OneByOne

ONE_ROW_PER_KEY = "one_row_per_key"


def keys_check_keys(assets: Sequence[TableAsset]) -> Mapping[TableId, dg.AssetCheckKey]:
    """Return the keys of the checks: one for each snapshot of the graph."""
    return {one.table: dg.AssetCheckKey(one.key, ONE_ROW_PER_KEY) for one in assets if one.layer.stored is SNAPSHOT}


def keys_check(subscription: Subscription, keys: Mapping[TableId, dg.AssetCheckKey]) -> dg.AssetChecksDefinition:
    """Return the checks of the snapshots of a subscription, one step, of which a run may select any.

    It is made from an op: Dagster's decorator names an input after the asset, whose name may hold characters that no input may.
    """
    names = {f"table_{number}": table for number, table in enumerate(keys)}

    @dg.op(
        name=f"{subscription.name}_look_at_keys",
        ins={f"in_{name}": dg.In(dg.Nothing) for name in names},
        out={name: dg.Out(dg.Nothing, is_required=False) for name in names},
        tags={"subscription": subscription.name},
    )
    def look_at_keys(context: dg.OpExecutionContext, pipelines: PipelineResource):  # type: ignore[no-untyped-def]
        # No annotation: Dagster takes none for an output that carries nothing.
        from dts_assets.flows.row_keys import failed_tables, find_repeated_keys

        asked = {table: key for table, key in keys.items() if key in context.selected_asset_check_keys}
        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            found, unread = find_repeated_keys(pipeline, tables=asked), failed_tables(pipeline)
            yield from (keys_result(key, table, found) for table, key in asked.items() if table not in unread)

    description = "The snapshot has one row for each key; reads all its keys, so no other job executes it."
    made: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name={f"in_{name}": keys[table].asset_key for name, table in names.items()},
        node_def=look_at_keys,
        check_specs_by_output_name={
            name: dg.AssetCheckSpec(ONE_ROW_PER_KEY, asset=keys[table].asset_key, description=description)
            for name, table in names.items()
        },
        can_subset=True,
    )
    return made


def keys_job(subscription: Subscription, keys: Mapping[TableId, dg.AssetCheckKey]) -> Any:
    """Return the job that executes the checks alone."""
    return dg.define_asset_job(
        f"{subscription.name}_keys",
        selection=dg.AssetSelection.checks(*keys.values()),
        description="Looks whether every snapshot has one row for each key.",
    )


def keys_result(key: dg.AssetCheckKey, table: TableId, found: "OneByOne[TableId, int]") -> dg.AssetCheckResult:
    """Return the result of a table, which fails for a key in several rows.

    `found` counts such keys by table. It fails for a table that is not readable, too. A snapshot without a key, or
    without rows, has none.
    """
    repeated = found.results.get(table, 0)
    unread = sentences_of(one for name, one in found.failures.items() if name == table)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not (repeated or unread),
        metadata={"repeated_keys": repeated, **({"not_looked_at": "; ".join(unread)} if unread else {})},
    )
