"""The check that snapshots have one row for each key, which is executed when somebody asks for it.

It reads all keys of all snapshots, so it is no part of a refresh. The job `<subscription>_keys` executes it, and so does the
button of the check in the UI.
"""

from collections.abc import Sequence
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


def keys_check_key(assets: Sequence[TableAsset]) -> dg.AssetCheckKey | None:
    """Return the key of the check, which stands at the first snapshot.

    It is None while the graph shows no snapshot.
    """
    first = next((asset for asset in assets if asset.layer.stored is SNAPSHOT), None)
    return None if first is None else dg.AssetCheckKey(first.key, ONE_ROW_PER_KEY)


def keys_check(subscription: Subscription, check: dg.AssetCheckKey) -> dg.AssetChecksDefinition:
    """Return the check over all snapshots of a subscription.

    It is made from an op: Dagster's decorator names an input after the asset, whose name may hold characters that no input may.
    """

    @dg.op(
        name=f"{subscription.name}_look_at_keys",
        ins={"snapshot": dg.In(dg.Nothing)},
        out={"keys": dg.Out(dg.Nothing)},
        tags={"subscription": subscription.name},
    )
    def look_at_keys(context: dg.OpExecutionContext, pipelines: PipelineResource):  # type: ignore[no-untyped-def]
        # No annotation: Dagster takes none for an output that carries nothing.
        from dts_assets.flows.row_keys import find_repeated_keys

        with explained(context):
            yield keys_result(find_repeated_keys(pipelines.pipeline(subscription.name)))

    spec = dg.AssetCheckSpec(
        check.name,
        asset=check.asset_key,
        description="Every snapshot has one row for each key; reads all keys of all snapshots, so no other job executes it.",
    )
    made: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name={"snapshot": check.asset_key},
        node_def=look_at_keys,
        check_specs_by_output_name={"keys": spec},
        can_subset=False,
    )
    return made


def keys_job(subscription: Subscription, check: dg.AssetCheckKey) -> Any:
    """Return the job that executes the check alone."""
    return dg.define_asset_job(
        f"{subscription.name}_keys",
        selection=dg.AssetSelection.checks(check),
        description="Looks whether every snapshot has one row for each key.",
    )


def keys_result(found: "OneByOne[TableId, int]") -> dg.AssetCheckResult:
    """Return the result, which fails for a key in several rows, or a table that is not readable.

    `found` counts such keys by table.
    """
    repeated = {table: count for table, count in sorted(found.results.items()) if count}
    unread = sentences_of(found.failures.values())
    return dg.AssetCheckResult(
        check_name=ONE_ROW_PER_KEY,
        passed=not (repeated or unread),
        metadata={
            "snapshots": len(found.results),
            "repeated_keys": sum(repeated.values()),
            "tables": ", ".join(str(table) for table in repeated),
            "not_looked_at": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in unread) or "none"),
        },
    )
