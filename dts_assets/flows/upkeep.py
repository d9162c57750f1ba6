"""What a run leaves in order behind itself: tables whose metadata does not grow with the number of commits."""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshots import STATE_PROPERTY
from dts_assets.model.tables import TableId
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.store import expiry
from dts_assets.store.expiry import expire_snapshots
from dts_assets.store.schemas import SYSTEM_TABLES


def expire_old_snapshots(pipeline: Pipeline, tables: Iterable[TableId]) -> int:
    """Expire superfluous Iceberg snapshots of the subscription's own tables and of both layers of ``tables``; how many.

    The state of a changelog that its snapshot was made from stays: the next snapshot is made from the difference to it.
    """
    catalog = pipeline.lake.catalog
    keep_for = expiry.KEEP_FOR_LIVE if pipeline.settings.window.live else expiry.KEEP_FOR
    expired = sum(
        expire_snapshots(catalog, pipeline.lake.identifier(pipeline.path(name)), keep_for=keep_for)
        for name in SYSTEM_TABLES
    )
    for table in tables:
        changelog, snapshot = (pipeline.table_path(layer, table) for layer in ("changelog", "snapshot"))
        state = pipeline.lake.state(snapshot)
        text = None if state is None else state.properties.get(STATE_PROPERTY)
        made_from = None if text is None else SnapshotState.of_text(text).changelog_snapshot
        needed = () if made_from is None else (made_from,)
        expired += expire_snapshots(catalog, pipeline.lake.identifier(changelog), needed=needed, keep_for=keep_for)
        expired += expire_snapshots(catalog, pipeline.lake.identifier(snapshot), keep_for=keep_for)
    return expired
