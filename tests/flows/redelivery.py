"""A stream delivered again: restarts read the binlog from before the break, and transport repeats single messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from dts_assets.protocol import subscribe_pb2 as pb
from tests.flows.source import Change, Message


@dataclass(frozen=True)
class Again:
    """Messages as they arrive with repeats between them.

    ``changes`` are the source's under their first offsets; ``repeated`` counts the copies of each change by reason, in the form
    (Kafka partition, binlog position, row number, reason).
    """

    messages: list[Message]
    changes: list[Change]
    repeated: Counter[tuple[int, tuple[int, int], int, str]]


def again(messages: Iterable[Message], changes: Iterable[Change], seed: int, *, late: datetime | None = None) -> Again:
    """``messages`` with restarts (A B A B C, under new offsets and sequence numbers) and repeats by transport.

    ``late`` is a moment at which every Kafka partition gets the sets of its first quarter once more.
    """
    random = Random(seed)
    by_partition: dict[int, list[Message]] = {}
    for one in messages:
        by_partition.setdefault(one.partition, []).append(one)
    moved: dict[tuple[int, int], int] = {}
    copies: list[tuple[int, int, str]] = []
    found: list[Message] = []
    for partition, mine in sorted(by_partition.items()):
        lane = _Lane(partition, mine[0].offset)
        sets = _sets(mine)
        waits = late
        for number, whole in enumerate(sets):
            if waits is not None and whole[0].time >= waits:
                for old in sets[: len(sets) // 4]:
                    copies += lane.repeat(old, whole[0].time, "reread")
                waits = None
            for one in whole:
                moved[partition, one.offset] = lane.send(one)
            if random.random() < 0.15:
                for old in sets[max(0, number - random.randint(0, 4)) : number + 1]:
                    copies += lane.repeat(old, whole[-1].time + timedelta(milliseconds=1), "reread")
            elif random.random() < 0.1:
                copies += lane.repeat(whole, whole[-1].time, "transport")
        found += lane.messages
    renamed = []
    for change in changes:
        other = copy(change)
        other.first_offset = moved[change.partition, change.first_offset]
        other.last_offset = moved[change.partition, change.last_offset]
        renamed.append(other)
    times = Counter(copies)
    repeated: Counter[tuple[int, tuple[int, int], int, str]] = Counter()
    for change in changes:
        for reason in ("reread", "transport"):
            count = times[change.partition, change.last_offset, reason]
            if count:
                repeated[change.partition, change.position, change.row_number, reason] = count
    return Again(found, renamed, repeated)


class _Lane:
    """One Kafka partition with offsets of its own."""

    def __init__(self, partition: int, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.shift = 0
        self.messages: list[Message] = []

    def send(self, one: Message, *, sequence: int | None = None, time: datetime | None = None) -> int:
        number = one.sequence + self.shift if sequence is None else sequence
        sent = replace(one, offset=self.offset, sequence=number, time=time or one.time)
        self.messages.append(sent)
        self.offset += 1
        return sent.offset

    def repeat(self, whole: list[Message], time: datetime, reason: str) -> list[tuple[int, int, str]]:
        """A set once more; the (partition, original last offset, reason) of it."""
        for one in whole:
            if reason == "transport":
                self.send(one, time=time)
            else:
                self.shift += 1
                self.send(one, sequence=self.messages[-1].sequence + 1, time=time)
        return [(self.partition, whole[-1].offset, reason)]


def _sets(messages: list[Message]) -> list[list[Message]]:
    sets: list[list[Message]] = []
    for one in messages:
        envelope = pb.Envelope.FromString(one.value or b"")
        if envelope.index == 0:
            sets.append([])
        sets[-1].append(one)
    return sets
