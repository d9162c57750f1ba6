"""The tables of a subscription by the one list of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dts_assets.flows.known_tables import stored_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.lake_layers import COPIES, FIXED_LAYERS, MADE_LAYERS, TABLE_LAYERS, Values, layer_at
from dts_assets.model.tables import TableId

Path: TypeAlias = tuple[str, ...]
"""The asset key of a table: ``("shop", "snapshot", "shopdb", "orders")``."""


def system_paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the asset keys of the tables of fixed shape."""
    return tuple(pipeline.path(layer.name) for layer in FIXED_LAYERS)


def layer_paths(pipeline: Pipeline, table: TableId) -> tuple[Path, ...]:
    """Return the asset keys of a table in all layers, whether or not they are there.

    Copies stand under the names of its source tables.
    """
    found: list[Path] = []
    for layer in TABLE_LAYERS:
        names = (table,) if layer.made else copied_sources(pipeline, table)
        found += [pipeline.table_path(layer.name, name) for name in names]
    return tuple(found)


def made_paths(pipeline: Pipeline, table: TableId) -> tuple[Path, ...]:
    """Return the asset keys of a table in the layers that are made of entries."""
    return tuple(pipeline.table_path(layer.name, table) for layer in MADE_LAYERS)


def copies_paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the asset keys of all copied tables."""
    return tuple(pipeline.table_path(COPIES, table) for table in sorted(_copied(pipeline)))


def copied_sources(pipeline: Pipeline, table: TableId) -> tuple[TableId, ...]:
    """Return the source tables of a table of the lake that were ever copied, by name."""
    routes = pipeline.settings.routes
    return tuple(sorted(one for one in _copied(pipeline) if (routes.lake_table(one) if routes else one) == table))


def maintained_paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the asset keys of all tables that the lake may have of the subscription."""
    return (*system_paths(pipeline), *_made_paths(pipeline), *copies_paths(pipeline))


def _made_paths(pipeline: Pipeline) -> Iterator[Path]:
    for table in stored_tables(pipeline):
        yield from made_paths(pipeline, table)


def _copied(pipeline: Pipeline) -> set[TableId]:
    return {one.table for one in pipeline.ledger.copied_tables()}


def layer_of(path: Path) -> str:
    """Return the layer of a table by its asset key: ``snapshot``, ``raw_envelopes``, or ``ledger`` for marks."""
    layer = layer_at(path)
    return layer.name if layer.values not in (Values.NONE, Values.BOUNDS) or layer.name == "redeliveries" else "ledger"
