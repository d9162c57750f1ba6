"""Changes of a PostgreSQL are told once and in order by their places in its log, or the ledger names why they are not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.runs import Run
from dts_assets.model.spans import Cell
from dts_assets.planning.suspicions import find_suspicions
from dts_assets.planning.topic_lineages import find_lineages
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.redelivered_entries import KEY_COLUMNS, redelivered_in_cell
from dts_assets.stages.rows_at_places import RowsAtPlaces
from dts_assets.stages.run_tracker import RunTracker
from tests.ledger_rows import ingest_row
from tests.stages.log_streams import Log, log_entries, logs
from tests.stages.streams import EPOCH, Delivered, Event
from tests.stages.test_redelivered_entries import BORDERS, cut
from tests.tiers import examples


def tracked(delivered: Sequence[Delivered], chunk: int) -> RunTracker:
    tracker = RunTracker()
    rows = sorted(delivered, key=lambda one: one.place)
    for start in range(0, len(rows), chunk):
        tracker.see(EntryColumns.of(*log_entries(rows[start : start + chunk])))
    return tracker


def kept_of(cells: dict[Cell, list[Delivered]], runs: dict[Cell, tuple[Run, ...]]) -> tuple[list[Delivered], bool]:
    """The changes that are kept, and whether a place is named at which copies cannot be known."""
    rows = {cell: ingest_row(cell, runs=some) for cell, some in runs.items()}
    lineages = find_lineages(rows.values(), trust_gtids=True)
    suspicions = find_suspicions(rows.values(), lineages)
    kept: list[Delivered] = []
    for cell, delivered in cells.items():
        dropped: set[int] = set()
        if (suspicion := suspicions.get(cell)) is not None:
            own, *earlier = ([log_entries(cells[one])[0].select(KEY_COLUMNS)] for one in (cell, *suspicion.earlier))
            rules = {"": lineages.rule(0, "")}
            found = redelivered_in_cell(own, earlier, rules, trust_gtids=True, by_gtid=suspicion.by_gtid)
            dropped = set(found["last_offset"].to_pylist())
        kept += [one for one in delivered if one.event.kind == "DML" and one.offset not in dropped]
    return kept, bool(lineages.doubts)


@examples(200)
@given(logs(), BORDERS, st.integers(1, 9))
def test_every_change_is_kept_once_wherever_windows_are_cut(log: Log, borders: list[int], chunk: int) -> None:
    cells = cut(log.delivered, borders)
    runs = {cell: tracked(delivered, chunk).runs() for cell, delivered in cells.items()}
    kept, doubted = kept_of(cells, runs)
    assert {one.event.identity for one in kept} == {*log.truth}, "nothing is lost"
    if not doubted:
        assert sorted(one.event.identity for one in kept) == sorted(log.truth), "nothing is twice"
    assert not (doubted and len(cells) == 1), "transactions that run side by side are no other server"


def test_a_window_may_begin_with_a_transaction_that_began_before_the_last_one_ended() -> None:
    first = (("BEGIN", 8, 1), ("DML", 8, 1), ("COMMIT", 40, 1))
    told = sent(*first, ("BEGIN", 16, 9), ("DML", 16, 9), ("COMMIT", 48, 9), ("BEGIN", 48, 12), ("COMMIT", 56, 12))
    for borders in ([1], [2], [3], [4], [5], [3, 5]):
        cells = cut(told, borders)
        kept, doubted = kept_of(cells, {cell: tracked(delivered, 9).runs() for cell, delivered in cells.items()})
        assert len(kept) == 2
        # A window without the COMMIT of its only transaction does not show that this goes on in the same log.
        assert doubted == (borders == [3, 5])


@examples(100)
@given(logs(), st.integers(1, 9), st.integers(1, 9))
def test_runs_and_problems_do_not_depend_on_batches(log: Log, one: int, other: int) -> None:
    first, second = tracked(log.delivered, one), tracked(log.delivered, other)
    assert len(first.runs()) == 1
    assert first.runs() == second.runs()
    assert [*first.problems()] == [*second.problems()]
    named = [problem for problem in first.problems() if "at one place" in problem.detail]
    assert bool(named) == log.shares_commits


def sent(*entries: tuple[str, int, int]) -> list[Delivered]:
    """Entries of one partition, each with its kind, its place and its second."""
    made = []
    for offset, (kind, place, second) in enumerate(entries):
        time = EPOCH.replace(second=second)
        made.append(Delivered(0, offset, offset, Event((0, 0), kind, 0, 1), 0, None, 0, place, time, offset + 1))
    return made


def problems(*entries: tuple[str, int, int]) -> list[Problem]:
    return [*tracked(sent(*entries), 2).problems()]


def test_a_transaction_that_began_before_another_one_ended_is_no_problem() -> None:
    assert problems(("BEGIN", 8, 1), ("DML", 8, 1), ("COMMIT", 40, 1), ("DML", 16, 2), ("COMMIT", 48, 2)) == []


def test_a_later_commit_below_an_earlier_one_is_of_another_log() -> None:
    (found,) = problems(("DML", 8, 1), ("COMMIT", 40, 1), ("BEGIN", 16, 2), ("COMMIT", 24, 2))
    assert (found.code, found.first_offset, found.last_offset) == (ProblemCode.LINEAGES, 3, 3)
    assert "stand at or below them" in found.detail


def test_commits_that_are_read_again_are_no_problem() -> None:
    again = ("BEGIN", 8, 1), ("DML", 8, 1), ("COMMIT", 40, 1)
    assert problems(*again, ("COMMIT", 60, 2), *again, ("COMMIT", 60, 2)) == []


def test_changes_at_the_place_of_their_commit_are_named() -> None:
    (found,) = problems(
        ("BEGIN", 8, 1), ("DML", 8, 1), ("DML", 8, 1), ("COMMIT", 8, 1), ("BEGIN", 9, 2), ("COMMIT", 9, 2)
    )
    assert (found.code, found.first_offset, found.last_offset) == (ProblemCode.LINEAGES, 3, 3)


def test_rows_of_a_copy_are_named_only_where_a_window_cuts_them() -> None:
    assert problems(("BEGIN", 8, 1), ("DML", 8, 1), ("DML", 8, 1), ("DML", 8, 1), ("COMMIT", 40, 1)) == []
    (found,) = problems(("DML", 8, 1), ("DML", 8, 1), ("DML", 8, 1), ("DML", 16, 1), ("DML", 16, 1), ("COMMIT", 40, 1))
    assert (found.first_offset, found.last_offset) == (1, 2)


@examples(100)
@given(logs(), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 9))
def test_rows_at_one_place_are_numbered_through(log: Log, copies: list[int], chunk: int) -> None:
    changes = [one for one in log.delivered if one.event.kind == "DML"]
    numbers, counter = list[int](), RowsAtPlaces()
    for start in range(0, len(changes), chunk):
        entries, _ = log_entries(changes[start : start + chunk])
        fresh = np.array([place not in copies for place in range(start, start + len(entries))])
        numbers += counter.before((0, EPOCH), entries, fresh).tolist()
    last, count = None, 0
    for place, (one, number) in enumerate(zip(changes, numbers, strict=True)):
        if place in copies:
            assert number == 0
            continue
        count = count + 1 if last == (one.position, one.time) else 0
        last = one.position, one.time
        assert number == count


def test_in_a_binlog_the_time_is_no_part_of_a_place() -> None:
    entries, _ = log_entries(sent(("DML", 8, 1), ("DML", 8, 1), ("DML", 9, 1)))
    bare = entries.set_column(entries.schema.get_field_index("schema"), "schema", pa.nulls(3, pa.string()))
    times = pa.array([EPOCH, EPOCH + timedelta(seconds=1), EPOCH], entries.schema.field("event_time").type)
    for one, expected in ((bare, [0, 1, 0]), (entries, [0, 0, 0])):
        given = one.set_column(one.schema.get_field_index("event_time"), "event_time", times)
        assert RowsAtPlaces().before((0, EPOCH), given, np.ones(3, np.bool_)).tolist() == expected
