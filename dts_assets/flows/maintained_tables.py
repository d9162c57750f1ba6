"""The tables that maintenance looks at: those of fixed shape, all layers of known tables, and copied tables."""

from __future__ import annotations

from typing import TypeAlias

from dts_assets.flows.copied_changes import copies_path
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import Layer
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.tables import TableId
from dts_assets.store.schemas import SYSTEM_TABLES

Path: TypeAlias = tuple[str, ...]
"""The asset key of a table: ``("shop", "snapshot", "shopdb", "orders")``."""


def system_paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the asset keys of the tables of fixed shape."""
    return tuple(pipeline.path(name) for name in SYSTEM_TABLES)


def layer_paths(pipeline: Pipeline, table: TableId) -> dict[Path, Layer]:
    """Return the asset keys of a source table's tables, whether or not they are there, with their layers."""
    return {pipeline.table_path(layer.name, table): layer for layer in pipeline.layers}


def maintained_paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the asset keys of all tables that the subscription may have."""
    found = [*system_paths(pipeline)]
    for table in sorted(known_tables(pipeline)):
        found += layer_paths(pipeline, table)
    found += [copies_path(pipeline, table) for table in sorted({one.table for one in pipeline.ledger.copied_tables()})]
    return tuple(found)


def layer_of(path: Path) -> str:
    """Return the layer of a table by its asset key: ``snapshot``, ``raw_envelopes``, or ``ledger`` for marks."""
    if len(path) > 2:
        return path[1]
    return path[1] if path[1] in ("raw_envelopes", "entries", "quarantine", "ddl", "redeliveries") else "ledger"
