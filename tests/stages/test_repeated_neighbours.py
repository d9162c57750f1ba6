"""Neighbours with one id that say the same: copies where a table has a key, and named where it has none."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages import repeated_neighbours
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.repeated_neighbours import NeighbourTracker
from dts_assets.wire.drs_json_c import DrsJsonC
from tests.stages.task_messages import Sent

WIRE = DrsJsonC()


def seen(sent: Sequence[Sent], chunk: int) -> tuple[list[int], list[Problem]]:
    """The offsets of what is surely a copy, and the problems; messages are decoded some at a time."""
    tracker, found = NeighbourTracker(), []
    for start in range(0, len(sent), chunk):
        values = pa.array([one.body() for one in sent[start : start + chunk]], pa.binary())
        decoded = WIRE.entries(values)
        places = {"last_offset": pa.array(range(start, start + len(values)), pa.int64()), "shard": [""] * len(values)}
        columns = EntryColumns.of(decoded.batch, pa.RecordBatch.from_pydict(places))
        rows = tracker.see(decoded.batch["payload"], columns, WIRE)
        found += columns.offsets[rows].tolist()
    return found, list(tracker.problems())


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_only_what_a_neighbour_with_the_same_id_said_is_a_copy(chunk: int) -> None:
    one, two = Sent(2, "b", 0, 0, key=20), Sent(2, "c", 0, 0, key=21)
    sent = [Sent(1, "b", 0, 0, key=20), one, two, one, two, one, Sent(3, "b", 0, 0, key=20), one, Sent(4, "e", 0, 0)]
    assert seen(sent, chunk) == ([3, 4, 5], [])


@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_a_copy_that_was_sent_later_by_another_clock_is_a_copy(chunk: int) -> None:
    assert seen([Sent(2, "b", 0, 0), Sent(2, "b", 9, 9)], chunk) == ([1], [])


@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_without_a_key_nobody_can_tell_and_the_place_is_named(chunk: int) -> None:
    sent = [Sent(1, "x", 0, 0, table="bag"), *[Sent(2, "y", 0, 0, table="bag")] * 3, Sent(3, "y", 0, 0, table="bag")]
    copies, (problem,) = seen(sent, chunk)
    assert copies == []
    assert (problem.code, problem.first_offset, problem.last_offset) == (ProblemCode.ID, 2, 3)
    assert problem.detail.startswith("2 messages ")


@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_statements_of_one_event_are_no_copies(chunk: int) -> None:
    assert seen([Sent(1, "DROP TABLE orders", 0, 0, kind="DDL")] * 2, chunk) == ([], [])


def test_of_a_huge_event_the_first_pieces_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_neighbours, "MOST_PIECES", 2)
    pieces = [Sent(1, said, 0, 0, key=key) for key, said in enumerate("abc")]
    assert seen([*pieces, *pieces], 4) == ([3, 4], []), "the state of an open window is bounded"
