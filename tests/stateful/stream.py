"""A database, its servers and the task that tells their binlogs: what a stateful test writes to, and the truth that it knows.

It begins as the source of the flow tests and adds what happens to one in years: restarts that read the binlog again, failovers,
copies by transport, statements, and messages that are damaged before anybody has read them. Every change knows its copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from google.protobuf.message import DecodeError

from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages
from tests.flows.source import (
    DATABASE,
    Change,
    Contents,
    Ddl,
    Dml,
    Message,
    Position,
    Source,
    dml_event,
    folded,
    write_capture,
)
from tests.flows.source_tables import Table

SLOTS = 16
"""Binlogs that can be told apart by their positions alone: no two have an event at one place."""

FIRST_FILES = (9, 3, 40, 12)
"""The number of the first binlog file of each server: positions of a later primary may be lower or higher."""

_SECOND = timedelta(seconds=1)

Spoilt: TypeAlias = Literal["drop", "garbage", "half", "null"]


@dataclass
class Copy:
    """An entry set that holds a change, as it lies in Kafka."""

    partition: int
    first_offset: int
    last_offset: int
    arrived: datetime
    damaged: bool = False


@dataclass
class Effect(Change):
    """A change, or the emptying of a table (``truncate``), with its transaction and all its copies."""

    transaction: int = -1
    copies: list[Copy] = field(default_factory=list)

    @property
    def intact(self) -> Copy | None:
        """The first copy that can be used."""
        return next((one for one in self.copies if not one.damaged), None)

    @property
    def lost(self) -> bool:
        """Whether it was sent, and nothing of it can be used."""
        return bool(self.copies) and self.intact is None


@dataclass
class _Event:
    """An event of a transaction: what each Kafka partition is told, and what it does."""

    kind: pb.MessageType
    bodies: dict[int, pb.Event]
    effects: dict[int, list[Effect]] = field(default_factory=dict)
    names: tuple[str, str] | None = None
    """The database and the table of rows."""


@dataclass
class _Transaction:
    number: int
    gtid: str
    at: datetime
    events: list[_Event]


@dataclass
class _Binlog:
    """Where each event of each transaction stands in one server's binlog."""

    server: int
    file: int
    offset: int = 0
    places: dict[tuple[int, int], Position] = field(default_factory=dict)

    def place(self, transaction: int, event: int) -> Position:
        key = (transaction, event)
        if key not in self.places:
            self.offset += SLOTS
            self.places[key] = (self.file, self.offset + self.server)
        return self.places[key]


