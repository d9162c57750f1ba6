"""A vendor's task and the servers it reads: transactions with GTIDs and positions become messages of a topic.

Servers fail over, fail back and begin their binlogs anew; the task begins again and tells transactions a second time. Every
server has every transaction, at positions of its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from dts_assets.wire.format import Checkpoint
from tests.stages.streams import Delivered, Event
from tests.year.topic import Topic

_TOLD_AGAIN = 30
"""The most transactions that a task tells again."""

_LONGEST_FILE = 1_000_000


@dataclass(frozen=True)
class Transaction:
    """A transaction of a server, with the partitions that its rows go to; a statement has none."""

    number: int
    origin: int
    of_origin: int
    parts: tuple[int, ...]
    time: datetime

    @property
    def events(self) -> list[Event]:
        if not self.parts:
            return [Event((self.number, 0), "DDL", None, 0)]
        rows = [Event((self.number, place), "DML", part, 1) for place, part in enumerate(self.parts, start=1)]
        end = Event((self.number, len(rows) + 1), "COMMIT", None, 0)
        return [Event((self.number, 0), "BEGIN", None, 0), *rows, end]


@dataclass
class Binlog:
    """Where a server's binlog stands, and where the last transactions are in it."""

    file: int
    position: int
    places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def hold(self, transaction: Transaction) -> None:
        places = []
        for _ in transaction.events:
            self.position += 50
            if self.position > _LONGEST_FILE:
                self.file, self.position = self.file + 1, 4
            places.append((self.file, self.position))
        self.places[transaction.number] = places
        self.places.pop(transaction.number - _TOLD_AGAIN, None)


@dataclass
class Task:
    """Writes to a topic. ``stamps`` is how far its clock is ahead, ``source_stamps`` how far those of the servers are."""

    topic: Topic
    random: Random
    stamps: timedelta = timedelta()
    source_stamps: timedelta = timedelta()
    silent: set[int] = field(default_factory=set)
    primary: int = 0
    binlogs: dict[int, Binlog] = field(default_factory=lambda: {0: Binlog(3, 1000)})
    numbers: dict[int, int] = field(default_factory=lambda: {0: 0})
    told: deque[Transaction] = field(default_factory=lambda: deque(maxlen=_TOLD_AGAIN))
    count: int = 0
    sent: int = 0

    def write(self, now: datetime) -> None:
        """Commit a transaction at the primary, and tell it."""
        chosen = [self.random.randrange(len(self.topic.logs)) for _ in range(self.random.randint(1, 3))]
        parts = () if self.random.random() < 0.02 else tuple(one for one in chosen if one not in self.silent)
        if chosen and not parts and self.random.random() < 0.9:
            return
        self.numbers[self.primary] += 1
        self.count += 1
        one = Transaction(self.count, self.primary, self.numbers[self.primary], parts, now + self.source_stamps)
        for binlog in self.binlogs.values():
            binlog.hold(one)
        self.told.append(one)
        self._tell(one, now)

    def mark(self, now: datetime) -> None:
        """Send a CHECKPOINT to every partition."""
        binlog = self.binlogs[self.primary]
        binlog.position += 1
        synced = ",".join(f"{_name(one)}:1-{last}" for one, last in sorted(self.numbers.items()) if last)
        checkpoint = Checkpoint(0, f"bin.{binlog.file:06d}", binlog.position, synced or None)
        at = (binlog.file, binlog.position)
        event = Event((self.count, 99), "CHECKPOINT", None, 0)
        for partition in self._heard():

            def entries(offset: int, partition: int = partition) -> tuple[Delivered, ...]:
                return (Delivered(partition, offset, 0, event, self.primary + 1, None, *at, now, 0),)

            self.topic.send(partition, now + self.stamps, now, entries=entries, checkpoint=checkpoint)

    def late(self, partition: int, now: datetime, by: timedelta) -> None:
        """Send a message with another time than now."""
        stamps, self.stamps = self.stamps, self.stamps - by
        silent, self.silent = self.silent, set(range(len(self.topic.logs))) - {partition}
        self.mark(now)
        self.stamps, self.silent = stamps, silent

    def begin_again(self, now: datetime, back: int) -> None:
        """Tell the last transactions a second time."""
        binlog = self.binlogs[self.primary]
        for one in list(self.told)[-back:] if back else []:
            if one.number in binlog.places:
                self._tell(one, now)

    def fail_over(self, now: datetime, server: int, back: int) -> None:
        """Go on at another server's binlog, and tell its last transactions."""
        if server not in self.binlogs:
            self.binlogs[server] = Binlog(self.random.randint(1, 9), self.random.randint(4, 90) * 1000)
            self.numbers[server] = 0
            for one in self.told:
                self.binlogs[server].hold(one)
        self.primary = server
        self.begin_again(now, back)

    def reset(self) -> None:
        """Begin the primary's binlog anew."""
        self.binlogs[self.primary] = Binlog(1, 4)

    def move(self, topic: Topic) -> None:
        """Write to another topic from now on."""
        self.topic, self.silent = topic, set()

    def _heard(self) -> list[int]:
        return [number for number in range(len(self.topic.logs)) if number not in self.silent]

    def _tell(self, one: Transaction, now: datetime) -> None:
        gtid, placed = f"{_name(one.origin)}:{one.of_origin}", self.binlogs[self.primary].places[one.number]
        for partition in self._heard():
            mine = [pair for pair in zip(one.events, placed, strict=True) if pair[0].partition in (None, partition)]

            def entries(
                offset: int, mine: list[tuple[Event, tuple[int, int]]] = mine, partition: int = partition
            ) -> tuple[Delivered, ...]:
                return tuple(
                    Delivered(partition, offset, 0, event, one.origin + 1, gtid, *at, one.time, 0, number)
                    for number, (event, at) in enumerate(mine)
                )

            parts = self.random.choice((1, 1, 1, 1, 1, 1, 2, 3))
            self.topic.send(
                partition, now + self.stamps, now, entries=entries, parts=parts, marker=self.random.random() < 0.05
            )
            self.sent += 1


def _name(server: int) -> str:
    return f"{server:08x}-71ca-11e1-9e33-c80aa9429562"
