"""Fields of documents as columns of their own, beside the documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.row_folds import in_schema
from dts_assets.wire.documents.extended_json import text_of, value_of


def with_fields(rows: pa.RecordBatch, shape: RowShape) -> pa.RecordBatch:
    """Return rows with the columns that a configuration makes of fields of documents.

    A text stands there as it is, any other value as JSON.
    """
    paths, place = shape.flattened, shape.documents
    if not paths or place is None:
        return rows
    texts = rows.column(shape.names[place]).to_pylist()
    found: Mapping[str, list[str | None]] = {name: [] for name in paths}
    for text in texts:
        document = None if text is None else value_of(text)
        for name, path in paths.items():
            found[name].append(_text_at(document, path))
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns |= {name: pa.array(values, shape.schema.field(name).type) for name, values in found.items()}
    return in_schema(columns, shape)


def _text_at(value: Any, path: tuple[str, ...]) -> str | None:
    """Return the value at a path, None where there is none; numbers lead into arrays."""
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value if value is None or isinstance(value, str) else text_of(value)
