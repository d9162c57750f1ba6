"""The parts of a dump that its writer and its reader share, without a database driver."""

from __future__ import annotations

from dts_assets.model.tables import TableId, folder_name

METADATA_KEY = b"source_table"
"""The metadata entry: JSON ``{"database", "table", "columns": [{"name", "type", "key"}]}``."""

BINARY_TYPES = (
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
)
"""MySQL types whose values are bytes: a dump holds their hexadecimal digits."""


def dump_file(table: TableId) -> str:
    """Return the name of the dump of a table, in ASCII: ``shopdb.orders.parquet``."""
    return f"{'.'.join(map(folder_name, table.path))}.parquet"
