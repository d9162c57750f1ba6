"""The end of a run of entries: the consumer group is moved behind the stored messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.errors import DtsAssetsError
from dts_assets.model.spans import partition_key

if TYPE_CHECKING:
    from dts_assets.flows.pipeline import Pipeline


def group_metadata(context: dg.AssetExecutionContext | dg.OpExecutionContext, pipeline: Pipeline) -> dict[str, Any]:
    """Move the consumer group and return the outcome as metadata: ``{"group_commit": "moved: p00 to 20"}``.

    The log says nothing, because a run that follows the source moves the group every few seconds. An error becomes a warning:
    the data is stored, and the next run moves the group.
    """
    kafka = pipeline.settings.source.kafka
    if kafka is None or kafka.group_id is None or not kafka.commit:
        return {}
    from dts_assets.flows.broker_admin import open_broker
    from dts_assets.flows.consumer_group import commit_group

    try:
        broker = open_broker(pipeline)
        after = {} if broker is None else commit_group(pipeline, broker).after
    except Exception as error:  # whatever it is, the data is stored
        said = str(error) if isinstance(error, DtsAssetsError) else type(error).__name__
        context.log.warning(f"the consumer group was not moved: {said}")
        return {"group_commit": f"not moved: {said}"}
    moved = ", ".join(f"{partition_key(number)} to {offset}" for number, offset in sorted(after.items()))
    return {"group_commit": f"moved: {moved}" if moved else "where it was"}
