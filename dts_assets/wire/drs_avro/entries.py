"""Records to the batch of ENTRIES. Each record is one entry; its rows are only counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.formats import Framing
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.wire.avro.field_values import is_scalar, texts
from dts_assets.wire.avro.records import Records, RecordSchema, read_records
from dts_assets.wire.avro.side_by_side import Ints, Wanted
from dts_assets.wire.columns.buffers import Bools, joint_codes, masked
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8, readable
from dts_assets.wire.drs_avro.columns import COLUMN_WISHES, columns_of, image_wish
from dts_assets.wire.drs_avro.framing import NO_RECORD, Framed, Schemas, framed
from dts_assets.wire.drs_avro.images import row_counts
from dts_assets.wire.drs_avro.operations import (
    DELETE,
    FIRST_STATEMENT,
    MARK,
    READ,
    STATEMENT,
    TYPES,
    UNKNOWN,
    UPDATE,
    operations_of,
)
from dts_assets.wire.format import ENTRIES, DecodedEntries, Rejected, TableShape

_LAST_MICROSECOND = 253_402_300_799_999_999
"""The end of the year 9999."""

_SECONDS, _MILLISECONDS, _MICROSECONDS = 10**11, 10**14, 10**17
"""Numbers below which a time counts seconds, milliseconds, microseconds: in each unit they lie in the year 5138.

The vendor's JSON has milliseconds, the records of other vendors seconds.
"""

_TEXTS = ("operation", "database", "schema", "table", "sql")
_NAME = r"(?s)^(?P<database>[^.]+)\.(?P<table>.+)$"
_NO_TEXT = pa.scalar(None, pa.string())


def entries_of(sets: pa.Array, framing: Framing, schemas: Schemas) -> DecodedEntries:
    """Return the entries of messages, as :meth:`dts_assets.wire.format.WireFormat.entries` promises them.

    Raises:
        TooLargeError: Containers hold far more than their bytes.
    """
    found = _Found()
    groups, faults = framed(sets, framing, schemas)
    found.rejected += [Rejected(row, None, reason, detail, sets[row].as_py()) for row, reason, detail in faults]
    for group in groups:
        payloads = group.payloads(schemas)
        for records in read_records(group.schema, group.records, _wishes(group.schema), others=None):
            found.add(records, group, sets, payloads)
    rejected = tuple(sorted(found.rejected, key=lambda one: (one.index, one.entry_number or 0)))
    batch, reads, shapes = found.in_order()
    return DecodedEntries(batch, rejected, shapes, (), {}, reads)


def _wishes(schema: RecordSchema) -> dict[str, Wanted]:
    wishes: dict[str, Wanted] = dict.fromkeys(schema.fields)
    return wishes | COLUMN_WISHES | dict.fromkeys(("before", "after"), image_wish(schema))


@dataclass(slots=True)
class _Found:
    """The entries of a call, block by block. ``reads`` marks those with rows of a full load.

    ``shapes`` have the first rows of their blocks, counted over all blocks.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    reads: list[Bools] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    shapes: list[tuple[TableShape, int]] = field(default_factory=list)

    def add(self, records: Records, group: Framed, sets: pa.Array, payloads: pa.Array) -> None:
        """Add a block of records, which are ``records.rows`` of the group."""

        def reject(row: int, reason: Reason, detail: str, *, whole: bool) -> None:
            number = int(group.sets[row])
            entry = None if whole else int(group.numbers[row])
            self.rejected.append(Rejected(number, entry, reason, detail, sets[number].as_py()))

        for row in records.failed.tolist():
            reject(row, Reason.UNDECODABLE_ENTRIES, NO_RECORD, whole=group.alone)
        heads = _Heads.of(records)
        good = np.ones(len(records), np.bool_)
        for wrong, reason, detail in heads.faults():
            for place in np.flatnonzero(wrong & good).tolist():
                reject(int(records.rows[place]), reason, detail, whole=False)
            good &= ~wrong
        if not good.all():
            heads = _Heads.of(records.take(np.flatnonzero(good)))
        batch = heads.batch(group, payloads)
        before = sum(map(len, self.batches))
        self.batches.append(batch)
        self.reads.append(heads.operations == READ)
        self.shapes += [(shape, before + row) for shape, row in heads.shapes(batch)]

    def in_order(self) -> tuple[pa.RecordBatch, Bools, dict[TableShape, int]]:
        """Return all entries in the order of their messages, and the first row of each shape.

        The mask says which of them have rows of a full load.
        """
        table = pa.Table.from_batches(self.batches, ENTRIES).combine_chunks()
        batch = table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], ENTRIES)
        reads = np.concatenate([np.zeros(0, np.bool_), *self.reads])
        sets, numbers = (batch[name].to_numpy() for name in ("set_index", "entry_number"))
        order = np.lexsort((numbers, sets))
        places, shapes = np.argsort(order), dict[TableShape, int]()
        for row, shape in sorted((int(places[row]), number) for number, (_, row) in enumerate(self.shapes)):
            shapes.setdefault(self.shapes[shape][0], row)
        if bool((order == np.arange(len(order))).all()):
            return batch, reads, shapes
        return batch.take(pa.array(order)), reads[order], shapes


