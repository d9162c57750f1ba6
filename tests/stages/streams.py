"""A vendor's stream in memory: transactions of servers that fail over, read again after restarts, spread over Kafka partitions.

The truth is the order in which transactions were committed; the stream is what a task delivers of it, under offsets of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import strategies as st

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """One binlog event: ``identity`` is its place in the truth, the same wherever a server tells it."""

    identity: tuple[int, int]
    kind: str
    partition: int | None
    rows: int


@dataclass(frozen=True)
class Delivered:
    """An event as an entry of a set in one Kafka partition; ``offset`` is the last of the set, ``entry`` its place there."""

    partition: int
    offset: int
    tick: int
    event: Event
    server: int
    gtid: str | None
    file: int
    position: int
    time: datetime
    sequence: int
    entry: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.offset, self.entry


@dataclass
class Server:
    """Where a server's binlog stands. No two binlogs of a stream have an event at the same place."""

    number: int
    file: int
    position: int
    binlog: int = 0

    def advance(self, by: int) -> tuple[int, int]:
        self.position += by
        return self.file, self.position * 64 + self.binlog


@dataclass
class Stream:
    """Delivers events and remembers the truth."""

    partitions: int
    broadcast: bool
    gtids: bool
    delivered: list[Delivered] = field(default_factory=list)
    truth: list[list[Event]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    tick: int = 0

    def send(self, event: Event, server: int, gtid: str, at: tuple[int, int], time: datetime) -> None:
        everyone = range(self.partitions) if self.broadcast else self._touched(event)
        targets = [event.partition] if event.partition is not None else list(everyone)
        for partition in targets:
            self.tick += 1
            offset = self.offsets.get(partition, 0)
            self.offsets[partition] = offset + 1
            self.delivered.append(
                Delivered(
                    partition, offset, self.tick, event, server, gtid if self.gtids else None, *at, time, offset + 1
                )
            )

    def _touched(self, event: Event) -> Sequence[int]:
        mine = {one.partition for one in self.truth[event.identity[0]] if one.partition is not None}
        return sorted(mine)


Written = tuple[Event, int, str, tuple[int, int], datetime]


@st.composite
def streams(draw: st.DrawFn, *, gtids: bool, failovers: bool, broadcast: bool = True) -> Stream:
    """A stream of some transactions with restarts (A B A B C), and failovers to servers with binlogs of their own."""
    stream = Stream(draw(st.integers(1, 3)), broadcast, gtids)
    server = Server(1, draw(st.integers(1, 3)), 100)
    numbers: dict[int, int] = {1: 1}
    log: list[Written] = []
    servers = 1
    for number in range(draw(st.integers(1, 8))):
        action = draw(st.sampled_from(["go on", "go on", "restart", "failover"] if failovers else ["go on", "restart"]))
        if action == "failover" and number:
            servers += draw(st.integers(0, 1)) if servers > 1 else 1
            now = server.number
            target = draw(st.sampled_from([one for one in range(1, servers + 1) if one != now]))
            again = draw(st.integers(0, min(3, number))) if gtids else 0
            server = Server(target, draw(st.integers(1, 9)), draw(st.integers(1, 5)) * 100, server.binlog + 1)
            numbers.setdefault(target, 1)
            log = _told_again(stream, log, server, again)
        elif action == "restart" and log:
            for written in log[draw(st.integers(0, len(log) - 1)) :]:
                stream.send(*written)
        events = [Event((number, 0), "BEGIN", None, 0)]
        for place in range(draw(st.integers(1, 3))):
            events.append(
                Event((number, place + 1), "DML", draw(st.integers(0, stream.partitions - 1)), draw(st.integers(1, 3)))
            )
        events.append(Event((number, len(events)), "COMMIT", None, 0))
        stream.truth.append(events)
        gtid = f"server-{server.number}:{numbers[server.number]}"
        numbers[server.number] += 1
        time = EPOCH + timedelta(seconds=10 * number)
        for event in events:
            written = (event, server.number, gtid, _next(server, draw), time)
            log.append(written)
            stream.send(*written)
    return stream


def _next(server: Server, draw: st.DrawFn) -> tuple[int, int]:
    if draw(st.integers(0, 9)) == 0:
        server.file, server.position = server.file + 1, 4
    return server.advance(draw(st.integers(1, 50)))


def _told_again(stream: Stream, log: list[Written], server: Server, transactions: int) -> list[Written]:
    """The last transactions as another server's binlog has them: same GTIDs, positions of its own."""
    wanted = sorted({event.identity[0] for event, *_ in log})[-transactions:] if transactions else []
    again: list[Written] = []
    for event, origin, gtid, _, time in log:
        if event.identity[0] in wanted:
            again.append((event, origin, gtid, server.advance(7), time))
    for written in again:
        stream.send(*written)
    return again


def batches(delivered: Sequence[Delivered]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Entries (the columns that identity needs) and their sets, one row each, in offset order."""
    rows = sorted(delivered, key=lambda one: one.place)
    entries = pa.RecordBatch.from_pydict(
        {
            "set_index": pa.array(range(len(rows)), pa.int32()),
            "message_type": pa.array([one.event.kind for one in rows], pa.string()),
            "source_type": pa.array(["MYSQL"] * len(rows), pa.string()),
            "event_time": pa.array([one.time for one in rows], pa.timestamp("us", tz="UTC")),
            "gtid": pa.array([one.gtid for one in rows], pa.string()),
            "server_id": pa.array([one.server for one in rows], pa.int64()),
            "seq_id": pa.array([None] * len(rows), pa.int64()),
            "file_name": pa.array([f"bin.{one.file:06d}" for one in rows], pa.string()),
            "position": pa.array([one.position for one in rows], pa.int64()),
        }
    )
    sets = pa.RecordBatch.from_pydict(
        {
            "last_offset": pa.array([one.offset for one in rows], pa.int64()),
            "shard": pa.array([None] * len(rows), pa.string()),
        }
    )
    return entries, sets


def stored(delivered: Sequence[Delivered]) -> pa.Table:
    """Rows of the lake's ``entries``, as far as identity reads them."""
    entries, sets = batches(delivered)
    rows = sorted(delivered, key=lambda one: one.place)
    count = len(rows)
    return pa.table(
        {
            "last_offset": sets["last_offset"],
            "entry_number": pa.array([one.entry for one in rows], pa.int32()),
            **{name: entries[name] for name in ("message_type", "event_time", "gtid", "file_name", "position")},
            "database": pa.array(["db"] * count, pa.string()),
            "schema": pa.array([None] * count, pa.string()),
            "table": pa.array(["t"] * count, pa.string()),
            "rows": pa.array([one.event.rows if one.event.kind == "DML" else None for one in rows], pa.int32()),
            "shard": sets["shard"],
            "sequence": pa.array([one.sequence for one in rows], pa.int64()),
        }
    )
