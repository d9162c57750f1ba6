"""Tables with rows that no change finds, since values of their key are not known.

A run notes it in the state of the snapshot. It counts from the statement on.
"""

from __future__ import annotations

from collections.abc import Mapping

from dts_assets.flows.merged_table import MergedTable
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.model.lost_keys import LostKey
from dts_assets.stages.followed_schemas import FollowedTable
from dts_assets.stages.merged_schemas import FollowedShards


def lost_key(job: SnapshotJob, merged: MergedTable, unknown: Mapping[str, int]) -> LostKey | None:
    """Return since when no change finds some rows of a table; None where all are found.

    ``merged`` is the table of the job or of one of its steps, and ``unknown`` counts the values of its rows that are not known.
    """
    found, shape = job.following, merged.shape
    if found is None or not any(unknown.get(shape.names[place]) for place in shape.keys):
        return None
    # Of a table with a key the step begins behind the statement that converts it.
    position = found.converted_at if job.since is None else job.since.next
    if position is None or (found.proven_at is not None and position <= found.proven_at):
        return None
    return LostKey(position, not shape.is_bag)


def doubt_of(at: FollowedTable | FollowedShards | None, lost: LostKey | None) -> str:
    """Return why columns or rows of a table are not proven at a frontier.

    It is empty where they are. ``lost`` is what the state of its snapshot notes: it counts from its statement on, until the table
    is copied.
    """
    doubt = "" if at is None else at.doubt
    if doubt or lost is None or not isinstance(at, FollowedTable):
        return doubt
    is_proven = at.proven_at is not None and lost.position <= at.proven_at
    return "" if is_proven or at.states[-1].position < lost.position else str(lost)
