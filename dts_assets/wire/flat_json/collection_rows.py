"""Messages about documents to the changes of collections ("Kafka Message Format", drs_03_0052, table 3).

An inserted or replaced document stands in ``value``, a deleted one's ``_id`` there alone. An update has its ``$set`` and
``$unset`` in ``value``, and the ``_id`` in ``where``: its change has them as the text of a document that was not sent, so that
the merge can apply them to the document that stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.json import Decoder

from dts_assets.model.collections import DOCUMENT, ID, ID_TYPE
from dts_assets.model.columns import Column
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import empty_maps, offsets_of
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.table_changes import Rejections, table_codes
from dts_assets.wire.columns.table_rows import carried_by, keys_of
from dts_assets.wire.documents.extended_json import id_of, line_of
from dts_assets.wire.documents.many_documents import BLOCK, documents_of
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
_Document: TypeAlias = dict[str, Any]


_Change: TypeAlias = tuple[str, str, str, bytes | None, bool]
"""The operation on a document, its id with its type, the document, and whether it is an update.

The document is canonical Extended JSON: of an update its ``$set`` and ``$unset``, of a deleted document None.
"""


def _contents(payloads: Sequence[bytes]) -> list[_Content | None]:
    """Return what messages say; None for a message that cannot be read."""
    try:
        return [*map(_CONTENT.decode, payloads)]
    except MALFORMED:
        return [*map(_content, payloads)]


def _content(payload: bytes) -> _Content | None:
    try:
        return _CONTENT.decode(payload)
    except MALFORMED:
        return None


def _change(content: _Content | None, value: _Document | None, where: _Document | None) -> _Change:
    """Return the change that a message tells; its documents are given if they are known already.

    Raises:
        Unreadable: It cannot be read, or is not a change of one document.
    """
    if content is None:
        raise Unreadable("it is no JSON object, or a field of it makes no sense")
    operation = _OPERATIONS.get(content.op)
    if operation is None or content.value is None:
        raise Unreadable("its op is not known, or it has no value")
    if value is None:
        value = document_of(content.value)
    if operation != "update":
        key, kind = id_of(value)
        return operation, key, kind, None if operation == "delete" else line_of(value), False
    if content.where is None:
        raise Unreadable("an update does not say of which document")
    if where is None:
        where = document_of(content.where)
    key, kind = id_of(where)
    if content.recordType == UPDATED:
        checked_update(value)
        return operation, key, kind, line_of(value), True
    if content.recordType != REPLACED:
        raise Unreadable("an update neither replaces a document nor updates one")
    if "_id" not in value:
        value = {"_id": where["_id"], **value}
    elif id_of(value) != (key, kind):
        raise Unreadable("a document is replaced by one with another _id")
    return operation, key, kind, line_of(value), False


@dataclass(slots=True)
class _Changes:
    """The changes of one collection, and the entries they came from."""

    entries: list[int] = field(default_factory=list)
    found: list[_Change] = field(default_factory=list)

    def batch(self, columns: Sequence[Column]) -> pa.RecordBatch:
        operations, ids, types, documents, partial = zip(*self.found, strict=True)
        count, ops = len(self.found), pa.array(operations, pa.string())
        deleted = pc.equal(ops, "delete")
        values = {
            ID: pa.array(ids, pa.string()), ID_TYPE: pa.array(types, pa.string()), DOCUMENT: pa.array(documents, pa.string()),
        }  # fmt: skip
        none = pa.nulls(count, pa.string())
        cells = [values.get(column.source_names[-1], none) for column in columns]
        fields = [pa.field(column.name, pa.string()) for column in columns]
        name = next((column.name for column in columns if column.holds_documents), None)
        unsent = [
            [f"before.{name}"] if one is None else [f"after.{name}"] if is_update else []
            for one, is_update in zip(documents, partial, strict=True)
        ]  # fmt: skip
        return pa.RecordBatch.from_pydict(
            {
                "entry_index": pa.array(self.entries, pa.int32()),
                "row_number": pa.array(np.zeros(count, np.int32)),
                "op": ops,
                "before": pa.StructArray.from_arrays(cells, fields=fields, mask=pc.invert(deleted)),
                "after": pa.StructArray.from_arrays(cells, fields=fields, mask=deleted),
                "absent": pa.array(unsent if name else [[]] * count, pa.list_(pa.string())),
                "invalid": empty_maps(count),
            }
        )


def _blocks(payloads: pa.Array) -> Iterator[list[bytes]]:
    """Yield messages in their order, as many at once as documents are best read together."""
    ends = offsets_of(payloads)
    edges = np.searchsorted(ends, np.arange(ends[0], ends[-1], BLOCK), "right") - 1
    for start, end in pairwise(sorted({0, *edges.tolist(), len(payloads)})):
        yield payloads.slice(start, end - start).to_pylist()


def collection_changes(entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
    """Return the changes of collections, as :meth:`dts_assets.wire.format.WireFormat.changes` promises them."""
    wanted, codes = table_codes(entries, tables)
    reject, made = Rejections(entries, wanted), [_Changes() for _ in tables]
    of_codes, of_entries, first = codes.tolist(), wanted.tolist(), 0
    for payloads in _blocks(entries["payload"].take(pa.array(wanted))):
        contents = _contents(payloads)
        values = documents_of([(one and one.value) or "" for one in contents])
        texts = [(one and one.where) or "" for one in contents]
        wheres = documents_of(texts) if any(texts) else repeat(None, len(texts))
        for number, content, value, where in zip(
            range(first, first + len(contents)), contents, values, wheres, strict=True
        ):
            try:
                change = _change(content, value, where)
            except Unreadable as error:
                reject.add(number, Reason.UNDECODABLE_ENTRY, str(error))
                continue
            of_table = made[of_codes[number]]
            of_table.entries.append(of_entries[number])
            of_table.found.append(change)
        first += len(contents)
    columns = described(TYPES, KEYS)
    assert columns is not None, "the columns of collections are written here"
    carried = ToldKeys(carried_by([columns.list]))
    changes = tuple(
        TableChanges(table, some.batch(tables[table]), ToldKeys(keys_of([columns.list], tables[table])), carried)
        for table, some in zip(tables, made, strict=True)
        if some.found
    )
    return DecodedChanges(changes, reject.all(), frozenset(), {})
