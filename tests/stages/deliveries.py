"""What a vendor's task delivers, in memory: transactions over Kafka partitions, packed into sets, cut into messages, begun again.

A restart falls anywhere, also inside a transaction or a set, and goes back to wherever; then everything comes again, under new
offsets. The transactions of one server have GTIDs 1, 2, 3, ... and positions that grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from dts_assets.model.delivery import CellDelivery
from dts_assets.model.gtids import GtidSet
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Problem
from dts_assets.stages.delivery_tracker import Delivery
from dts_assets.stages.entry_columns import EntryColumns

START = datetime(2026, 1, 5, tzinfo=UTC)
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass(frozen=True)
class Entry:
    """An entry of transaction ``number`` (0: a CHECKPOINT, whose ``synced`` transactions are those up to it)."""

    kind: str
    number: int
    position: int
    partition: int | None = None
    synced: int = 0


@dataclass(frozen=True)
class Message:
    """A Kafka message; the last one of a set holds its ``entries``, the others are its fragments before."""

    offset: int
    sequence: int
    entries: tuple[Entry, ...]
    parts: int
    part: int


@dataclass
class Topic:
    """What arrived, by Kafka partition, and the truth."""

    partitions: list[list[Message]]
    transactions: int
    restarted: bool
    gtids: bool = True
    synced: int = 0


@dataclass
class _Sender:
    partitions: int
    waiting: list[list[tuple[int, Entry]]] = field(default_factory=list)
    sent: list[list[Message]] = field(default_factory=list)

    def send(self, partition: int, parts: int, *, but: int = 0) -> None:
        """Send what waits as a set of some messages, of which the last ones may not come any more."""
        entries, self.waiting[partition] = tuple(entry for _, entry in self.waiting[partition]), []
        for part in range(parts - but):
            offset = len(self.sent[partition])
            held = entries if part == parts - 1 else ()
            self.sent[partition].append(Message(offset, offset + 1, held, parts, part))


@st.composite
def topics(
    draw: st.DrawFn,
    *,
    most_partitions: int = 3,
    restarts: bool = True,
    gtids: bool | None = None,
    marks: str | None = None,
    ddl: bool = True,
) -> Topic:
    """A topic; ``marks`` go to every partition (``broadcast``) or to those with changes (``touched``)."""
    count = draw(st.integers(1, most_partitions))
    marks = marks or draw(st.sampled_from(["broadcast", "touched"]))
    transactions = draw(st.integers(1, 7))
    log = [entry for number in range(1, transactions + 1) for entry in _transaction(draw, number, count, marks, ddl)]
    sender = _Sender(count, [[] for _ in range(count)], [[] for _ in range(count)])
    restarted, at = False, 0
    highest = synced = 0
    left = 3 if restarts else 0
    while at < len(log):
        entry = log[at]
        highest = max(highest, entry.number - (entry.kind not in ("COMMIT", "DDL") or _more(log, at)))
        targets = range(count) if entry.partition is None else (entry.partition,)
        for partition in targets:
            sender.waiting[partition].append((at, entry))
            if draw(st.integers(0, 2)):
                sender.send(partition, draw(st.sampled_from([1, 1, 1, 2, 3])))
        at += 1
        action = draw(st.integers(0, 11))
        if action == 0 and left:
            left -= 1
            unsent = [index for of in sender.waiting for index, _ in of]
            restarted, at = True, draw(st.integers(0, min([at, *unsent])))
            for partition in range(count):
                if sender.waiting[partition]:
                    sender.send(partition, 3, but=draw(st.integers(1, 3)))
        elif action == 1 and highest:
            for partition in range(count):
                if sender.waiting[partition]:
                    sender.send(partition, 1)
                sender.waiting[partition] = [(at, Entry("CHECKPOINT", 0, highest * 1000 + 900, synced=highest))]
                sender.send(partition, 1)
            synced = highest
    for partition in range(count):
        if sender.waiting[partition]:
            sender.send(partition, draw(st.integers(1, 2)))
    return Topic(sender.sent, transactions, restarted, draw(st.booleans()) if gtids is None else gtids, synced)


def _more(log: Sequence[Entry], at: int) -> bool:
    """Whether the same entry goes to further partitions, so that its transaction has not ended."""
    return at + 1 < len(log) and log[at + 1].number == log[at].number


def _transaction(draw: st.DrawFn, number: int, count: int, marks: str, ddl: bool) -> list[Entry]:
    position = number * 1000
    if ddl and draw(st.integers(0, 5)) == 0:
        return [Entry("DDL", number, position)]
    targets = draw(st.lists(st.integers(0, count - 1), min_size=0 if marks == "broadcast" else 1, max_size=4))
    changes = [Entry("DML", number, position + 10 * (place + 1), one) for place, one in enumerate(targets)]
    ends = sorted(set(targets)) if marks == "touched" else [None]
    begins = [Entry("BEGIN", number, position, one) for one in ends]
    return [*begins, *changes, *[Entry("COMMIT", number, position + 900, one) for one in ends]]


def cell(topic: Topic, messages: Sequence[Message], offsets: OffsetRange, *, numbered: bool, batch: int = 5) -> Seen:
    """The facts of some messages, fed in batches, and the problems among them."""
    delivery = Delivery(offsets)
    for start in range(0, len(messages), batch):
        some = messages[start : start + batch]
        delivery.see_messages(
            pa.array([one.offset for one in some], pa.int64()),
            pa.RecordBatch.from_pydict(
                {
                    "shard": pa.array([""] * len(some), pa.string()),
                    "sequence": pa.array([one.sequence if numbered else None for one in some], pa.int64()),
                }
            ),
        )
        sets = [one for one in some if one.entries]
        delivery.see_entries(EntryColumns.of(entries_of(topic, sets), sets_of(sets)))
    return Seen(delivery.result(), tuple(delivery.problems()))


@dataclass(frozen=True)
class Seen:
    """A cell as the ledger has it."""

    delivery: CellDelivery
    problems: tuple[Problem, ...]


def entries_of(topic: Topic, sets: Sequence[Message]) -> pa.RecordBatch:
    """The entries of whole sets, as far as delivery reads them."""
    rows = [(number, entry) for number, one in enumerate(sets) for entry in one.entries]
    held = [entry for _, entry in rows]
    return pa.RecordBatch.from_pydict(
        {
            "set_index": pa.array([number for number, _ in rows], pa.int32()),
            "message_type": pa.array([one.kind for one in held], pa.string()),
            "source_type": pa.array(["MYSQL"] * len(held), pa.string()),
            "gtid": pa.array(
                [f"{SERVER}:{one.number}" if topic.gtids and one.number else None for one in held], pa.string()
            ),
            "server_id": pa.array([1] * len(held), pa.int64()),
            "event_time": pa.array([START] * len(held), pa.timestamp("us", tz="UTC")),
            "seq_id": pa.array([None] * len(held), pa.int64()),
            "file_name": pa.array(["bin.000003"] * len(held), pa.string()),
            "position": pa.array([one.position for one in held], pa.int64()),
        }
    )


def sets_of(sets: Sequence[Message]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "first_offset": pa.array([one.offset - one.part for one in sets], pa.int64()),
            "last_offset": pa.array([one.offset for one in sets], pa.int64()),
            "shard": pa.array([None] * len(sets), pa.string()),
        }
    )


def windows(topic: Topic, messages: Sequence[Message], borders: Sequence[int], *, numbered: bool) -> list[Seen]:
    """The cells of one Kafka partition, cut at some offsets."""
    end = max((one.offset for one in messages), default=-1) + 1
    cuts = sorted({0, *(min(border, end) for border in borders), end})
    return [
        cell(topic, [one for one in messages if low <= one.offset < high], OffsetRange(low, high), numbered=numbered)
        for low, high in pairwise(cuts)
    ]


def gtids(*numbers: int) -> GtidSet:
    """Transactions of the one server."""
    return GtidSet.of((SERVER, number, number) for number in numbers)


def up_to(number: int) -> GtidSet:
    """All transactions up to one."""
    return GtidSet.of([(SERVER, 1, number)] if number else [])
