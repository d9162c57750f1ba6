"""Changes of documents as rows of a changelog, which shows them otherwise than those of tables.

Every row of a changelog of documents has its key in ``_id`` and ``_id_type``. ``after`` is the document of an insert or replace,
and ``update`` the ``$set`` and ``$unset`` of an update; ``before`` is empty, because no document is sent before its change.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import DecodeError

from dts_assets.model.collections import DOCUMENT, ID, ID_TYPE
from dts_assets.wire.documents.extended_json import value_of
from dts_assets.wire.documents.shell_syntax import is_document

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


def are_documents_still(sent: pa.RecordBatch, made: pa.RecordBatch) -> bool:
    """Tell whether what rules made of decoded documents and updates are documents and updates.

    A document has the id that was sent, an update the operators, and numbers, dates and ids inside are as they were.
    """
    for name in ("before", "after"):
        if _has(made.column(name), DOCUMENT):
            texts = [pc.struct_field(one.column(name), DOCUMENT) for one in (sent, made)]
            changed = pc.fill_null(pc.not_equal(*texts), False)
            if not all(map(_is_like, *(one.filter(changed).to_pylist() for one in texts))):
                return False
    return True


def _is_like(sent: str, made: str) -> bool:
    before = value_of(sent)
    try:
        after = value_of(made)
    except DecodeError:
        return False
    return _has_shape_of(before, after) and after.get(ID) == before.get(ID)


def _has_shape_of(sent: object, made: object) -> bool:
    """Tell whether two values differ in texts, and in names without a dollar, alone."""
    if isinstance(sent, Mapping) and is_document(sent):
        if not isinstance(made, Mapping) or len(made) != len(sent):
            return False
        pairs = list(zip(sent, made, strict=True))
        return all(name == other or not name.startswith("$") for name, other in pairs) and all(
            _has_shape_of(sent[name], made[other]) for name, other in pairs
        )
    if isinstance(sent, list):
        return isinstance(made, list) and len(made) == len(sent) and all(map(_has_shape_of, sent, made))
    return isinstance(made, str) if isinstance(sent, str) else made == sent