class Stream(Source):
    """The source as it goes on; ``transactions`` are in the order in which they were committed."""

    def __init__(
        self, tables: Iterable[Table], start: datetime, *, partitions: int, seed: int, fragmented: float, gtids: bool
    ) -> None:
        lags = [0.2, 2.5, 14.0][:partitions]
        super().__init__(tables, start, lags=lags, random=Random(seed), fragmented=fragmented)
        self.gtids = gtids
        self.now = start + 5 * _SECOND
        self.effects: list[Effect] = []
        self.transactions: list[_Transaction] = []
        self.dropped: set[str] = set()
        self.added: set[str] = set()
        self.damages = self.breaks = self.torn = 0
        self.moved = False
        self._binlogs = {0: _Binlog(0, FIRST_FILES[0])}
        self._server = 0
        self._unsent: set[int] = set()
        self._published = 0
        self._files = 0

    @property
    def servers(self) -> int:
        """How many servers have been primaries or were read."""
        return len(self._binlogs)

    @property
    def living(self) -> list[Table]:
        """The tables that can be written to."""
        return [table for name, table in self.tables.items() if name not in self.dropped]

    def write(self, events: Sequence[Dml | Ddl], *, flush: bool, emptied: Collection[str] = ()) -> None:
        """Commit a transaction now; tables that its statements empty are named."""
        number = len(self.transactions)
        routes = [self._routes(event) for event in events]
        everyone = list(range(self.partitions))
        mine = sorted({lane for route in routes for lane in route}) or everyone
        if any(isinstance(event, Ddl) for event in events):
            mine = everyone
        begin = pb.Event(beginEvent=pb.BeginEvent(threadId=44))
        done = [_Event(pb.BEGIN, dict.fromkeys(mine, begin))]
        gtid = f"{_uuid(self._server)}:{self._next_number()}" if self.gtids else ""
        done += [
            self._statement(event, number, gtid, emptied) if isinstance(event, Ddl) else self._rows(event, route, number, gtid)
            for event, route in zip(events, routes, strict=True)
        ]  # fmt: skip
        commit = pb.Event(commitEvent=pb.CommitEvent(transactionId=str(number)))
        done.append(_Event(pb.COMMIT, dict.fromkeys(mine, commit)))
        self.transactions.append(_Transaction(number, gtid, self.now, done))
        self._tell(number)
        if flush:
            self.send_all()

    def later(self, seconds: float) -> None:
        """Let time go on."""
        self.now += seconds * _SECOND

    def rotate(self) -> None:
        """Go on in the next file of the present binlog."""
        binlog = self._binlogs[self._server]
        binlog.file, binlog.offset = binlog.file + 1, 0

    def vouch(self, lanes: Iterable[int] | None = None) -> None:
        """Send a CHECKPOINT into Kafka partitions (None: all), behind all that waits there."""
        chosen = list(range(self.partitions) if lanes is None else lanes)
        if not self.transactions:
            return
        if lanes is None:
            self.send_all()
        last = len(self.transactions) - 1
        position = self.end_of(last)
        event = pb.CheckpointEvent(syncedGtid=self._synced_set(), fileName=_file(position[0]), position=position[1])
        for lane in chosen:
            self.send_lane(lane)
            header = self._entry_header(pb.CHECKPOINT, position, "", self.now)
            entry = pb.Entry(header=header, event=pb.Event(checkpointEvent=event))
            self._lanes[lane].waiting.append((entry.SerializeToString(), []))
            self.send_lane(lane)

    def send_all(self) -> None:
        """Send what waits in all Kafka partitions."""
        for lane in range(self.partitions):
            self.send_lane(lane)
        self._unsent.clear()

    def send_lane(self, number: int, *, only: int | None = None, times: Sequence[datetime] | None = None) -> None:
        """Send what waits in a Kafka partition as one set; with ``only`` no more than its first fragments, of three."""
        lane = self._lanes[number]
        if not lane.waiting:
            return
        effects = [effect for _, found in lane.waiting for effect in found]
        before = len(self.messages)
        if only is not None:
            times = [max(lane.clock, self.now + lane.lag) + 0.03 * place * _SECOND for place in range(3)]
        self._send(number, self.now, times=times)
        if only is not None:
            gone = len(self.messages) - before - only
            del self.messages[len(self.messages) - gone :]
            lane.offset -= gone
            lane.sequence -= gone
            return
        sent = self.messages[before:]
        copy = Copy(number, sent[0].offset, sent[-1].offset, lane.clock)
        for effect in effects:
            assert isinstance(effect, Effect)
            effect.copies.append(copy)

    def restart(self, *, back: int, torn: bool, server: int | None = None, renumber: bool = False) -> None:
        """Stop the task and let it go on: at the first transaction that was not sent whole, ``back`` more before it.

        It reads the binlog of ``server``, its own one if None. ``torn`` breaks an entry set off in the middle.
        """
        first = min(self._unsent, default=len(self.transactions))
        for number, lane in enumerate(self._lanes):
            if torn and lane.waiting and self.random.random() < 0.7:
                self.send_lane(number, only=self.random.choice((1, 2)))
                self.torn += 1
            lane.waiting.clear()
            if renumber:
                lane.sequence = 0
        self._unsent.clear()
        if server is not None and server != self._server:
            self.breaks += 1
            self._server = server
            self._binlogs.setdefault(server, _Binlog(server, FIRST_FILES[server]))
            for one in self.transactions:  # a replica has them all, in their order
                for event in range(len(one.events)):
                    self._place(one.number, event)
        for number in range(max(0, first - back), len(self.transactions)):
            self._tell(number)

    def repeat(self, lane: int) -> bool:
        """Deliver the last set of a Kafka partition once more, as transport does; whether there was one that is whole."""
        mine = [one for one in self.messages[self._published :] if one.partition == lane]
        start = len(mine) - 1
        while start >= 0 and _index(mine[start]) != 0:
            start -= 1
        if start < 0 or _total(mine[start]) != len(mine) - start:
            return False
        state = self._lanes[lane]
        for one in mine[start:]:
            self.messages.append(replace(one, offset=state.offset, time=state.clock))
            state.offset += 1
        copy = Copy(lane, state.offset - len(mine) + start, state.offset - 1, state.clock)
        for effect in self.effects:
            if any(old.partition == lane and old.last_offset == mine[-1].offset for old in effect.copies):
                effect.copies.append(copy)
        return True

    def damage(self, pick: int, kind: Spoilt) -> str | None:
        """Spoil a message that nobody has read yet; what was done. The first one of a Kafka partition is let be."""
        able = [
            place
            for place in range(self._published, len(self.messages))
            if self.messages[place].sequence > 1 and self.messages[place].value
        ]
        if not able:
            return None
        place = able[pick % len(able)]
        one = self.messages[place]
        value = one.value or b""
        for effect in self.effects:
            for copy in effect.copies:
                if copy.partition == one.partition and copy.first_offset <= one.offset <= copy.last_offset:
                    copy.damaged = True
        if kind == "drop":
            del self.messages[place]
        else:
            spoilt = {"garbage": b"\xff" * len(value), "half": value[: len(value) // 2], "null": None}
            self.messages[place] = replace(one, value=spoilt[kind])
        self.damages += 1
        return f"{kind} p{one.partition:02d} offset {one.offset}"

    def publish(self, folder: Path) -> None:
        """Add to the capture what was sent since the last time."""
        if len(self.messages) > self._published:
            write_capture(folder, self.messages[self._published :], name=f"part-{self._files:04d}")
            self._published, self._files = len(self.messages), self._files + 1

    def rows_after(self, holds: Callable[[Effect], bool]) -> Contents:
        """The rows of all tables after the effects of which ``holds`` is true, in the order of the binlog."""
        found: Contents = {}
        for name, table in self.tables.items():
            mine = [one for one in self.effects if one.table == name and holds(one)]
            ends = [place for place, one in enumerate(mine) if one.operation == "truncate"]
            rest = mine[ends[-1] + 1 :] if ends else mine
            found |= folded({name: table}, rest)
        return found

    def transaction_at(self, position: Position) -> int:
        """The transaction that ends at a position of a CHECKPOINT."""
        return next(
            number
            for binlog in self._binlogs.values()
            for (number, _), place in binlog.places.items()
            if place == position
        )

    def _statement(self, event: Ddl, number: int, gtid: str, emptied: Collection[str]) -> _Event:
        body = pb.Event(ddlEvent=pb.DDLEvent(schemaName=DATABASE, sql=event.sql, executionTime=1))
        done = _Event(pb.DDL, dict.fromkeys(range(self.partitions), body))
        for name in emptied:
            self.rows[name].clear() if name in self.rows else None
            if name in self.bags:
                self.bags[name].clear()
            effect = Effect(name, "truncate", None, None, (0, 0), self.now, gtid, 0, 0, transaction=number)
            self.effects.append(effect)
            for lane in range(self.partitions):  # one copy is enough
                done.effects.setdefault(lane, []).append(effect)
        return done

    def _rows(self, event: Dml, route: Sequence[int], number: int, gtid: str) -> _Event:
        done = _Event(pb.DML, {}, names=event.table.sent_as or (DATABASE, event.table.name))
        for (before, after), lane in zip(event.rows, route, strict=True):
            self._apply(event.table, before, after)
            mine = done.effects.setdefault(lane, [])
            effect = Effect(
                event.table.name, event.operation, before, after, (0, 0), self.now, gtid, lane, len(mine), transaction=number
            )  # fmt: skip
            self.effects.append(effect)
            mine.append(effect)
        for lane, effects in done.effects.items():
            rows = [(one.before, one.after) for one in effects]
            done.bodies[lane] = dml_event(event.table, event.operation, rows)
        return done

    def _tell(self, number: int) -> None:
        """Let a transaction wait in its Kafka partitions, as the present server's binlog has it."""
        one = self.transactions[number]
        for place, event in enumerate(one.events):
            position = self._place(number, place)
            for lane in sorted(event.bodies):
                self._seq += 1
                header = self._entry_header(event.kind, position, one.gtid, one.at)
                if event.names:
                    header.schemaName, header.tableName = event.names
                entry = pb.Entry(header=header, event=event.bodies[lane])
                self._lanes[lane].waiting.append((entry.SerializeToString(), list(event.effects.get(lane, []))))
        self._unsent.add(number)

    def end_of(self, number: int) -> Position:
        """The position at which a transaction ends in the present server's binlog."""
        return self._place(number, len(self.transactions[number].events) - 1)

    def _place(self, number: int, event: int) -> Position:
        return self._binlogs[self._server].place(number, event)

    def _entry_header(self, kind: pb.MessageType, position: Position, gtid: str, at: datetime) -> pb.Header:
        return dts_messages.entry(
            kind, timestamp=int(at.timestamp()), serverId=77 + self._server, fileName=_file(position[0]),
            position=position[1], gtid=gtid, seqId=self._seq, isLast=True,
        ).header  # fmt: skip

    def _next_number(self) -> int:
        mine = f"{_uuid(self._server)}:"
        return 1 + sum(one.gtid.startswith(mine) for one in self.transactions)

    def _synced_set(self) -> str:
        counts: dict[str, int] = {}
        for one in self.transactions:
            if one.gtid:
                uuid, number = one.gtid.split(":")
                counts[uuid] = int(number)
        return ",".join(f"{uuid}:1-{number}" for uuid, number in counts.items())


def _uuid(server: int) -> str:
    return f"3e11fa47-71ca-11e1-9e33-c80aa94295{server:02d}"


def _file(number: int) -> str:
    return f"mysql-bin.{number}"


def _index(message: Message) -> int:
    return _envelope(message).index


def _total(message: Message) -> int:
    return _envelope(message).total


def _envelope(message: Message) -> pb.Envelope:
    """What a message says of its set; of one that was damaged, that there is no such set."""
    try:
        return pb.Envelope.FromString(message.value or b"\xff")
    except DecodeError:
        return pb.Envelope(index=0, total=1 << 20)
