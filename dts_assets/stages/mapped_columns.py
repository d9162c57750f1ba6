"""The map of a frozen snapshot's new columns.

They are columns of their own while rows are worked on.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from dts_assets.model.schema_policies import NEW_COLUMNS, key_in_map
from dts_assets.stages.snapshot_in_arrow import invalid_texts, text_of

_FIELD_ID = b"PARQUET:field_id"
_NO_ID = b"-1"
"""The field id of columns that no file has."""


def with_mapped(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return a table's schema with those of its columns that stand in the map."""
    own = [one for one in names if key_in_map(one) is not None]
    more = [pa.field(one, pa.string(), metadata={_FIELD_ID: _NO_ID}) for one in own]
    return pa.schema([*schema, *more], schema.metadata) if more else schema


def with_map(rows: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """Return rows with their new columns in one map, which is null in a row without values."""
    keys = {name: key for name in rows.schema.names if (key := key_in_map(name)) is not None}
    made = invalid_texts([(key, rows.column(name)) for name, key in keys.items()], rows.num_rows, kind)
    others = [name for name in rows.schema.names if name not in keys and name != NEW_COLUMNS]
    found = {name: rows.column(name) for name in others}
    return pa.RecordBatch.from_pydict({**found, NEW_COLUMNS: made})


def out_of_map(mapped: pa.MapArray, name: str) -> pa.Array:
    """Return the texts of a new column, by its name while rows are worked on."""
    key = key_in_map(name)
    assert key is not None, "no other column stands in the map"
    return text_of(mapped, [key])
