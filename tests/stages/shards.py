"""Messages of shards as rows of FRAGMENTS, ranges of them reassembled, and what must hold of every range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from dts_assets.model.open_sets import OpenSet
from dts_assets.stages.collecting import Tally
from dts_assets.stages.heads import Head, Outcome, find_head, fragment_at
from dts_assets.stages.partial_sets import Fragment
from dts_assets.stages.reassembly import Reassembler

Set = tuple[int, int, bytes]
"""First offset, last offset, bytes."""


@dataclass(frozen=True)
class Message:
    total: int
    index: int
    data: bytes
    shard: str = ""
    reason: str | None = None
    null: bool = False
    sequence: int | None = None


def whole(data: bytes, *, shard: str = "") -> Message:
    return Message(1, 0, data, shard)


def split(*parts: bytes, shard: str = "") -> list[Message]:
    return [Message(len(parts), index, part, shard) for index, part in enumerate(parts)]


def numbered(messages: Sequence[Message], first: int = 1) -> list[Message]:
    """With the ``ps`` that a producer gives to messages sent one after the other."""
    return [replace(message, sequence=first + number) for number, message in enumerate(messages)]


def batch(messages: Sequence[Message], first: int = 0) -> tuple[pa.Array, pa.RecordBatch]:
    columns = {
        "shard": pa.array([message.shard for message in messages], pa.string()),
        "sequence": pa.array([message.sequence for message in messages], pa.int64()),
        "total": pa.array([message.total for message in messages], pa.int64()),
        "index": pa.array([message.index for message in messages], pa.int64()),
        "data": pa.array([message.data for message in messages], pa.binary()),
        "is_null": pa.array([message.null for message in messages], pa.bool_()),
        "reason": pa.array([message.reason for message in messages], pa.string()),
    }
    offsets = pa.array(range(first, first + len(messages)), pa.int64())
    return offsets, pa.RecordBatch.from_pydict(columns)


def no_head(shard: str, tail: Sequence[Fragment]) -> Head:
    return Head(Outcome.MISSING)


def assert_balanced(tally: Tally) -> None:
    assert tally.messages == tally.whole + tally.fragments + tally.null_messages + tally.quarantined_messages
    out = tally.joined + tally.superseded + tally.waiting + tally.quarantined_fragments + tally.carried_out
    assert tally.carried_in + tally.fragments == out
    assert tally.joined_sets <= tally.joined


@dataclass
class Topic:
    """A topic of one Kafka partition, of which ranges are reassembled, each on its own, with what is stored before it.

    ``stored_from`` is the first offset in the lake; ``batch_rows`` messages are read at a time, forwards and backwards.
    """

    messages: Sequence[Message]
    stored_from: int = 0
    batch_rows: int = 1_000_000
    read_back: list[int] = field(default_factory=list)

    def range(
        self, start: int, end: int, *, nothing_follows: bool = False, open_before: Sequence[OpenSet] | None = None
    ) -> tuple[list[Set], Reassembler]:
        joiner = Reassembler(self._head, nothing_follows=nothing_follows, knows_before=open_before is not None)
        offsets, rows = batch(self.messages)
        for one in open_before or ():
            joiner.take_over(one, [fragment_at(offset, offsets, rows) for offset in one.offsets])
        sets: list[Set] = []
        for first in range(start, end, self.batch_rows):
            rows = joiner.feed(*batch(self.messages[first : min(first + self.batch_rows, end)], first)).to_pylist()
            assert [row["last_offset"] for row in rows] == sorted({row["last_offset"] for row in rows})
            sets += [(row["first_offset"], row["last_offset"], row["data"]) for row in rows]
        joiner.finish()
        assert_balanced(joiner.tally)
        assert len(sets) == joiner.tally.whole + joiner.tally.joined_sets
        assert len(joiner.broken) == joiner.tally.broken_sets
        assert sum(len(one.offsets) for one in joiner.left_open) == joiner.tally.carried_out
        return sets, joiner

    def windows(self, borders: Sequence[int], *, nothing_follows: bool = False) -> list[tuple[list[Set], Reassembler]]:
        """Ranges from border to border, each of which begins with what the one before left open."""
        found: list[tuple[list[Set], Reassembler]] = []
        for start, end in pairwise(borders):
            before = found[-1][1].left_open if found else []
            last = nothing_follows and end == borders[-1] and len(found) == len(borders) - 2
            found.append(self.range(start, end, nothing_follows=last, open_before=before))
            assert found[-1][1].tally.carried_in == sum(len(one.offsets) for one in before)
        return found

    def all(self, *, nothing_follows: bool = False) -> tuple[list[Set], Reassembler]:
        return self.range(0, len(self.messages), nothing_follows=nothing_follows)

    def _head(self, shard: str, tail: Sequence[Fragment]) -> Head:
        before = min(one.offset for one in tail)

        def backwards() -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
            for end in range(before, self.stored_from, -self.batch_rows):
                start = max(self.stored_from, end - self.batch_rows)
                self.read_back.append(start)
                yield batch(self.messages[start:end], start)

        return find_head(backwards(), shard=shard, tail=tail, reaches_start=self.stored_from == 0)
