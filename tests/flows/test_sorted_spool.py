"""Rows that come in any order and parts are given in the order of the source, and little of them is held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dts_assets.flows.sorted_spool import SortedSpool
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.sorted_merge import SORT_COLUMNS

ROW = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 6), *(st.integers(0, 1) for _ in range(4)))


def table(rows: Sequence[tuple[int, ...]], *, first: int = 0) -> pa.Table:
    columns = {name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(SORT_COLUMNS)}
    return pa.table({**columns, "number": pa.array(range(first, first + len(rows)), pa.int64())})


def shown(rows: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in SORT_COLUMNS), strict=True))


@given(st.lists(st.lists(ROW, max_size=8), max_size=12), st.sampled_from([0, 300, 10_000]), st.sets(ROW, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_rows_are_given_in_order_and_once(
    tmp_path: Path, parts: list[list[tuple[int, ...]]], held: int, floors: set[tuple[int, ...]]
) -> None:
    spool, given_rows, later = SortedSpool(tmp_path, held_bytes=held), list[tuple[int, ...]](), sorted(floors)
    passed: tuple[int, ...] = ()
    added: list[tuple[int, ...]] = []
    for number, rows in enumerate(parts):
        fitting = [row for row in rows if row[:3] >= passed]  # none is before a position up to which all was given
        added += fitting
        spool.add(table(fitting))
        if number % 3 == 2 and later:
            passed = later.pop(0)[:3]
            found = [row for some in spool.until(SourcePosition(*passed)) for row in shown(some)]
            assert all(row[:3] < passed for row in found)
            given_rows += found
    wanted = given_rows + [row for some in spool.until(None) for row in shown(some)]
    assert wanted == sorted(added)
    assert not list(tmp_path.glob("*.arrow"))
    assert list(spool.until(None)) == []


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_no_row_is_lost_or_told_twice(tmp_path: Path, held: int) -> None:
    spool = SortedSpool(tmp_path, held_bytes=held)
    rows = [(0, 1, (7 * n) % 101, 1, 0, 0, n) for n in range(101)]
    found: list[int] = []
    for first in range(0, 101, 10):
        spool.add(table(rows[first : first + 10], first=first))
    for floor in (0, 30, 30, 70):
        for some in spool.until(SourcePosition(0, 1, floor)):
            found += some["position"].to_pylist()
        assert found == list(range(floor))
    found += [one for some in spool.until(None) for one in some["position"].to_pylist()]
    assert found == list(range(101))
