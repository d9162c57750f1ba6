"""The messages that a task makes of lives: with failovers, sets, pieces, several topics, and messages that come again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Final

from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import produce
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Coordinates, Transaction
from tests.dts_emulator.server_lives import Life
from tests.meetings.cases import Case, lanes_of
from tests.meetings.features import Feature

F = Feature
CHECKPOINT_SECONDS: Final = 1800
TOPICS: Final = {"one": 2, "two": 1}


def messages_of(case: Case, lives: Mapping[int, Life]) -> tuple[list[Message], Mapping[int, list[str]]]:
    """The messages of the lives of all sets in the order of their times, and the GTIDs of their transactions."""
    random = Random(f"{case.seed} stream")
    options = DtsOptions(
        partitions=lanes_of(case.features),
        partitioning=random.choice(("table", "table+key")),
        max_message_bytes=random.choice((400, 900)) if F.PIECES in case.features else 1_000_000,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        heartbeat_seconds=0,
    )
    told: list[Message] = []
    gtids: dict[int, list[str]] = {}
    for number, life in lives.items():
        stream, gtids[number] = _with_failover(life.transactions, case.features, random)
        name = f"set_{number}" if F.SETS in case.features else None
        last = max(one.transactions[-1].end.timestamp for one in lives.values())
        mine = replace(options, shard_id=name)
        told += _again(list(produce(stream, mine, until=last + 3 * CHECKPOINT_SECONDS)), case.features, random)
    told.sort(key=lambda one: one.timestamp)
    offsets = {lane: count(7) for lane in range(options.partitions)}
    told = [replace(one, offset=next(offsets[one.partition])) for one in told]
    return [_of_topic(one) for one in told] if F.TOPICS in case.features else told, gtids


def _of_topic(message: Message) -> Message:
    lane = message.partition
    for topic, partitions in TOPICS.items():
        if lane < partitions:
            return replace(message, topic=topic, partition=lane)
        lane -= partitions
    raise AssertionError(message.partition)


def _again(messages: list[Message], features: frozenset[Feature], random: Random) -> list[Message]:
    """Some messages twice, one behind the other, as a producer sends them that got no answer."""
    if F.AGAIN not in features:
        return messages
    return [one for message in messages for one in [message] * (2 if random.random() < 0.15 else 1)]


def _with_failover(
    transactions: Sequence[Transaction], features: frozenset[Feature], random: Random
) -> tuple[list[Transaction], list[str]]:
    at, retold, file = random.randrange(1, len(transactions) + 1), random.randint(1, 4), random.choice((0, 7))
    if F.FAILOVER not in features or at == len(transactions):
        return list(transactions), [str(one.end.gtid) for one in transactions]
    begin = max(0, at - retold) if F.RETOLD in features else at
    before = max((one.end.gtid.sequence for one in transactions[:at] if one.end.gtid is not None), default=0)
    second = [
        _of_another_server(one, file, own=before if number >= at else None) for number, one in enumerate(transactions)
    ]
    whole = [*transactions[:at], *second[at:]]
    return [*transactions[:at], *second[begin:]], [str(one.end.gtid) for one in whole]


def _file(at: Coordinates) -> int:
    return int(at.file_name.rpartition(".")[2])


def _of_another_server(transaction: Transaction, file: int, *, own: int | None) -> Transaction:
    """The transaction in the binlog of another server; ``own`` is what the GTIDs of its own lack in front."""

    def moved(at: Coordinates) -> Coordinates:
        gtid = at.gtid
        if gtid is not None and own is not None:
            gtid = replace(gtid, server_id=9, sequence=gtid.sequence - own)
        name = f"mysql-bin.{_file(at) + file:06d}"
        return replace(at, file_name=name, start=at.start + 77, end=at.end + 77, server_id=9, gtid=gtid)

    return Transaction(tuple(replace(event, at=moved(event.at)) for event in transaction.events))
