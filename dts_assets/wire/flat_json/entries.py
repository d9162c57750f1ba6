"""Flat messages to the batch of ENTRIES ("Kafka Message Format", table 2; Canal, ``FlatMessage.java``).

Each message is one entry; its rows are only counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from dts_assets.model.problems import Reason
from dts_assets.model.source_types import MYSQL, source_type_of
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import slices, valid
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.flat_json.collection_messages import CollectionHead
from dts_assets.wire.flat_json.dialect import CHECKPOINT, DML, Dialect, Images
from dts_assets.wire.flat_json.messages import LOAD, OPERATIONS, Head, Refused
from dts_assets.wire.format import ENTRIES, Checkpoint, DecodedEntries, Rejected, TableShape

_ONE_GTID = r"^([0-9A-Fa-f-]{36}:|\d+-\d+-)\d+$"
"""One GTID of MySQL or MariaDB: ``3e11fa47-71ca-11e1-9e33-c80aa9429562:23``, and not a set of them."""

_NO_UTF8 = "it is no JSON object in UTF-8"
_KIND_TYPES = {"rows": pa.int32()}
"""Types of facts that are no texts."""

_PAIRS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


_TOGETHER = 512
"""Messages whose heads are held at a time: more of them would leave the processor's cache."""

_ODD = -1
"""The number of no kind: such a message is looked at alone."""


class _Kind(NamedTuple):
    """The facts that a message's head gives to an entry, but for its numbers, times and GTIDs.

    ``unknown`` names a part of it that is passed over.
    """

    message_type: str
    type: str
    database: str | None
    schema: str | None
    table: str | None
    source: str
    db_type: str | None
    rows: int | None
    sql: str | None
    unknown: str | None


