"""Records to the batch of ENTRIES (the vendor's table of the fields of ``Record``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import file_number
from dts_assets.model.problems import Reason
from dts_assets.model.source_types import POSTGRESQL, source_type_of
from dts_assets.model.tables import TableId
from dts_assets.wire.columns.buffers import Bools, joint_codes, masked
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.dts_records import FIELDS, OPERATIONS
from dts_assets.wire.dts_records.blocks import Faults, HeadBlock
from dts_assets.wire.format import ENTRIES, Checkpoint, DecodedEntries, Rejected, TableShape

_VERSION = 1
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""

_FIRST_LOAD = pa.array([b"INIT_INSERT", b"INIT_DDL"])
_STATEMENTS = pa.array([b"DDL", b"INIT_DDL"])
_KINDS: Mapping[bytes, str] = {
    **dict.fromkeys((name.encode() for name in OPERATIONS), "DML"),
    **dict.fromkeys(_STATEMENTS.to_pylist(), "DDL"),
    **{kind.encode(): kind for kind in ("BEGIN", "COMMIT", "HEARTBEAT", "CHECKPOINT", "ROLLBACK")},
}
"""The message types, and what they are in ``entries``."""

_ANYWHERE = pa.array([*_FIRST_LOAD.to_pylist(), b"HEARTBEAT", b"CHECKPOINT"])
"""Message types that may have no place in a binlog."""

_PLACE = r"^(?P<position>\d{1,18})@(?P<file>\d{1,18})$"
_NAME = r"(?s)^(?P<database>[^.]+)\.(?P<table>.+)$"

_PROPERTIES = (
    "reader_time", "safe_position", "source_version", "execution_time", "heartbeat_time", "gtid_set", "fake_gtid"
)  # fmt: skip
_RESERVED = ("total", "index")
_PAYLOAD = ENTRIES.get_field_index("payload")
_BESIDE_PAYLOAD = ENTRIES.remove(_PAYLOAD)
_NO_TEXT = pa.scalar(None, pa.string())


def entries_of(sets: pa.Array, blocks: Iterable[HeadBlock]) -> DecodedEntries:
    """Return the entries of messages, as :meth:`dts_assets.wire.format.WireFormat.entries` promises them.

    ``blocks`` are the messages, block by block.
    """
    found = _Found()
    for block in blocks:
        found.add(block, sets)
    batch = found.batch(sets)
    rejected = tuple(sorted(found.rejected, key=lambda one: one.index))
    reads = np.concatenate([np.zeros(0, np.bool_), *found.reads])
    return DecodedEntries(batch, rejected, found.shapes, tuple(_checkpoints(batch)), dict(found.unknown), reads)


@dataclass(slots=True)
class _Found:
    """The entries of a call, block by block.

    ``batches`` have no payloads yet; ``reads`` marks entries with a row of a full load.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    reads: list[Bools] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    shapes: dict[TableShape, int] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, records: HeadBlock, sets: pa.Array) -> None:
        """Add a block of records, which are the messages ``records.rows`` of ``sets``."""

        def reject(number: int, entry: int | None, reason: Reason, detail: str) -> None:
            self.rejected.append(Rejected(number, entry, reason, detail, sets[number].as_py()))

        for one in records.unread:
            reject(one.number, one.entry_number, one.reason, one.detail)
        codes, lists = records.column_lists()
        good = np.ones(len(records), np.bool_)
        for wrong, reason, detail in _faults(records, codes, lists):
            for row in np.flatnonzero(wrong & good).tolist():
                reject(int(records.rows[row]), 0, reason, detail)
            good &= ~wrong
        if not good.all():
            keep = np.flatnonzero(good)
            records, codes = records.take(keep), codes[keep]
        heads = _Heads(records, self.unknown)
        batch = heads.batch()
        before = sum(map(len, self.batches))
        self.batches.append(batch)
        self.reads.append(np.asarray(pc.equal(heads.types, _FIRST_LOAD[0])))
        for shape, row in _shapes(batch, codes, lists):
            self.shapes.setdefault(shape, before + row)

    def batch(self, sets: pa.Array) -> pa.RecordBatch:
        """Return all entries, each with its message among ``sets``."""
        table = pa.Table.from_batches(self.batches, _BESIDE_PAYLOAD).combine_chunks()
        if not table.num_rows:
            return pa.RecordBatch.from_pylist([], ENTRIES)
        (beside,) = table.to_batches()
        payload = sets if len(beside) == len(sets) else sets.take(beside["set_index"])
        return beside.add_column(_PAYLOAD, ENTRIES.field(_PAYLOAD), payload)


