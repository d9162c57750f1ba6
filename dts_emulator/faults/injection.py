"""Seeded faults in a recorded topic, each with its place and the evidence that a reader must find.

A capture is read whole, some of its messages are dropped, repeated, damaged or moved, and the result is written as another
capture. Offsets are counted anew, so that it looks like a topic; the ``ps`` headers stay as the producer gave them, since they
are what shows a loss. Faults keep apart: no message takes part in two.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.errors import NoRoomForFault
from dts_emulator.faults.damage import FoundBy, entries_of, envelope_of, found_by, id_of, is_doubtful_copy
from dts_emulator.faults.recorded_topic import Recorded, Topic, check_folder, read_topic, write_topic
from dts_emulator.faults.transaction_marks import boundaries, gtids, has_checkpoint, open_transaction

PLAN_FILE = "faults.jsonl"
"""The plan, beside the Parquet files of the mutated capture."""

_MOST_REPEATED = 5
_MOST_BEHIND = 20
_MOST_REREAD = 8
_TRIES = 2_000


class Kind(StrEnum):
    """The kinds of faults."""

    DROP = "drop"
    """A message is gone."""
    REPEAT = "repeat"
    """Some messages come again behind later ones, under their own numbers, as when a producer sends twice."""
    REREAD = "reread"
    """The messages since the last CHECKPOINT come again under new numbers, as when a task restarts.

    Where a format has no CHECKPOINTs, some of the last messages come again.
    """
    FLIP = "flip"
    """One bit of a message's value is another."""
    TRUNCATE = "truncate"
    """The end of a message's value is gone."""
    REORDER = "reorder"
    """Two neighbours have changed places."""
    CUT = "cut"
    """An entry set comes in more fragments. Nothing is lost by it."""
    REPARTITION = "repartition"
    """A message stands in another partition."""
    END = "end"
    """The recording of a partition ends early."""


_FIRST = (Kind.END, Kind.CUT, Kind.REREAD)
"""The kinds that come first.

Messages behind an end take part in no fault, and new numbers are given before messages come with the numbers of others.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and where it shows in the mutated topic.

    ``first_offset`` and ``last_offset`` are the messages that are not as they were; of what is gone, the next message of the same
    shard, None at the end of the partition. ``time`` is the time of the first message that took part. ``from_partition`` and
    ``from_offset`` are where that stood before.
    """

    kind: Kind
    partition: int
    first_offset: int | None
    last_offset: int | None
    time: datetime
    found_by: FoundBy
    detail: str
    from_partition: int
    from_offset: int

    def json(self) -> str:
        """One line of the plan."""
        names = (
            "kind",
            "partition",
            "first_offset",
            "last_offset",
            "found_by",
            "detail",
            "from_partition",
            "from_offset",
        )
        return json.dumps({**{name: getattr(self, name) for name in names}, "time": self.time.isoformat()})


@dataclass(slots=True)
class _Done:
    """A fault before the offsets are known: the messages that show it, or the one that is gone."""

    kind: Kind
    origin: Recorded
    shown: Sequence[Recorded]
    gone: Recorded | None
    found_by: FoundBy | None
    detail: str
    origin_place: tuple[int, int] = field(init=False)
    partition: int = field(init=False)

    def __post_init__(self) -> None:
        self.origin_place = self.origin.place
        self.partition = (self.shown[0] if self.shown else self.origin).partition


def inject(
    capture: Path, out: Path, *, seed: int, kinds: Sequence[Kind], count: int, keep_offsets: bool = False
) -> tuple[Fault, ...]:
    """Write ``capture`` with ``count`` faults to ``out``, the plan beside it; kinds take turns in the order given.

    ``keep_offsets`` leaves a hole in the offsets where a message is gone, as compaction does. The same seed gives the same
    faults. Nothing has been written where an error is raised.

    Raises:
        NoRoomForFault: No message is left for another fault of some kind.
        NotACapture: ``capture`` is none, or ``out`` is not empty or lies in it.
    """
    check_folder(out, capture)
    topic = read_topic(capture)
    faults = inject_into(topic, seed=seed, kinds=kinds, count=count, keep_offsets=keep_offsets)
    write_topic(topic, out)
    (out / PLAN_FILE).write_text("".join(fault.json() + "\n" for fault in faults))
    return faults


