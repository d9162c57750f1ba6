"""Entry sets that are too large, or too many, to be held: quarantined by coordinates, without a growing memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dts_assets.model.problems import Reason
from dts_assets.stages import collecting, partial_sets
from dts_assets.stages.reassembly import Reassembler
from tests.stages.shards import Message, Set, Topic, assert_balanced, batch, no_head, numbered, split, whole

Named = list[tuple[int, int, Reason]]
BEFORE, AFTER = numbered([whole(b"x"), whole(b"y")], 8), numbered([whole(b"w"), whole(b"v")], 15)


def plain(messages: Sequence[Message]) -> list[Message]:
    """The same without numbers."""
    return [replace(message, sequence=None) for message in messages]


ROWS = pytest.mark.parametrize("rows", [1, 2, 3, 100])
NUMBERED = pytest.mark.parametrize("change", [list, plain], ids=["ps", "no ps"])


def run(messages: Sequence[Message], *, rows: int) -> tuple[list[Set], Reassembler]:
    """All messages as one range, in batches of so many."""
    return Topic(messages, batch_rows=rows).all()


def named(joiner: Reassembler) -> Named:
    return sorted((one.first_offset, one.last_offset, one.reason) for one in joiner.broken)


class TestTooLarge:
    """Sets that cannot be held: named by their coordinates, and counted as every other broken set."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A set has ten bytes at most; the fragments of A have two each."""
        monkeypatch.setattr(partial_sets, "MOST_SET_BYTES", 10)

    @ROWS
    @NUMBERED
    @pytest.mark.parametrize("bytes_of_one", [2, 3])
    def test_a_set_goes_to_quarantine_and_all_others_are_joined(
        self, bytes_of_one: int, change: type[list[Message]], rows: int
    ) -> None:
        large = numbered(split(*[bytes([one]) * bytes_of_one for one in range(5)]), 10)
        sets, joiner = run(change([*BEFORE, *large, *AFTER, *numbered(split(b"1", b"2"), 17)]), rows=rows)
        fits = bytes_of_one == 2 or rows == 100  # what lies side by side in a batch is joined where it lies
        assert [data for _, _, data in sets if len(data) == 1] == [b"x", b"y", b"w", b"v"]
        assert sets[-1][2] == b"12"
        assert [one for one in sets if one[0] == 2 and len(one[2]) == 5 * bytes_of_one] == (
            [(2, 6, b"".join(one.data for one in large))] if fits else []
        )
        assert {reason for _, _, reason in named(joiner)} == (set() if fits else {Reason.TOO_LARGE})
        assert_balanced(joiner.tally)
        if not fits:
            assert joiner.tally.quarantined_fragments == 5
            assert (named(joiner)[0][0], named(joiner)[-1][1]) == (2, 6)
            assert [one.data for one in joiner.broken] == [None] * len(joiner.broken)
            assert "of 5 fragments is too large to be held" in joiner.broken[0].detail

    @NUMBERED
    @pytest.mark.parametrize("border", range(1, 5))
    def test_a_set_over_two_windows_is_not_read_back_for_ever(self, border: int, change: type[list[Message]]) -> None:
        large = change(numbered(split(*[b"xyz"] * 5), 10))
        topic = Topic([*large, *AFTER], batch_rows=1)
        joiners = [topic.range(0, border)[1], topic.range(border, 7)[1]]
        for joiner in joiners:
            assert_balanced(joiner.tally)
        found = [one for joiner in joiners for one in named(joiner)]
        assert {reason for _, _, reason in found} == {Reason.TOO_LARGE}

    @ROWS
    def test_sets_of_many_shards_are_given_up_oldest_first(self, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        monkeypatch.setattr(collecting, "MOST_HELD_BYTES", 12)
        begun = [numbered(split(b"12345", b"6", shard=f"s{one}"), 10)[0] for one in range(8)]
        _, joiner = run([*begun, whole(b"w")], rows=rows)
        assert_balanced(joiner.tally)
        broken = [first for first, _, reason in named(joiner) if reason is Reason.TOO_LARGE]
        assert len(broken) == 6
        assert [one.offsets for one in joiner.left_open] == [(one,) for one in range(8) if one not in broken]


def test_what_is_broken_is_handed_over_batch_by_batch() -> None:
    """The bytes of broken sets stayed in memory until the window ended."""
    joiner, most, found = Reassembler(no_head), 0, 0
    tracemalloc.start()
    for first in range(0, 400, 2):
        lost = numbered(split(*[b"x" * 100_000] * 3), 10 * first)[:2]
        joiner.feed(*batch(lost, first))
        found += len(joiner.take_broken())
        most = max(most, tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    joiner.finish()
    assert found + len(joiner.broken) == joiner.tally.broken_sets == 199, "the last one is carried on"
    assert most < 8_000_000
