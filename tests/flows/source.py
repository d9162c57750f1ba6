"""A source database in memory and its subscription: the oracle of the flow tests.

Values are kept as Python values in plain dicts and encoded with protobuf's own classes, a value at a time. Nothing of the
decoder, of the lake or of the emulator is used here, so that none of their mistakes can be shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.dts_messages import SERVER
from tests.flows.source_tables import ABSENT, Field, Row, Table

Position: TypeAlias = tuple[int, int]
"""Binlog file number and offset in it."""

Contents: TypeAlias = dict[str, dict[tuple[Any, ...], Row]]
"""Current rows by table and key."""

DATABASE: Final = "bank"


@dataclass(frozen=True)
class Dml:
    """One rows event; a row is its before and after image, None where the operation has none."""

    table: Table
    rows: Sequence[tuple[Row | None, Row | None]]

    @property
    def operation(self) -> str:
        before, after = self.rows[0]
        return "insert" if before is None else "delete" if after is None else "update"


@dataclass(frozen=True)
class Ddl:
    """A statement. Columns are added to the model's tables by whoever sends it."""

    sql: str


@dataclass
class Change:
    """A row change and where it went; offsets and ``arrived`` are those of its set's first and last message."""

    table: str
    operation: str
    before: Row | None
    after: Row | None
    position: Position
    event_time: datetime
    gtid: str
    partition: int
    row_number: int
    first_offset: int = -1
    last_offset: int = -1
    arrived: datetime = datetime.min


@dataclass(frozen=True)
class Message:
    """A Kafka message."""

    partition: int
    offset: int
    time: datetime
    value: bytes | None
    sequence: int
    source_set: str = ""
    """The set of a TDSQL that sent it."""


@dataclass(frozen=True)
class Checkpoint:
    """A CHECKPOINT that was sent."""

    partition: int
    time: datetime
    position: Position


@dataclass
class _Lane:
    """One Kafka partition of the producer: what waits to be sent, and its clock."""

    lag: timedelta
    clock: datetime
    offset: int
    sequence: int = 0
    waiting: list[tuple[bytes, list[Change]]] = field(default_factory=list)


