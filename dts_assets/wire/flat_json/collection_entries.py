"""Messages about documents to the batch of ENTRIES, all messages of a call at once.

Each message is one entry with one row. These are the entries of :mod:`dts_assets.wire.flat_json.entries`, where a call goes that
has any message which is not a change of a document with the fields of the vendor's table.
"""

from __future__ import annotations

from itertools import starmap
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.source_types import source_type_of
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.flat_json.collection_messages import (
    KEYS,
    MESSAGE,
    SOURCE,
    TYPES,
    CollectionMessage,
    is_change,
)
from dts_assets.wire.flat_json.dialect import DML
from dts_assets.wire.flat_json.messages import LOAD, described
from dts_assets.wire.format import ENTRIES, DecodedEntries, TableShape

_TIME = "^[0-9]{1,10}:[0-9]{1,10}$"
_SECOND = 1_000_000
_TYPES = (
    pa.int64(), *[pa.string()] * 6, pa.int64(), pa.int64(), pa.string(),
)  # fmt: skip
"""The types of the fields that :func:`_fields` returns."""


def collection_entries(sets: pa.Array) -> DecodedEntries | None:
    """Return the entries of messages that are all usual changes of documents; None for any other call."""
    if not len(sets):
        return None
    try:
        MESSAGE.decode(sets[0].as_py())  # messages of another source are left at once
        fields = [*zip(*map(_fields, map(MESSAGE.decode, sets.to_pylist())), strict=True)]
        ids, operations, records, databases, collections, sources, extras, es, sent, times = map(
            pa.array, fields, _TYPES
        )
    except (*MALFORMED, OverflowError):
        return None
    count = len(sets)
    named = [*zip(*fields[3:5], strict=True)]
    tables = dict(zip(reversed(named), range(count - 1, -1, -1), strict=True))  # each with its first row
    if not all(map(all, tables)) or not all(starmap(is_change, {*zip(*fields[1:3], strict=True)})):
        return None
    if not_utf8(sets).any() or times.null_count or not pc.all(pc.match_substring_regex(times, _TIME)).as_py():
        return None
    seconds = pc.cast(pc.list_element(pc.split_pattern(times, ":"), 0), pa.int64())
    columns = {name: pa.nulls(count, ENTRIES.field(name).type) for name in ENTRIES.names}
    columns |= {
        "set_index": pa.array(np.arange(count, dtype=np.int32)),
        "entry_number": pa.array(np.zeros(count, np.int32)),
        "message_type": pa.repeat(pa.scalar(DML), count),
        "source_type": _source_types(sources),
        "event_time": pc.multiply(seconds, _SECOND).view(ENTRIES.field("event_time").type),
        "position": ids,
        "database": databases,
        "table": collections,
        "rows": pa.array(np.ones(count, np.int32)),
        "payload": sets,
    }
    says_more = pc.invert(pc.fill_null(pc.equal(extras, records), False))
    properties = Properties(count)
    for name, values in (
        ("type", operations), ("ts", sent), ("dbType", sources), ("clusterTime", times), ("recordType", records),
        ("extra", pc.if_else(says_more, extras, None)), ("es", es),
    ):  # fmt: skip
        properties.add(name, values, np.asarray(values.is_valid()))
    columns["properties"] = properties.maps()
    shape = described(TYPES, KEYS)
    assert shape is not None, "the columns of collections are written here"
    in_order = sorted(tables.items(), key=itemgetter(1))
    shapes = {TableShape(TableId(database, "", name), shape.list.columns): row for (database, name), row in in_order}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES)
    return DecodedEntries(batch, (), shapes, (), {}, np.asarray(pc.equal(operations, LOAD)))


def _fields(one: CollectionMessage) -> tuple[object, ...]:
    """Return the fields of a message beside its texts of documents."""
    kind = one.dbType or SOURCE
    return one.id, one.op, one.recordType, one.db, one.coll, kind, one.extra, one.es, one.ts, one.clusterTime


def _source_types(sources: pa.Array) -> pa.Array:
    names = sources.dictionary_encode()
    return pa.array(map(source_type_of, names.dictionary.to_pylist()), pa.string()).take(names.indices)
