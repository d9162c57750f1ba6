"""Flat messages to the batch of ENTRIES ("Kafka Message Format", table 2; Canal, ``FlatMessage.java``).

Each message is one entry; its rows are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.model.source_types import MYSQL, source_type_of
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.flat_json.collection_messages import CollectionHead
from dts_assets.wire.flat_json.dialect import DML, Dialect
from dts_assets.wire.flat_json.messages import LOAD, OPERATIONS, Head, Refused, described
from dts_assets.wire.format import ENTRIES, DecodedEntries, Rejected, TableShape

_ONE_GTID = r"^([0-9A-Fa-f-]{36}:|\d+-\d+-)\d+$"
"""One GTID of MySQL or MariaDB: ``3e11fa47-71ca-11e1-9e33-c80aa9429562:23``, and not a set of them."""

_NO_UTF8 = "it is no JSON object in UTF-8"
_PAIRS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


@dataclass(slots=True)
class _Found:
    """The entries of a call, column by column, with their shapes and unknown fields.

    ``schemas`` and ``sources`` are those of entries of sources beside the MySQL family, by number.
    """

    dialect: Dialect
    numbers: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    ids: list[int | None] = field(default_factory=list)
    gtids: list[str | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sent: list[int | None] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    databases: list[str | None] = field(default_factory=list)
    tables: list[str | None] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    sql: list[str | None] = field(default_factory=list)
    schemas: dict[int, str | None] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    others: dict[int, dict[str, str]] = field(default_factory=dict)
    shapes: dict[tuple[TableId, bytes, bytes], TableShape] = field(default_factory=dict)
    last: Head | None = None
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, number: int, message: bytes, *, readable: bool) -> None:
        """Add the entry of a message.

        Raises:
            Refused: the message cannot be used; nothing was added.
        """
        if not readable:
            raise Refused(Reason.UNDECODABLE_ENTRIES, _NO_UTF8)
        head, others = self.dialect.head(message)
        kind = self.dialect.message_type(head)
        if kind == DML:
            rows, database, table = self._data(head), head.database, head.table
        else:
            rows, database, table = None, head.database or None, head.table or None
        if head.schema is not None or head.dbType is not None:
            self.schemas[len(self.numbers)] = head.schema or None
            self.sources[len(self.numbers)] = source_type_of(head.dbType)
            if head.dbType is not None:
                self.others[len(self.numbers)] = {"dbType": head.dbType}
        if isinstance(head, CollectionHead):
            self.others.setdefault(len(self.numbers), {}).update(head.told)
        if others:
            self.others.setdefault(len(self.numbers), {}).update(others)
            self.unknown.update(f"field {name}" for name in others if name != "ts")
        self.numbers.append(number)
        self.kinds.append(kind)
        self.ids.append(head.id)
        self.gtids.append(self.dialect.gtid(head))
        self.times.append(head.es)
        self.sent.append(head.ts)
        self.types.append(head.type)
        self.databases.append(database)
        self.tables.append(table)
        self.rows.append(rows)
        self.sql.append(head.sql or ("" if rows is None else None))

    def _data(self, head: Head) -> int:
        """Return the number of rows of a message that has some, and note its shape.

        Raises:
            Refused: the rows or their columns make no sense.
        """
        if not (head.database or head.schema) or not head.table:
            raise Refused(Reason.UNDECODABLE_ENTRY, "it names no table")
        before, after = self.dialect.images(OPERATIONS[head.type], head.data, head.old)
        last = self.last
        if (
            last is None
            or head.table != last.table
            or head.types != last.types
            or head.database != last.database
            or head.schema != last.schema
            or head.pkNames != last.pkNames
        ):
            self._note_shape(head, TableId(head.database or "", head.schema or "", head.table))
            self.last = head
        if before is None and head.old:
            self.unknown[f"old rows of {head.type}"] += 1
        return len(after if after is not None else before or ())

    def _note_shape(self, head: Head, table: TableId) -> None:
        """Note the columns of a message.

        Raises:
            Refused: they cannot be read.
        """
        key = (table, bytes(head.types), bytes(head.pkNames))
        if key not in self.shapes:
            columns = described(*key[1:])
            if columns is None:
                raise Refused(Reason.UNDECODABLE_ENTRY, "its columns or the names of its key cannot be read")
            self.shapes[key] = TableShape(table, columns.list.columns)


def entries_of(sets: pa.Array, dialect: Dialect) -> DecodedEntries:
    """Return the entries of messages, as :meth:`dts_assets.wire.format.WireFormat.entries` promises them.

    ``dialect`` is the way in which they are written.
    """
    found = _Found(dialect)
    rejected: list[Rejected] = []
    # The parser does not look into the texts that it passes over.
    unreadable = not_utf8(sets).tolist()
    for number, message in enumerate(sets.to_pylist()):
        try:
            found.add(number, message, readable=not unreadable[number])
        except Refused as refused:
            entry = None if refused.reason is Reason.UNDECODABLE_ENTRIES else 0
            rejected.append(Rejected(number, entry, refused.reason, refused.detail, message))
    shapes = tuple(dict.fromkeys(found.shapes.values()))
    reads = np.array([kind == LOAD for kind in found.types], np.bool_)
    return DecodedEntries(_batch(found, sets), tuple(rejected), shapes, (), dict(found.unknown), reads)


def _batch(found: _Found, sets: pa.Array) -> pa.RecordBatch:
    count = len(found.numbers)
    numbers = pa.array(found.numbers, pa.int32())
    ids, gtids = pa.array(found.ids, pa.int64()), pa.array(found.gtids, pa.string())
    columns = {name: pa.nulls(count, ENTRIES.field(name).type) for name in ENTRIES.names}
    columns |= {
        "set_index": numbers,
        "entry_number": pa.array(np.zeros(count, np.int32)),
        "message_type": pa.array(found.kinds, pa.string()),
        "source_type": _some(found.sources, count, MYSQL),
        "event_time": pa.array(np.asarray(found.times, np.int64) * 1000).view(ENTRIES.field("event_time").type),
        "transaction_id": pc.if_else(pc.match_substring_regex(gtids, _ONE_GTID), gtids, None),
        "database": pa.array(found.databases, pa.string()),
        "schema": _some(found.schemas, count, None),
        "table": pa.array(found.tables, pa.string()),
        "rows": pa.array(found.rows, pa.int32()),
        "payload": sets if count == len(sets) else sets.take(numbers),
    }
    told: dict[str, pa.Array] = {}
    if found.dialect.ids_are_places:
        columns["position"] = ids
    else:
        told["id"] = pc.cast(ids, pa.string())
    if gtids.null_count < count:
        told["gtid"] = gtids
    columns["properties"] = _properties(found, told)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES)


def _some(values: Mapping[int, str | None], count: int, usual: str | None) -> pa.Array:
    """Return a column that has some values by number, and a usual one elsewhere."""
    if not values:
        return pa.repeat(pa.scalar(usual, pa.string()), count)
    return pa.array([values.get(number, usual) for number in range(count)], pa.string())


def _properties(found: _Found, told: Mapping[str, pa.Array]) -> pa.MapArray:
    count = len(found.numbers)
    properties = Properties(count)
    properties.add("type", pa.array(found.types, pa.string()), np.ones(count, np.bool_))
    for name, values in (
        ("ts", pa.array([None if sent is None else str(sent) for sent in found.sent], pa.string())),
        ("sql", pa.array(found.sql, pa.string())),
        *told.items(),
    ):
        properties.add(name, values, np.asarray(values.is_valid()))
    if found.others:
        pairs = [
            [{"key": key.encode(), "value": value.encode()} for key, value in found.others.get(row, {}).items()]
            for row in range(count)
        ]
        properties.add_pairs(pa.array(pairs, _PAIRS))
    return properties.maps()