class Source:
    """A database with tables, and the task that sends its binlog into Kafka partitions."""

    def __init__(
        self,
        tables: Iterable[Table],
        start: datetime,
        *,
        lags: Sequence[float] = (0.2, 0.4),
        random: Random | None = None,
        fragmented: float = 0.0,
    ) -> None:
        self.tables = {table.name: table for table in tables}
        self.random = random or Random(7)
        self.fragmented = fragmented
        self.rows: Contents = {name: {} for name in self.tables}
        self.bags: dict[str, list[Row]] = {name: [] for name, table in self.tables.items() if not table.keys}
        self.messages: list[Message] = []
        self.changes: list[Change] = []
        self.checkpoints: list[Checkpoint] = []
        self.contents: dict[Position, Contents] = {}
        self.statement_lanes: Iterable[int] | None = None
        """The Kafka partitions that get statements; None stands for all."""
        self._lanes = [
            _Lane(timedelta(seconds=lag), start, 1000 * number + 5) for number, lag in enumerate(lags)
        ]  # fmt: skip
        self._file, self._offset = 9, 4
        self._transactions = 0
        self._seq = 0
        self._committed: Position = (9, 4)
        self._synced = 0

    @property
    def partitions(self) -> int:
        return len(self._lanes)

    @property
    def committed(self) -> Position:
        """Where the last transaction ended."""
        return self._committed

    def rotate(self) -> None:
        """Go on in the next binlog file. 10 follows 9 as a number; as text it would come before it."""
        self._file, self._offset = self._file + 1, 4

    def transaction(
        self,
        at: datetime,
        *events: Dml | Ddl,
        split: Mapping[int, Sequence[datetime]] | None = None,
        flush: bool = True,
        checkpoint_inside: bool = False,
    ) -> Position:
        """Commit events at a time and send them; the position of the COMMIT.

        ``split`` cuts the set of a partition into fragments sent at these times. Without ``flush`` entries wait for more.
        """
        self._transactions += 1
        gtid = f"{SERVER}:{self._transactions}"
        routes = [self._routes(event) for event in events]
        lanes = sorted({lane for route in routes for lane in route}) or list(range(self.partitions))
        if split:  # a set that is cut holds nothing of an earlier transaction
            self._flush(at, split)
        self._control(lanes, at, gtid, pb.BEGIN, pb.Event(beginEvent=pb.BeginEvent(threadId=44)))
        for number, (event, route) in enumerate(zip(events, routes, strict=True)):
            if isinstance(event, Ddl):
                body = pb.Event(ddlEvent=pb.DDLEvent(schemaName=DATABASE, sql=event.sql, executionTime=1))
                chosen = range(self.partitions) if self.statement_lanes is None else self.statement_lanes
                self._control(chosen, at, gtid, pb.DDL, body)
                continue
            self._dml(event, route, at, gtid)
            if checkpoint_inside and number == 0:
                self.checkpoint(at)
        self._control(lanes, at, gtid, pb.COMMIT, pb.Event(commitEvent=pb.CommitEvent(transactionId=str(self._seq))))
        self._committed, self._synced = (self._file, self._offset), self._transactions
        self.contents[self._committed] = {name: dict(rows) for name, rows in self.rows.items()}
        for lane, times in (split or {}).items():
            self._send(lane, at, times=times)
        if flush:
            self.flush(at)
        return self._committed

    def checkpoint(self, at: datetime, *, lanes: Iterable[int] | None = None) -> None:
        """A CHECKPOINT into partitions, behind all that waits there."""
        position = self._committed
        synced = f"{SERVER}:1-{self._synced}" if self._synced else ""
        event = pb.CheckpointEvent(syncedGtid=synced, fileName=_file(position[0]), position=position[1])
        chosen = list(range(self.partitions) if lanes is None else lanes)
        self._flush(at, chosen)
        for lane in chosen:
            header = self._header(at, "", pb.CHECKPOINT, position)
            entry = pb.Entry(header=header, event=pb.Event(checkpointEvent=event))
            self._lanes[lane].waiting.append((entry.SerializeToString(), []))
            self._send(lane, at)
            self.checkpoints.append(Checkpoint(lane, self._lanes[lane].clock, position))

    def flush(self, at: datetime) -> None:
        """Send all that waits."""
        self._flush(at, range(self.partitions))

    def send(self, lane: int, at: datetime, entry: pb.Entry) -> Message:
        """Send an entry of the test's own making, alone and whole."""
        self._flush(at, [lane])
        self._lanes[lane].waiting.append((entry.SerializeToString(), []))
        self._send(lane, at)
        return self.messages[-1]

    def skip_offset(self, lane: int) -> None:
        """Leave out an offset, as the marker of a producer's transaction does."""
        self._lanes[lane].offset += 1

    def _routes(self, event: Dml | Ddl) -> list[int]:
        """The Kafka partition of each row of an event, by the key that it had before."""
        if isinstance(event, Ddl):
            return []
        images = [after if before is None else before for before, after in event.rows]
        return [event.table.partition(image, self.partitions) for image in images if image is not None]

    def _dml(self, event: Dml, route: Sequence[int], at: datetime, gtid: str) -> None:
        """One entry per Kafka partition, each counting its own rows."""
        self._offset += 100
        self._seq += 1
        position = (self._file, self._offset)
        pieces: dict[int, list[Change]] = {lane: [] for lane in sorted(set(route))}
        for (before, after), lane in zip(event.rows, route, strict=True):
            self._apply(event.table, before, after)
            name, number = event.table.name, len(pieces[lane])
            change = Change(name, event.operation, before, after, position, _whole(at), gtid, lane, number)
            self.changes.append(change)
            pieces[lane].append(change)
        for lane, changes in pieces.items():
            header = self._header(at, gtid, pb.DML, position)
            header.schemaName, header.tableName = event.table.sent_as or (DATABASE, event.table.name)
            rows = [(change.before, change.after) for change in changes]
            entry = pb.Entry(header=header, event=dml_event(event.table, event.operation, rows))
            self._lanes[lane].waiting.append((entry.SerializeToString(), changes))

    def _apply(self, table: Table, before: Row | None, after: Row | None) -> None:
        """What the database does to its own rows; a mistake in a test's history fails here."""
        if not table.keys:
            if before is not None:
                self.bags[table.name].remove(before)
            if after is not None:
                self.bags[table.name].append(after)
            return
        rows = self.rows[table.name]
        old: Row = {}
        if before is not None:
            old = rows.pop(table.key(before))
        if after is not None:
            new = {name: old[name] if value is ABSENT and old else value for name, value in after.items()}
            assert table.key(new) not in rows, f"duplicate key {table.key(new)} in {table.name}"
            rows[table.key(new)] = new

    def _control(self, lanes: Iterable[int], at: datetime, gtid: str, kind: pb.MessageType, body: pb.Event) -> None:
        self._offset += 31
        self._seq += 1
        entry = pb.Entry(header=self._header(at, gtid, kind, (self._file, self._offset)), event=body)
        for lane in lanes:
            self._lanes[lane].waiting.append((entry.SerializeToString(), []))

    def _header(self, at: datetime, gtid: str, kind: pb.MessageType, position: Position) -> pb.Header:
        return dts_messages.entry(
            kind, timestamp=int(at.timestamp()), serverId=77, fileName=_file(position[0]), position=position[1],
            gtid=gtid, seqId=self._seq, isLast=True,
        ).header  # fmt: skip

    def _flush(self, at: datetime, lanes: Iterable[int]) -> None:
        for lane in lanes:
            self._send(lane, at)

    def _send(self, number: int, at: datetime, *, times: Sequence[datetime] | None = None) -> None:
        """All that waits in a partition as one set, sometimes in fragments."""
        lane = self._lanes[number]
        if not lane.waiting:
            return
        lane.clock = max(lane.clock, at + lane.lag)
        data = dts_messages.entry_set(pb.Entry.FromString(entry) for entry, _ in lane.waiting)
        if times is None:
            fragments = self.random.randint(2, 5) if self.random.random() < self.fragmented else 1
            times = [lane.clock + timedelta(milliseconds=30 * index) for index in range(fragments)]
        changes = [change for _, found in lane.waiting for change in found]
        lane.waiting.clear()
        first = lane.offset
        for time, value in zip(times, dts_messages.fragments(data, len(times)), strict=True):
            lane.clock = max(lane.clock, time)
            lane.sequence += 1
            self.messages.append(Message(number, lane.offset, lane.clock, value, lane.sequence))
            lane.offset += 1
        for change in changes:
            change.first_offset, change.last_offset, change.arrived = first, lane.offset - 1, lane.clock


