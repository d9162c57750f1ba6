"""The parts of a dump that its writer and its reader share, without a database driver."""

from __future__ import annotations

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
)
"""MySQL types whose values are bytes: a dump holds their hexadecimal digits."""
