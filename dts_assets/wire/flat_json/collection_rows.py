"""Messages about documents to the changes of collections ("Kafka Message Format", drs_03_0052, table 3).

An inserted or replaced document stands in ``value``, a deleted one's ``_id`` there alone. An update has its ``$set`` and
``$unset`` in ``value``, and the ``_id`` in ``where``: its change has them as the text of a document that was not sent, so that
the merge can apply them to the document that stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.json import Decoder

from dts_assets.model.collections import DOCUMENT, ID, ID_TYPE
from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import empty_maps
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.table_changes import Rejections, table_codes
from dts_assets.wire.columns.table_rows import carried_by, keys_of
from dts_assets.wire.documents.extended_json import id_of, text_of
from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from dts_assets.wire.documents.updates import checked_update
from dts_assets.wire.flat_json.collection_messages import KEYS, REPLACED, TYPES, UPDATED
from dts_assets.wire.flat_json.messages import LOAD, described
from dts_assets.wire.format import DecodedChanges, TableChanges, ToldKeys

_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", LOAD: "read"}


class _Content(Struct, gc=False):
    op: str
    value: str | None = None
    where: str | None = None
    recordType: str | None = None


_CONTENT = Decoder(_Content)


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The change of a document.

    ``document`` is canonical Extended JSON: of an update its ``$set`` and ``$unset``, of a deleted document None.
    """

    operation: str
    id: str
    id_type: str
    document: str | None
    is_partial: bool = False


def document_change(payload: bytes) -> DocumentChange:
    """Return the change that a message tells.

    Raises:
        Unreadable: It cannot be read, or is not a change of one document.
    """
    try:
        content = _CONTENT.decode(payload)
    except MALFORMED:
        raise Unreadable("it is no JSON object, or a field of it makes no sense") from None
    operation = _OPERATIONS.get(content.op)
    if operation is None or content.value is None:
        raise Unreadable("its op is not known, or it has no value")
    value = document_of(content.value)
    if operation == "delete":
        return DocumentChange(operation, *id_of(value), None)
    if operation != "update":
        return DocumentChange(operation, *id_of(value), text_of(value))
    if content.where is None:
        raise Unreadable("an update does not say of which document")
    where = document_of(content.where)
    key = id_of(where)
    if content.recordType == UPDATED:
        checked_update(value)
        return DocumentChange(operation, *key, text_of(value), is_partial=True)
    if content.recordType != REPLACED:
        raise Unreadable("an update neither replaces a document nor updates one")
    if "_id" not in value:
        value = {"_id": where["_id"], **value}
    elif id_of(value) != key:
        raise Unreadable("a document is replaced by one with another _id")
    return DocumentChange(operation, *key, text_of(value))


@dataclass(slots=True)
class _Changes:
    """The changes of one collection, and the entries they came from."""

    entries: list[int] = field(default_factory=list)
    found: list[DocumentChange] = field(default_factory=list)

    def batch(self, columns: Sequence[Column]) -> pa.RecordBatch:
        count, found = len(self.found), self.found
        deleted = np.fromiter((one.operation == "delete" for one in found), np.bool_, count)
        values = {
            ID: pa.array([one.id for one in found], pa.string()),
            ID_TYPE: pa.array([one.id_type for one in found], pa.string()),
            DOCUMENT: pa.array([one.document for one in found], pa.string()),
        }
        none = pa.nulls(count, pa.string())
        cells = [values.get(column.source_names[-1], none) for column in columns]
        fields = [pa.field(column.name, pa.string()) for column in columns]
        name = next((column.name for column in columns if column.holds_documents), None)
        unsent = [
            [f"before.{name}"] if one.document is None else [f"after.{name}"] if one.is_partial else []
            for one in found
        ]  # fmt: skip
        return pa.RecordBatch.from_pydict(
            {
                "entry_index": pa.array(self.entries, pa.int32()),
                "row_number": pa.array(np.zeros(count, np.int32)),
                "op": pa.array([one.operation for one in found], pa.string()),
                "before": pa.StructArray.from_arrays(cells, fields=fields, mask=pa.array(~deleted)),
                "after": pa.StructArray.from_arrays(cells, fields=fields, mask=pa.array(deleted)),
                "absent": pa.array(unsent if name else [[]] * count, pa.list_(pa.string())),
                "invalid": empty_maps(count),
            }
        )


def collection_changes(entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
    """Return the changes of collections, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them."""
    wanted, codes = table_codes(entries, tables)
    payloads = entries["payload"].take(pa.array(wanted)).to_pylist()
    reject, made = Rejections(entries, wanted), [_Changes() for _ in tables]
    for number, (code, payload) in enumerate(zip(codes.tolist(), payloads, strict=True)):
        try:
            change = document_change(payload)
        except Unreadable as error:
            reject.add(number, Reason.UNDECODABLE_ENTRY, str(error))
            continue
        made[code].entries.append(int(wanted[number]))
        made[code].found.append(change)
    columns = described(TYPES, KEYS)
    assert columns is not None, "the columns of collections are written here"
    carried = ToldKeys(carried_by([columns.list]))
    changes = tuple(
        TableChanges(table, some.batch(tables[table]), ToldKeys(keys_of([columns.list], tables[table])), carried)
        for table, some in zip(tables, made, strict=True)
        if some.found
    )
    return DecodedChanges(changes, reject.all(), frozenset(), {})