def dml_event(table: Table, operation: str, rows: Iterable[tuple[Row | None, Row | None]]) -> pb.Event:
    """The rows of one event as they are sent."""
    columns = [(one.name, one.kind.original_type, one.is_key) for one in table.columns]

    def image(row: Row | None) -> list[pb.Data]:
        return [] if row is None else [_value(column, row[column.name]) for column in table.columns]

    changes = [(image(before), image(after)) for before, after in rows]
    return dts_messages.dml_event(columns, changes, dts_messages.OPERATIONS[operation])


def _value(column: Field, value: Any) -> pb.Data:
    if value is None:
        return dts_messages.NULL
    return dts_messages.ABSENT if value is ABSENT else column.kind.send(value)


def _file(number: int) -> str:
    return f"mysql-bin.{number}"


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def folded(tables: Mapping[str, Table], changes: Iterable[Change]) -> Contents:
    """Current rows after some of the changes, applied one after the other as they stood in the binlog."""
    contents: Contents = {name: {} for name, table in tables.items() if table.keys}
    for change in changes:
        table = tables[change.table]
        if not table.keys:
            continue
        rows = contents[change.table]
        old: Row = {}
        if change.before is not None:
            old = rows.pop(table.key(change.before), {})
        if change.after is not None:
            new = {name: old.get(name) if value is ABSENT else value for name, value in change.after.items()}
            rows[table.key(new)] = new
    return with_all_columns(tables, contents)


def with_all_columns(tables: Mapping[str, Table], contents: Contents) -> Contents:
    """The rows of tables with a key, each with all columns that its table has in the end; NULL where one came later."""
    return {
        name: {key: {one.name: row.get(one.name) for one in table.columns} for key, row in contents[name].items()}
        for name, table in tables.items()
        if table.keys
    }


_CAPTURE = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def write_capture(folder: Path, messages: Iterable[Message], *, name: str = "part") -> Path:
    """Messages as a capture of two files, added to what the folder holds."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "topic": "subscription",
            "partition": one.partition,
            "offset": one.offset,
            "timestamp": one.time,
            "key": None,
            "value": one.value,
            "headers": [
                {"key": "ps", "value": str(one.sequence).encode()},
                *([{"key": "ShardId", "value": one.source_set.encode()}] if one.source_set else ()),
            ],
        }
        for one in sorted(messages, key=lambda one: (one.time, one.partition, one.offset))
    ]
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        pq.write_table(pa.Table.from_pylist(part, _CAPTURE), folder / f"{name}-{number}.parquet", row_group_size=100)
    return folder
