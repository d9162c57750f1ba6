"""Clean streams raise no alarm, however they are read again and cut; every message that is lost is found, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from dts_assets.model.delivery import NOTHING_DELIVERED
from dts_assets.model.gtids import GtidSet
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.planning.adjoining_cells import excused, joined, seam
from dts_assets.planning.completeness import WindowEvidence, gtid_holes, gtids_by_shard, level_of_cell, level_of_window
from tests.stages.deliveries import Message, Seen, Topic, gtids, topics, up_to, windows
from tests.tiers import examples

BORDERS = st.lists(st.integers(0, 30), max_size=3)


def found(cells: Sequence[Seen]) -> list[Problem]:
    """All problems of a Kafka partition: those of its cells, and those between them."""
    problems: list[Problem] = []
    before = NOTHING_DELIVERED
    for one in cells:
        own, _ = excused(before, one.delivery, one.problems)
        problems += [*own, *seam(before, one.delivery)]
        before = joined(before, one.delivery)
    return problems


def around(problems: Sequence[Problem], offset: int) -> bool:
    """Whether a problem names the place: the messages on either side of it."""
    return any(
        one.first_offset is not None
        and one.last_offset is not None
        and one.first_offset - 1 <= offset <= one.last_offset + 1
        for one in problems
    )


def seen_gtids(topic: Topic, messages: Sequence[Message]) -> GtidSet:
    cells = windows(topic, messages, (), numbered=True)
    return gtids_by_shard(one.delivery for one in cells).get("") or GtidSet()


def without(messages: Sequence[Message], lost: Message) -> list[Message]:
    """The messages but one; if that is a fragment, nothing comes of its set."""
    begin = lost.offset - lost.part
    return [replace(one, entries=()) if one.offset - one.part == begin else one for one in messages if one is not lost]


@examples(100)
@given(topics(), BORDERS, st.booleans())
def test_a_clean_stream_raises_no_alarm_and_gets_the_level_it_deserves(
    topic: Topic, borders: list[int], numbered: bool
) -> None:
    for messages in topic.partitions:
        cells = windows(topic, messages, borders, numbered=numbered)
        assert found(cells) == []
        for one in cells:
            level = level_of_cell(one.problems, one.delivery)
            of = one.delivery.transactions
            bare = any(shard.changes and not shard.marked for shard in of)
            silent = not numbered and not (of and all(shard.marked or shard.first is None for shard in of))
            bare |= silent or one.delivery.first_message is None
            assert level is (Completeness.OBSERVED if bare else Completeness.CONTIGUOUS)


@examples(60)
@given(topics(gtids=True), BORDERS, st.integers(1, 7))
def test_facts_do_not_depend_on_where_windows_and_batches_end(topic: Topic, borders: list[int], size: int) -> None:
    for messages in topic.partitions:
        whole = windows(topic, messages, (), numbered=True)
        parts = windows(topic, messages, borders, numbered=True)
        together = NOTHING_DELIVERED
        for one in parts:
            together = joined(together, one.delivery)
        if not whole:
            continue
        for known, other in zip(whole[0].delivery.transactions, together.transactions, strict=True):
            assert (known.begun, known.ended, known.changes) == (other.begun, other.ended, other.changes)
            assert (known.gtids, known.last_position) == (other.gtids, other.last_position)
            assert {one.gtid for one in known.open} == {one.gtid for one in other.open}
        assert whole[0].delivery.sequences == together.sequences


@examples(100)
@given(topics(), BORDERS, st.data())
def test_every_lost_message_is_found_by_its_number(topic: Topic, borders: list[int], data: st.DataObject) -> None:
    messages = data.draw(st.sampled_from(topic.partitions))
    assume(len(messages) > 2)
    lost = data.draw(st.sampled_from(messages[1:-1]))
    near = [*borders, lost.offset, lost.offset + 1][: data.draw(st.integers(0, 5))]
    gone = without(messages, lost)
    gaps = [one for one in found(windows(topic, gone, near, numbered=True)) if one.code is ProblemCode.GAP]
    assert [one.first_offset for one in gaps] == [next(one.offset for one in gone if one.offset > lost.offset)]


@examples(100)
@given(topics(restarts=False, most_partitions=1, gtids=True), BORDERS, st.data())
def test_what_is_lost_without_numbers_is_found_by_transactions_and_gtids(
    topic: Topic, borders: list[int], data: st.DataObject
) -> None:
    (messages,) = topic.partitions
    lost = data.draw(st.sampled_from([one for one in messages if one.entries]))
    near = [*borders, lost.offset, lost.offset + 1][: data.draw(st.integers(0, 5))]
    gone = without(messages, lost)
    problems = found(windows(topic, gone, near, numbered=False))
    ended = {one.number for one in lost.entries if one.kind in ("COMMIT", "DDL")}
    begun = {one.number for one in lost.entries if one.kind == "BEGIN"}
    everything = up_to(topic.transactions)
    assert gtid_holes(GtidSet(), seen_gtids(topic, gone), GtidSet(), everything) == gtids(*ended)
    earlier = any(one.number for message in gone for one in message.entries if message.offset < lost.offset)
    if begun - ended and earlier:  # what comes first of all may have begun before the topic did
        assert around([one for one in problems if one.code is ProblemCode.TRANSACTION], lost.offset)
    later = any(
        one.kind in ("BEGIN", "DDL") for message in gone for one in message.entries if message.offset > lost.offset
    )
    if ended - begun and later and _has_begin(gone, ended - begun):
        assert around([one for one in problems if one.code is ProblemCode.TRANSACTION], lost.offset)


def _has_begin(messages: Sequence[Message], numbers: set[int]) -> bool:
    return any(one.kind == "BEGIN" and one.number in numbers for message in messages for one in message.entries)


@examples(60)
@given(topics(marks="broadcast"), BORDERS)
def test_a_clean_window_is_proven_by_the_union_of_its_partitions(topic: Topic, borders: list[int]) -> None:
    cells = [(one, windows(topic, messages, (), numbered=True)) for one, messages in enumerate(topic.partitions)]
    levels = [
        (level_of_cell(seen.problems, seen.delivery, nothing_follows=True), seen.delivery)
        for _, of in cells
        for seen in of
    ]
    seen = gtids_by_shard(delivery for _, delivery in levels).get("")
    missing = None if seen is None else gtid_holes(GtidSet(), seen, None, up_to(topic.synced))
    count = len(topic.partitions)
    evidence = WindowEvidence((), missing, topic.gtids, count, count)
    level, problems = level_of_window(levels, evidence)
    assert problems == ()
    assert level is (Completeness.PROVEN if topic.gtids else Completeness.CONTIGUOUS)
