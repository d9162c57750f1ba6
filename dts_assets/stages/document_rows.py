"""Changes of documents as rows of a changelog, which shows them otherwise than those of tables.

Every row of a changelog of documents has its key in ``_id`` and ``_id_type``. ``after`` is the document of an insert or replace,
and ``update`` the ``$set`` and ``$unset`` of an update; ``before`` is empty, because no document is sent before its change.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.collections import DOCUMENT, ID, ID_TYPE

UPDATE = "update"
BESIDE_IMAGES = (ID, ID_TYPE, UPDATE)
"""The columns that changelogs of collections have, and others have not."""

_IMAGE = [pa.field(name, pa.string()) for name in (ID, ID_TYPE, DOCUMENT)]


def as_stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return decoded changes of a collection as its changelog has them."""
    images = [rows.column(name) for name in ("after", "before")]
    is_partial = pc.fill_null(pc.list_value_length(rows.column("absent")), 0)
    document = (
        pc.struct_field(images[0], DOCUMENT) if _has(images[0], DOCUMENT) else pa.nulls(rows.num_rows, pa.string())
    )
    is_partial = pc.and_(pc.greater(is_partial, 0), document.is_valid())
    none = pa.scalar(None, pa.string())
    beside = {
        **{name: pc.coalesce(*(pc.struct_field(image, name) for image in images)) for name in (ID, ID_TYPE)},
        "before": pa.nulls(rows.num_rows, pa.string()),
        "after": pc.if_else(is_partial, none, document),
        UPDATE: pc.if_else(is_partial, document, none),
    }
    columns = {name: rows.column(name) for name in rows.schema.names}
    return pa.RecordBatch.from_pydict(columns | beside)


def _has(image: pa.StructArray, name: str) -> bool:
    return bool(image.type.get_field_index(name) >= 0)


def with_images(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return stored changes with the images that decoded ones have; those of tables have them already."""
    if ID not in rows.schema.names or not pa.types.is_string(rows.schema.field(ID).type):
        return rows
    columns = {name: rows.column(name) for name in rows.schema.names if name not in BESIDE_IMAGES}
    asked = [name for name in ("before", "after") if name in columns]
    if asked:
        key, deletes = [rows.column(name) for name in (ID, ID_TYPE)], pc.equal(rows.column("op"), "delete")
        update = rows.column(UPDATE)
        document = pc.coalesce(rows.column("after"), update) if "after" in asked else update
        for name in asked:
            is_there = deletes if name == "before" else pc.invert(deletes)
            none = pc.invert(pc.and_(is_there, key[0].is_valid()))
            columns[name] = pa.StructArray.from_arrays([*key, document], fields=_IMAGE, mask=none)
    return pa.RecordBatch.from_pydict(columns)
