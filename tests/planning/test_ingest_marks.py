"""The marks of raw and entries: their generations, inputs and refreshes, after a first reading and after more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dts_assets.model.delivery import NOTHING_DELIVERED
from dts_assets.model.ledger_rows import Counts, RawWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet, open_sets_text
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.refreshes import Refresh
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, WindowGrid
from dts_assets.planning.boundaries import PlannedCell
from dts_assets.planning.ingest_marks import Copied, CopiedPart, Decoded, entries_mark, raw_mark
from dts_assets.planning.raw_reads import RawRead, plan_read
from dts_assets.planning.staleness import generation
from tests.ledger_rows import ingest_row, raw_row

START = datetime(2026, 1, 5, tzinfo=UTC)
GRID = WindowGrid(timedelta(hours=1), START)
EARLIEST, EARLIER, CELL = (Cell(0, GRID.at(number)) for number in range(3))
GAP = Problem(ProblemCode.GAP, 10, 11, "gone")
SKEWED = Problem(ProblemCode.CLOCK, 12, 12, "dated beyond now")
OPEN, CLOSED, END = ClosedBy.OPEN, ClosedBy.MESSAGE, ClosedBy.END


def planned(start: int, end: int, closed_by: ClosedBy = CLOSED) -> PlannedCell:
    return PlannedCell(CELL, OffsetRange(start, end), closed_by, stored=False)


def copied(*parts: tuple[int, int, str], bytes: int = 7, at: int | None = None) -> Copied:
    time = None if at is None else START + timedelta(minutes=at)
    made = tuple(CopiedPart(OffsetRange(start, end), end - start, digest) for start, end, digest in parts)
    return Copied(made, bytes, time, time)


def marked(read: RawRead, what: Copied, *problems: Problem, run: str = "run1") -> RawWindow:
    return raw_mark(read, what, problems, epoch=3, run=run)


def test_a_cell_read_in_one_go_has_no_refreshes() -> None:
    row = marked(RawRead(planned(10, 20), (OffsetRange(10, 20),)), copied((10, 20, "a"), at=5), GAP)
    facts = ["epoch=3", "offsets=[10, 20)", "messages=10", "content=a", "gap=10"]
    at = START + timedelta(minutes=5)
    assert row == RawWindow(
        0, CELL.window, 3, OffsetRange(10, 20), CLOSED, 10, 7, at, at, (GAP,), generation(facts, code_version=CODE_VERSION),
        CODE_VERSION,
    )  # fmt: skip


WHOLE = RawRead(planned(10, 20), (OffsetRange(10, 20),))


@pytest.mark.parametrize(
    ("read", "what", "problems"),
    [
        (WHOLE, copied((10, 20, "b")), ()),
        (WHOLE, Copied((CopiedPart(OffsetRange(10, 20), 9, "a"),), 7), ()),
        (RawRead(planned(10, 21), (OffsetRange(10, 21),)), copied((10, 21, "a")), ()),
        (WHOLE, copied((10, 20, "a")), (GAP,)),
        (RawRead(planned(10, 20), (OffsetRange(10, 12), OffsetRange(12, 20))), copied((10, 12, "a"), (12, 20, "a")), ()),
    ],
    ids=["content", "messages", "offsets", "a gap", "parts"],
)  # fmt: skip
def test_another_content_is_another_generation(read: RawRead, what: Copied, problems: tuple[Problem, ...]) -> None:
    assert marked(read, what, *problems).generation != marked(WHOLE, copied((10, 20, "a"))).generation


def test_what_is_no_content_does_not_change_the_generation() -> None:
    here = marked(WHOLE, copied((10, 20, "a"), bytes=1, at=3), run="run1")
    again = marked(WHOLE, copied((10, 20, "a"), bytes=2, at=4), SKEWED, replace(GAP, first_offset=9), run="run2")
    assert here.generation == again.generation
    assert raw_mark(WHOLE, copied((10, 20, "a")), (), epoch=4, run="run1").generation != here.generation


def test_an_open_cell_grows_and_read_again_at_once_it_gets_the_generation_of_its_parts() -> None:
    first = marked(plan_read(planned(10, 15, OPEN), None), copied((10, 15, "a"), at=5), GAP)
    assert [(one.end_offset, one.run) for one in first.refreshes] == [(15, "run1")]

    onward = plan_read(planned(10, 20), first)
    second = marked(onward, copied((15, 20, "b"), at=2), SKEWED, run="run2")
    assert [(one.end_offset, one.run) for one in second.refreshes] == [(15, "run1"), (20, "run2")]
    assert second.refreshes[0] == first.refreshes[0]
    assert second.generation == second.refreshes[-1].generation
    assert (second.messages, second.bytes, second.problems) == (10, 14, (GAP, SKEWED))
    assert second.first_time == START + timedelta(minutes=2)
    assert (second.last_time, second.offsets) == (first.last_time, OffsetRange(10, 20))

    again = plan_read(planned(10, 20), second)
    third = marked(again, copied((10, 15, "a"), (15, 20, "b")), GAP, SKEWED, run="run3")
    assert third.generation == second.generation
    assert [one.run for one in third.refreshes] == ["run3", "run3"]


def test_a_reading_without_messages_adds_no_refresh_but_the_first() -> None:
    first = marked(plan_read(planned(10, 10, OPEN), None), copied((10, 10, "")))
    assert [one.end_offset for one in first.refreshes] == [10]
    second = marked(plan_read(planned(10, 10), first), copied((10, 10, "")), run="run2")
    assert (second.refreshes, second.generation, second.closed_by) == (first.refreshes, first.generation, CLOSED)


RAW = {
    EARLIEST: raw_row(EARLIEST, OffsetRange(0, 4), generation="g0"),
    EARLIER: raw_row(EARLIER, OffsetRange(4, 10), generation="g1"),
    CELL: raw_row(CELL, OffsetRange(10, 20), generation="g2"),
}
BEFORE = Cell(0, GRID.at(9))


def decoded(end: int = 20, **facts: Any) -> Decoded:
    return Decoded(end, Counts(messages=end - 10), NOTHING_DELIVERED, **facts)


FORMAT, OWN = "format=f1", f"raw:{CELL}=g2"


@pytest.mark.parametrize(
    ("facts", "beyond", "inputs"),
    [
        ({}, None, [FORMAT, OWN]),
        ({}, BEFORE, [FORMAT, OWN]),
        ({"looked_beyond": True}, None, [FORMAT, OWN]),
        ({"looked_beyond": True}, BEFORE, [FORMAT, OWN, f"raw:{BEFORE}=absent"]),
        ({"heads_from": (EARLIER,)}, None, [FORMAT, OWN, f"raw:{EARLIER}=g1"]),
        ({"heads_from": (EARLIER, EARLIEST)}, BEFORE, [FORMAT, OWN, f"raw:{EARLIER}=g1", f"raw:{EARLIEST}=g0"]),
    ],
    ids=["alone", "needed no more", "the topic begins", "wants a cell that is not there", "a head", "two heads"],
)  # fmt: skip
def test_the_inputs_of_entries(facts: dict[str, Any], beyond: Cell | None, inputs: list[str]) -> None:
    row = entries_mark(CELL, RAW, decoded(**facts), beyond=beyond, appends_to=None, decoding="f1", run="r")
    assert row.inputs == tuple(sorted(inputs))
    assert row.generation == generation(inputs, code_version=CODE_VERSION)
    assert (row.refreshes, row.offsets, row.counts.messages) == ((), OffsetRange(10, 20), 10)


def test_entries_appended_to_keep_their_heads_and_take_the_raw_messages_of_now() -> None:
    stored = ingest_row(
        CELL, OffsetRange(10, 15), OPEN, inputs=["format=f1", f"raw:{CELL}=g9", f"raw:{EARLIER}=g1"],
        refreshes=(Refresh(15, "then", "run1"),),
    )  # fmt: skip
    row = entries_mark(CELL, RAW, decoded(), beyond=BEFORE, appends_to=stored, decoding="f1", run="run2")
    assert row.inputs == tuple(sorted([FORMAT, OWN, f"raw:{EARLIER}=g1"]))
    assert row.refreshes == (Refresh(15, "then", "run1"), Refresh(20, row.generation, "run2"))


def test_an_open_cell_is_marked_as_far_as_it_was_decoded() -> None:
    raw = {CELL: raw_row(CELL, OffsetRange(10, 20), OPEN)}
    row = entries_mark(CELL, raw, decoded(18, resume=b"x"), beyond=None, appends_to=None, decoding="f", run="run1")
    assert (row.offsets, row.closed_by, row.resume) == (OffsetRange(10, 18), OPEN, b"x")
    assert row.refreshes == (Refresh(18, row.generation, "run1"),)


@pytest.mark.parametrize(
    ("raw_problems", "own", "level"),
    [
        ((), (), Completeness.OBSERVED),
        ((GAP,), (), Completeness.INCOMPLETE),
        ((), (GAP,), Completeness.INCOMPLETE),
        ((SKEWED,), (SKEWED,), Completeness.OBSERVED),
    ],
)
def test_problems_of_raw_and_of_decoding_both_count(
    raw_problems: tuple[Problem, ...], own: tuple[Problem, ...], level: Completeness
) -> None:
    raw = {CELL: raw_row(CELL, OffsetRange(10, 20), END, problems=raw_problems)}
    row = entries_mark(CELL, raw, decoded(problems=own), beyond=None, appends_to=None, decoding="f", run="r")
    assert (row.problems, row.completeness) == ((*raw_problems, *own), level)


def test_sets_taken_over_decide_the_generation_and_are_no_input_by_name() -> None:
    taken = (OpenSet("", 3, (8, 9)),)
    alone, told = (
        entries_mark(CELL, RAW, decoded(taken_over=sets), beyond=None, appends_to=None, decoding="f1", run="r")
        for sets in ((), taken)
    )
    assert (told.inputs, told.taken_over) == (alone.inputs, taken)
    assert told.generation == generation([FORMAT, OWN, f"open sets={open_sets_text(taken)}"], code_version=CODE_VERSION)
    stored = replace(told, closed_by=OPEN, offsets=OffsetRange(10, 15), refreshes=(Refresh(15, told.generation, "r"),))
    onward = entries_mark(CELL, RAW, decoded(), beyond=None, appends_to=stored, decoding="f1", run="run2")
    assert (onward.taken_over, onward.generation) == (taken, told.generation)
