"""Servers that fail over, and a task that reads their binlogs: what arrives in Kafka, and what is true.

Every server's binlog has every transaction, at positions of its own; one that was reset has those since then. A task tells one
binlog in order. When it stops, each Kafka partition may lack the last of what was told; it goes on at a transaction at or before
the first one that any of them lacks, from the same server, another one, or an old one for a while.

What comes in a Kafka partition is in entry sets, each with as many events as it likes: a set may begin and end in the middle of
transactions, and go over a restart or a failover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import cycle
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from tests.stages.streams import EPOCH, Delivered, Event

SLOTS = 16
"""Binlogs that can be told apart by their positions alone: no two have an event at one place."""


Names: TypeAlias = Literal["mysql", "mariadb", "none"]


@dataclass(frozen=True)
class Shape:
    """What stays the same in a history.

    ``names`` says how GTIDs are written (``mysql``, ``mariadb``, ``none``), ``broadcast`` that marks of transactions come in all
    Kafka partitions and not only in those with changes, ``clocks`` how many seconds each server is ahead, ``slow`` after how
    many transactions a clock goes on. ``earlier`` is the number of transactions that every MySQL server had before the topic
    began: the GTID sets of CHECKPOINTs name them, and no message does.
    """

    partitions: int = 1
    names: Names = "mysql"
    broadcast: bool = True
    clocks: tuple[int, ...] = (0, 0, 0)
    bases: tuple[int, ...] = (500, 10, 40)
    slow: int = 1
    earlier: int = 0

    @property
    def gtids(self) -> bool:
        return self.names != "none"


@dataclass(frozen=True)
class Write:
    """A transaction with a change in each of some Kafka partitions; ``origin`` is None for the present primary."""

    parts: tuple[int, ...]
    origin: int | None = None


@dataclass(frozen=True)
class Stop:
    """The task stops and goes on at a server's binlog.

    ``server`` None is the same one. ``back`` transactions are told again at least, ``lost`` events did not come in each Kafka
    partition. ``reset`` begins the binlog anew; ``first_old`` lets the server before tell its part again first.
    """

    server: int | None = None
    back: int = 0
    lost: tuple[int, ...] = ()
    reset: bool = False
    first_old: bool = False


@dataclass(frozen=True)
class Tell:
    """The task goes to a server's binlog and tells some transactions of it, both included."""

    server: int
    first: int
    last: int


Action = Write | Stop | Tell


@dataclass
class Binlog:
    server: int
    slot: int
    at: int
    places: dict[int, list[int]] = field(default_factory=dict)

    def hold(self, transaction: int, events: int) -> None:
        self.places[transaction] = [(self.at + place) * SLOTS + self.slot for place in range(events)]
        self.at += events