@dataclass(slots=True)
class _Found:
    """The entries of a call, column by column, with their shapes and unknown fields.

    ``kinds`` are their numbers among ``known``. ``alike`` has the kind of every head by all that it is made of, and ``texts`` the
    numbers of columns' types and of names of keys. ``shapes`` come with the message that had each first.
    """

    dialect: Dialect
    numbers: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    ids: list[int | None] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)
    gtids: list[str | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sent: list[int | None] = field(default_factory=list)
    others: dict[int, dict[str, str]] = field(default_factory=dict)
    shapes: dict[tuple[TableId, ColumnList], tuple[TableShape, int]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    known: dict[_Kind, int] = field(default_factory=dict)
    alike: dict[Hashable, int] = field(default_factory=dict)
    texts: dict[bytes, int] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)

    def add(self, first: int, messages: Sequence[memoryview], readable: Sequence[bool]) -> None:
        """Add the entries of messages that follow one another; ``first`` is the number of the first of them."""
        decode, heads, start = self.dialect.form.whole.decode, list[Head](), 0
        for place, message in enumerate(messages):
            try:
                if readable[place]:
                    heads.append(decode(message))
                    continue
            except MALFORMED:
                pass
            self._add_heads(first + start, heads, messages[start:place])
            self._add_alone(first + place, message, readable=readable[place])
            heads, start = [], place + 1
        self._add_heads(first + start, heads, messages[start:])

    def _add_heads(self, first: int, heads: Sequence[Head], messages: Sequence[memoryview]) -> None:
        """Add messages that follow one another; of those whose heads are alike only one is looked at."""
        keys = self._keys(heads)
        kinds, start = [self.alike.get(key, _ODD) for key in keys], 0
        for place in [place for place, kind in enumerate(kinds) if kind == _ODD]:
            kind = self.alike.get(keys[place])
            if kind is None:
                kind = self.alike[keys[place]] = self._kind_alone(heads[place], first + place)
            kinds[place] = kind
            if kind == _ODD:
                self._append(first + start, heads[start:place], kinds[start:place])
                self._add_alone(first + place, messages[place], readable=True)
                start = place + 1
        self._append(first + start, heads[start:], kinds[start:])

    def _keys(self, heads: Sequence[Head]) -> list[Hashable]:
        """Return all that kinds are made of, head by head."""
        form = self.dialect.form
        raws = (self._numbers(map(attrgetter(name), heads)) for name in form.raws)
        sizes = (
            [-1 if rows is None else len(rows) for rows in map(attrgetter(name), heads)] for name in ("data", "old")
        )
        return list(zip(map(attrgetter(*form.texts), heads), *raws, *sizes, strict=True))

    def _numbers(self, raws: Iterable[Raw]) -> list[int]:
        """Return a number for each of some texts, equal ones for equal texts."""
        found = list(raws)
        if found and found.count(found[0]) == len(found):
            return [self.texts.setdefault(bytes(found[0]), len(self.texts))] * len(found)
        numbers: list[int] = []
        last, number = None, 0
        for raw in found:
            if raw != last:
                last, number = raw, self.texts.setdefault(bytes(raw), len(self.texts))
            numbers.append(number)
        return numbers

    def _append(self, first: int, heads: Sequence[Head], kinds: Sequence[int]) -> None:
        self.numbers += range(first, first + len(heads))
        self.kinds += kinds
        self.ids += [head.id for head in heads]
        self.times += [head.es for head in heads]
        self.sent += [head.ts for head in heads]
        self.gtids += map(self.dialect.gtid, heads)
        if not self.dialect.ids_are_places:
            self.places += map(self.dialect.place, heads)

    def _add_alone(self, number: int, message: memoryview, *, readable: bool) -> None:
        """Add a message that is not read by its head alone, or reject it."""
        if not readable:
            self.rejected.append(Rejected(number, None, Reason.UNDECODABLE_ENTRIES, _NO_UTF8, bytes(message)))
            return
        try:
            head, others = self.dialect.head(bytes(message))
            kind = self._kind(head, number)
        except Refused as refused:
            entry = None if refused.reason is Reason.UNDECODABLE_ENTRIES else 0
            self.rejected.append(Rejected(number, entry, refused.reason, refused.detail, bytes(message)))
            return
        told = head.told if isinstance(head, CollectionHead) else {}
        if told or others:
            self.others[len(self.numbers)] = {**told, **others}
        self.unknown.update(f"field {name}" for name in others if name != "ts")
        self._append(number, [head], [kind])

    def _kind_alone(self, head: Head, number: int) -> int:
        """Return the number of a head's kind.

        It is that of no kind if the head cannot be used, or if more of its message is needed.
        """
        try:
            return self._kind(head, number) if self.dialect.complete(head) else _ODD
        except Refused:
            return _ODD

    def _kind(self, head: Head, number: int) -> int:
        """Return the number of a head's kind.

        Raises:
            Refused: the message cannot be used.
        """
        message_type = self.dialect.message_type(head)
        rows, database, table, unknown = None, head.database or None, head.table or None, None
        if message_type == DML:
            before, after = self._images(head, number)
            rows, database, table = len(after if after is not None else before or ()), head.database, head.table
            unknown = f"old rows of {head.type}" if before is None and head.old else None
        kind = _Kind(
            message_type, head.type, database, head.schema or None, table, _source_of(head), head.dbType, rows,
            head.sql or ("" if rows is None else None), unknown,
        )  # fmt: skip
        return self.known.setdefault(kind, len(self.known))

    def _images(self, head: Head, number: int) -> Images:
        """Return the rows of a message that has some, and note its shape.

        Raises:
            Refused: the rows or their columns make no sense.
        """
        if not (head.database or head.schema) or not head.table:
            raise Refused(Reason.UNDECODABLE_ENTRY, "it names no table")
        images = self.dialect.images(OPERATIONS[head.type], head.data, head.old)
        table = TableId(head.database or "", head.schema or "", head.table)
        columns = self.dialect.columns_of(head)
        if columns is None:
            raise Refused(Reason.UNDECODABLE_ENTRY, "its columns or the names of its key cannot be read")
        self.shapes.setdefault((table, columns.list), (TableShape(table, columns.list.columns), number))
        return images


def _source_of(head: Head) -> str:
    return MYSQL if head.schema is None and head.dbType is None else source_type_of(head.dbType)


def entries_of(sets: pa.Array, dialect: Dialect) -> DecodedEntries:
    """Return the entries of messages, as :meth:`dts_assets.wire.format.WireFormat.entries` promises them.

    ``dialect`` is the way in which they are written.
    """
    found = _Found(dialect)
    # The parser does not look into the texts that it passes over.
    readable = (~not_utf8(sets)).tolist()
    for first in range(0, len(sets), _TOGETHER):
        some = sets.slice(first, _TOGETHER)
        found.add(first, slices(some), readable[first : first + len(some)])
    kinds = np.asarray(found.kinds, np.int64)
    for kind, count in zip(found.known, np.bincount(kinds, minlength=len(found.known)).tolist(), strict=True):
        if kind.unknown is not None:
            found.unknown[kind.unknown] += count
    reads = np.array([kind.type == LOAD for kind in found.known], np.bool_)[kinds]
    batch = _batch(found, sets)
    told = _checkpoints(batch)
    return DecodedEntries(batch, tuple(found.rejected), _shapes(found), told, dict(found.unknown), reads)


def _shapes(found: _Found) -> dict[TableShape, int]:
    """Return the distinct shapes, each with the row of its first message that was not rejected."""
    shapes: dict[TableShape, int] = {}
    for shape, number in found.shapes.values():
        row = bisect_left(found.numbers, number)
        if row < len(found.numbers):
            shapes.setdefault(shape, row)
    return shapes


def _checkpoints(batch: pa.RecordBatch) -> tuple[Checkpoint, ...]:
    """Return the CHECKPOINTs that tell a place."""
    told = pc.and_(pc.equal(batch["message_type"], CHECKPOINT), batch["position"].is_valid())
    rows = np.flatnonzero(np.asarray(told)).tolist()
    return tuple(Checkpoint(row, "", batch["position"][row].as_py(), None) for row in rows)


def _batch(found: _Found, sets: pa.Array) -> pa.RecordBatch:
    count, kinds = len(found.numbers), pa.array(found.kinds, pa.int64())

    def of_kinds(name: str) -> pa.Array:
        return pa.array([getattr(kind, name) for kind in found.known], _KIND_TYPES.get(name, pa.string())).take(kinds)

    numbers = pa.array(found.numbers, pa.int32())
    ids, gtids = pa.array(found.ids, pa.int64()), pa.array(found.gtids, pa.string())
    columns = {name: pa.nulls(count, ENTRIES.field(name).type) for name in ENTRIES.names}
    columns |= {
        "set_index": numbers,
        "entry_number": pa.array(np.zeros(count, np.int32)),
        "message_type": of_kinds("message_type"),
        "source_type": of_kinds("source"),
        "event_time": pa.array(np.asarray(found.times, np.int64) * 1000).view(ENTRIES.field("event_time").type),
        "transaction_id": pc.if_else(pc.match_substring_regex(gtids, _ONE_GTID), gtids, None),
        "database": of_kinds("database"),
        "schema": of_kinds("schema"),
        "table": of_kinds("table"),
        "rows": of_kinds("rows"),
        "payload": sets if count == len(sets) else sets.take(numbers),
    }
    told = {"type": of_kinds("type"), "ts": _whole_numbers(found.sent), "sql": of_kinds("sql")}
    if found.dialect.ids_are_places:
        columns["position"] = ids
    else:
        told["id"] = pc.cast(ids, pa.string())
        columns["position"] = pa.array(found.places, pa.int64())
    if gtids.null_count < count:
        told["gtid"] = gtids
    told["dbType"] = of_kinds("db_type")
    columns["properties"] = _properties(found, told)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES)


def _whole_numbers(numbers: Sequence[int | None]) -> pa.Array:
    """Return numbers, of any size, as texts."""
    try:
        return pc.cast(pa.array(numbers, pa.int64()), pa.string())
    except (OverflowError, pa.ArrowInvalid):
        return pa.array([None if number is None else str(number) for number in numbers], pa.string())


def _properties(found: _Found, told: Mapping[str, pa.Array]) -> pa.MapArray:
    count = len(found.numbers)
    properties = Properties(count)
    for name, values in told.items():
        properties.add(name, values, valid(values))
    if found.others:
        pairs = [
            [{"key": key.encode(), "value": value.encode()} for key, value in found.others.get(row, {}).items()]
            for row in range(count)
        ]
        properties.add_pairs(pa.array(pairs, _PAIRS))
    return properties.maps()
