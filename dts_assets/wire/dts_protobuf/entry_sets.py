"""Entry sets to the batch of ENTRIES (document 571/55396, Entries, Header and Event).

Headers and events of entries become columns; their rows are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from dts_assets.model.positions import has_place
from dts_assets.model.problems import Reason
from dts_assets.model.source_types import POSTGRESQL
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.columns.buffers import Bools, joint_codes, masked, offsets_of, valid
from dts_assets.wire.columns.properties import Properties
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.columns.texts import not_utf8
from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.described_columns import column_lists, lists_of_bytes
from dts_assets.wire.dts_protobuf.protobuf_parser import (
    BARE_HEADS,
    ENTRY_SET,
    HEADS,
    HEADS_OF_ANY_ROWS,
    USUAL_HEADS,
    Decoded,
    decode,
)
from dts_assets.wire.dts_protobuf.unknown_fields import of_heads, of_sets
from dts_assets.wire.dts_protobuf.walk import described_columns, find_events
from dts_assets.wire.format import ENTRIES, Checkpoint, DecodedEntries, Rejected, TableShape, TooLargeError

_MESSAGE_TYPES, _SOURCE_TYPES = pb.MessageType.keys(), pb.SourceType.keys()  # numbered from 0, without gaps

_EVENTS = ("beginEvent", "commitEvent", "dmlEvent", "ddlEvent", "rollbackEvent", "heartbeatEvent", "checkpointEvent")
"""The event of each message type, by its number."""

MOST_ENTRIES = 1 << 18
"""The most entries of several sets that are decoded in one call."""

MOST_UNUSABLE = 1 << 16
"""The most entries of a call that are rejected one by one, at some 600 bytes each."""

LEAST_BYTES = 16
"""Bytes of an entry that has a header and an event, at least."""

_LARGEST = np.uint64((1 << 63) - 1)
_NO_MESSAGE = "its bytes are no protobuf message"


@dataclass(slots=True)
class _Heads:
    """Entries of a call, row for row.

    Each has the set and number it came from, its own bytes, its header and event, its number of rows, and its table and column
    list by number. ``form`` is the descriptor that headers and events were read with.
    """

    sets: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    payloads: pa.Array
    decoded: pa.RecordBatch
    form: Descriptor
    rows: npt.NDArray[np.int32]
    tables: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]
    groups: list[ColumnList | None]

    @property
    def header(self) -> pa.StructArray:
        return self.decoded["header"]

    @property
    def types(self) -> npt.NDArray[np.int32]:
        types: npt.NDArray[np.int32] = self.header.field("messageType").to_numpy()
        return types

    def may_hold(self, name: str) -> bool:
        """Tell whether events were read with a field; none of them has another one."""
        return name in self.decoded["event"].type.names

    def event(self, message_type: int) -> pa.StructArray:
        return self.decoded["event"].field(_EVENTS[message_type])

    def take(self, some: npt.NDArray[np.int64]) -> _Heads:
        mine = pa.array(some)
        return _Heads(
            self.sets[some],
            self.numbers[some],
            self.payloads.take(mine),
            self.decoded.take(mine),
            self.form,
            self.rows[some],
            self.tables[some],
            self.lists[some],
            self.groups,
        )


def entries_of(sets: pa.Array, *, engine: Engine | None) -> DecodedEntries:
    """Return the entries of sets, as :meth:`dts_assets.wire.format.WireFormat.entries` promises them."""
    rejected: list[Rejected] = []
    heads, beside = _heads(sets, rejected, engine=engine)
    problems = _problems(heads)
    if problems:
        rejected += [_rejected(heads, row, *problem) for row, problem in sorted(problems.items())]
        heads = heads.take(np.setdiff1d(np.arange(len(heads.sets)), list(problems)))
    batch, unknown = _batch(heads)
    unknown |= (
        beside
        | _of_places(batch)
        | of_heads(heads.payloads, heads.decoded, heads.types == pb.DML, heads.form)
        | _of_columns(heads)
    )
    rejected.sort(key=lambda one: (one.index, -1 if one.entry_number is None else one.entry_number))
    return DecodedEntries(batch, tuple(rejected), _shapes(heads, batch), _checkpoints(heads), unknown)


def _heads(sets: pa.Array, rejected: list[Rejected], *, engine: Engine | None) -> tuple[_Heads, dict[str, int]]:
    """Return the decoded heads of all entries of some sets, and the unknown fields between entries.

    Sets and entries that cannot be read are added to ``rejected``. Unknown fields come with how often each was met.

    Raises:
        TooLargeError: There are too many entries.
    """
    cut = decode(sets, ENTRY_SET, engine=engine)
    for number in cut.poison:
        rejected.append(Rejected(number, None, Reason.UNDECODABLE_ENTRIES, _NO_MESSAGE, sets[number].as_py()))
    items = cut.batch["items"]
    offsets = offsets_of(items)
    counts = np.diff(offsets)
    _refuse_amplified(len(items.values), items.values, len(sets))
    owners = np.repeat(cut.kept, counts)
    numbers = np.arange(len(owners)) - np.repeat(offsets[:-1].astype(np.int64), counts)
    read = _read(items.values, engine)
    decoded = read.decoded
    for entry in decoded.poison:
        place, payload = (int(owners[entry]), int(numbers[entry])), items.values[entry].as_py()
        rejected.append(Rejected(*place, Reason.UNDECODABLE_ENTRY, _NO_MESSAGE, payload))
    if decoded.poison:
        owners, numbers = owners[decoded.kept], numbers[decoded.kept]
    heads = _Heads(
        owners, numbers, decoded.payloads, decoded.batch, read.form, read.rows, read.tables, read.lists, read.groups
    )
    return heads, of_sets(cut)


@dataclass(frozen=True, slots=True)
class _Read:
    """The heads of entries that could be read.

    Each has its number of rows, and its table and column list by number.
    """

    decoded: Decoded
    form: Descriptor
    rows: npt.NDArray[np.int32]
    tables: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]
    groups: list[ColumnList | None]


def _read(payloads: pa.Array, engine: Engine | None) -> _Read:
    """Return the heads of entries.

    Where all entries are of the usual layout the parser passes over columns and rows: columns are compared as bytes, and rows
    are counted. Damage inside of a row is none of an entry's: whether it is found may not depend on the entries beside it.
    """
    events = None if engine == "protobuf" else find_events(payloads)
    if events is not None:
        form = USUAL_HEADS if events.are_usual else BARE_HEADS
        decoded = decode(payloads, form, engine=engine)
        tables = _tables(decoded)
        described = None if decoded.poison else described_columns(events, tables)
        if described is not None:
            return _Read(decoded, form, described.rows, tables, *lists_of_bytes(described))
    decoded = decode(payloads, HEADS, engine=engine)
    if decoded.poison:
        decoded = decode(payloads, HEADS_OF_ANY_ROWS, engine=engine)
    dml = decoded.batch["event"].field("dmlEvent")
    rows = np.diff(offsets_of(dml.field("rows")))
    return _Read(decoded, HEADS, rows, _tables(decoded), *column_lists(dml.field("columns")))


def _tables(decoded: Decoded) -> npt.NDArray[np.int64]:
    header = decoded.batch["header"]
    return joint_codes(header.field("schemaName"), header.field("tableName"))[0]


def _refuse_amplified(count: int, payloads: pa.Array, sets: int) -> None:
    """Refuse so many entries that their columns would take far more memory than their bytes.

    Raises:
        TooLargeError: There are too many entries, of several sets or of too few bytes.
    """
    size = int(offsets_of(payloads)[-1] - offsets_of(payloads)[0])
    if (count > MOST_ENTRIES and sets > 1) or (count > MOST_UNUSABLE and size < LEAST_BYTES * count):
        raise TooLargeError(f"it holds {count} entries of {size} bytes together")


def _rejected(heads: _Heads, row: int, reason: Reason, detail: str) -> Rejected:
    return Rejected(int(heads.sets[row]), int(heads.numbers[row]), reason, detail, heads.payloads[row].as_py())


def _problems(heads: _Heads) -> dict[int, tuple[Reason, str]]:
    """Return the entries that nobody can use, by row, with the first fault of each.

    Raises:
        TooLargeError: There are too many of them.
    """
    found: dict[int, tuple[Reason, str]] = {}

    def refuse(wrong: Bools, detail: str, reason: Reason = Reason.UNDECODABLE_ENTRY) -> None:
        if np.count_nonzero(wrong) + len(found) > MOST_UNUSABLE:
            raise TooLargeError(f"more than {MOST_UNUSABLE} of its entries cannot be used: {detail}")
        for row in np.flatnonzero(wrong).tolist():
            found.setdefault(row, (reason, detail))

    types = heads.types
    refuse(~valid(heads.header), "it has no header")
    unknown = (types < 0) | (types >= len(_MESSAGE_TYPES))
    refuse(unknown, "its message type is not known", Reason.UNKNOWN_MESSAGE_TYPE)
    event_set = valid(heads.decoded["event"])
    for message_type, name in enumerate(_EVENTS):
        present = (
            event_set & valid(heads.event(message_type)) if heads.may_hold(name) else np.zeros(len(types), np.bool_)
        )
        refuse((types == message_type) & ~present, f"its header announces a {name} that it lacks")
        refuse((types != message_type) & present, f"it holds a {name} that its header does not name")
    operations = heads.event(pb.DML).field("dmlEventType").to_numpy()
    unknown = (types == pb.DML) & ((operations < pb.INSERT) | (operations > pb.DELETE))
    refuse(unknown, "its DML type is not known", Reason.UNKNOWN_OPERATION)
    unreadable = np.fromiter((group is None for group in heads.groups), np.bool_, len(heads.groups))
    if unreadable.any():
        refuse(unreadable[heads.lists], "its columns cannot be read")
    for name, texts in _texts(heads):
        refuse(not_utf8(texts), f"its {name} is not UTF-8")
    for pairs in _pairs(heads):
        refuse(_bad_pairs(pairs), "its properties are not UTF-8")
    for name, numbers in _numbers(heads):
        refuse(numbers.to_numpy() > _LARGEST, f"its {name} is beyond 63 bits")
    return found


def _numbers(heads: _Heads) -> Iterator[tuple[str, pa.Array]]:
    """Yield every number of an entry that may be beyond 63 bits, by the name of its field."""
    yield "position", heads.header.field("position")
    yield "seqId", heads.header.field("seqId")
    if heads.may_hold("checkpointEvent"):
        yield "checkpoint position", heads.event(pb.CHECKPOINT).field("position")


def _texts(heads: _Heads) -> list[tuple[str, pa.Array]]:
    """Return every text of an entry, by the name of its field."""
    places: list[tuple[pa.StructArray, tuple[str, ...]]] = [
        (heads.header, ("fileName", "gtid", "schemaName", "tableName")),
        (heads.event(pb.BEGIN), ("transactionId",)),
        (heads.event(pb.COMMIT), ("transactionId",)),
    ]
    if heads.may_hold("ddlEvent"):
        places.append((heads.event(pb.DDL), ("schemaName", "sql")))
    if heads.may_hold("checkpointEvent"):
        places.append((heads.event(pb.CHECKPOINT), ("syncedGtid", "fileName")))
    return [(name, struct.field(name)) for struct, names in places for name in names]


def _pairs(heads: _Heads) -> Iterator[pa.ListArray]:
    yield heads.header.field("properties")
    if heads.may_hold("properties"):
        yield heads.decoded["event"].field("properties")


def _bad_pairs(pairs: pa.ListArray) -> Bools:
    wrong = np.zeros(len(pairs), np.bool_)
    if not len(pairs.values):
        return wrong
    owners = np.repeat(np.arange(len(pairs)), np.diff(offsets_of(pairs)))
    for name in ("key", "value"):
        wrong[owners[not_utf8(pairs.values.field(name))]] = True
    return wrong


def _text(values: pa.Array, *, keep_empty: Bools | None = None) -> pa.Array:
    """Return text from bytes known to be UTF-8, null where it is empty (unless ``keep_empty``)."""
    sent = np.diff(offsets_of(values)) > 0
    return masked(values, pa.string(), sent if keep_empty is None else sent | keep_empty)


def _signed(values: pa.Array, where: Bools | None = None) -> pa.Array:
    return pa.array(values.to_numpy().astype(np.int64), mask=None if where is None else ~where)


def _batch(heads: _Heads) -> tuple[pa.RecordBatch, dict[str, int]]:
    header, types = heads.header, heads.types
    codes = header.field("sourceType").to_numpy()
    source_types, unknown = _source_types(codes)
    begin = heads.event(pb.BEGIN)
    is_dml = types == pb.DML
    database = _text(header.field("schemaName"), keep_empty=is_dml)
    if np.any(types == pb.DDL):
        database = pc.coalesce(database, _text(heads.event(pb.DDL).field("schemaName")))
    schema = pa.nulls(len(types), pa.string())
    if np.any(has_schema := codes == pb.PGSQL):  # the name of its database is in no field
        nothing = pc.if_else(pa.array(is_dml), "", pa.scalar(None, pa.string()))
        schema, database = (
            pc.if_else(pa.array(has_schema), *pair) for pair in ((database, schema), (nothing, database))
        )
    thread = begin.field("threadId").to_numpy()
    columns = {
        "set_index": pa.array(heads.sets.astype(np.int32)),
        "entry_number": pa.array(heads.numbers.astype(np.int32)),
        "message_type": pa.array(_MESSAGE_TYPES).take(pa.array(types)),
        "source_type": source_types,
        "event_time": pa.array(header.field("timestamp").to_numpy().astype(np.int64) * 1_000_000).view(
            pa.timestamp("us", tz="UTC")
        ),
        "gtid": _text(header.field("gtid")),
        "transaction_id": pc.coalesce(
            _text(begin.field("transactionId")), _text(heads.event(pb.COMMIT).field("transactionId"))
        ),
        "thread_id": _signed(begin.field("threadId"), thread != 0),
        "server_id": _signed(header.field("serverId")),
        "seq_id": _signed(header.field("seqId")),
        "file_name": _text(header.field("fileName")),
        "position": _signed(header.field("position")),
        "database": database,
        "schema": schema,
        "table": _text(header.field("tableName"), keep_empty=is_dml),
        "rows": pa.array(heads.rows, mask=~is_dml),
        "payload": heads.payloads,
        "properties": _properties(heads),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES), unknown


def _of_columns(heads: _Heads) -> dict[str, int]:
    """Count fields in the columns of events that the protocol does not have, once for each event."""
    found: dict[str, int] = {}
    for number, group in enumerate(heads.groups):
        for what in () if group is None else group.unknown:
            found[what] = found.get(what, 0) + int(np.count_nonzero(heads.lists == number))
    return found


def _of_places(batch: pa.RecordBatch) -> dict[str, int]:
    """Count the entries of a PostgreSQL whose file name tells no place, so that positions alone order them."""
    of_postgresql = pc.equal(batch["source_type"], POSTGRESQL)
    if not pc.any(of_postgresql).as_py():
        return {}
    names = pc.value_counts(batch["file_name"].filter(of_postgresql).drop_null()).to_pylist()
    count = sum(one["counts"] for one in names if not has_place(one["values"]))
    return {"fileName without a place": count} if count else {}


def _source_types(codes: npt.NDArray[np.int32]) -> tuple[pa.Array, dict[str, int]]:
    """Return names of source types; an unknown type keeps its number as text and is counted."""
    if ((codes >= 0) & (codes < len(_SOURCE_TYPES))).all():
        return pa.array(_SOURCE_TYPES).take(pa.array(codes)), {}
    encoded = pa.array(codes).dictionary_encode()
    distinct, known = encoded.dictionary.to_pylist(), dict(enumerate(_SOURCE_TYPES))
    names = pa.array([known.get(code, str(code)) for code in distinct], pa.string())
    counts = np.bincount(encoded.indices, minlength=len(distinct)).tolist()
    unknown = {f"source type {code}": counts[place] for place, code in enumerate(distinct) if code not in known}
    return names.take(encoded.indices), unknown


def _properties(heads: _Heads) -> pa.MapArray:
    header, types = heads.header, heads.types
    properties = Properties(len(types))
    last = header.field("isLast")
    properties.add("isLast", last, np.asarray(last))
    index, version = header.field("eventIndex"), header.field("version")
    properties.add("eventIndex", index, index.to_numpy() != 0)
    properties.add("version", version, version.to_numpy() != 1)
    if np.any(types == pb.DDL):
        ddl, is_ddl = heads.event(pb.DDL), types == pb.DDL
        properties.add("sql", _text(ddl.field("sql"), keep_empty=is_ddl), is_ddl)
        properties.add("executionTime", ddl.field("executionTime"), is_ddl)
    if np.any(types == pb.HEARTBEAT):
        properties.add("epoch", heads.event(pb.HEARTBEAT).field("epoch"), types == pb.HEARTBEAT)
    if np.any(types == pb.CHECKPOINT):
        event, is_checkpoint = heads.event(pb.CHECKPOINT), types == pb.CHECKPOINT
        for name in ("syncedGtid", "fileName"):
            properties.add(name, _text(event.field(name), keep_empty=is_checkpoint), is_checkpoint)
        for name in ("fakeGtid", "position"):
            properties.add(name, event.field(name), is_checkpoint)
    for pairs in _pairs(heads):
        properties.add_pairs(pairs)
    return properties.maps()


def _shapes(heads: _Heads, batch: pa.RecordBatch) -> dict[TableShape, int]:
    """Return the distinct shapes of the tables of DML entries, each with its first row, as they came."""
    rows = np.flatnonzero(heads.types == pb.DML)
    has_schema = pc.is_valid(batch["schema"].take(pa.array(rows)))
    _, first = joint_codes(pa.array(heads.tables[rows]), pa.array(heads.lists[rows]), has_schema)
    rows = rows[first]
    names = (batch[name].take(pa.array(rows)).to_pylist() for name in ("database", "schema", "table"))
    found: dict[TableShape, int] = {}
    for database, schema, table, number, row in zip(*names, heads.lists[rows].tolist(), rows.tolist(), strict=True):
        if (group := heads.groups[number]) is not None:
            found.setdefault(TableShape(TableId(database, schema or "", table), group.columns), row)
    return found


def _checkpoints(heads: _Heads) -> tuple[Checkpoint, ...]:
    """Return every CHECKPOINT that names a file; without a file there is no position, but in PostgreSQL's log."""
    if not heads.may_hold("checkpointEvent"):
        return ()
    event = heads.event(pb.CHECKPOINT)
    in_log = heads.header.field("sourceType").to_numpy() == pb.PGSQL
    found = []
    for row in np.flatnonzero(heads.types == pb.CHECKPOINT).tolist():
        names = {name: event.field(name)[row].as_py() for name in ("fileName", "position", "syncedGtid", "fakeGtid")}
        if names["fileName"] or (in_log[row] and names["position"]):
            gtids = names["syncedGtid"].decode() or None
            file_name, fake = names["fileName"].decode(), bool(names["fakeGtid"])
            found.append(Checkpoint(row, file_name, names["position"], gtids, fake))
    return tuple(found)