@dataclass
class Story:
    """What a history of a shape makes of the world: ``delivered`` and, as truth, ``events`` of all transactions in order."""

    shape: Shape
    delivered: list[Delivered] = field(default_factory=list)
    events: list[list[Event]] = field(default_factory=list)
    gtids: list[str | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    binlogs: dict[int, Binlog] = field(default_factory=dict)
    slots: int = 0
    primary: int = 0
    tick: int = 0
    session: dict[int, list[Delivered]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.binlogs[0] = self._begin(0, self.shape.bases[0])

    def act(self, action: Action) -> None:
        if isinstance(action, Write):
            self._write(action)
        elif isinstance(action, Tell):
            for number in range(action.first, action.last + 1):
                self._tell(self.binlogs[action.server], number)
        else:
            self._stop(action)

    def _write(self, write: Write) -> None:
        number, origin = len(self.events), self.primary if write.origin is None else write.origin
        changes = [Event((number, place + 1), "DML", part, 1) for place, part in enumerate(write.parts)]
        end = Event((number, len(changes) + 1), "COMMIT", None, 0)
        self.events.append([Event((number, 0), "BEGIN", None, 0), *changes, end])
        domain = 0 if self.shape.names == "mariadb" and write.origin is None else origin
        self.numbers[domain] = self.numbers.get(domain, self.shape.earlier) + 1
        names = {"mysql": f"server-{origin}:", "mariadb": f"{domain}-{origin}-", "none": ""}
        self.gtids.append(f"{names[self.shape.names]}{self.numbers[domain]}" if self.shape.gtids else None)
        self.times.append(number // self.shape.slow + self.shape.clocks[origin])
        self.origins.append(origin)
        for binlog in self.binlogs.values():
            binlog.hold(number, len(self.events[number]))
        self._tell(self.binlogs[self.primary], number)

    def _stop(self, stop: Stop) -> None:
        old = self.binlogs[self.primary]
        if stop.server is not None:
            self.primary = stop.server
        if self.primary not in self.binlogs:
            self.binlogs[self.primary] = self._begin(self.primary, self.shape.bases[self.primary])
            for number, events in enumerate(self.events):
                self.binlogs[self.primary].hold(number, len(events))
        now = self.binlogs[self.primary]
        if stop.reset and not any(stop.lost):
            now = self.binlogs[self.primary] = self._begin(self.primary, 4)
        floor = min(now.places, default=len(self.events))
        first = max(floor, len(self.events) - stop.back)
        for partition, lost in enumerate(stop.lost[: self.shape.partitions]):
            for one in self.session.get(partition, [])[-lost:] if lost else ():
                if (
                    one.event.identity[0] >= floor
                ):  # what no binlog has any more cannot be told: the task ends in an error
                    first = min(first, one.event.identity[0])
                    self.delivered.remove(one)
        self.session = {}
        if stop.first_old:
            self._again(old, first)
        self._again(now, first)

    def _again(self, binlog: Binlog, first: int) -> None:
        for number in range(first, len(self.events)):
            if number in binlog.places:
                self._tell(binlog, number)

    def _tell(self, binlog: Binlog, number: int) -> None:
        mine = sorted({event.partition for event in self.events[number] if event.partition is not None})
        for event, position in zip(self.events[number], binlog.places[number], strict=True):
            everyone: Sequence[int] = range(self.shape.partitions) if self.shape.broadcast else mine
            for partition in everyone if event.partition is None else [event.partition]:
                self.tick += 1
                time = EPOCH + timedelta(seconds=self.times[number])
                one = Delivered(
                    partition, self.tick, self.tick, event, self.origins[number] + 1, self.gtids[number], 1, position,
                    time, self.tick,
                )  # fmt: skip
                self.delivered.append(one)
                self.session.setdefault(partition, []).append(one)

    def _begin(self, server: int, at: int) -> Binlog:
        self.slots += 1
        return Binlog(server, self.slots, at)


def story(shape: Shape, actions: Sequence[Action]) -> Story:
    """Return what a history of actions makes of the world."""
    told = Story(shape)
    for action in actions:
        told.act(action)
    return told


def in_sets(told: Story, sizes: Sequence[Sequence[int]]) -> Story:
    """Return a story with several events in one set.

    ``sizes`` has for each Kafka partition the sizes of its sets, over and over. A set ends with its last event: it has the
    offset of that, and is of its window.
    """
    again = {partition: cycle(of) for partition, of in enumerate(sizes)}
    left = {partition: list[Delivered]() for partition in again}
    for one in told.delivered:
        left[one.partition].append(one)
    delivered: list[Delivered] = []
    for partition, mine in left.items():
        while mine:
            size = next(again[partition])
            together, mine = mine[:size], mine[size:]
            last = together[-1]
            delivered += (replace(one, offset=last.offset, tick=last.tick, entry=at) for at, one in enumerate(together))
    return replace(told, delivered=sorted(delivered, key=lambda one: (one.tick, one.entry)))


def has_mixed_sets(told: Story) -> bool:
    """Return whether a set of several events has those of two binlogs, or of transactions that another one had told."""
    tellers: dict[tuple[int, int], set[int]] = {}
    sets: dict[tuple[int, int], tuple[int, set[int]]] = {}
    for one in told.delivered:
        of = tellers.setdefault((one.partition, one.event.identity[0]), set())
        of.add(one.position % SLOTS)
        count, binlogs = sets.get((one.partition, one.offset), (0, set[int]()))
        sets[one.partition, one.offset] = (count + 1, binlogs | of)
    return any(count > 1 and len(binlogs) > 1 for count, binlogs in sets.values())


def has_several(told: Story) -> bool:
    """Return whether GTIDs of several servers come in sets of several events."""
    servers = {(one.gtid or "").replace("-", ":").rpartition(":")[0] for one in told.delivered}
    return len(servers) > 1 and any(one.entry > 0 for one in told.delivered)


def has_torn_sets(told: Story) -> bool:
    """Return whether a set has one transaction from two binlogs: nothing that is stored tells its parts apart."""
    parts: dict[tuple[int, int, int], set[int]] = {}
    for one in told.delivered:
        parts.setdefault((one.partition, one.offset, one.event.identity[0]), set()).add(one.position % SLOTS)
    return any(len(binlogs) > 1 for binlogs in parts.values())


@st.composite
def shapes(draw: st.DrawFn, *, gtids: bool) -> Shape:
    """A shape; without GTIDs all clocks agree, as nothing else would tell a binlog that was reset."""
    with_gtids: list[Names] = ["mysql", "mariadb"]
    names = st.sampled_from(with_gtids if gtids else list[Names](["none"]))
    ahead = st.sampled_from([0, 0, -3, 3]) if gtids else st.just(0)
    base = st.sampled_from([1, 4, 10, 12, 20, 100, 500])
    three = st.integers(1, 3)
    return Shape(
        draw(three), draw(names), draw(st.booleans()), draw(st.tuples(ahead, ahead, ahead)),
        draw(st.tuples(base, base, base)), draw(three) if gtids else 1, draw(st.sampled_from([0, 7])),
    )  # fmt: skip


def writes(partitions: int, *, gtids: bool) -> st.SearchStrategy[Write]:
    """Transactions; with GTIDs some are replicated from a server that is not the primary."""
    origin = st.sampled_from([None, None, None, None, 0, 1, 2]) if gtids else st.none()
    return st.builds(Write, st.lists(st.integers(0, partitions - 1), min_size=1, max_size=3).map(tuple), origin)


def stops(partitions: int, *, gtids: bool) -> st.SearchStrategy[Stop]:
    """Stops of the task; without GTIDs another server goes on exactly where the one before ended."""
    lost = st.lists(st.integers(0, 4), min_size=partitions, max_size=partitions).map(tuple)
    any_server, back = st.sampled_from([None, 0, 1, 2]), st.integers(0, 3)
    if gtids:
        return st.builds(Stop, any_server, back, lost, st.booleans(), st.booleans())
    return st.one_of(st.builds(Stop, st.none(), back, lost), st.builds(Stop, any_server, reset=st.booleans()))


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=3)
"""Sizes of the sets of a Kafka partition, over and over."""


@st.composite
def stories(draw: st.DrawFn, *, gtids: bool) -> Story:
    """A history with up to twelve actions, mostly transactions, whose events come one or several to a set."""
    shape = draw(shapes(gtids=gtids))
    written = writes(shape.partitions, gtids=gtids)
    actions = draw(st.lists(st.one_of(written, written, stops(shape.partitions, gtids=gtids)), max_size=12))
    everywhere = Write(tuple(range(shape.partitions)))
    told: list[Action] = [draw(written)]
    for action in actions:
        told.append(action)
        if not gtids and isinstance(action, Stop) and (action.server is not None or action.reset):
            told.append(everywhere)  # what another server tells before it writes itself looks like the first one's
    several = st.lists(SIZES, min_size=shape.partitions, max_size=shape.partitions)
    return in_sets(story(shape, told), draw(st.one_of(st.just([[1]] * shape.partitions), several)))