@dataclass(frozen=True, slots=True, eq=False)
class _Heads:
    """Records without their rows.

    ``operations`` are numbers; ``codes`` say which of ``lists`` each record has, and ``names`` are those of its table.
    """

    records: Records
    operations: Ints
    codes: Ints
    lists: list[ColumnList | None]
    names: tuple[pa.Array, pa.Array, pa.Array]

    @classmethod
    def of(cls, records: Records) -> _Heads:
        codes, lists = columns_of(records)
        return cls(records, operations_of(records.texts("operation")), codes, lists, _names(records))

    @property
    def has_rows(self) -> Bools:
        found: Bools = (self.operations >= 0) & (self.operations <= READ)
        return found

    @property
    def is_ddl(self) -> Bools:
        return np.isin(self.operations, (STATEMENT, FIRST_STATEMENT))

    def faults(self) -> Iterator[tuple[Bools, Reason, str]]:
        """Yield the faults for which records cannot be used, each with the records that have it."""
        records, has_rows = self.records, self.has_rows
        for role in _TEXTS:
            yield not_utf8(records.texts(role)), Reason.UNDECODABLE_ENTRY, f"its {role} is not UTF-8"
        yield self.operations == UNKNOWN, Reason.UNKNOWN_OPERATION, "its type is not known"
        number, time = records.integers("id"), records.integers("time")
        detail = "its id is no whole number from zero on"
        yield ~number.sent | number.bad | (number.values < 0), Reason.UNDECODABLE_ENTRY, detail
        micros = _micros(time.values)
        beyond = (time.values < 0) | (micros < 0) | (micros > _LAST_MICROSECOND)
        yield time.bad | beyond, Reason.UNDECODABLE_ENTRY, "its time is no time since the epoch"
        flag = records.integers("is_ddl")
        contradicted = flag.sent & ((flag.values != 0) != self.is_ddl)
        yield contradicted, Reason.UNKNOWN_OPERATION, "its type contradicts its isDdl"
        database, schema, table = (np.asarray(pc.equal(pc.fill_null(one, b""), b"")) for one in self.names)
        yield has_rows & (table | (database & schema)), Reason.UNDECODABLE_ENTRY, "it names no table with its database"
        before, after = (row_counts(records, role) for role in ("before", "after"))
        lacks = np.where(self.operations == DELETE, np.maximum(before, after), after) <= 0
        yield has_rows & lacks, Reason.RAGGED_ROW, "it lacks the rows that its type is about"
        ragged = (self.operations == UPDATE) & (before > 0) & (before != after)
        yield ragged, Reason.RAGGED_ROW, "its images differ in their number of rows"
        unreadable = np.fromiter((one is None for one in self.lists), np.bool_, len(self.lists))
        lost = unreadable[self.codes] if len(unreadable) else has_rows
        yield has_rows & lost, Reason.UNDECODABLE_ENTRY, "its columns or the names of its key cannot be read"
        unexpected = (self.operations == MARK) & (np.maximum(before, after) > 0)
        yield unexpected, Reason.UNDECODABLE_ENTRY, "it holds a row that its type does not have"

    def batch(self, group: Framed, payloads: pa.Array) -> pa.RecordBatch:
        """Return the entries of records that can be used."""
        records, count, has_rows = self.records, len(self.records), pa.array(self.has_rows)
        rows, time = pa.array(records.rows), records.integers("time")
        before, after = (row_counts(records, role) for role in ("before", "after"))
        told = np.where((self.operations == DELETE) & (before > 0), before, after).astype(np.int32)
        database, schema, table = (pc.cast(one, pa.string()) for one in self.names)
        marks = pc.utf8_upper(pc.cast(records.texts("operation"), pa.string()))
        kinds = pc.if_else(has_rows, "DML", pc.if_else(pa.array(self.is_ddl), "DDL", marks))
        columns = {name: pa.nulls(count, ENTRIES.field(name).type) for name in ENTRIES.names}
        columns |= {
            "set_index": pa.array(group.sets[records.rows].astype(np.int32)),
            "entry_number": pa.array(group.numbers[records.rows].astype(np.int32)),
            "message_type": kinds,
            "source_type": pc.if_else(pc.equal(pc.fill_null(schema, ""), ""), "MYSQL", _NO_TEXT),
            "event_time": pa.array(_micros(time.values), mask=~time.sent).view(ENTRIES.field("event_time").type),
            "position": pa.array(records.integers("id").values),
            "database": pc.if_else(has_rows, pc.fill_null(database, ""), _without_empty(database)),
            "schema": _without_empty(schema),
            "table": pc.if_else(has_rows, table, _without_empty(table)),
            "rows": pa.array(told, mask=~self.has_rows),
            "payload": payloads if count == len(payloads) else payloads.take(rows),
            "properties": self._properties(marks, group.schema_ids[records.rows]),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES)

    def _properties(self, marks: pa.Array, schema_ids: Ints) -> pa.MapArray:
        records, count = self.records, len(self.records)
        properties = Properties(count)
        for other in records.schema.others:
            if is_scalar(other.type):
                found = readable(texts(*records.at(other), records.data, count))
                properties.add(other.name, found, np.asarray(pc.not_equal(pc.fill_null(found, ""), "")))
        properties.add("schemaId", pa.array(schema_ids), schema_ids >= 0)
        spelled = pa.array(TYPES).take(pa.array(np.minimum(np.maximum(self.operations, 0), len(TYPES) - 1)))
        types = pc.if_else(pa.array(self.operations == MARK), marks, spelled)
        properties.add("type", types, np.ones(count, np.bool_))
        sql = pc.cast(records.texts("sql"), pa.string())
        properties.add("sql", pc.fill_null(sql, ""), self.is_ddl | np.asarray(pc.not_equal(pc.fill_null(sql, ""), "")))
        return properties.maps()

    def shapes(self, batch: pa.RecordBatch) -> Iterator[tuple[TableShape, int]]:
        """Yield the distinct shapes of the tables of rows, each with its first row, as they came."""
        rows = np.flatnonzero(self.has_rows)
        names = [pc.fill_null(batch[name].take(pa.array(rows)), "") for name in ("database", "schema", "table")]
        numbers = pa.array(self.codes[rows])
        _, first = joint_codes(*names, numbers)
        distinct = (column.take(pa.array(first)).to_pylist() for column in (*names, numbers))
        for database, schema, table, number, row in zip(*distinct, rows[first].tolist(), strict=True):
            group = self.lists[number]
            if group is not None:
                yield TableShape(TableId(database, schema, table), group.columns), row


def _micros(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return times in microseconds; their size says which unit they count."""
    below = [times < _SECONDS, times < _MILLISECONDS, times < _MICROSECONDS]
    found: npt.NDArray[np.int64] = np.select(below, [times * 1_000_000, times * 1000, times], times // 1000)
    return found


def _names(records: Records) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the names of database, schema and table; without a field for the database, ``db.table`` is cut."""
    database, schema, table = (records.texts(role) for role in ("database", "schema", "table"))
    if "database" in records.schema.fields:
        return database, schema, table
    there = np.asarray(table.is_valid())
    cut = pc.extract_regex(pc.cast(masked(table, pa.binary(), there & ~not_utf8(table)), pa.string()), _NAME)
    found = pa.array(np.asarray(cut.is_valid()) & np.asarray(pc.equal(pc.fill_null(schema, b""), b"")))
    names = (pc.cast(one, pa.binary()) for one in cut.flatten())
    first, second = (pc.if_else(found, new, old) for new, old in zip(names, (database, table), strict=True))
    return first, schema, second


def _without_empty(found: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(found, ""), _NO_TEXT, found)
