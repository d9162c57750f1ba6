"""The place for the files of a table, made from what the catalog says of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyiceberg.table import Table

from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import WriteTarget
from dts_assets.store.layouts import sorted_by, transforms_of
from dts_assets.store.types import arrow_schema


def write_target(table: Table, run: str, *, former_ids: Mapping[bytes, bytes] = MappingProxyType({})) -> WriteTarget:
    """Return the place for a run's files of a table, with its columns as they are now."""
    spec, schema = table.spec(), table.schema()
    return WriteTarget(
        location=table.location(),
        schema=arrow_schema(schema).serialize().to_pybytes(),
        partition_by=tuple(str(schema.find_column_name(one.source_id)) for one in spec.fields),
        run=run,
        store=FileStore.of(table),
        compression=table.properties.get("write.parquet.compression-codec", "zstd"),
        transforms=transforms_of(table),
        sort_by=sorted_by(table),
        former_ids=dict(former_ids),
    )
