"""Upkeep: tables whose metadata does not grow with the number of commits."""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.tables import TableId
from dts_assets.store import expiry
from dts_assets.store.expiry import expire_snapshots
from dts_assets.store.schemas import SYSTEM_TABLES


def expire_old_snapshots(pipeline: Pipeline, tables: Iterable[TableId]) -> int:
    """Expire superfluous Iceberg snapshots, and return how many were expired.

    The subscription's own tables are looked at, and all layers of ``tables``. An Iceberg snapshot that the next run
    of some layer will read stays.
    """
    catalog = pipeline.lake.catalog
    keep_for = expiry.KEEP_FOR_LIVE if pipeline.settings.window.live else expiry.KEEP_FOR
    expired = sum(
        expire_snapshots(catalog, pipeline.lake.identifier(pipeline.path(name)), keep_for=keep_for)
        for name in SYSTEM_TABLES
    )
    for table in tables:
        needed = {version for layer in pipeline.layers for version in layer.needed_versions(pipeline, table)}
        for layer in pipeline.layers:
            identifier = pipeline.lake.identifier(pipeline.table_path(layer.name, table))
            expired += expire_snapshots(catalog, identifier, needed=needed, keep_for=keep_for)
    return expired