def inject_into(
    topic: Topic, *, seed: int, kinds: Sequence[Kind], count: int, keep_offsets: bool = False
) -> tuple[Fault, ...]:
    """:func:`inject` for a topic in memory, which is changed: its messages that are gone stay in it."""
    injector = _Injector(topic, random.Random(seed))
    turns = [kinds[number % len(kinds)] for number in range(count)]
    for kind in sorted(turns, key=lambda one: _FIRST.index(one) if one in _FIRST else len(_FIRST)):
        injector.add(kind)
    topic.number(keep_offsets=keep_offsets)
    return tuple(sorted(injector.faults(), key=lambda one: (one.partition, one.first_offset or 0)))


class _Injector:
    """Does faults to a topic, one after the other."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self.topic = topic
        self._chance = chance
        self._touched: set[int] = set()
        self._done: list[_Done] = []
        self._ways: dict[Kind, Callable[[int, int], _Done | None]] = {
            Kind.DROP: self._drop, Kind.REPEAT: self._repeat, Kind.REREAD: self._reread, Kind.FLIP: self._flip,
            Kind.TRUNCATE: self._truncate, Kind.REORDER: self._reorder, Kind.CUT: self._cut,
            Kind.REPARTITION: self._repartition, Kind.END: self._end,
        }  # fmt: skip

    def add(self, kind: Kind) -> None:
        """Do one fault of a kind, somewhere.

        Raises:
            NoRoomForFault: No message was found that such a fault can be done to.
        """
        lanes = [number for number, lane in self.topic.partitions.items() if lane]
        for _ in range(_TRIES if lanes else 0):
            partition = self._chance.choice(lanes)
            done = self._ways[kind](partition, self._chance.randrange(len(self.topic.partitions[partition])))
            if done is not None:
                self._done.append(done)
                return
        raise NoRoomForFault(kind.value)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults that were done; offsets must have been counted."""
        for done in self._done:
            shown, found = list(done.shown), done.found_by
            if done.gone is not None:
                following = self.topic.next_of_shard(done.gone)
                shown = [] if following is None else [following]
                found = found or self._loss_shows(done.gone, following)
            partition, offset = done.origin_place
            offsets = [message.offset for message in shown]
            yield Fault(
                done.kind, done.partition, min(offsets, default=None), max(offsets, default=None),
                done.origin.timestamp, found or FoundBy.NOTHING, done.detail, partition, offset,
            )  # fmt: skip

    def _claim(self, messages: Sequence[Recorded]) -> bool:
        """Claim messages for a fault; return False if another fault has one of them or of their neighbours."""
        wanted: set[int] = set()
        for message in messages:
            lane = self.topic.partitions[message.partition]
            place = lane.index(message)
            wanted |= {id(one) for one in lane[max(0, place - 1) : place + 2]}
        if wanted & self._touched or any(message.gone for message in messages):
            return False
        self._touched |= wanted
        return True

    def _drop(self, partition: int, place: int) -> _Done | None:
        message = self.topic.partitions[partition][place]
        if not self._claim([message]):
            return None
        message.gone = True
        return _Done(Kind.DROP, message, (), message, None, "a message is gone")

    def _repeat(self, partition: int, place: int) -> _Done | None:
        lane = self.topic.partitions[partition]
        originals = lane[place : place + self._chance.randint(1, _MOST_REPEATED)]
        behind = min(len(lane), place + len(originals) + self._chance.randrange(_MOST_BEHIND))
        if not self._is_free(lane, behind) or not self._claim(originals):
            return None
        copies = [one.copy(timestamp=lane[behind - 1].timestamp) for one in originals]
        self._insert(partition, behind, copies)
        by = FoundBy.SEQUENCE if all(one.sequence is not None for one in copies) else FoundBy.POSITION
        by = FoundBy.ID if _doubtful(lane[:behind], copies) else by
        return _Done(Kind.REPEAT, originals[0], copies, None, by, f"{_messages(len(copies))} again")

    def _reread(self, partition: int, place: int) -> _Done | None:
        lane = self.topic.partitions[partition]
        end = self.topic.set_of(lane[place])[-1]
        place, shard = lane.index(end), end.shard
        since = self._resumed_at(lane, place)
        originals = [one for one in lane[since + 1 : place + 1] if one.shard == shard]
        if since < 0 or not originals or not self._claim(originals):
            return None
        copies = [one.copy(timestamp=end.timestamp) for one in originals]
        if end.sequence is not None:
            self.topic.shift(end, len(copies))
            for number, one in enumerate(copies, start=1):
                one.sequence = end.sequence + number
        by = FoundBy.ID if _doubtful(lane[: place + 1], copies) else FoundBy.POSITION
        self._insert(partition, place + 1, copies)
        detail = f"{_messages(len(copies))} again: all since the place where the task resumes"
        return _Done(Kind.REREAD, originals[0], copies, None, by, detail)

    def _resumed_at(self, lane: Sequence[Recorded], place: int) -> int:
        """Return the place behind which a task that restarts sends again; -1 if there is none.

        It is the last CHECKPOINT, or anywhere among the last messages where a format has no CHECKPOINTs.
        """
        if id_of(lane[place].value) is not None:
            return place - self._chance.randint(1, _MOST_REREAD)
        shard, since = lane[place].shard, place
        while since >= 0 and (lane[since].shard != shard or not has_checkpoint(lane[since])):
            since -= 1
        return since

    def _flip(self, partition: int, place: int) -> _Done | None:
        value = self.topic.partitions[partition][place].value or b""
        if not value:
            return None
        bit = self._chance.randrange(8 * len(value))
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        return self._damage(Kind.FLIP, partition, place, bytes(flipped), f"bit {bit} of {8 * len(value)}")

    def _truncate(self, partition: int, place: int) -> _Done | None:
        value = self.topic.partitions[partition][place].value or b""
        if len(value) < 2:
            return None
        left = self._chance.randrange(1, len(value))
        return self._damage(Kind.TRUNCATE, partition, place, value[:left], f"{left} of {len(value)} bytes are left")

    def _damage(self, kind: Kind, partition: int, place: int, value: bytes, detail: str) -> _Done | None:
        message = self.topic.partitions[partition][place]
        together = self.topic.set_of(message)
        before = [one.value for one in together]
        evidence = found_by(before, [value if one is message else one.value for one in together])
        # Bytes that read as they did before are no fault.
        if evidence is None or not self._claim(together):
            return None
        by, what = evidence
        if by is FoundBy.GTID and not self._begun(together[0]):
            by, what = FoundBy.NOTHING, f"{what} of a transaction that began before the topic"
        message.value = value
        return _Done(kind, message, [message], None, by, f"{detail}: {what}")

    def _begun(self, message: Recorded) -> bool:
        """Return True if the BEGIN of the message's first entry is in the topic, there or before it."""
        if next(boundaries(message), None) == pb.BEGIN:
            return True
        lane = self.topic.partitions[message.partition]
        return any(pb.BEGIN in boundaries(one) for one in lane[: lane.index(message)])

    def _reorder(self, partition: int, place: int) -> _Done | None:
        lane = self.topic.partitions[partition]
        pair = lane[place : place + 2]
        if len(pair) < 2 or pair[0].shard != pair[1].shard or _alike(*pair) or not self._claim(pair):
            return None
        lane[place : place + 2] = [pair[1], pair[0]]
        # The first number of all is not known, so that the second message can be the first as well.
        first = self.topic.previous_of_shard(pair[1]) is None
        by = FoundBy.SEQUENCE if pair[0].sequence is not None and not first else FoundBy.POSITION
        numbers = [id_of(one.value) for one in pair]
        if None not in numbers:
            by = FoundBy.ID if numbers[0] != numbers[1] else FoundBy.POSITION
        return _Done(Kind.REORDER, pair[0], pair, None, by, "two neighbours have changed places")

    def _cut(self, partition: int, place: int) -> _Done | None:
        lane = self.topic.partitions[partition]
        together = self.topic.set_of(lane[place])
        envelopes = [envelope_of(one.value) for one in together]
        data = b"".join(one.data for one in envelopes if one is not None)
        if None in envelopes or entries_of([one.value for one in together]) is None:
            return None
        place = lane.index(together[0])
        count = len(together) + self._chance.randint(1, 4)
        if len(data) < count or lane[place : place + len(together)] != together or not self._claim(together):
            return None
        borders = [0, *sorted(self._chance.sample(range(1, len(data)), count - 1)), len(data)]
        pieces = []
        for index in range(count):
            piece = pb.Envelope(version=1, total=count, index=index, data=data[borders[index] : borders[index + 1]])
            one = together[min(index, len(together) - 1)].copy()
            one.value = piece.SerializeToString()
            pieces.append(one)
        first, last = together[0].sequence, together[-1]
        if first is not None:
            self.topic.shift(last, count - len(together))
            for index, one in enumerate(pieces):
                one.sequence = first + index
        lane[place : place + len(together)] = pieces
        self._touched |= {id(one) for one in pieces}
        detail = f"an entry set of {len(together)} fragments comes in {count}"
        return _Done(Kind.CUT, together[0], pieces, None, FoundBy.NOTHING, detail)

    def _repartition(self, partition: int, place: int) -> _Done | None:
        message = self.topic.partitions[partition][place]
        others = [number for number in self.topic.partitions if number != partition]
        if not others:
            return None
        target = self._chance.choice(others)
        lane = self.topic.partitions[target]
        moved = message.copy(partition=target)
        behind = next((at for at, one in enumerate(lane) if one.timestamp > message.timestamp), len(lane))
        if not self._is_free(lane, behind) or not self._claim([message]):
            return None
        message.gone = True
        self._insert(target, behind, [moved])
        by = None
        if message.sequence is not None:
            # At the end of its own partition nothing misses it; in the other one a number that came before is a repeat.
            latest = max((one.sequence or 0 for one in lane[:behind] if one.shard == message.shard), default=None)
            ahead = latest is not None and message.sequence > latest + 1
            by = FoundBy.SEQUENCE if ahead or self.topic.next_of_shard(message) is not None else None
        if by is None and len(self.topic.set_of(message)) > 1:
            by = FoundBy.DECODING
        return _Done(Kind.REPARTITION, message, [moved], None, by, f"a message of partition {partition} stands here")

    def _end(self, partition: int, place: int) -> _Done | None:
        lane = self.topic.partitions[partition]
        if place < len(lane) // 2 or any(one.gone for one in lane):
            return None
        first, together = lane[place], self.topic.set_of(lane[place])
        by = FoundBy.DECODING if first is not together[0] else open_transaction(lane[:place])
        for message in lane[place:]:
            message.gone = True
        self._touched |= {id(one) for one in lane[place - 1 :]}
        return _Done(
            Kind.END, first, (), first, by, f"nothing comes any more, {len(lane) - place} of {len(lane)} are gone"
        )

    def _is_free(self, lane: Sequence[Recorded], place: int) -> bool:
        """Return True if a message may come between two, because neither takes part in a fault."""
        return not any(one.gone or id(one) in self._touched for one in lane[max(0, place - 1) : place + 1])

    def _insert(self, partition: int, place: int, messages: Sequence[Recorded]) -> None:
        self.topic.partitions[partition][place:place] = messages
        self._touched |= {id(message) for message in messages}

    def _loss_shows(self, gone: Recorded, following: Recorded | None) -> FoundBy:
        """Return the evidence that a message is missing."""
        before = self.topic.previous_of_shard(gone)
        if following is not None and before is not None and None not in (before.sequence, following.sequence):
            return FoundBy.SEQUENCE
        together = self.topic.set_of(gone)
        if len(together) > 1:
            return FoundBy.DECODING if any(not one.gone for one in together) else FoundBy.NOTHING
        marks = list(boundaries(gone))
        begun, ended = marks.count(pb.BEGIN), marks.count(pb.COMMIT)
        # What comes first of all may have begun before the topic did; behind what comes last only an end is missed.
        if before is not None and (begun != ended if following is not None else begun < ended):
            return FoundBy.TRANSACTION
        mine = gtids(gone)
        others = [
            gtids(one) for lane in self.topic.partitions.values() for one in lane if not one.gone and one is not gone
        ] if mine else []  # fmt: skip
        known = set().union(*others)
        # Nobody knows with which transaction of a server a topic began.
        between = {
            one
            for one in mine - known
            if {number > one[1] for server, number in known if server == one[0]} == {True, False}
        }
        return FoundBy.GTID if between else FoundBy.NOTHING


def _alike(one: Recorded, other: Recorded) -> bool:
    """Return whether two messages are told apart by their offsets alone."""
    return (one.value, one.key, one.sequence) == (other.value, other.key, other.sequence)


def _doubtful(before: Sequence[Recorded], copies: Sequence[Recorded]) -> bool:
    """Return True if nobody can tell copies behind some messages from pieces of an event."""
    values = [one.value for one in before[-_MOST_REREAD:]]
    return any(
        is_doubtful_copy(one.value, [*values, *(copy.value for copy in copies[:at])]) for at, one in enumerate(copies)
    )


def _messages(count: int) -> str:
    return "1 message comes" if count == 1 else f"{count} messages come"
