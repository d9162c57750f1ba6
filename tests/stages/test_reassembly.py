"""Reassembly under restarts, repeats and loss, and its law: where a range is cut changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.problems import Reason
from dts_assets.stages.reassembly import Head, Reassembler, Tally, find_head


@dataclass(frozen=True)
class Message:
    total: int
    index: int
    data: bytes
    shard: str = ""
    reason: str | None = None
    null: bool = False


def batch(messages: Sequence[Message], first: int = 0) -> tuple[pa.Array, pa.RecordBatch]:
    columns = {
        "shard": pa.array([message.shard for message in messages], pa.string()),
        "sequence": pa.nulls(len(messages), pa.int64()),
        "total": pa.array([message.total for message in messages], pa.int64()),
        "index": pa.array([message.index for message in messages], pa.int64()),
        "data": pa.array([message.data for message in messages], pa.binary()),
        "is_null": pa.array([message.null for message in messages], pa.bool_()),
        "reason": pa.array([message.reason for message in messages], pa.string()),
    }
    offsets = pa.array(range(first, first + len(messages)), pa.int64())
    return offsets, pa.RecordBatch.from_pydict(columns)


def no_head(shard: str, before: int, below: int, total: int) -> Head:
    return Head((), waiting=False)


def run(messages: Sequence[Message], *, batches: int = 1) -> tuple[list[tuple[int, int, bytes]], Reassembler]:
    """All messages as one range; sets as (first offset, last offset, bytes)."""
    joiner = Reassembler(no_head)
    sets: list[tuple[int, int, bytes]] = []
    step = max(1, -(-len(messages) // batches))
    for start in range(0, len(messages), step):
        rows = joiner.feed(*batch(messages[start : start + step], start)).to_pylist()
        sets += [(row["first_offset"], row["last_offset"], row["data"]) for row in rows]
    joiner.finish()
    return sets, joiner


def whole(data: bytes) -> Message:
    return Message(1, 0, data)


def split(*parts: bytes, shard: str = "") -> list[Message]:
    return [Message(len(parts), index, part, shard) for index, part in enumerate(parts)]


def assert_balanced(tally: Tally) -> None:
    assert tally.messages == tally.whole + tally.fragments + tally.null_messages + tally.quarantined_messages
    out = tally.joined + tally.superseded + tally.waiting + tally.quarantined_fragments + tally.carried_out
    assert tally.carried_in + tally.fragments == out


def test_whole_messages_are_sets_of_their_own() -> None:
    sets, joiner = run([whole(b"a"), whole(b"b")])
    assert sets == [(0, 0, b"a"), (1, 1, b"b")]
    assert joiner.tally.whole == 2


def test_a_split_set_is_joined_and_stands_where_it_ends() -> None:
    sets, _ = run([*split(b"x", b"y", b"z"), whole(b"a")])
    assert sets == [(0, 2, b"xyz"), (3, 3, b"a")]


def test_shards_interleave() -> None:
    one, other = split(b"1", b"2", shard="one"), split(b"8", b"9", shard="other")
    sets, _ = run([one[0], other[0], one[1], other[1]])
    assert sets == [(0, 2, b"12"), (1, 3, b"89")]


def test_a_set_that_begins_again_replaces_what_was_there() -> None:
    parts = split(b"x", b"y", b"z")
    sets, joiner = run([*parts[:2], *parts])
    assert sets == [(2, 4, b"xyz")]
    assert joiner.tally.superseded == 2


def test_a_fragment_delivered_twice_counts_once() -> None:
    parts = split(b"x", b"y", b"z")
    sets, joiner = run([parts[0], parts[1], parts[1], parts[2]])
    assert sets == [(0, 3, b"xyz")]
    assert joiner.tally.superseded == 1


def test_a_whole_message_ends_an_unfinished_set_and_its_tail_has_no_head() -> None:
    parts = split(b"x", b"y", b"z")
    sets, joiner = run([parts[0], parts[1], whole(b"w"), parts[2]])
    assert sets == [(2, 2, b"w")]
    assert [broken.reason for broken in joiner.broken] == [Reason.MISSING_HEAD]
    assert_balanced(joiner.tally)


@pytest.mark.parametrize("batches", [1, 2, 3, 4])
def test_a_lost_middle_is_named_with_its_offsets_and_the_rest_goes_on(batches: int) -> None:
    parts = split(b"x", b"y", b"z")
    sets, joiner = run([parts[0], parts[2], whole(b"w"), *split(b"1", b"2")], batches=batches)
    assert sets == [(2, 2, b"w"), (3, 4, b"12")]
    (broken,) = joiner.broken
    assert (broken.first_offset, broken.last_offset, broken.reason) == (0, 1, Reason.MISSING_FRAGMENT)
    assert_balanced(joiner.tally)


def test_totals_that_contradict_each_other_are_given_up() -> None:
    sets, joiner = run([Message(3, 0, b"x"), Message(4, 1, b"y"), Message(4, 2, b"z"), whole(b"w")])
    assert sets == [(3, 3, b"w")]
    assert {broken.reason for broken in joiner.broken} == {Reason.CONTRADICTORY_FRAGMENT}
    assert sum(broken.fragments for broken in joiner.broken) == 3
    assert_balanced(joiner.tally)


def test_messages_that_cannot_be_used_and_empty_ones_are_counted() -> None:
    sets, joiner = run([Message(0, 0, b"", reason="undecodable_message"), Message(0, 0, b"", null=True), whole(b"w")])
    assert sets == [(2, 2, b"w")]
    assert (joiner.tally.quarantined_messages, joiner.tally.null_messages) == (1, 1)
    assert_balanced(joiner.tally)


def test_the_end_of_a_recording_breaks_an_open_set() -> None:
    joiner = Reassembler(no_head, nothing_follows=True)
    joiner.feed(*batch(split(b"x", b"y", b"z")[:2]))
    joiner.finish()
    assert [broken.reason for broken in joiner.broken] == [Reason.MISSING_FRAGMENT]
    assert_balanced(joiner.tally)


def test_a_head_that_may_still_come_makes_the_set_wait() -> None:
    joiner = Reassembler(lambda shard, before, below, total: Head((), waiting=True))
    joiner.feed(*batch(split(b"x", b"y", b"z")[1:], first=5))
    joiner.finish()
    assert not joiner.broken
    assert [(one.first_offset, one.last_offset) for one in joiner.waiting] == [(5, 6)]
    assert_balanced(joiner.tally)


@st.composite
def streams(draw: st.DrawFn) -> list[Message]:
    """What one producer sends: whole and split sets of two shards, some of them begun several times, some fragments repeated."""
    queues: dict[str, list[Message]] = {"": [], "s2": []}
    for number in range(draw(st.integers(1, 8))):
        shard = draw(st.sampled_from(["", "s2"]))
        count = draw(st.integers(1, 4))
        parts = [Message(count, index, f"{number}.{index};".encode(), shard) for index in range(count)]
        for _ in range(draw(st.integers(0, 2))):
            queues[shard] += parts[: draw(st.integers(0, count - 1))]
        for part in parts:
            queues[shard] += [part] * draw(st.integers(1, 2)) if part.index and part.index < count - 1 else [part]
    merged: list[Message] = []
    while any(queues.values()):
        shard = draw(st.sampled_from([name for name, queue in queues.items() if queue]))
        merged.append(queues[shard].pop(0))
    return merged


def in_ranges(messages: Sequence[Message], cuts: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """The sets of consecutive ranges, each reassembled on its own with the heads read back from everything before it."""
    borders = [0, *sorted(cuts), len(messages)]
    for start, end in pairwise(borders):

        def read_head(shard: str, before: int, below: int, total: int) -> Head:
            rows = [batch(messages[:before])] if before else []
            return find_head(rows, shard=shard, below=below, total=total, reaches_start=True)

        joiner = Reassembler(read_head)
        for row in joiner.feed(*batch(messages[start:end], start)).to_pylist():
            yield row["first_offset"], row["last_offset"], row["data"]
        joiner.finish()
        assert_balanced(joiner.tally)


@given(streams(), st.data())
def test_any_cut_into_ranges_gives_the_same_sets(messages: list[Message], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(messages)), max_size=4))
    expected, joiner = run(messages)
    assert_balanced(joiner.tally)
    got = list(in_ranges(messages, cuts))
    assert [(last, joined) for _, last, joined in got] == [(last, joined) for _, last, joined in expected]


@given(streams())
def test_every_set_that_was_sent_whole_comes_out_once(messages: list[Message]) -> None:
    sets, joiner = run(messages)
    finished = [message for message in messages if message.index == message.total - 1]
    assert len(sets) == len(finished)
    assert not joiner.broken
    for _, _, data in sets:
        number = data.split(b".")[0]
        assert data == b"".join(number + f".{index};".encode() for index in range(data.count(b";")))
