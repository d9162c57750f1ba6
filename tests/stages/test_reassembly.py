"""Reassembly under restarts, repeats, loss and contradictions: what becomes of every fragment, by offset."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dts_assets.model.problems import Reason
from dts_assets.stages.heads import FURTHEST_BY_CONTENT, FURTHEST_REPEATED, Head, Outcome
from dts_assets.stages.reassembly import Reassembler
from tests.stages.shards import Message, Set, Topic, assert_balanced, batch, no_head, numbered, split, whole

Named = list[tuple[int, int, Reason]]


def run(messages: Sequence[Message], *, rows: int = 1_000_000) -> tuple[list[Set], Reassembler]:
    """All messages as one range, in batches of so many."""
    return Topic(messages, batch_rows=rows).all()


def named(joiner: Reassembler) -> Named:
    return sorted((one.first_offset, one.last_offset, one.reason) for one in joiner.broken)


A = numbered(split(b"a0", b"a1", b"a2", b"a3", b"a4"), 10)
"""A set of five under numbers 10 to 14."""
BEFORE, AFTER = numbered([whole(b"x"), whole(b"y")], 8), numbered([whole(b"w"), whole(b"v")], 15)
WHOLE = b"a0a1a2a3a4"


def plain(messages: Sequence[Message]) -> list[Message]:
    """The same without numbers."""
    return [replace(message, sequence=None) for message in messages]


def test_whole_messages_are_sets_of_their_own() -> None:
    sets, joiner = run([whole(b"a"), whole(b"b")])
    assert sets == [(0, 0, b"a"), (1, 1, b"b")]
    assert joiner.tally.whole == 2


def test_a_split_set_is_joined_and_stands_where_it_ends() -> None:
    sets, _ = run([*split(b"x", b"y", b"z"), whole(b"a")])
    assert sets == [(0, 2, b"xyz"), (3, 3, b"a")]


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_set_says_its_shard_and_the_number_of_its_last_fragment(rows: int) -> None:
    one, other = numbered(split(b"1", b"2", shard="one"), 5), split(b"8", b"9")
    joiner, messages, found = Reassembler(no_head), [one[0], other[0], one[1], other[1]], []
    for first in range(0, 4, rows):
        found += joiner.feed(*batch(messages[first : first + rows], first)).to_pylist()
    assert [(row["shard"], row["sequence"], row["data"]) for row in found] == [("one", 6, b"12"), (None, None, b"89")]


def test_shards_interleave() -> None:
    one, other = split(b"1", b"2", shard="one"), split(b"8", b"9", shard="other")
    sets, joiner = run([one[0], other[0], one[1], other[1]])
    assert sets == [(0, 2, b"12"), (1, 3, b"89")]
    assert not joiner.broken


def test_messages_that_cannot_be_used_and_empty_ones_are_counted() -> None:
    sets, joiner = run([Message(0, 0, b"", reason="undecodable_message"), Message(0, 0, b"", null=True), whole(b"w")])
    assert sets == [(2, 2, b"w")]
    assert (joiner.tally.quarantined_messages, joiner.tally.null_messages) == (1, 1)


ROWS = pytest.mark.parametrize("rows", [1, 2, 3, 100])
NUMBERED = pytest.mark.parametrize("change", [list, plain], ids=["ps", "no ps"])


@ROWS
@NUMBERED
@pytest.mark.parametrize(
    ("messages", "superseded", "span"),
    [
        pytest.param([*A[:4], *A], 4, (4, 8), id="from its beginning"),
        pytest.param([*A[:4], *A[2:]], 2, (0, 6), id="from its middle"),
        pytest.param([*A[:2], A[1], *A[2:]], 1, (0, 5), id="one fragment twice"),
        pytest.param([*A, *A[2:]], 3, (0, 4), id="its end after it was whole"),
        pytest.param([*A, *A[4:]], 1, (0, 4), id="its last fragment after it was whole"),
        pytest.param([*A, *A[2:], *A[3:]], 5, (0, 4), id="its end twice"),
        pytest.param([*A, AFTER[0], *A[2:], AFTER[0]], 3, (0, 4), id="its end after another"),
        pytest.param([*A[:1], *A[:2], *A[:3], *A], 6, (6, 10), id="from its beginning many times"),
        pytest.param([BEFORE[1], *A[:3], BEFORE[1], *A], 3, (5, 9), id="from what was before it"),
    ],
)
def test_repeats_are_superseded(
    messages: list[Message], superseded: int, span: tuple[int, int], change: type[list[Message]], rows: int
) -> None:
    sets, joiner = run([whole(b"0"), *change(messages)], rows=rows)
    assert [one for one in sets if one[2] == WHOLE] == [(span[0] + 1, span[1] + 1, WHOLE)]
    assert (joiner.tally.superseded, joiner.broken) == (superseded, [])


@pytest.mark.parametrize("border", range(11))
@pytest.mark.parametrize("again", [A[4:], A[2:], A[1:3], A[2:3], A[:2]], ids=["end", "tail", "middle", "one", "head"])
def test_a_part_that_comes_again_alone_behind_copies_of_earlier_messages_is_superseded(
    again: list[Message], border: int
) -> None:
    topic = Topic([*BEFORE, *A, AFTER[0], *BEFORE, *again, AFTER[1]], batch_rows=2)
    for ranges in (topic.windows([0, border, len(topic.messages)]), [topic.range(border, len(topic.messages))]):
        assert [one.broken for _, one in ranges if one.broken] == []
    assert topic.range(8, len(topic.messages))[1].tally.superseded == len(again)


@pytest.mark.parametrize("border", [3, 5, 6, 7])
def test_a_tail_behind_a_copy_of_an_earlier_message_finds_its_head_before_the_range(border: int) -> None:
    topic = Topic([*BEFORE, *A[:3], BEFORE[1], *A[3:], *AFTER])
    sets, joiner = topic.range(border, 10)
    assert (2, 7, WHOLE) in sets
    assert joiner.broken == []


@ROWS
@NUMBERED
def test_a_set_that_was_sent_twice_comes_out_twice(change: type[list[Message]], rows: int) -> None:
    sets, joiner = run(change([*A, *A]), rows=rows)
    assert sets == [(0, 4, WHOLE), (5, 9, WHOLE)]
    assert (joiner.tally.superseded, joiner.broken) == (0, [])


@ROWS
def test_a_re_read_after_a_restart_has_new_numbers(rows: int) -> None:
    again = numbered([*plain(BEFORE), *plain(A)], 13)
    sets, joiner = run([*BEFORE, *A[:3], *again], rows=rows)
    assert [data for _, _, data in sets] == [b"x", b"y", b"x", b"y", WHOLE]
    assert (joiner.tally.superseded, joiner.broken) == (3, [])


@NUMBERED
@pytest.mark.parametrize("border", range(1, 8))
def test_the_end_of_an_earlier_windows_set_is_superseded(change: type[list[Message]], border: int) -> None:
    topic = Topic(change([*A, *A[2:], *AFTER]), batch_rows=2)
    joined = [topic.range(0, border), topic.range(border, 10)]
    assert [data for sets, _ in joined for _, _, data in sets] == [WHOLE, b"w", b"v"]
    assert [one.broken for _, one in joined] == [[], []]


LOST = [*BEFORE, *A, *AFTER]


@ROWS
@pytest.mark.parametrize(
    ("lost", "with_numbers", "without"),
    [
        pytest.param([0], (2, 5, Reason.MISSING_HEAD), (2, 5, Reason.MISSING_HEAD), id="head"),
        pytest.param([0, 1], (2, 4, Reason.MISSING_HEAD), (2, 4, Reason.MISSING_HEAD), id="two of the head"),
        pytest.param([2], (2, 5, Reason.MISSING_FRAGMENT), (2, 5, Reason.MISSING_FRAGMENT), id="middle"),
        pytest.param([1, 3], (2, 4, Reason.MISSING_FRAGMENT), (2, 4, Reason.MISSING_FRAGMENT), id="two of the middle"),
        pytest.param([4], (2, 5, Reason.MISSING_FRAGMENT), (2, 5, Reason.MISSING_FRAGMENT), id="tail"),
        pytest.param([0, 4], (2, 4, Reason.MISSING_HEAD), (2, 4, Reason.MISSING_HEAD), id="both ends"),
    ],
)  # fmt: skip
def test_what_is_lost_is_named_with_its_offsets_and_the_rest_goes_on(
    lost: list[int], with_numbers: tuple[int, int, Reason], without: tuple[int, int, Reason], rows: int
) -> None:
    messages = [message for number, message in enumerate(LOST) if number - 2 not in lost]
    kept = b"".join(one.data for index, one in enumerate(A) if index not in lost)
    for change, expected in ((list, with_numbers), (plain, without)):
        sets, joiner = run(change(messages), rows=rows)
        assert [data for _, _, data in sets] == [b"x", b"y", b"w", b"v"]
        assert named(joiner) == [expected]
        assert joiner.broken[0].data == kept


@ROWS
def test_a_lost_end_is_told_from_a_set_that_was_begun_again(rows: int) -> None:
    sets, joiner = run([*A[:3], *numbered(split(b"b0", b"b1"), 15)], rows=rows)
    assert [data for _, _, data in sets] == [b"b0b1"]
    assert named(joiner) == [(0, 2, Reason.MISSING_FRAGMENT)]
    assert joiner.broken[0].detail == "a set of 5 fragments: fragments 3 to 4 are missing; here are 0-2"
    # The producer gave the number of the next fragment to another message: it will send the set again.
    sets, joiner = run([*A[:3], *numbered(split(b"b0", b"b1"), 13)], rows=rows)
    assert (joiner.broken, joiner.tally.carried_out) == ([], 3)


@ROWS
def test_sets_of_which_two_have_lost_something_are_never_put_together(rows: int) -> None:
    other = numbered(split(b"b0", b"b1", b"b2", b"b3", b"b4"), 15)
    sets, joiner = run([*A[:3], *other[3:], whole(b"w")], rows=rows)
    assert [data for _, _, data in sets] == [b"w"]
    assert named(joiner) == [(0, 2, Reason.MISSING_FRAGMENT), (3, 4, Reason.MISSING_HEAD)]


@ROWS
@pytest.mark.parametrize("order", [(0, 2, 1, 3, 4), (0, 1, 2, 4, 3), (1, 0, 2, 3, 4), (4, 3, 2, 1, 0), (4, 0, 1, 2, 3)])
def test_fragments_out_of_order_are_joined_by_their_numbers(order: tuple[int, ...], rows: int) -> None:
    sets, joiner = run([*BEFORE, *(A[index] for index in order), *AFTER], rows=rows)
    assert (2, 6, WHOLE) in sets
    assert joiner.broken == []


@ROWS
def test_a_fragment_that_comes_behind_the_next_sets_is_joined_by_its_number(rows: int) -> None:
    other = numbered(split(b"b0", b"b1"), 17)
    sets, joiner = run([*A[:4], *AFTER, *other, A[4]], rows=rows)
    assert sets == [(4, 4, b"w"), (5, 5, b"v"), (6, 7, b"b0b1"), (0, 8, WHOLE)]
    assert joiner.broken == []


@ROWS
def test_without_numbers_fragments_out_of_order_are_kept_in_quarantine(rows: int) -> None:
    sets, joiner = run([*plain([A[0], A[2], A[1], A[3], A[4]]), whole(b"w")], rows=rows)
    assert [data for _, _, data in sets] == [b"w"]
    assert joiner.tally.quarantined_fragments == 5
    assert sorted(b"".join(one.data or b"" for one in joiner.broken)) == sorted(WHOLE)


@ROWS
@NUMBERED
def test_totals_that_contradict_each_other_are_given_up(change: type[list[Message]], rows: int) -> None:
    messages = numbered([Message(3, 0, b"x"), Message(4, 1, b"y"), Message(4, 2, b"z"), whole(b"w")])
    sets, joiner = run(change(messages), rows=rows)
    assert sets == [(3, 3, b"w")]
    assert named(joiner) == [(0, 0, Reason.CONTRADICTORY_FRAGMENT), (1, 2, Reason.CONTRADICTORY_FRAGMENT)]


@ROWS
@NUMBERED
def test_copies_with_different_bytes_are_given_up(change: type[list[Message]], rows: int) -> None:
    damaged = replace(A[1], data=b"!!")
    sets, joiner = run(change([*A[:2], damaged, *A[2:], *AFTER]), rows=rows)
    assert [data for _, _, data in sets] == [b"w", b"v"]
    assert named(joiner) == [(0, 1, Reason.CONTRADICTORY_FRAGMENT), (2, 5, Reason.CONTRADICTORY_FRAGMENT)]


@ROWS
@NUMBERED
def test_sets_interleaved_in_one_shard_are_a_contradiction(change: type[list[Message]], rows: int) -> None:
    one, other = split(b"a0", b"a1", b"a2"), split(b"b0", b"b1", b"b2")
    mixed = numbered([one[0], other[0], one[1], other[1], one[2], other[2], whole(b"w")])
    sets, joiner = run(change(mixed), rows=rows)
    assert [data for _, _, data in sets] == [b"w"]
    assert joiner.tally.quarantined_fragments == 6
    assert Reason.CONTRADICTORY_FRAGMENT in {broken.reason for broken in joiner.broken}


@NUMBERED
def test_a_claim_of_four_billion_fragments_costs_no_memory(change: type[list[Message]]) -> None:
    most = (1 << 32) - 1
    claims = numbered([Message(most, index, b"z") for index in (0, 1, 7, most - 2, most - 1)], most)
    messages = change(
        [replace(one, sequence=most + one.index) for one in claims] + [replace(AFTER[0], sequence=1 << 34)]
    )
    tracemalloc.start()
    sets, joiner = run(messages, rows=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert [data for _, _, data in sets] == [b"w"]
    assert named(joiner) == [(0, 4, Reason.MISSING_FRAGMENT)]
    assert joiner.broken[0].detail.endswith(f"fragments 2 to 6 are missing; here are 0-1, 7, {most - 2}-{most - 1}")


def test_the_end_of_a_recording_breaks_an_open_set() -> None:
    _, joiner = Topic(A[:3]).all(nothing_follows=True)
    assert named(joiner) == [(0, 2, Reason.MISSING_FRAGMENT)]


def test_the_end_of_a_range_hands_on_what_must_come() -> None:
    topic = Topic([*BEFORE, *A])
    _, first = topic.range(0, 5)
    assert (first.broken, first.tally.carried_out) == ([], 3)
    _, middle = topic.range(4, 6)
    assert (middle.tally.carried_in, middle.tally.carried_out) == (2, 4)


def test_a_head_that_may_still_come_makes_the_set_wait() -> None:
    joiner = Reassembler(lambda shard, tail: Head(Outcome.WAITING))
    joiner.feed(*batch(split(b"x", b"y", b"z")[1:], first=5))
    joiner.finish()
    assert not joiner.broken
    assert joiner.waiting == [(5, 6)]
    assert_balanced(joiner.tally)


@pytest.mark.parametrize("stored_from", [4, 3])
def test_a_set_waits_until_what_lies_before_it_is_stored(stored_from: int) -> None:
    _, joiner = Topic([*BEFORE, *A], stored_from=stored_from).range(5, 7)
    assert joiner.waiting == [(5, 6)]
    sets, joiner = Topic([*BEFORE, *A], stored_from=2).range(5, 7)
    assert sets == [(2, 6, WHOLE)]
    assert joiner.tally.carried_in == 3


def test_the_fragments_found_before_a_range_are_quarantined_with_their_tail() -> None:
    topic = Topic([*BEFORE, *A[:2], *A[3:], *AFTER])
    _, first = topic.range(0, 4)
    assert (first.broken, first.tally.carried_out) == ([], 2)
    _, second = topic.range(4, 8)
    assert named(second) == [(2, 5, Reason.MISSING_FRAGMENT)]
    assert (second.broken[0].data, second.tally.carried_in) == (b"a0a1a3a4", 2)


def test_numbers_end_the_search_for_a_head_that_was_lost() -> None:
    topic = Topic([*numbered([whole(b"f")] * 500, 1), *numbered(A[1:], 502)], batch_rows=10)
    _, joiner = topic.range(500, 504)
    assert named(joiner) == [(500, 503, Reason.MISSING_HEAD)]
    assert len(topic.read_back) == FURTHEST_REPEATED // 10 + 1


def test_without_numbers_the_search_for_a_repeated_set_is_bounded() -> None:
    between = [whole(b"f")] * FURTHEST_BY_CONTENT
    topic = Topic(plain([*A, *between, *A[2:]]), batch_rows=1)
    sets, joiner = topic.all()
    assert named(joiner) == [(5 + len(between), 7 + len(between), Reason.MISSING_HEAD)]
    assert len(topic.read_back) == FURTHEST_BY_CONTENT
    assert (0, 4, WHOLE) in sets


def test_many_unfinished_sets_are_decided_one_after_the_other() -> None:
    messages = [message for start in range(0, 300, 3) for message in numbered(split(b"p", b"q", b"r"), start)[:2]]
    sets, joiner = Topic(messages).all(nothing_follows=True)
    assert (sets, len(joiner.broken)) == ([], 100)
    assert {one.reason for one in joiner.broken} == {Reason.MISSING_FRAGMENT}


# Windows that begin with what the one before left open


def fates(windows: Sequence[tuple[list[Set], Reassembler]]) -> list[tuple[int, int, int]]:
    """Fragments carried in, in quarantine and carried out, window by window."""
    tallies = [joiner.tally for _, joiner in windows]
    return [(one.carried_in, one.quarantined_fragments, one.carried_out) for one in tallies]


@NUMBERED
def test_a_set_whose_tail_never_comes_is_quarantined_by_the_window_that_knows(change: type[list[Message]]) -> None:
    # Two fragments of three, and then nothing but whole messages, the next of which has the number of the third.
    messages = change(numbered([*split(b"a", b"b", b"c")[:2], *[whole(b"w")] * 6]))
    assert fates(Topic(messages).windows([0, 2, 5, 8])) == [(0, 0, 2), (2, 2, 0) if change is plain else (2, 0, 2),
                                                            (0, 0, 0) if change is plain else (2, 2, 0)]  # fmt: skip
    _, second, third = Topic(messages).windows([0, 2, 5, 8])
    assert named((second if change is plain else third)[1]) == [(0, 1, Reason.MISSING_FRAGMENT)]
    assert fates(Topic(messages).windows([0, 4, 8])) == (
        [(0, 2, 0), (0, 0, 0)] if change is plain else [(0, 0, 2), (2, 2, 0)]
    )


def test_a_set_that_is_sent_again_in_the_next_window_is_no_loss() -> None:
    again = numbered([*plain(BEFORE), *plain(A), *plain(AFTER)], 13)
    topic = Topic([*A[:3], *again])
    for border in range(3, 9):
        windows = topic.windows([0, border, len(topic.messages)])
        assert fates(windows)[1][1:] == (0, 0)
        assert sum(joiner.tally.superseded for _, joiner in windows) == 3
        assert [joiner.broken for _, joiner in windows] == [[], []]
        assert [data for sets, _ in windows for _, _, data in sets].count(WHOLE) == 1


@NUMBERED
def test_a_set_goes_through_windows_without_messages(change: type[list[Message]]) -> None:
    topic = Topic(change(A))
    windows = topic.windows([0, 2, 2, 2, 5])
    assert fates(windows) == [(0, 0, 2), (2, 0, 2), (2, 0, 2), (2, 0, 0)]
    assert windows[-1][0] == [(0, 4, WHOLE)]
    ended = Topic(change(A[:2])).windows([0, 2, 2], nothing_follows=True)
    assert fates(ended) == [(0, 0, 2), (2, 2, 0)]
    assert named(ended[-1][1]) == [(0, 1, Reason.MISSING_FRAGMENT)]


def test_a_set_waits_while_its_shard_is_silent() -> None:
    one = numbered(split(b"1", b"2", b"3", shard="one"))
    other = [replace(message, shard="other") for message in numbered([whole(b"x"), whole(b"y"), whole(b"z")])]
    messages = [*one[:2], *other]
    windows = Topic([*messages, one[2]]).windows([0, 2, 4, 6])
    assert fates(windows) == [(0, 0, 2), (2, 0, 2), (2, 0, 0)]
    given_up = replace(whole(b"w", shard="one"), sequence=3)
    windows = Topic([*one[:2], given_up, *other, given_up]).windows([0, 3, 6, 7])
    assert fates(windows) == [(0, 0, 2), (2, 0, 2), (2, 2, 0)]


def test_interleaved_sets_of_two_shards_cross_a_border_together() -> None:
    one, other = split(b"1", b"2", b"3", shard="one"), split(b"7", b"8", b"9", shard="other")
    topic = Topic([one[0], other[0], one[1], other[1], other[2], one[2]])
    for border in range(1, 6):
        windows = topic.windows([0, border, 6])
        assert [joiner.broken for _, joiner in windows] == [[], []]
        assert sorted(data for sets, _ in windows for _, _, data in sets) == [b"123", b"789"]
    lost = Topic([one[0], other[0], one[1], other[1], whole(b"w", shard="one"), other[2]]).windows([0, 4, 6])
    assert fates(lost) == [(0, 0, 4), (4, 2, 0)]


def test_a_begin_that_was_repeated_before_the_border_goes_with_the_set() -> None:
    again = plain([*A[:2], *A])
    for border in range(1, 7):
        windows = Topic(again).windows([0, border, 7])
        assert [joiner.broken for _, joiner in windows] == [[], []]
        assert sum(joiner.tally.superseded for _, joiner in windows) == 2


def test_a_range_finds_by_itself_what_the_one_before_leaves_where_a_set_simply_goes_on() -> None:
    for messages in (A, plain(A)):
        topic = Topic(messages)
        for border in range(1, 5):
            (_, before), (_, after) = topic.range(0, border), topic.range(border, 5)
            assert before.left_open == after.taken_over


def test_a_set_whose_begin_was_lost_is_not_carried() -> None:
    for messages in (A[1:], plain(A[1:])):
        windows = Topic(messages).windows([0, 2, 4])
        assert [sum(fate[1] for fate in fates(windows)), fates(windows)[0][2]] == [4, 0]
