"""Source positions, offsets, frontiers and levels: small values, and how they are ordered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.positions import SourcePosition, file_number
from dts_assets.model.problems import Completeness

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "number"),
    [("mysql-bin.000005", 5), ("binlog.999999", 999_999), ("binlog.1000000", 1_000_000), ("", 0), ("000007", 7),
     ("mysql-bin.index", 0), ("my.db.000010", 10), ("mysql-bin.", 0),
     ("mysql-bin.²", 0), ("mysql-bin." + "9" * 18, 10**18 - 1), ("mysql-bin." + "9" * 19, 0)],
)  # fmt: skip
def test_the_number_of_a_binlog_file(name: str, number: int) -> None:
    assert file_number(name) == number


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_files_are_ordered_by_number_even_where_it_outgrows_its_digits(one: int, other: int) -> None:
    assert (file_number(f"binlog.{one:06d}") < file_number(f"binlog.{other:06d}")) == (one < other)


def test_positions_are_ordered_by_lineage_then_file_then_position() -> None:
    ascending = [
        SourcePosition(0, 9, 400), SourcePosition(0, 10, 4), SourcePosition(0, 10, 30), SourcePosition(1, 1, 4),
    ]  # fmt: skip
    assert sorted(reversed(ascending)) == ascending
    assert str(ascending[0]) == "0:9:400"


def test_an_offset_range_is_half_open() -> None:
    assert len(OffsetRange(3, 7)) == 4
    assert len(OffsetRange(7, 7)) == len(OffsetRange(9, 7)) == 0
    assert str(OffsetRange(3, 7)) == "[3, 7)"


def test_levels_of_completeness_are_ordered_weakest_first() -> None:
    levels = [Completeness.INCOMPLETE, Completeness.OBSERVED, Completeness.CONTIGUOUS, Completeness.PROVEN]
    assert [level.rank for level in levels] == [0, 1, 2, 3]


LOW, CUT, HIGH = SourcePosition(0, 1, 10), SourcePosition(0, 1, 20), SourcePosition(0, 1, 30)


@pytest.mark.parametrize(
    ("hour", "position", "holds"),
    [(0, HIGH, True), (1, HIGH, True), (2, LOW, True), (2, CUT, True), (2, HIGH, False), (3, CUT, True), (4, LOW, False)],
)  # fmt: skip
def test_a_frontier_holds_whole_windows_and_the_changes_up_to_the_cut(
    hour: int, position: SourcePosition, holds: bool
) -> None:
    reached = Frontier(window=START + 3 * HOUR, whole_until=START + HOUR, cut=CUT)
    assert reached.holds(START + hour * HOUR, position) is holds


def test_an_empty_frontier_holds_nothing() -> None:
    assert not EMPTY_FRONTIER.holds(START, LOW)
    assert not Frontier(START, None, None).holds(START, LOW)
