"""One pass over the messages of a cell: rows go to the sink, whatever the batches, and an open window stops at whole sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.stages import cell_decoder
from dts_assets.stages.cell_decoder import CellDecoder, CellReading
from dts_assets.stages.entry_facts import account_for_all
from dts_assets.wire.dts_protobuf import DtsProtobuf
from tests.dts_messages import Row, dml, entry_set, fragments, number, text
from tests.tiers import examples
from tests.wire.made import messages

START = datetime(2026, 1, 5, tzinfo=UTC)
CELL = Cell(0, Window(START, START + timedelta(hours=1)))


def a_set(key: int, pieces: int = 1) -> list[bytes]:
    row: Row = ([], [number(key), text("x" * 50)])
    return fragments(entry_set([dml([("id", "int(11)"), ("note", "varchar(80)")], [row])]), pieces)


VALUES = [*a_set(1), *a_set(2, 3), b"\xff\xff\xff", *a_set(3), *a_set(4, 2)]
"""A whole message, a set of three, one that nobody can read, a whole one, a set of two."""


def _falling(count: int) -> list[bytes]:
    """Changes at positions that fall while their times grow, so that each is of another binlog."""
    found = []
    for place in range(count):
        one = dml([("id", "int(11)")], [([], [number(place)])])
        one.header.position, one.header.timestamp = 4 + count - place, 1_648_110_060 + place
        found.append(fragments(entry_set([one]))[0])
    return found


def test_binlogs_that_begin_too_often_are_no_more_told_apart_and_named() -> None:
    for count, named in ((100, []), (1_000, [(127, 999)])):
        reading = CellReading(
            CELL,
            OffsetRange(0, count),
            0,
            DtsProtobuf(),
            before=lambda _: iter(()),
            reaches_start=True,
            nothing_follows=True,
        )
        kept = Kept()
        decoder = CellDecoder(reading, kept)
        decoder.read([messages(*_falling(count))])
        assert len(decoder.runs.runs()) == min(count, 128)
        assert sum(one.num_rows for one in kept.rows) == count
        found = [(one.first_offset, one.last_offset) for one in decoder.problems() if one.code is ProblemCode.LINEAGES]
        assert found == named


@dataclass
class Kept:
    rows: list[pa.RecordBatch] = field(default_factory=list)
    quarantined: list[pa.RecordBatch] = field(default_factory=list)

    def entries(self, rows: pa.RecordBatch) -> None:
        self.rows.append(rows)

    def rejected(self, rows: pa.RecordBatch) -> None:
        self.quarantined.append(rows)

    def rejections(self) -> list[dict[str, Any]]:
        return [row for part in self.quarantined for row in part.to_pylist()]

    def offsets(self) -> list[tuple[int, int]]:
        return [(row["first_offset"], row["last_offset"]) for part in self.rows for row in part.to_pylist()]


def read(
    values: Sequence[bytes],
    first: int = 0,
    size: int = 99,
    *,
    end: int | None = None,
    is_open: bool = False,
    resume: bytes | None = None,
    open_before: tuple[OpenSet, ...] | None = None,
    numbers: Sequence[int] = (),
) -> tuple[CellDecoder, Kept]:
    """Read the messages from ``first`` on, in batches of ``size``; those before it are stored.

    With an ``end`` more may follow behind it. ``numbers`` are their ``ps`` headers, if they have any.
    """
    nothing_follows = not is_open and end is None
    values = values[:end]
    batch, kept = messages(*values, headers=[[("ps", str(one).encode())] for one in numbers[:end]]), Kept()

    def before(offset: int) -> Iterator[pa.RecordBatch]:
        yield batch.slice(0, offset)

    offsets = OffsetRange(first, len(values))
    decoder = CellDecoder(
        CellReading(
            CELL, offsets, 0, DtsProtobuf(), before, True, nothing_follows, is_open=is_open, resume=resume,
            open_before=open_before,
        ),
        kept,
    )  # fmt: skip
    decoder.read(batch.slice(start, min(size, len(values) - start)) for start in range(first, len(values), size))
    return decoder, kept


@pytest.mark.parametrize("size", [1, 2, 3, 8, 99])
def test_rows_do_not_depend_on_batches(size: int) -> None:
    decoder, kept = read(VALUES, size=size)
    assert kept.offsets() == [(0, 0), (1, 3), (5, 5), (6, 7)]
    (rejected,) = [row for part in kept.quarantined for row in part.to_pylist()]
    assert (rejected["stage"], rejected["first_offset"], rejected["payload"]) == ("entries", 4, b"\xff\xff\xff")
    assert (decoder.tally.messages, decoder.facts.entries, decoder.end) == (8, 4, 8)
    assert ProblemCode.QUARANTINED in {problem.code for problem in decoder.problems()}
    assert decoder.resume() is None


def test_a_set_that_begins_before_is_read_back() -> None:
    _, kept = read(VALUES, first=2)
    assert kept.offsets() == [(1, 3), (5, 5), (6, 7)]


def test_an_open_window_ends_before_a_set_that_is_not_whole_and_goes_on_from_there() -> None:
    decoder, kept = read(VALUES[:7], is_open=True)
    assert decoder.end == 6
    state = decoder.resume()
    assert state is not None
    after, rest = read(VALUES, first=6, resume=state)
    whole, _ = read(VALUES)
    assert [*kept.offsets(), *rest.offsets()] == [(0, 0), (1, 3), (5, 5), (6, 7)]
    assert (after.tally, after.facts.entries) == (whole.tally, whole.facts.entries)


def envelope(data: bytes) -> bytes:
    (made,) = fragments(data, 1)
    return made


UNREADABLE = b"\xff\xff\xff"
NO_ENTRY = b"\x7a\x03abc"
"""Bytes that protobuf reads as a field which nobody knows, and as nothing else."""


@pytest.mark.parametrize("size", [1, 99])
@pytest.mark.parametrize(
    ("values", "spans"),
    [
        pytest.param([envelope(UNREADABLE)], [(0, 0)], id="a whole message"),
        pytest.param(fragments(UNREADABLE * 2, 3), [(0, 2)], id="a set of three"),
        pytest.param([envelope(b"")], [(0, 0)], id="no bytes"),
        pytest.param([envelope(NO_ENTRY)], [(0, 0)], id="no entry"),
        pytest.param([envelope(UNREADABLE)] * 2, [(0, 0), (1, 1)], id="twice"),
        pytest.param([*a_set(1), envelope(UNREADABLE), UNREADABLE, *a_set(2)], [(1, 1), (2, 2)], id="beside a message"),
    ],
)
def test_a_set_that_gives_no_entry_is_kept_counted_and_named(
    values: list[bytes], spans: list[tuple[int, int]], size: int
) -> None:
    decoder, kept = read(values, size=size)
    counts, rows = decoder.counts(), kept.rejections()
    assert sorted((row["first_offset"], row["last_offset"]) for row in rows) == spans
    assert counts.balanced
    assert counts.quarantine_rows == counts.quarantined == len(spans)
    assert {problem.code for problem in decoder.problems()} - {ProblemCode.UNKNOWN} == {ProblemCode.QUARANTINED}


def test_a_decoder_that_says_nothing_of_a_set_loses_nothing() -> None:
    whole = DtsProtobuf().entries(pa.array([entry_set([]), b"x"], pa.binary()))
    silent = replace(whole, rejected=())
    found = account_for_all(silent, pa.array([entry_set([]), b"x"], pa.binary()))
    assert [(one.index, one.entry_number, one.payload) for one in found.rejected] == [(0, None, b""), (1, None, b"x")]


@st.composite
def damaged(draw: st.DrawFn) -> list[bytes]:
    """Messages of whole and split sets, some of which were changed, repeated, moved or lost."""
    sent = [value for key in range(draw(st.integers(1, 5))) for value in a_set(key, draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(sent) - 1))
        value = bytearray(sent[at])
        kind = draw(st.sampled_from(["byte", "cut", "emptied", "repeated", "lost", "moved"]))
        if kind == "byte" and value:
            place = draw(st.integers(0, len(value) - 1))
            value[place] = draw(st.integers(0, 255))
        elif kind == "cut":
            value = value[: draw(st.integers(0, len(value)))]
        elif kind == "emptied":
            value = bytearray()
        if kind in ("lost", "moved") and len(sent) > 1:
            del sent[at]
        if kind in ("repeated", "moved"):
            sent.insert(draw(st.integers(0, len(sent))), bytes(value))
        elif kind != "lost":
            sent[at] = bytes(value)
    return sent


@examples(150)
@given(damaged(), st.data())
def test_every_row_of_quarantine_is_counted_exactly_once(values: list[bytes], data: st.DataObject) -> None:
    first, size = data.draw(st.integers(0, len(values) - 1)), data.draw(st.integers(1, len(values)))
    decoder, kept = read(values, first, size, is_open=data.draw(st.booleans()))
    counts = decoder.counts()
    assert counts.unbalanced == ()
    assert counts.quarantine_rows == len(kept.rejections())
    named = ProblemCode.QUARANTINED in {problem.code for problem in decoder.problems()}
    assert named == bool(kept.rejections())


Decoded: TypeAlias = tuple[CellDecoder, Kept]


def in_order(values: list[bytes], numbers: Sequence[int], borders: Sequence[int]) -> list[Decoded]:
    """All windows, each of which is told what the one before left open."""
    found: list[Decoded] = []
    for first, end in pairwise(borders):
        known = found[-1][0].left_open if found else None
        found.append(read(values, first, end=end, open_before=known, numbers=numbers))
    return found


def settled(values: list[bytes], numbers: Sequence[int], borders: Sequence[int]) -> list[Decoded]:
    """All windows alone, and again those that took over other sets than the one before leaves, until there are none."""
    spans = list(pairwise(borders))
    found = [read(values, first, end=end, numbers=numbers) for first, end in spans]
    for _ in range(len(spans) + 1):
        wrong = [at for at in range(1, len(spans)) if found[at][0].taken_over != found[at - 1][0].left_open]
        if not wrong:
            return found
        again = {
            at: read(values, first, end=end, open_before=found[at - 1][0].left_open, numbers=numbers)
            for at, (first, end) in enumerate(spans)
            if at in wrong
        }
        found = [again.get(at, one) for at, one in enumerate(found)]
    raise AssertionError("there is always something left to do")


def results(one: Decoded) -> tuple[object, ...]:
    decoder, kept = one
    problems = [problem for problem in decoder.problems() if problem.code is not ProblemCode.UNKNOWN]
    return decoder.counts(), decoder.left_open, decoder.taken_over, kept.offsets(), kept.rejections(), problems


@st.composite
def in_windows(draw: st.DrawFn) -> tuple[list[bytes], list[int], list[int]]:
    values, numbers = draw(damaged()), list[int]()
    if draw(st.booleans()):
        steps = st.lists(st.sampled_from([1, 1, 1, 1, 1, 0, 2, -1, -2]), min_size=len(values), max_size=len(values))
        numbers = [max(1, number) for number in accumulate(draw(steps))]
    borders = sorted(draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=4)))
    return values, numbers, [0, *borders, len(values)]


@examples(200)
@given(in_windows())
def test_windows_decoded_in_any_order_come_out_alike_and_carry_what_they_should(
    given_windows: tuple[list[bytes], list[int], list[int]],
) -> None:
    windows = in_order(*given_windows)
    assert [results(one) for one in settled(*given_windows)] == [results(one) for one in windows]
    for (before, _), (after, _) in pairwise(windows):
        assert after.counts().carried_in == before.counts().carried_out
    assert all(decoder.counts().unbalanced == () for decoder, _ in windows)
    assert all(decoder.counts().quarantine_rows == len(kept.rejections()) for decoder, kept in windows)


def test_a_set_that_another_interrupts_under_its_own_number_is_joined_and_no_part_of_it_counts_as_a_copy() -> None:
    """The tail of another set claims the number of the second fragment, and the head stands before a border."""
    claims, mine = a_set(5, 2)[1], a_set(4, 3)
    values = [*a_set(0), mine[0], claims, *mine[1:], *a_set(1)]
    numbers = [1, 2, 3, 3, 4, 5]
    for windows in ([0, 2, 6], [0, 6]):
        for found in (in_order(values, numbers, windows), settled(values, numbers, windows)):
            assert sum(decoder.counts().joined for decoder, _ in found) == 3
            assert [decoder.counts().superseded for decoder, _ in found] == [0] * len(found)
            assert [row["reason"] for _, kept in found for row in kept.rejections()] == ["contradictory_fragment"]


def test_an_open_window_does_not_give_up_a_set_before_it_has_closed() -> None:
    numbers = [[("ps", str(number).encode())] for number in (1, 2, 3, 4, 5)]
    head, other = a_set(1, 3)[:2], [*a_set(2), *a_set(3), *a_set(4)]
    values = [*head, *other]

    def part(first: int, end: int, *, is_open: bool, known: tuple[OpenSet, ...] | None) -> CellDecoder:
        batch, kept = messages(*values, headers=numbers), Kept()
        reading = CellReading(
            CELL, OffsetRange(first, end), 0, DtsProtobuf(), lambda offset: [batch.slice(0, offset)], True, False,
            is_open=is_open, open_before=known,
        )  # fmt: skip
        decoder = CellDecoder(reading, kept)
        decoder.read([batch.slice(first, end - first)])
        return decoder

    before = part(0, 3, is_open=False, known=None)
    assert [one.abandoned for one in before.left_open] == [True]
    assert {problem.code for problem in before.problems()} == {ProblemCode.INTERRUPTED}
    still_open = part(3, 5, is_open=True, known=before.left_open)
    assert (still_open.counts().carried_out, still_open.resume()) == (2, None)
    closed = part(3, 5, is_open=False, known=before.left_open)
    counts = closed.counts()
    assert (counts.carried_in, counts.quarantined_fragments, counts.carried_out) == (2, 2, 0)
    assert {problem.code for problem in closed.problems()} == {ProblemCode.QUARANTINED}


@pytest.mark.parametrize("size", [1, 2, 3, 99])
@pytest.mark.parametrize("before", [1, 2, 5])
def test_a_set_that_is_sent_again_in_part_behind_other_messages_is_a_copy(before: int, size: int) -> None:
    """A producer sends its last requests again: some whole messages, then the begin of a set that had come whole."""
    whole = [one for key in range(before) for one in a_set(key)]
    sent = [*whole, *a_set(100, 4), *a_set(101), *whole, *a_set(100, 4)[:2], *a_set(102)]
    first, again = range(100, before + 105), [*range(100, before + 102), before + 105]
    decoder, kept = read(sent, size=size, numbers=[*first, *again])
    assert kept.rejections() == []
    assert decoder.counts().unbalanced == ()
    assert decoder.tally.superseded == 2
    assert [one.code for one in decoder.problems()] == []
    assert len(kept.offsets()) == 2 * before + 3


def test_a_set_whose_rest_is_lost_is_no_copy_of_what_came_long_before() -> None:
    """Numbers are smaller all the way back: nothing was sent again."""
    sent = [*(one for key in range(90) for one in a_set(key)), *a_set(100, 4)[:2], *a_set(101)]
    _, kept = read(sent, numbers=[*range(1, 93), 95])
    assert [(row["first_offset"], row["last_offset"], row["reason"]) for row in kept.rejections()] == [
        (90, 91, "missing_fragment")
    ]


def test_sets_that_do_not_fit_one_array_are_decoded_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's offsets of binary values end at two gibibytes, for sets that were joined and for rows of quarantine."""
    whole = read(VALUES, 0, 2)
    monkeypatch.setattr(cell_decoder, "MOST_SET_BYTES", 100)
    apart = read(VALUES, 0, 2)
    assert results(apart) == results(whole)
    assert len(apart[1].rows) > len(whole[1].rows)
