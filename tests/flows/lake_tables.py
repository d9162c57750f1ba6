"""The tables that a lake has, by its catalog, and the layers that they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError

from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.lake_layers import layer_at


def tables_in_layers(pipeline: Pipeline) -> set[str]:
    """The layers that have tables: a table of the catalog that is in none raises."""
    return {layer_at(path).name for path in tables_of(pipeline.lake.catalog, (pipeline.name,))}


def tables_of(catalog: Catalog, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The names of all tables in a namespace and in those below it."""
    try:
        yield from catalog.list_tables(namespace)
        inner = catalog.list_namespaces(namespace)
    except NoSuchNamespaceError:
        return
    for one in inner:
        yield from tables_of(catalog, one)