def _faults(records: HeadBlock, codes: npt.NDArray[np.int64], lists: Sequence[ColumnList | None]) -> Faults:
    """Yield the faults for which records cannot be used, each with the records that have it."""
    version, seconds, number = (records.integers(role) for role in ("version", "timestamp", "id"))
    yield version.values != _VERSION, Reason.WRONG_VERSION, "its version is not 1"
    types = records.texts("operation")
    kinds = _kinds(types)
    yield np.asarray(kinds.is_null()), Reason.UNKNOWN_MESSAGE_TYPE, "its message type is not known"
    no_time = ~seconds.sent | (seconds.values < 0) | (seconds.values > _LAST_SECOND)
    yield no_time, Reason.UNDECODABLE_ENTRY, "its timestamp is no time in seconds"
    yield number.bad | (number.values < 0), Reason.UNDECODABLE_ENTRY, "its id is no number from zero on"
    yield from records.faults()
    placed = np.asarray(_places(records.texts("position"))[0].is_valid()) | np.asarray(
        pc.is_in(types, value_set=_ANYWHERE)
    )
    yield ~placed, Reason.UNDECODABLE_ENTRY, "its position is no place such as 2196@4"
    is_dml = np.asarray(pc.fill_null(pc.equal(kinds, "DML"), False))
    is_ddl = np.asarray(pc.fill_null(pc.equal(kinds, "DDL"), False))
    foreign = "its source is a PostgreSQL, of which the vendor documents Protobuf alone"
    yield (is_dml | is_ddl) & _of_postgresql(records), Reason.UNSUPPORTED_SOURCE, foreign
    holds_row = records.has_image("before") | records.has_image("after")
    yield ~is_dml & holds_row, Reason.UNDECODABLE_ENTRY, "it holds a row that its message type does not have"
    nameless = np.asarray(pc.equal(pc.fill_null(pc.binary_length(_names(records)[1]), 0), 0))
    yield is_dml & nameless, Reason.UNDECODABLE_ENTRY, "it names no table"
    unreadable = np.fromiter((one is None for one in lists), np.bool_, len(lists))
    yield is_dml & unreadable[codes], Reason.UNDECODABLE_ENTRY, "its columns cannot be read"


def _of_postgresql(records: HeadBlock) -> Bools:
    """Return which records name a PostgreSQL as their source.

    Its types and names would be taken for those of MySQL.
    """
    encoded = records.texts("source_type").dictionary_encode()
    names = [name.decode(errors="replace") for name in encoded.dictionary.to_pylist()]
    known = np.asarray([*(POSTGRESQL in (name.upper(), source_type_of(name)) for name in names), False])
    found: Bools = known[encoded.indices.fill_null(len(names)).to_numpy()]
    return found


def _kinds(types: pa.Array) -> pa.Array:
    """Return what records are in ``entries``, null for a type that is not known."""
    encoded = types.dictionary_encode()
    kinds = [_KINDS.get(name) for name in encoded.dictionary.to_pylist()]
    return pa.array(kinds, pa.string()).take(encoded.indices)


