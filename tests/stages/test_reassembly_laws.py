"""The laws of reassembly: however messages are windowed, interleaved, repeated or lost, no sets are mixed, no fragment hides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.stages.reassembly import Reassembler
from tests.stages.shards import Message, Set, Topic, numbered
from tests.tiers import examples

FEW = examples(60)


@dataclass(frozen=True)
class Delivered:
    """What arrived of the sets that were sent, every one of them to its end."""

    sent: frozenset[bytes]
    messages: list[Message]


def _sets(draw: st.DrawFn, shard: str) -> list[list[Message]]:
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    name = shard or "-"
    return [
        [Message(count, index, f"{name}{number}.{index};".encode(), shard) for index in range(count)]
        for number, count in enumerate(counts)
    ]


def _with_restarts(draw: st.DrawFn, sets: Sequence[Sequence[Message]], *, numbers: bool) -> list[Message]:
    """One shard's messages: after some of them the producer sends some again, or reads again from the start of a set.

    A repeat has the numbers that the messages had, a re-read new ones. Without numbers a repeat begins inside the last set and
    ends with the last message.
    """
    flat = numbered([message for one in sets for message in one])
    starts = [number for number, message in enumerate(flat) if message.index == 0]
    given_number, arrived, place = 1, [], 0
    log: list[Message] = []
    for _ in range(draw(st.integers(0, 3))):
        until = draw(st.integers(place, len(flat)))
        for message in flat[place:until]:
            log.append(replace(message, sequence=given_number))
            given_number += 1
        arrived += log[len(log) - (until - place) :] if until > place else []
        place = until
        if place == 0:
            continue
        if draw(st.booleans()):
            place = draw(st.sampled_from([start for start in starts if start <= place]))
        else:
            low = 0 if numbers else max((at for at, one in enumerate(log) if one.index == 0), default=0)
            first = draw(st.integers(low, len(log)))
            arrived += log[first : draw(st.integers(first, len(log))) if numbers else None]
    arrived += [replace(message, sequence=given_number + number) for number, message in enumerate(flat[place:])]
    return arrived if numbers else [replace(message, sequence=None) for message in arrived]


def _interleaved(draw: st.DrawFn, queues: Sequence[Sequence[Message]]) -> list[Message]:
    left = [list(queue) for queue in queues if queue]
    merged: list[Message] = []
    while left:
        queue = draw(st.sampled_from(left))
        merged.append(queue.pop(0))
        left = [one for one in left if one]
    return merged


@st.composite
def deliveries(draw: st.DrawFn, *, numbers: bool) -> Delivered:
    shards = [_sets(draw, shard) for shard in ("", "s2")[: draw(st.integers(1, 2))]]
    sent = frozenset(b"".join(message.data for message in one) for sets in shards for one in sets)
    return Delivered(sent, _interleaved(draw, [_with_restarts(draw, sets, numbers=numbers) for sets in shards]))


def in_windows(topic: Topic, borders: Sequence[int]) -> list[tuple[list[Set], Reassembler]]:
    return [topic.range(start, end) for start, end in pairwise(borders)]


def borders_of(data: st.DataObject, count: int) -> list[int]:
    return [0, *sorted(data.draw(st.lists(st.integers(0, count), max_size=4))), count]


def datas(windows: Sequence[tuple[list[Set], Reassembler]]) -> list[bytes]:
    return [found for sets, _ in windows for _, _, found in sets]


def assert_once_at_least(delivered: Delivered, data: st.DataObject, *, numbers: bool) -> None:
    count = len(delivered.messages)
    topic = Topic(delivered.messages, batch_rows=data.draw(st.integers(1, count)))
    windows = in_windows(topic, borders_of(data, count))
    assert frozenset(datas(windows)) == delivered.sent
    if numbers:
        assert [one.broken for _, one in windows if one.broken] == []
        everything, _ = topic.all()
        assert [(last, found) for _, last, found in everything] == sorted(
            (last, found) for sets, _ in windows for _, last, found in sets
        )


@FEW
@given(deliveries(numbers=True), st.data())
def test_every_set_comes_out_and_none_is_torn(delivered: Delivered, data: st.DataObject) -> None:
    assert_once_at_least(delivered, data, numbers=True)


@FEW
@given(deliveries(numbers=False), st.data())
def test_without_numbers_too_if_repeats_begin_in_the_last_set(delivered: Delivered, data: st.DataObject) -> None:
    assert_once_at_least(delivered, data, numbers=False)


@FEW
@given(deliveries(numbers=True), st.data())
def test_a_window_gives_the_same_or_waits_while_what_is_before_it_is_not_stored(
    delivered: Delivered, data: st.DataObject
) -> None:
    count = len(delivered.messages)
    start, end = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    stored = data.draw(st.integers(0, start))
    complete, _ = Topic(delivered.messages).range(start, end)
    early, joiner = Topic(delivered.messages, stored_from=stored).range(start, end)
    waiting = {last for _, last in joiner.waiting}
    assert {one for one in complete if one[1] not in waiting} == set(early)
    assert joiner.broken == []


@FEW
@given(deliveries(numbers=True), st.data())
def test_whatever_is_lost_no_set_is_torn_and_every_fragment_is_somewhere(
    delivered: Delivered, data: st.DataObject
) -> None:
    lost = data.draw(st.sets(st.integers(0, len(delivered.messages) - 1), max_size=4))
    messages = [one for number, one in enumerate(delivered.messages) if number not in lost]
    rows = data.draw(st.integers(1, len(messages) + 1))
    sets, joiner = Topic(messages, batch_rows=rows).all(nothing_follows=True)
    joined = {one for _, _, one in sets}
    assert joined <= delivered.sent
    held = b"".join(joined) + b"".join(one.data or b"" for one in joiner.broken)
    assert {one.data for one in messages} <= {part + b";" for part in held.split(b";")[:-1]}
    windows = in_windows(Topic(messages), borders_of(data, len(messages)))
    assert frozenset(datas(windows)) <= delivered.sent


@st.composite
def anything(draw: st.DrawFn) -> list[Message]:
    """Fragments that no producer would send."""
    messages = []
    for _ in range(draw(st.integers(1, 12))):
        total = draw(st.sampled_from([1, 2, 3, 3, 4, (1 << 32) - 1]))
        index = draw(st.integers(0, min(total, 4) - 1))
        content = f"{total}.{index}{draw(st.sampled_from('ab'))};".encode()
        sequence = draw(st.one_of(st.none(), st.integers(1, 9)))
        messages.append(Message(total, index, content, draw(st.sampled_from(["", "s2"])), sequence=sequence))
    return messages


@FEW
@given(anything(), st.data())
def test_no_byte_is_lost_whatever_arrives(messages: list[Message], data: st.DataObject) -> None:
    topic = Topic(messages, batch_rows=data.draw(st.integers(1, len(messages))))
    sets, joiner = topic.all(nothing_follows=True)
    assert joiner.tally.carried_out == 0
    held = Counter(b"".join([one for _, _, one in sets] + [one.data or b"" for one in joiner.broken]).split(b";"))
    arrived = Counter(message.data.rstrip(b";") for message in messages)
    assert arrived.keys() <= held.keys()
    in_windows(topic, borders_of(data, len(messages)))  # every range is balanced


@FEW
@given(st.data())
def test_windows_in_their_order_lose_no_set_and_no_fragment(data: st.DataObject) -> None:
    numbers = data.draw(st.booleans())
    delivered = data.draw(deliveries(numbers=numbers))
    lost = data.draw(st.sets(st.integers(0, len(delivered.messages) - 1), max_size=3))
    messages = [one for number, one in enumerate(delivered.messages) if number not in lost]
    windows = Topic(messages).windows(borders_of(data, len(messages)), nothing_follows=True)
    if numbers:  # without them the end of one set and the begin of the next, both lost, make one set of two
        assert frozenset(datas(windows)) <= delivered.sent
    if not lost:
        assert frozenset(datas(windows)) == delivered.sent
    assert windows[-1][1].left_open == []
    held = b"".join(datas(windows)) + b"".join(one.data or b"" for _, joiner in windows for one in joiner.broken)
    assert {one.data for one in messages} <= {part + b";" for part in held.split(b";")[:-1]}


@FEW
@given(anything(), st.data())
def test_windows_in_their_order_balance_whatever_arrives(messages: list[Message], data: st.DataObject) -> None:
    windows = Topic(messages).windows(borders_of(data, len(messages)), nothing_follows=True)
    tally = [joiner.tally for _, joiner in windows]
    split = sum(one.total > 1 for one in messages)
    fates = sum(one.joined + one.superseded + one.waiting + one.quarantined_fragments for one in tally)
    assert (sum(one.fragments for one in tally), fates) == (split, split)