def _places(positions: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return positions, and the numbers of files, null where a text is no place."""
    position, file = pc.extract_regex(_utf8(positions), _PLACE).flatten()
    return pc.cast(position, pa.int64()), pc.cast(file, pa.int64())


def _names(records: HeadBlock) -> tuple[pa.Array, pa.Array]:
    """Return the names of database and table; where no table is sent they are cut from ``objectName``."""
    database, table, both = (records.texts(role) for role in ("database", "table", "object_name"))
    lacking = np.asarray(pc.equal(pc.fill_null(pc.binary_length(table), 0), 0))
    if not lacking.any() or both.null_count == len(both):
        return database, table
    cut = pc.extract_regex(_utf8(both), _NAME)
    found = pa.array(lacking & np.asarray(cut.is_valid()))
    names = (pc.cast(name, pa.binary()) for name in cut.flatten())
    first, second = (pc.if_else(found, new, old) for new, old in zip(names, (database, table), strict=True))
    return first, second


def _utf8(values: pa.Array) -> pa.Array:
    """Return bytes as text, null where they are none."""
    wrong = not_utf8(values)
    return pc.cast(masked(values, pa.binary(), np.asarray(values.is_valid()) & ~wrong), pa.string())


class _Heads:
    """Records that can be used. ``types`` are their message types; facts that nobody knows are added to ``unknown``."""

    def __init__(self, records: HeadBlock, unknown: Counter[str]) -> None:
        self._records, self._unknown = records, unknown
        self.types = records.texts("operation")

    def batch(self) -> pa.RecordBatch:
        """Return the entries without their payloads."""
        records, count = self._records, len(self._records)
        kinds = _kinds(self.types)
        is_dml = pc.equal(kinds, "DML")
        database, table = (pc.cast(one, pa.string()) for one in _names(records))
        file_names, positions = self._place_columns()
        threads = self._numbers("thread_id")
        columns = {
            "set_index": pa.array(records.rows.astype(np.int32)),
            "entry_number": pa.array(np.zeros(count, np.int32)),
            "message_type": kinds,
            "source_type": pc.utf8_upper(self._text("source_type")),
            "event_time": pa.array(records.integers("timestamp").values * 1_000_000).view(
                ENTRIES.field("event_time").type
            ),
            "gtid": self._text("gtid"),
            "transaction_id": self._text("transaction_id"),
            "thread_id": pc.if_else(pc.equal(threads, 0), pa.scalar(None, pa.int64()), threads),
            "server_id": self._numbers("server_id"),
            "seq_id": self._numbers("id"),
            "file_name": file_names,
            "position": positions,
            "database": pc.if_else(is_dml, pc.fill_null(database, ""), _without_empty(database)),
            "schema": pa.nulls(count, pa.string()),
            "table": pc.if_else(is_dml, table, _without_empty(table)),
            "rows": pa.array(np.ones(count, np.int32), mask=~np.asarray(is_dml)),
            "properties": self._properties(),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=_BESIDE_PAYLOAD)

    def _text(self, role: str) -> pa.Array:
        return _without_empty(pc.cast(self._records.texts(role), pa.string()))

    def _numbers(self, role: str) -> pa.Array:
        found = self._records.integers(role)
        return pa.array(found.values, mask=~found.sent)

    def _place_columns(self) -> tuple[pa.Array, pa.Array]:
        """Return the names of binlog files, and the positions in them.

        The number in ``position`` decides; a file name with another number, or none, gives way to it.
        """
        positions, numbers = _places(self._records.texts("position"))
        names = self._text("file_name")
        encoded = names.dictionary_encode()
        told = [file_number(name) for name in encoded.dictionary.to_pylist()]
        equal = pc.equal(pa.array(told, pa.int64()).take(encoded.indices), numbers)
        other = np.asarray(numbers.is_valid()) & ~np.asarray(pc.fill_null(equal, False))
        if other.any():
            contradicted = int((other & np.asarray(names.is_valid())).sum())
            self._unknown.update({"position in another file than fileName": contradicted} if contradicted else {})
            names = pc.if_else(pa.array(other), pc.cast(numbers, pa.string()), names)
        return names, positions

    def _properties(self) -> pa.MapArray:
        properties = Properties(len(self._records))
        types = pc.cast(self.types, pa.string())
        properties.add("type", types, np.asarray(pc.is_in(self.types, value_set=_FIRST_LOAD)))
        sql = pc.fill_null(pc.cast(self._records.texts("sql"), pa.string()), "")
        properties.add("sql", sql, np.asarray(pc.is_in(self.types, value_set=_STATEMENTS)))
        for role in _PROPERTIES:
            found = self._text(role)
            properties.add(FIELDS[role][0], found, np.asarray(found.is_valid()))
        beating = self._numbers("heartbeat_time")
        foreign = pc.and_(pc.not_equal(beating, 0), pc.not_equal(types, "HEARTBEAT"))
        if strange := pc.sum(pc.fill_null(foreign, False)).as_py():
            self._unknown["heartbeatTimestamp of another message type"] += strange
        for role in _RESERVED:
            number = self._numbers(role)
            used = np.asarray(pc.fill_null(pc.not_equal(number, 0), False))
            self._keep(properties, FIELDS[role][0], pc.cast(number, pa.string()), used)
        pairs = self._records.pairs()
        if pairs is not None:
            properties.add_pairs(pairs)
            self._unknown.update(self._records.unknown())
        for name, texts in self._records.others():
            self._keep(properties, name, texts, np.asarray(texts.is_valid()))
        return properties.maps()

    def _keep(self, properties: Properties, name: str, values: pa.Array, where: Bools) -> None:
        """Keep a fact that the vendor's table does not have, or has for later."""
        if where.any():
            properties.add(name, values, where)
            self._unknown[f"field {name}"] += int(where.sum())


def _without_empty(found: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(found, ""), _NO_TEXT, found)


def _shapes(
    batch: pa.RecordBatch, codes: npt.NDArray[np.int64], lists: Sequence[ColumnList | None]
) -> Iterator[tuple[TableShape, int]]:
    """Yield the distinct shapes of the tables of rows, each with its first row, as they came."""
    rows = np.flatnonzero(np.asarray(batch["rows"].is_valid()))
    names, numbers = [batch[name].take(pa.array(rows)) for name in ("database", "table")], pa.array(codes[rows])
    _, first = joint_codes(*names, numbers)
    distinct = (column.take(pa.array(first)).to_pylist() for column in (*names, numbers))
    for database, table, number, row in zip(*distinct, rows[first].tolist(), strict=True):
        group = lists[number]
        if group is not None:
            yield TableShape(TableId(database, "", table), group.columns), row


def _checkpoints(batch: pa.RecordBatch) -> Iterator[Checkpoint]:
    """Yield every CHECKPOINT that names a place."""
    is_checkpoint = pc.and_(pc.equal(batch["message_type"], "CHECKPOINT"), batch["position"].is_valid())
    for row in np.flatnonzero(np.asarray(is_checkpoint)).tolist():
        properties = dict(batch["properties"][row].as_py())
        place = (batch["file_name"][row].as_py(), batch["position"][row].as_py())
        yield Checkpoint(row, *place, properties.get("syncedGtid"), properties.get("fakeGtid") == "true")
